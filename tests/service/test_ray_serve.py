"""The service with two replicas of Ray Serve, one of which is killed while clients send requests."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing, suppress
from http.client import HTTPConnection

import psutil
import pytest
from programs import children_of, running
from services import ask, clients_of

pytestmark = pytest.mark.extended
httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("ray.serve", reason="needs pip install 'ray[serve]'")

PROGRAM = """
import sys, ray
from ray import serve
from scripts.serving.ray_serve import build
ray.init(num_cpus=4, include_dashboard=False)
serve.start(http_options={"port": int(sys.argv[1])})
serve.run(build({"arguments": sys.argv[2], "least": "2", "most": "2"}))
print("serving", flush=True)
sys.stdin.read()
"""


def replicas_of(program):
    replicas = set()
    for child in children_of(program):
        with suppress(psutil.NoSuchProcess):  # it may end between the two calls
            if child.name().startswith("ray::ServeReplica"):
                replicas.add(child.pid)
    return replicas


def two_replicas(port):
    """The start times of the two replicas, from their metrics."""
    times = set()
    while len(times) < 2:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
        times.add(re.search(r"^process_start_time_seconds (\S+)", text, re.MULTILINE)[1])
    return times


def test_a_replica_that_is_killed_is_replaced_while_the_other_answers(model):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", PROGRAM, str(port), f"{model} --device cpu"]
    with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        while (line := program.stdout.readline()) != "serving\n":
            assert line, "it ended"
        with closing(HTTPConnection("127.0.0.1", port)) as connection:
            expected = ask(connection)
        assert expected[0] == 200
        with clients_of(port, 8) as clients:
            first = two_replicas(port)
            killed = replicas_of(program).pop()
            os.kill(killed, signal.SIGKILL)
            counts = [len(client.answers) for client in clients]
            while len(replicas_of(program) - {killed}) < 2:
                time.sleep(0.05)
            assert all(len(client.answers) > count for client, count in zip(clients, counts, strict=True))
            assert len(two_replicas(port) & first) == 1
        answers = {answer for client in clients for answer in client.answers}
        assert {answer for answer in answers if answer[0] == 200} == {expected}
        assert {status for status, _ in answers} <= {200, 500, 503}
        program.stdin.close()
