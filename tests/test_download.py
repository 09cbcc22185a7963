"""Treebanks from a server that breaks off, stalls and lies."""

import hashlib
import importlib.util
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "download_treebank.py"
FILES = {
    "en-ud-dev.conllu": b"# a treebank\n" * 20_000,
    "LICENSE.txt": b"free",
    "not-wanted.zip": b"x",
}


class Server(ThreadingHTTPServer):
    """Of one repository; `misdeeds` are committed one after the other, one for each file that is sent."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.misdeeds: list[str] = []
        self.ranges: list[str | None] = []
        self.done = threading.Event()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        if self.path == "/UD_Some/contents":
            self.send(json.dumps([self.entry(name) for name in FILES]).encode())
        elif self.path.startswith("/files/"):
            self.send_file(FILES[self.path.removeprefix("/files/")])
        else:
            self.send_error(404)

    def entry(self, name):
        content = FILES[name]
        sha = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        address = f"{self.server.address}/files/{name}"
        return {"type": "file", "name": name, "size": len(content), "sha": sha, "download_url": address}

    def send_file(self, content):
        asked = self.headers.get("Range")
        self.server.ranges.append(asked)
        misdeed = self.server.misdeeds.pop(0) if self.server.misdeeds else None
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if misdeed == "forgets":
            start = 0
        rest = content[start:]
        if misdeed == "fails":
            self.send_error(503)
        elif misdeed == "breaks off":
            self.send(rest, start, sent=len(rest) // 2)
        elif misdeed == "stalls":
            self.send(rest, start, sent=len(rest) // 2, wait=True)
        elif misdeed == "lies short":
            self.send(rest, start, told=len(rest) // 3)
        elif misdeed == "lies long":
            self.send(rest + b"and more", start)
        elif misdeed == "changes":
            self.send(b"?" * len(rest), start)
        else:
            self.send(rest, start)

    def send(self, content, start=0, sent=None, told=None, wait=False):
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) if told is None else told))
        self.end_headers()
        self.wfile.write(content[:sent])
        self.wfile.flush()
        if wait:
            self.server.done.wait(20)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.done.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def script(monkeypatch):
    specification = importlib.util.spec_from_file_location("download_treebank", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    monkeypatch.setattr(module, "PAUSE", 0.0)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["download_treebank.py", *map(str, arguments)])
        return module.main()

    run.module = module
    return run


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


WHOLE = {name: content for name, content in FILES.items() if name != "not-wanted.zip"}


@pytest.mark.extended
@pytest.mark.parametrize(
    "misdeeds",
    [
        [],
        ["fails", "fails"],
        ["breaks off", "breaks off", "breaks off"],
        ["stalls"],
        ["lies short", "lies short"],
        ["lies long"],
        ["changes"],
        ["breaks off", "changes"],
        ["breaks off", "forgets"],
        ["breaks off", "fails", "stalls", "lies short"],
    ],
    ids=" then ".join,
)
def test_a_treebank_comes_whole_whatever_the_server_does(server, script, tmp_path, misdeeds, monkeypatch):
    monkeypatch.setattr(script.module, "TRIES", 1000)  # on a busy machine the server may seem to stall, too
    server.misdeeds = list(misdeeds)
    arguments = ["UD_Some", "--into", tmp_path, "--repositories", server.address, "--timeout", "0.3"]
    assert script(*arguments) == 0
    assert contents(tmp_path / "UD_Some") == WHOLE
    assert server.misdeeds == []
    sent = len(server.ranges)
    assert script(*arguments) == 0
    assert len(server.ranges) == sent  # nothing is fetched twice


def test_it_goes_on_where_it_was(server, script, tmp_path):
    server.misdeeds = ["breaks off", *["fails"] * 4]
    arguments = ["UD_Some", "--into", tmp_path, "--repositories", server.address, "--timeout", "60"]
    assert script(*arguments) == 2
    assert contents(tmp_path / "UD_Some").keys() == {".en-ud-dev.conllu.unfinished"}
    server.ranges.clear()
    assert script(*arguments) == 0
    assert server.ranges == [f"bytes={len(FILES['en-ud-dev.conllu']) // 2}-", None]
    assert contents(tmp_path / "UD_Some") == WHOLE


def test_it_gives_up_and_says_why(server, script, tmp_path, capsys):
    server.misdeeds = ["changes"] * 5
    arguments = ["--into", tmp_path, "--repositories", server.address, "--timeout", "60"]
    assert script("UD_Some", *arguments) == 2
    told = capsys.readouterr().err
    assert "en-ud-dev.conllu: what came is not what the repository lists, 5 times; try again later" in told
    assert contents(tmp_path / "UD_Some") == {}
    assert script("UD_Other", *arguments) == 2
    assert "no such treebank" in capsys.readouterr().err


def test_no_server(script, tmp_path, capsys):
    assert (
        script("UD_Some", "--into", tmp_path, "--repositories", "http://127.0.0.1:9", "--timeout", "1") == 2
    )
    assert "refused" in capsys.readouterr().err


def test_from_a_folder(script, tmp_path, capsys):
    source = tmp_path / "here" / "UD_Some"
    source.mkdir(parents=True)
    for name, content in FILES.items():
        (source / name).write_bytes(content)
    assert script("UD_Some", "--into", tmp_path / "there", "--from", tmp_path / "here") == 0
    assert contents(tmp_path / "there" / "UD_Some") == WHOLE
    assert script("UD_Other", "--into", tmp_path / "there", "--from", tmp_path / "here") == 2
    assert "holds no .conllu file" in capsys.readouterr().err
