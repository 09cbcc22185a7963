"""A GRU over sequences, unbatched or packed. pip install ./docs/example-plugin makes it a plugin."""

from typing import ClassVar

import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from parser.speed.tasks.plugin import NO_BATCHING, Setup, Work, method, methods_of
from parser.system.settings import Settings


class PackedGRUSettings(Settings):  # settings in configs; the defaults must work anywhere
    size: int = 32
    examples: int = 50


@method("packed_gru", NO_BATCHING)  # modes=["train", "infer"], if there is inference to measure
def one_by_one(batch):
    return [[sequence] for sequence in batch]


@method("packed_gru", "packed", title="packed sequences")
def packed(batch):
    return [batch]


class PackedGRU:
    name = "packed_gru"
    paper = "an example, of no paper"
    methods: ClassVar = methods_of("packed_gru")
    Settings = PackedGRUSettings

    def skip(self, setup: Setup[PackedGRUSettings]):  # a reason, if data or a library is missing
        return None

    def prepare(self, setup: Setup[PackedGRUSettings]):  # not timed
        self.setup, size = setup, setup.settings.size
        torch.manual_seed(setup.seed)  # the same weights and data for every method
        lengths = torch.randint(3, 30, (setup.settings.examples,)).tolist()
        self.sequences = [torch.randn(length, size).to(setup.device) for length in lengths]
        self.gru = nn.GRU(size, size).to(setup.device)
        self.optimizer = torch.optim.SGD(self.gru.parameters(), lr=0.01)

    def batches(self, most=None):  # the batches of one epoch
        size, chosen = self.setup.batch_size, self.sequences[:most]
        return [chosen[start : start + size] for start in range(0, len(chosen), size)]

    def loss(self, batch):
        groups = methods_of("packed_gru").chosen(self.setup).make(batch)
        with self.setup.phase("scheduling"):
            packed = [pack_sequence(group, enforce_sorted=False) for group in groups]
        with self.setup.phase("forward"):
            return sum(self.gru(group)[1].square().sum() for group in packed)

    def run(self, batch):  # timed
        loss = self.loss(batch)
        with self.setup.phase("backward"):
            self.optimizer.zero_grad()
            loss.backward()
        with self.setup.phase("update"):
            self.optimizer.step()

    def check(self):  # on few examples; the same for every method and batch size
        return sum(self.loss(batch) for batch in self.batches(self.setup.checked))

    def work(self, batch):  # six size x size products for each frame, and twice as many in the backward pass
        frames, size = sum(map(len, batch)), self.setup.settings.size
        return Work(len(batch), frames, operations=3 * 2 * 6 * size**2 * frames, padding=0.0)
