"""The functions of `kernels.c`, called with arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from ctypes import CDLL, Structure, addressof, byref, c_char, c_char_p, c_int32, c_long, c_size_t, c_void_p
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from parser.runtime.build import ANY, FOLDER, ON_X86, SOURCE, source_hash
from parser.runtime.reference import STATE, Floats, Integers, NumPyKernels, rounded_weights
from parser.system.console import warn

VARIABLE = "STACK_PARSER_KERNELS"
"""The environment variable that chooses kernels: a set of instructions, or `numpy`."""
ALIGNMENT = 64
"""In bytes; of packed weights."""
WIDEST_PANEL = 64
"""Scales and biases are read up to the end of a panel of outputs."""
FLAGS = {
    "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"},
    "avxvnni": {"avx2", "fma", "avx_vnni"},
    "avx2": {"avx2", "fma"},
}
"""What /proc/cpuinfo must list for each set of instructions."""


class WeightsStructure(Structure):
    _fields_ = (
        ("packed", c_void_p),
        ("scales", c_void_p),
        ("bias", c_void_p),
        ("outputs", c_int32),
        ("inputs", c_int32),
    )


class NetworkStructure(Structure):
    _fields_ = (
        *((name, c_int32) for name in ("layers", "hidden", "transitions", "no_op")),
        ("stack_inputs", c_void_p),
        ("stack_recurrent", c_void_p),
        ("history_inputs", c_void_p),
        ("history_recurrent", c_void_p),
        ("scores", c_void_p),
        ("of_transitions", c_void_p),
        ("blocked", c_void_p),
        ("only", c_void_p),
        ("effects", c_void_p),
        ("labels", c_void_p),
    )


class SentencesStructure(Structure):
    _fields_ = (
        ("sentences", c_int32),
        ("words", c_int32),
        ("lengths", c_void_p),
        ("pushed", c_void_p),
        ("fronts", c_void_p),
        ("heads", c_void_p),
        ("labels", c_void_p),
        ("taken", c_void_p),
        ("scores", c_void_p),
    )


class PackedWeights(NamedTuple):
    """Weights in the order in which the library reads them."""

    structure: WeightsStructure
    arrays: tuple[Any, ...]
    """What the structure points to."""


class PackedLSTM(NamedTuple):
    """See `LSTM`."""

    inputs: Any
    recurrent: Any
    layers: int
    weights: tuple[PackedWeights, ...]
    """What the structures point to."""


class Transitions(NamedTuple):
    """What `CompiledKernels.parse` needs of a network."""

    stack: PackedLSTM
    history: PackedLSTM
    scores: PackedWeights
    of_transitions: Floats
    """[transitions + 1, 4 * hidden] What they add to the gates of the history; the last is `no_op`."""
    blocked: Floats
    """[situations, transitions] 0 for legal transitions, else -infinity."""
    only: Integers
    """[situations] int32: the only legal transition, `SEVERAL` or `FINISHED`."""
    effects: Integers
    """[transitions, effects] int32, in the order of `Effects`."""
    labels: Integers
    """[transitions] int32"""


SEVERAL, FINISHED = -1, -2


class Taken(NamedTuple):
    """What happened in each sentence. Its first step is twice its first word."""

    heads: Integers
    """[words]"""
    labels: Integers
    """[words]"""
    transitions: Integers | None
    """[2 * words] -1 after the last step of a sentence."""
    scores: Floats | None
    """[2 * words, transitions] Before each step; -infinity for illegal transitions."""


class CompiledKernels:
    """The library compiled for one set of instructions. Threads can share it."""

    def __init__(self, path: Path):
        """Raises OSError if it is no library of this `kernels.c`."""
        self.name, self._library = path.stem, CDLL(str(path))
        self._library.source.restype = c_char_p
        if self._library.source().decode() != source_hash():
            raise OSError(f"{path}: is compiled from another {SOURCE.name}")
        self._library.packed_bytes.restype = c_size_t

    def pack(self, weight: Floats, bias: Floats | None = None, is_int8: bool = False) -> PackedWeights:
        """weight: [outputs, inputs]. bias: [outputs]. is_int8: whether products round to 8 bits."""
        weight = _contiguous(weight)
        outputs, inputs = weight.shape
        room = np.empty(self._library.packed_bytes(outputs, inputs, is_int8) + ALIGNMENT, np.uint8)
        packed = room[-room.ctypes.data % ALIGNMENT :]
        biases, scales = np.zeros((2, outputs + WIDEST_PANEL), np.float32)
        if bias is not None:
            biases[:outputs] = bias
        if is_int8:
            rounded, scales[:outputs] = rounded_weights(weight)
            self._library.pack_int8(_pointer(rounded), outputs, inputs, _pointer(packed))
        else:
            self._library.pack_float(_pointer(weight), outputs, inputs, _pointer(packed))
        of_scales = _pointer(scales) if is_int8 else None
        structure = WeightsStructure(_pointer(packed), of_scales, _pointer(biases), outputs, inputs)
        return PackedWeights(structure, (room, biases, scales))

    def pack_lstm(self, inputs: Sequence[PackedWeights], recurrent: Sequence[PackedWeights]) -> PackedLSTM:
        """See `LSTM`."""
        layers = len(recurrent)
        array = WeightsStructure * layers
        of_inputs = array(WeightsStructure(), *(each.structure for each in inputs))
        of_states = array(*(each.structure for each in recurrent))
        return PackedLSTM(of_inputs, of_states, layers, (*inputs, *recurrent))

    def linear(self, weights: PackedWeights, inputs: Floats) -> Floats:
        """[rows, outputs] = inputs [rows, inputs] times the weights, plus the bias."""
        inputs = _contiguous(inputs)
        (rows, width), packed = inputs.shape, weights.structure
        outputs = np.empty((rows, packed.outputs), np.float32)
        self._call("linear", packed, rows, inputs, c_long(width), outputs, c_long(packed.outputs))
        return outputs

    def gelu(self, values: Floats) -> None:
        """See `NumPyKernels.gelu`. values: contiguous."""
        self._library.gelu(_pointer(values), c_long(values.size))

    def arcs(
        self, heads: Floats, dependents: Floats, lengths: Integers, longest: int
    ) -> tuple[Floats, Floats]:
        """See `NumPyKernels.arcs`."""
        heads, dependents = _contiguous(heads), _contiguous(dependents)
        lengths = _contiguous(lengths, np.int32)
        words, size = dependents.shape
        short = lengths[lengths <= longest].astype(np.int64)
        scores, sums = np.empty(int((short * (short + 1)).sum()), np.float32), np.ones(words, np.float32)
        arrays = map(_pointer, (heads, dependents, scores, sums))
        self._library.arcs(len(lengths), _pointer(lengths), longest, words, size, *arrays)
        return scores, sums

    def lstm(
        self,
        recurrent: PackedWeights,
        gates: Floats,
        lengths: Integers,
        hidden: Floats,
        backward: bool = False,
        begin: Floats | None = None,
        rows: Integers | None = None,
    ) -> None:
        """See `NumPyKernels.lstm`."""
        lengths, gates = _contiguous(lengths, np.int32), _contiguous(gates)
        starts = (lengths.cumsum() - lengths).astype(np.int32)
        order = np.argsort(-lengths, kind="stable").astype(np.int32)
        begin = np.zeros(5 * recurrent.structure.inputs, np.float32) if begin is None else _contiguous(begin)
        assert hidden[:1].flags.c_contiguous
        stride = c_long(hidden.strides[0] // hidden.itemsize)
        first_row = c_void_p(hidden.ctypes.data)
        self._call(
            "lstm",
            *(recurrent.structure, len(lengths), order, starts, lengths, backward),
            *(begin, gates, None if rows is None else _contiguous(rows, np.int32), first_row, stride),
        )

    def step(self, lstm: PackedLSTM, gates: Floats, before: Floats) -> Floats:
        """See `NumPyKernels.step`."""
        gates, before = _contiguous(gates), _contiguous(before)
        after = np.empty_like(before)
        self._call("step", lstm.inputs, lstm.recurrent, lstm.layers, len(gates), gates, before, after)
        return after

    def parse(
        self,
        network: Transitions,
        lengths: Integers,
        pushed: Floats,
        fronts: Floats,
        with_scores: bool = False,
    ) -> Taken:
        """Take the best legal transitions until all sentences are done.

        lengths: [sentences] in words. pushed: [words + 1, 6 * hidden] of each word and of ROOT: the gates of
        the stack's LSTM, and what it adds to the input of the scores as S0 and as S1. fronts:
        [words + 1, hidden] what each word, and the end of the buffer, adds as B0.
        """
        words, transitions = len(pushed) - 1, len(network.labels)
        heads, labels = np.full((2, words), -1, np.int32)
        steps = np.full(2 * words, -1, np.int32) if with_scores else None
        scores = np.empty((2 * words, transitions), np.float32) if with_scores else None
        lengths, pushed, fronts = _contiguous(lengths, np.int32), _contiguous(pushed), _contiguous(fronts)
        of_lstms = (
            network.stack.inputs,
            network.stack.recurrent,
            network.history.inputs,
            network.history.recurrent,
        )
        tables = [
            *(_contiguous(each) for each in (network.of_transitions, network.blocked)),
            *(_contiguous(each, np.int32) for each in (network.only, network.effects, network.labels)),
        ]
        size = pushed.shape[1] // STATE
        of_network = NetworkStructure(
            *(network.stack.layers, size, transitions, transitions),
            *map(addressof, of_lstms),
            addressof(network.scores.structure),
            *map(_pointer, tables),
        )
        of_sentences = SentencesStructure(
            *(len(lengths), words, *map(_pointer, (lengths, pushed, fronts, heads, labels))),
            *(None if each is None else _pointer(each) for each in (steps, scores)),
        )
        self._call("parse", of_network, of_sentences)
        return Taken(heads, labels, steps, scores)

    def _call(self, function: str, *arguments: Any) -> None:
        """Call a function of the library. Raises MemoryError if there is not enough memory."""
        given = (
            _pointer(each)
            if isinstance(each, np.ndarray)
            else byref(each)
            if isinstance(each, Structure)
            else each
            for each in arguments
        )
        if getattr(self._library, function)(*given):
            raise MemoryError


def _pointer(array: np.ndarray[Any, Any]) -> c_void_p:
    assert array.flags.c_contiguous
    if array.size and array.flags.writeable:  # which ctypes demands; `array.ctypes` takes five times as long
        return c_void_p(addressof(c_char.from_buffer(array.data)))
    return c_void_p(array.ctypes.data)


def _contiguous(array: np.ndarray[Any, Any], dtype: type = np.float32) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(array, dtype)


Kernels = CompiledKernels | NumPyKernels


def instruction_sets() -> list[str]:
    """The names of the compiled libraries that this processor can run, the best first."""
    flags: set[str] = set()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("flags"):
                flags = set(line.split())
                break
    return [name for name in (*ON_X86, ANY) if FLAGS.get(name, set()) <= flags and _library(name).exists()]


def _library(name: str) -> Path:
    return FOLDER / f"{name}.so"


@lru_cache
def kernels(name: str | None = None) -> Kernels:
    """The kernels of this name; by default those that the variable names, or the fastest.

    Raises ValueError if there are none of this name.
    """
    name = name or os.environ.get(VARIABLE) or None
    known = instruction_sets()
    if name is None:
        for each in known:
            with suppress(OSError):
                return CompiledKernels(_library(each))
        warn("the kernels are not compiled, so parsing takes many times as long: see docs/troubleshooting.md")
        return NumPyKernels()
    if name == NumPyKernels.name:
        return NumPyKernels()
    if name not in known:
        names = ", ".join([*known, NumPyKernels.name])
        raise ValueError(f"{VARIABLE}: {name} is not compiled, or not for this processor; there are {names}")
    return CompiledKernels(_library(name))
