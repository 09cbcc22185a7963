"""The compiled kernels, for each set of instructions of this processor, compared with NumPy."""

import math
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from parser.runtime import build
from parser.runtime.kernels import VARIABLE, CompiledKernels, instruction_sets, kernels
from parser.runtime.reference import STATE, NumPyKernels, exponential

COMPILED = [
    pytest.param(name, marks=() if name in instruction_sets() else pytest.mark.skip(f"{name} is not there"))
    for name in (*build.ON_X86, build.ANY)
]
NUMPY = NumPyKernels()
SIZES = st.one_of(st.integers(1, 20), st.sampled_from([63, 64, 65, 128, 200]))
SEEDS = st.integers(0, 2**32 - 1)


def assert_equal(found, expected, is_int8):
    """Whole numbers are exact, and the rest takes the same steps."""
    if is_int8:
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def drawn(random, *shape, scale=1.0):
    return random.normal(size=shape, scale=scale).astype(np.float32)


@pytest.mark.parametrize("is_int8", [True, False])
@pytest.mark.parametrize("name", COMPILED)
@given(rows=st.integers(0, 60), inputs=SIZES, outputs=SIZES, seed=SEEDS)
def test_products(name, is_int8, rows, inputs, outputs, seed):
    random = np.random.default_rng(seed)
    weight, bias, given_rows = (
        drawn(random, outputs, inputs),
        drawn(random, outputs),
        drawn(random, rows, inputs),
    )
    given_rows *= random.choice([0, 1e-20, 1, 1e20], size=(rows, 1)).astype(np.float32)
    found, expected = (
        each.linear(each.pack(weight, bias, is_int8), given_rows) for each in (kernels(name), NUMPY)
    )
    size = 1 + np.abs(given_rows) @ np.abs(weight).T  # of all terms of a sum
    assert_equal(found / size, expected / size, is_int8)


@pytest.mark.parametrize("name", COMPILED)
@given(lengths=st.lists(st.integers(1, 30), max_size=5), longest=st.integers(1, 30), size=SIZES, seed=SEEDS)
def test_scores_of_arcs(name, lengths, longest, size, seed):
    """Those of a sentence are the same in any company, and sum to 1 as probabilities."""
    random, words = np.random.default_rng(seed), sum(lengths)
    heads, dependents = drawn(random, words + 1, size), drawn(random, words, size, scale=size**-0.5)
    (found, sums), (expected, expected_sums) = (
        each.arcs(heads, dependents, np.array(lengths, np.int32), longest) for each in (kernels(name), NUMPY)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(sums, expected_sums, rtol=1e-4)
    first = start = 0
    for length in lengths:
        if length <= longest:
            of_sentence = slice(start, start + length)
            rows = [*range(start, start + length), words]
            alone, sums_alone = kernels(name).arcs(
                heads[rows], dependents[of_sentence], np.array([length], np.int32), length
            )
            assert alone.tolist() == found[first : first + len(alone)].tolist()
            assert sums_alone.tolist() == sums[of_sentence].tolist()
            scores = alone.reshape(length, length + 1)
            np.testing.assert_allclose(np.exp(scores).sum(1), sums_alone, rtol=1e-5)
            assert np.isneginf(np.diagonal(scores, 1)).all()
            assert (scores.max(1) == 0).all()
            first += len(alone)
        start += length
    assert first == len(found)


@pytest.mark.parametrize("name", COMPILED)
@given(count=st.integers(0, 200), scale=st.sampled_from([1e-3, 1, 5, 1e3]), seed=SEEDS)
def test_gelu(name, count, scale, seed):
    given_values = drawn(np.random.default_rng(seed), count, scale=scale)
    found, reference = given_values.copy(), given_values.copy()
    kernels(name).gelu(found)
    NUMPY.gelu(reference)
    np.testing.assert_array_equal(found, reference)
    exact = [value * (1 + math.erf(value / math.sqrt(2))) / 2 for value in given_values.tolist()]
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-6)


@given(inputs=SIZES, outputs=SIZES, seed=SEEDS)
def test_rounded_products_are_near_exact_ones(inputs, outputs, seed):
    random = np.random.default_rng(seed)
    weight, given_rows = drawn(random, outputs, inputs), drawn(random, 3, inputs)
    found = NUMPY.linear(NUMPY.pack(weight, None, is_int8=True), given_rows)
    most = np.abs(weight).max(1) * np.abs(given_rows).max(1)[:, None] * inputs / 100
    assert (abs(found - given_rows @ weight.T) <= most).all()


@pytest.mark.parametrize("is_int8", [True, False])
@pytest.mark.parametrize("name", COMPILED)
@given(
    lengths=st.lists(st.integers(1, 9), max_size=70),
    size=st.integers(1, 40),
    backward=st.booleans(),
    inputs=st.none() | st.integers(1, 9),
    seed=SEEDS,
)
def test_lstms_over_sequences(name, is_int8, lengths, size, backward, inputs, seed):
    random = np.random.default_rng(seed)
    weight, begin = drawn(random, 4 * size, size, scale=size**-0.5), drawn(random, 5 * size)
    gates = drawn(random, inputs or sum(lengths), 4 * size)
    rows = random.integers(inputs, size=sum(lengths)) if inputs else None
    states = []
    for each in (kernels(name), NUMPY):
        table = np.zeros((sum(lengths), 3 * size), np.float32)
        recurrent = each.pack(weight, None, is_int8)
        each.lstm(recurrent, gates, np.array(lengths, int), table[:, size : 2 * size], backward, begin, rows)
        assert not table[:, :size].any()
        assert not table[:, 2 * size :].any()
        states.append(table)
    assert_equal(*states, is_int8)


@pytest.mark.parametrize("is_int8", [True, False])
@pytest.mark.parametrize("name", COMPILED)
@given(rows=st.integers(0, 60), layers=st.integers(1, 3), size=st.integers(1, 40), seed=SEEDS)
def test_a_step_of_layers(name, is_int8, rows, layers, size, seed):
    random = np.random.default_rng(seed)
    inputs = [drawn(random, 4 * size, size) for _ in range(layers - 1)]
    recurrent = [drawn(random, (5 if layer == layers - 1 else 4) * size, size) for layer in range(layers)]
    gates, before = drawn(random, rows, 4 * size), drawn(random, rows, layers, STATE * size)
    after = []
    for each in (kernels(name), NUMPY):
        packed = ([each.pack(weight, None, is_int8) for weight in weights] for weights in (inputs, recurrent))
        after.append(each.step(each.pack_lstm(*packed), gates, before))
        after[-1][:, :-1, 4 * size : 5 * size] = 0  # only the last layer has an output
    assert_equal(*after, is_int8)


@given(arrays(np.float32, 20, elements=st.floats(-100, 100, width=32)))
def test_the_exponential(values):
    exact = np.exp(np.clip(values.astype(float), -60, 60))
    np.testing.assert_allclose(exponential(values), exact, rtol=5e-6)


def test_the_variable_chooses(monkeypatch):
    monkeypatch.setenv("STACK_PARSER_KERNELS", "numpy")
    kernels.cache_clear()
    assert isinstance(kernels(), NumPyKernels)
    monkeypatch.setenv("STACK_PARSER_KERNELS", "mmx")
    kernels.cache_clear()
    with pytest.raises(ValueError, match=r"STACK_PARSER_KERNELS: mmx .*numpy"):
        kernels()
    monkeypatch.undo()
    kernels.cache_clear()


@pytest.mark.parametrize("is_int8", [True, False])
@pytest.mark.parametrize("name", COMPILED)
def test_arrays_in_any_order_of_memory(name, is_int8):
    """Also if they must not be written, like those of a file."""
    random = np.random.default_rng(0)
    weight, rows = drawn(random, 30, 20), drawn(random, 7, 20)
    weight.flags.writeable = rows.flags.writeable = False
    kernel = kernels(name)
    expected = kernel.linear(kernel.pack(weight, None, is_int8), rows)
    found = kernel.linear(kernel.pack(np.asfortranarray(weight), None, is_int8), np.asfortranarray(rows))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("scale", [0, 1e-45, 1e-37, 1e30])
def test_inputs_of_extreme_sizes(name, scale):
    weight, rows = np.ones((3, 4), np.float32), np.full((2, 4), scale, np.float32)
    expected = NUMPY.linear(NUMPY.pack(weight, None, is_int8=True), rows)
    np.testing.assert_array_equal(
        kernels(name).linear(kernels(name).pack(weight, None, True), rows), expected
    )


@pytest.mark.skipif(platform.machine() != "x86_64", reason="denormal numbers are flushed on x86")
@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize(("scale", "given"), [(1e-40, 1), (1e-20, 1e-20)])
def test_denormal_numbers_are_zero_inside_only(name, scale, given):
    weight, rows = np.full((3, 4), scale, np.float32), np.full((2, 4), given, np.float32)
    before = NUMPY.linear(NUMPY.pack(weight), rows)  # zero, too, if PyTorch flushes them in this process
    assert not kernels(name).linear(kernels(name).pack(weight), rows).any()
    np.testing.assert_array_equal(NUMPY.linear(NUMPY.pack(weight), rows), before)


def needs_compiler():
    if not build.compiler():
        pytest.skip("no C compiler")


@pytest.mark.extended
def test_nothing_is_read_or_written_beside_arrays(tmp_path):
    """The tests above, by a library that checks addresses and arithmetic."""
    needs_compiler()
    [compiler, *_] = build.compiler()
    runtime = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=False
    )
    preloaded = runtime.stdout.strip()
    if not Path(preloaded).is_absolute():
        pytest.skip("no AddressSanitizer")
    checks = "-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all"
    for name in instruction_sets():
        options = build.ON_X86.get(name, "")
        identity = f'-DSOURCE="{build.source_hash()}"'
        command = [compiler, *build.OPTIONS, *options.split(), *checks.split(), identity, str(build.SOURCE)]
        subprocess.run([*command, "-o", str(tmp_path / f"{name}.so")], check=True)
    program = (
        "import sys, pathlib, pytest; from parser.runtime import build, kernels;"
        "kernels.FOLDER = pathlib.Path(sys.argv[1]);"
        "sys.exit(pytest.main([sys.argv[2], '-q', '-p', 'no:cacheprovider', '-m', 'not extended']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), __file__],
        env={"LD_PRELOAD": preloaded, "ASAN_OPTIONS": "detect_leaks=0", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_a_compiler_that_does_not_know_some_instructions(tmp_path, monkeypatch, capfd):
    needs_compiler()
    monkeypatch.setitem(build.ON_X86, "avxvnni", "-mno-such-instructions")
    libraries = {each.stem for each in build.build(tmp_path)}
    assert libraries == {each.stem for each in tmp_path.iterdir()}
    assert build.ANY in libraries
    assert "avxvnni" not in libraries
    capfd.readouterr()


def test_a_library_of_another_source_is_not_loaded(tmp_path, monkeypatch, capsys):
    needs_compiler()
    with monkeypatch.context() as patched:
        patched.setattr(build, "source_hash", lambda: "other")
        patched.setattr(build, "ON_X86", {})
        build.build(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("parser.runtime.kernels.FOLDER", tmp_path)
    kernels.cache_clear()
    assert isinstance(kernels(), NumPyKernels)
    assert "not compiled" in capsys.readouterr().err
    monkeypatch.undo()
    kernels.cache_clear()


def test_without_a_library_numpy_computes_and_that_is_said_once(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv(VARIABLE, raising=False)
    with monkeypatch.context() as patched:
        patched.setattr("parser.runtime.kernels.FOLDER", tmp_path)
        kernels.cache_clear()
        assert all(isinstance(kernels(), NumPyKernels) for _ in range(3))
        assert capsys.readouterr().err.count("not compiled") == 1
    kernels.cache_clear()
    assert isinstance(kernels(), CompiledKernels) == bool(instruction_sets())
    monkeypatch.undo()
    kernels.cache_clear()
