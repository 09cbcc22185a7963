"""The service as a Ray Serve application: as many replicas on a cluster's machines as are needed.

    pip install 'ray[serve]'
    serve run scripts.serving.ray_serve:build arguments="english.stackparser fr=french.stackparser" most=8

`arguments` are those of `stack-parser serve`; arguments about addresses, processes and shutdown have no
effect here. Each replica has its own engine, which batches the requests that Ray sends it.
"""

from __future__ import annotations

import os
import shlex

from ray import serve
from starlette.types import ASGIApp

from parser.commands.serve import load_service
from parser.commands.serve_settings import options_of, settle
from parser.service.application import make_application
from parser.service.log import service_logger
from parser.service.middleware import read_tokens


def build(settings: dict[str, str]) -> serve.Application:
    """Build the application. settings: `arguments`, and the `least` and `most` replicas, by default 1, 4."""
    options = options_of(settle(shlex.split(settings["arguments"]), os.environ))
    tokens = read_tokens(options.token_file) if options.token_file else ()

    def application() -> ASGIApp:
        return make_application(load_service(options), service_logger(), tokens, options.cors)

    deployment = serve.deployment(
        name="parser",
        max_ongoing_requests=options.max_requests,
        autoscaling_config={
            "min_replicas": int(settings.get("least", 1)),
            "max_replicas": int(settings.get("most", 4)),
            "target_ongoing_requests": max(1, options.max_requests // 4),
        },
    )
    return deployment(serve.ingress(application)()).bind()
