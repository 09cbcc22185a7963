"""How the server begins and ends."""

import asyncio
import logging

import pytest

uvicorn = pytest.importorskip("uvicorn")

from parser.service.admission import Admission
from parser.service.listening import listen
from parser.service.server import Server

GRACE = 600


def test_a_server_that_can_not_begin_says_so():
    async def application(scope, receive, send):
        raise OSError("nothing works")

    with listen("127.0.0.1", 0) as listener, pytest.raises(ValueError, match="the service could not begin"):
        Server(application, Admission(1), GRACE, logging.getLogger("test")).run([listener])
