"""`stack-parser serve`: parse over HTTP, until a signal ends it."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from parser.commands.options import prepared_device

NEEDED = "fastapi", "uvicorn", "prometheus_client", "python_multipart"


def serve(options: argparse.Namespace) -> None:
    """Raises ValueError for models that can not be loaded, and if the port is taken or a package missing."""
    if missing := [name for name in NEEDED if not find_spec(name)]:
        raise ValueError(f"serving needs {', '.join(missing)}: pip install -e '.[serve]'")
    from parser.service.application import make_application
    from parser.service.bearer_tokens import read_tokens
    from parser.service.limits import Limits
    from parser.service.log import service_logger, tell
    from parser.service.served_models import NamedPath, ServedModel, ServedModels
    from parser.service.server import Server, listen
    from parser.service.service import Service
    from parser.service.short_pauses import keep_pauses_short

    tokens = read_tokens(options.token_file) if options.token_file else ()
    limits = Limits(
        options.max_bytes,
        options.max_sentence_words,
        options.max_words,
        options.max_requests,
        options.timeout,
    )
    named = [NamedPath.of(text) for text in options.models]
    device = prepared_device(options)
    models = ServedModels(
        [ServedModel.load(one, device, options.batch_size) for one in named], options.default
    )
    service, logger = Service(models, limits), service_logger()
    application = make_application(service, logger, tokens, options.cors)
    keep_pauses_short()
    with listen(options.host, options.port) as listener:
        host, port = listener.getsockname()[:2]
        tell(logger, "serving", url=f"http://{host}:{port}", models=models.names)
        Server(application, service.admission, options.grace, logger).run([listener])
