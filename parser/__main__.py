import sys

from parser.cli import main

sys.exit(main())
