"""`stack-parser serve`: parse over HTTP until a signal arrives."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack, closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from parser.commands.serve_settings import as_yaml, options_of, settle
from parser.models.named_models import named_path
from parser.system.console import say
from parser.system.version import to_install

if TYPE_CHECKING:
    from logging import Logger

    from parser.service.listening import WorkerDescriptors
    from parser.service.service import Service

NEEDED = "fastapi", "uvicorn", "httptools", "prometheus_client", "python_multipart"


def serve(options: argparse.Namespace) -> None:
    """Serve. Raises ValueError if a model cannot be loaded, the port is taken, a package is missing, or a
    setting is wrong.
    """
    settings = settle(options.arguments[1:], os.environ)
    if options.print_config:
        say(*as_yaml(settings))
        return
    options = options_of(settings)
    if missing := [name for name in NEEDED if not find_spec(name)]:
        raise ValueError(f"serving needs {', '.join(missing)}: {to_install('serve')}")
    from parser.service.listening import WorkerDescriptors
    from parser.service.log import service_logger

    logger = service_logger()
    descriptors = WorkerDescriptors.of_this_process()
    if descriptors or options.processes == 1:
        _serve(descriptors, options, logger)
        return
    # This process imports neither PyTorch nor the modules that serve.
    from parser.service.listening import listen
    from parser.service.supervisor import Supervisor

    names = [named_path(text)[0] for text in options.models]
    with listen(options.host, options.port) as listener:
        code = Supervisor(options.arguments, names, options.processes, listener, options.grace, logger).run()
    if code:
        sys.exit(code)


def load_service(options: argparse.Namespace) -> Service:
    """Return a service with its models. Raises ValueError."""
    from parser.commands.options import device_of_processes, rounds_to_int8
    from parser.service.limits import Limits
    from parser.service.served_models import ServedModel, ServedModels
    from parser.service.service import Service

    limits = Limits(
        options.max_bytes,
        options.max_total_bytes,
        options.max_sentence_words,
        options.max_words,
        options.max_requests,
        options.timeout,
    )
    named = [named_path(text) for text in options.models]
    device = device_of_processes(options)
    how = device, options.batch_size, rounds_to_int8(options)
    models = [ServedModel.load(name, path, *how) for name, path in named]
    return Service(ServedModels(models, options.default), limits)


def _serve(descriptors: WorkerDescriptors | None, options: argparse.Namespace, logger: Logger) -> None:
    """Serve in this process. descriptors: if it is one of several."""
    from parser.service.application import make_application
    from parser.service.listening import GivenConnections, listen, url_of
    from parser.service.log import tell
    from parser.service.middleware import Leaving, read_tokens
    from parser.service.operation import JoinedMetrics
    from parser.service.questions import Questions
    from parser.service.server import Server
    from parser.service.short_pauses import keep_pauses_short
    from parser.service.stages import stages_of_worker

    tokens = read_tokens(options.token_file) if options.token_file else ()
    service = load_service(options)
    with ExitStack() as stack:
        joined = None
        if descriptors:
            questions = Questions(descriptors.asking, descriptors.answering)
            joined = JoinedMetrics(stack.enter_context(closing(questions)))
        application: Any = make_application(service, logger, tokens, options.cors, joined)
        keep_pauses_short()
        how = service.admission, options.timeout, options.grace, options.keep_alive, logger
        if descriptors:
            application = Leaving(application)
            stages = stages_of_worker(descriptors.stages)
            given = stack.enter_context(GivenConnections(descriptors.channel, application.release, stages))
            Server(application, *how, given.stage_of).run([given])
        else:
            listener = stack.enter_context(listen(options.host, options.port))
            tell(logger, "serving", url=url_of(listener), models=service.models.names)
            Server(application, *how).run([listener])
