"""Many clients at once: no answer is wrong or lost, and the clients leave nothing behind.

`SOAK_SECONDS=60 make soak ARGUMENTS=tests/service/test_load.py` takes less than half an hour.
"""

import asyncio
import json
import os
import re
import resource
import signal
import socket
import struct
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from http.client import HTTPConnection, HTTPException
from queue import Empty
from random import Random
from subprocess import PIPE
from tempfile import TemporaryFile
from typing import NamedTuple

import psutil
import pytest
from hostile_requests import HOSTILE
from programs import children_of, running
from services import TREEBANK, parsed_by_command, serving, without_program

pytestmark = pytest.mark.extended
pytest.importorskip("fastapi")
httpx = pytest.importorskip("httpx")

SOAK_SECONDS = float(os.environ.get("SOAK_SECONDS", 30 * 60))
HOSTILE_CLIENTS = 1
CLIENTS = 8
GROWN = 24 << 20
"""Bytes by which the peak memory in the last quarter may exceed the peak in the second quarter."""
GROWN_BESIDE_HOSTILE = 64 << 20
"""Their peaks differ more: the bodies of requests may take some hundred MiB."""
SENTENCES = 1, 1, 1, 2, 5, 20, 100, 400
"""The numbers of sentences in the texts."""
PARTS = {"tokenizer": "ranges;normalized_spaces", "tagger": "", "parser": ""}


class Question(NamedTuple):
    asked: dict
    """Arguments of an HTTP client's request."""
    read: object
    """The function that returns the part of an answer that is compared."""
    expected: object


def questions_on(model):
    """Requests for texts and a treebank in all possible ways, with the results of the command."""
    questions = []
    for number, count in enumerate(SENTENCES):
        text = f"Number {number}. " + "Was it round? The cat — naïve „as“ it is — sleeps, 日本. " * count
        conllu = parsed_by_command(model, text, "--text")
        heads = heads_of(conllu)
        questions += [
            Question({"url": "/process", "data": {"data": text, **PARTS}}, result_of, conllu),
            Question(typed([text], "text/x-conllu"), lambda answer: answer.text, conllu),
            Question(typed([text], "application/json"), heads_in_object, heads),
            Question(typed([text], "application/x-ndjson"), heads_in_lines, heads),
        ]
    treebank = TREEBANK.read_text(encoding="utf-8")
    asked = {"url": "/process", "data": {"data": treebank, "tagger": "", "parser": ""}}
    return [*questions, Question(asked, result_of, parsed_by_command(model, treebank, "--tags=all"))]


def typed(texts, kind):
    return {"url": "/v1/parse", "json": {"texts": texts}, "headers": {"Accept": kind}}


def result_of(answer):
    return without_program(answer.json()["result"])


def heads_in_object(answer):
    return [one["heads"] for one in answer.json()["sentences"]]


def heads_in_lines(answer):
    return [json.loads(line)["heads"] for line in answer.text.splitlines()]


def heads_of(conllu):
    blocks = [re.findall(r"(?m)^\d+\t(?:.*?\t){5}(\d+)\t", block) for block in conllu.split("\n\n")]
    return [list(map(int, heads)) for heads in blocks if heads]


@pytest.fixture(scope="module")
def questions(model):
    return questions_on(model)


class Clients:
    """Threads that send one question after the other."""

    def __init__(self, service, questions, dying=False):
        """dying: whether processes of the service are killed, and the requests of these are sent again."""
        self._service, self._questions, self._dying = service, questions, dying
        self._ended = threading.Event()
        self.answers, self.wrong = 0, []
        self.told, self.broken_off = 0, 0
        """Requests of killed processes that were answered by an error, and whose answer had begun."""

    def _ask(self, seed):
        chosen = Random(seed)
        with httpx.Client(base_url=self._service.url, timeout=600) as client:
            while not self._ended.is_set():
                question = chosen.choice(self._questions)
                try:
                    answer = client.post(**question.asked)
                    is_lost = self._dying and answer.status_code == 503
                    self.told += is_lost
                    if is_lost or answer.status_code == 429:
                        time.sleep(int(answer.headers["retry-after"]))
                        continue
                    if answer.status_code != 200 or question.read(answer) != question.expected:
                        self.wrong.append((question.asked, answer.status_code, answer.text[:1000]))
                except Exception as error:
                    if self._dying and isinstance(error, httpx.TransportError):
                        self.broken_off += 1
                        continue
                    self.wrong.append((question.asked, repr(error)))
                self.answers += 1

    def __enter__(self):
        self._threads = [threading.Thread(target=self._ask, args=(seed,)) for seed in range(CLIENTS)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        for thread in self._threads:
            thread.join()


def request_for(question, service):
    """The bytes of a question's request, for a raw connection."""
    request = httpx.Client(base_url=service.url).build_request("POST", **question.asked)
    headers = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    path = question.asked["url"]
    return f"POST {path} HTTP/1.1\r\n{headers}\r\n".encode() + request.read()


def break_off(service, question, chosen):
    """Send a request or a part of it, wait a little, and disconnect, sometimes by a reset."""
    request = request_for(question, service)
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(request[: chosen.choice([len(request), chosen.randrange(len(request))])])
        time.sleep(chosen.random() / 10)
        if chosen.random() < 0.5:  # without a word, as if the cable was cut
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def refuse_left(service):
    """Check that nothing is being parsed any more, and that nothing has failed."""
    while service.metrics()["stack_parser_running_requests"]:
        time.sleep(0.1)
    with suppress(Empty):
        while True:
            line = service.lines.get(timeout=0.5)
            assert line["event"] == "request"
            assert line["outcome"] in ("done", "gone")


@pytest.mark.parametrize("seconds", [5.0, pytest.param(SOAK_SECONDS, marks=pytest.mark.soak)])
def test_mixed_load(seconds, model, questions):
    """Some clients disconnect early: answers are right, and memory use stays the same."""
    memory, chosen, broken = [], Random(1), 0
    with serving(model) as service:
        with Clients(service, questions) as clients:
            while clients.answers < 3 * len(questions) and not clients.wrong:
                time.sleep(0.1)  # most questions have been asked
            end = time.monotonic() + seconds
            while time.monotonic() < end and not clients.wrong:
                break_off(service, chosen.choice(questions), chosen)
                broken += 1
                memory.append(service.metrics()["process_resident_memory_bytes"])
        assert clients.wrong == []
        refuse_left(service)
    quarter = len(memory) // 4
    second, last = max(memory[quarter : 2 * quarter]), max(memory[-quarter:])
    told = f"{second / 2**20:.1f} MiB in the second quarter, {last / 2**20:.1f} MiB in the last one"
    print(f"{clients.answers:,} answers, {broken:,} broken off; {told}")
    assert last - second < GROWN


def ask_hostile(service, seed, ended):
    """Send hostile requests, one after the other, and read at most the beginning of an answer."""
    chosen = Random(seed)
    while not ended.is_set():
        how = chosen.choice([*HOSTILE, "many at once", "never reads", "never sends", "long address"])
        with ExitStack() as stack, suppress(OSError, HTTPException):
            if how == "many at once":
                for _ in range(30):
                    connection = stack.enter_context(closing(connected(service)))
                    send(connection, "small texts")
                time.sleep(1)
            elif how == "never reads":
                connection = connected(service)
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                stack.enter_context(closing(connection))
                send(connection, "small texts")
                ended.wait(5)
            elif how == "never sends":
                for _ in range(100):
                    stack.enter_context(closing(connected(service)))
                ended.wait(2)
            elif how == "long address":
                connection = stack.enter_context(closing(connected(service)))
                connection.request("GET", "/process?data=" + "a" * 200_000)
                connection.getresponse().read()
            else:
                connection = stack.enter_context(closing(connected(service)))
                send(connection, how)
                answer = connection.getresponse()
                assert answer.status in {*HOSTILE[how].statuses, 408, 429, 503}
                answer.read(1 << 16)


def send(connection, name):
    connection.request("POST", HOSTILE[name].path, body_of(name), HOSTILE[name].headers)


def connected(service):
    connection = HTTPConnection("127.0.0.1", service.port, timeout=60)
    connection.connect()
    return connection


@cache
def body_of(name):
    return HOSTILE[name].make()


@contextmanager
def probed(service):
    """Yield a list that contains, after the block, the seconds of each answer to /live."""
    seconds = []
    command = [sys.executable, "tests/live_probe.py", str(service.port)]
    with TemporaryFile("w+") as output:  # a pipe that nobody reads would stop the program
        with running(command, stdin=PIPE, stdout=output, text=True) as process:
            yield seconds
            process.stdin.close()
            assert process.wait(timeout=60) == 0
        output.seek(0)
        seconds.extend(map(float, output.read().split()))


@pytest.mark.parametrize("seconds", [10.0, pytest.param(SOAK_SECONDS, marks=pytest.mark.soak)])
@pytest.mark.parametrize("processes", [1, 2])
def test_hostile_clients(seconds, processes, model, questions):
    """Honest clients beside them get right answers, and the service stays live. Of two processes, both are
    killed, one after the other. See `hostile_requests.py`.
    """
    memory, ended = [], threading.Event()
    options = "--timeout=60", "--grace=10", f"--processes={processes}"
    with serving(model, *options) as service, ThreadPoolExecutor(HOSTILE_CLIENTS) as pool:
        if processes > 1:
            service.next("process ready")  # the second one
        dying = [process.pid for process in psutil.Process(service.process.pid).children() if processes > 1]
        dies, killed = bool(dying), time.monotonic()
        with probed(service) as live, Clients(service, questions, dies) as clients:
            hostile = [pool.submit(ask_hostile, service, seed, ended) for seed in range(HOSTILE_CLIENTS)]
            end = time.monotonic() + seconds
            while time.monotonic() < end and not clients.wrong:
                time.sleep(0.5)
                memory.append(resident_bytes(service))
                if dying and time.monotonic() > killed + seconds / 4:
                    killed = time.monotonic()
                    os.kill(dying.pop(), signal.SIGKILL)
            ended.set()
            for one in hostile:
                one.result(timeout=120)
        assert clients.wrong == []
        assert clients.told + clients.broken_off <= processes * CLIENTS
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(timeout=60) == 0
    quarter = len(memory) // 4
    second, last = max(memory[quarter : 2 * quarter]), max(memory[-quarter:])
    slowest = sorted(live)[int(0.999 * len(live))]
    told = f"{second / 2**20:.1f} MiB in the second quarter, {last / 2**20:.1f} MiB in the last one"
    live_told = f"/live 99.9 %: {1000 * slowest:.1f} ms, longest {1000 * max(live):.1f} ms of {len(live):,}"
    lost = f"of killed processes {clients.told} told, {clients.broken_off} broken off"
    print(f"{clients.answers:,} honest answers; {lost}; {live_told}; {told}")
    if seconds == SOAK_SECONDS:  # the other run is short, and its machine may be busy
        assert slowest < 0.05
        assert last - second < processes * GROWN_BESIDE_HOSTILE


def resident_bytes(service):
    """The memory of all processes of a service."""
    total = 0
    for process in (psutil.Process(service.process.pid), *children_of(service.process)):
        with suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return total


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.soak)])
def test_clients_that_break_off_together(count, model, questions):
    def go(number):
        break_off(service, Random(number).choice(questions), Random(number))

    with serving(model) as service:
        with Clients(service, questions[:8]) as clients:
            threads = [threading.Thread(target=go, args=(number,)) for number in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert clients.wrong == []
        refuse_left(service)


@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.soak)])
def test_slow_clients(count, model, questions):
    """Half of them send slowly, the others read slowly. All get their answers, and so do other clients."""
    large = questions[-1]

    async def send_slowly():
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        request = request_for(large, service)
        for start in range(0, len(request), len(request) // 20):
            writer.write(request[start : start + len(request) // 20])
            await asyncio.sleep(0.1)
        return await read(reader, writer, 1 << 20, 0.0)

    async def read_slowly():
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", service.port))
        reader, writer = await asyncio.open_connection(sock=connection, limit=4096)
        writer.write(request_for(large, service))
        return await read(reader, writer, 1 << 14, 0.1)

    async def all_of_them():
        return await asyncio.gather(
            *(send_slowly() for _ in range(count // 2)), *(read_slowly() for _ in range(count // 2))
        )

    with serving(model) as service:
        with Clients(service, questions[:8]) as clients:
            answers = [json.loads(body) for body in asyncio.run(all_of_them())]
        assert clients.wrong == []
        assert {answer["model"] for answer in answers} == {"tiny"}
        assert {without_program(answer["result"]) for answer in answers} == {large.expected}
        refuse_left(service)


async def read(reader, writer, size, pause):
    """The body of an answer that comes in chunks, read `size` bytes at a time."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    rest = bytearray()
    while not rest.endswith(b"\r\n0\r\n\r\n"):
        await asyncio.sleep(pause)
        rest += (piece := await reader.read(size))
        assert piece, "the answer was broken off"
    writer.close()
    body = bytearray()
    while rest:
        length, _, rest = rest.partition(b"\r\n")
        body += rest[: int(length, 16)]
        rest = rest[int(length, 16) + 2 :]
    return bytes(body)


@pytest.mark.parametrize("is_closed", [False, True], ids=["full", "closed"])
def test_a_log_that_can_not_be_written_ends_no_request(is_closed, model, questions, tmp_path):
    command = [sys.executable, "-m", "parser", "serve", str(model), "--port", "0", "--device", "cpu"]
    log = tmp_path / "log"
    with ExitStack() as stack:
        target = PIPE if is_closed else stack.enter_context(open(log, "wb"))
        process = stack.enter_context(running(command, stderr=target))
        if is_closed:
            line = process.stderr.readline().decode()
            process.stderr.close()
        else:
            while not (line := log.read_text()).endswith("\n"):
                time.sleep(0.1)
            size = log.stat().st_size
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, size))
        with httpx.Client(base_url=json.loads(line)["url"], timeout=60) as client:
            for question in questions[:12]:
                assert question.read(client.post(**question.asked)) == question.expected
            client.get("/metrics").raise_for_status()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    assert is_closed or log.stat().st_size == size
