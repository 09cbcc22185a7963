"""A tiny plugin whose methods go wrong in various ways."""

import os
import signal
import time
from typing import ClassVar

import torch

from parser.batching import PRECISIONS
from parser.speed.tasks.plugin import Work
from parser.system.settings import Settings


class ToySettings(Settings):
    sentences: int = 40
    count_runs_in: str | None = None
    """A file that gets a line for each process that is prepared."""


class Toy:
    name = "toy"
    precisions = PRECISIONS
    paper = "no paper"
    methods: ClassVar = {
        "train": ("none", "good", "wrong", "nan", "broken", "hungry", "deadly", "sleepy", "absent"),
        "infer": ("none", "good"),
    }
    Settings = ToySettings

    def skip(self, setup):
        return "nobody has it" if setup.method == "absent" else None

    def prepare(self, setup):
        self.setup = setup
        if setup.settings.count_runs_in:
            with open(setup.settings.count_runs_in, "a") as file:
                file.write(f"{setup.method} {setup.batch_size} {setup.mode}\n")
        if setup.method == "sleepy":
            time.sleep(600)
        self.weight = torch.ones(4, 4, requires_grad=True)
        self.optimizer = torch.optim.SGD([self.weight], lr=1e-6)
        self.examples = torch.arange(1.0, setup.settings.sentences + 1)[:, None].expand(-1, 4) / 100

    def batches(self):
        return list(self.examples.split(self.setup.batch_size))

    def run(self, batch):
        method = self.setup.method
        if method == "broken":
            raise ZeroDivisionError("the toy is broken\nin two lines")
        if method == "hungry":
            raise MemoryError
        if method == "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        with self.setup.phase("forward"):
            loss = (batch @ self.weight).sum()
        if self.setup.mode == "train":
            with self.setup.phase("backward"):
                loss.backward()
            with self.setup.phase("update"):
                self.optimizer.step()
                self.optimizer.zero_grad()

    def check(self):
        added = {"wrong": 0.1, "nan": float("nan")}.get(self.setup.method, 0.0)
        return (self.examples @ self.weight).sum().detach() + added

    def learn(self, epoch):
        if self.setup.method == "broken":
            raise ZeroDivisionError("the toy cannot learn")
        self.learned = epoch * {"none": 0.25, "good": 0.5}.get(self.setup.method, 0.1)

    def score(self):
        return self.learned

    def notes(self):
        return {} if self.setup.method == "none" else {"batching": 1.5}

    def work(self, batch):
        return Work(len(batch), 2 * len(batch), operations=96.0 * len(batch), padding=0.25)


class Liar(Toy):
    name = "liar"
    methods: ClassVar = {"train": ("none", "wrong")}
