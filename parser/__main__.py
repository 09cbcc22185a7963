import sys

from parser.cli import main

if __name__ == "__main__":  # other processes of a speed run import this module too
    sys.exit(main())
