"""Processes that work together, as torchrun starts them, for tests of what they compute."""

import os
import socket
from contextlib import ExitStack

import torch

from parser.commands.errors import exit_code_of
from parser.distributed.joining import join_processes
from parser.system.remote import Remote, RemoteError


class Member:
    """One of the processes."""

    def __init__(self, rank, count, port):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_PORT": port}
        os.environ |= {name: str(value) for name, value in place.items()}
        os.environ |= {"MASTER_ADDR": "localhost", "TORCHELASTIC_RUN_ID": "test"}
        torch.set_num_threads(1)  # more would wait for each other
        self._processes = ExitStack().enter_context(join_processes(exit_code_of))

    def run(self, function, *arguments):
        return function(self._processes, *arguments)


def together(count, function, *arguments):
    """function(processes, *arguments) in that many processes: what each returns, or its RemoteError."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    with ExitStack() as stack:
        members = [stack.enter_context(Remote(Member, rank, count, port)) for rank in range(count)]
        for member in members:
            member.begin("run", function, *arguments)
        return [answer_of(member) for member in members]


def answer_of(member):
    try:
        return member.answer()
    except RemoteError as error:
        return error
