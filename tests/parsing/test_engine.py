"""Sentences that arrive at any time, are cancelled or fail, compared with each sentence parsed alone."""

import threading
from concurrent.futures import CancelledError
from queue import Full

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import sentence
from random_parsers import RUNNERS, model, refuse_bad_words, run_by
from random_parsers import numbered_sentence as of

from parser.parsing import engine as engine_module
from parser.parsing import running
from parser.parsing.engine import Engine, parse
from parser.parsing.options import TREE_ALONE, ParseOptions
from parser.parsing.pytorch.running_batch import _Blocks
from parser.parsing.running import HostRunner
from parser.parsing.scheduler import Request, RequestSource
from parser.runtime.parser import RuntimeParser


@pytest.fixture(scope="module")
def parser():
    torch.manual_seed(0)
    return model("arc-eager", dtype=torch.double, word_features=True)


ACTIONS = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 12), st.booleans(), st.integers(0, 2)),
    st.tuples(st.just("cancel"), st.integers(0, 40)),
    st.tuples(st.just("step")),
)


@pytest.mark.parametrize("runner", RUNNERS)
@given(actions=st.lists(ACTIONS, max_size=40), batch_size=st.integers(1, 5))
def test_any_order_of_arrivals_and_cancellations_gives_the_trees_of_sentences_alone(
    parser, runner, actions, batch_size
):
    with pytest.MonkeyPatch.context() as patched:
        run_by(patched, runner)
        _hand_in_and_cancel(parser, actions, batch_size)


def _hand_in_and_cancel(parser, actions, batch_size):
    engine, requests, cancelled = Engine(parser, batch_size), [], set()
    sources = [None, RequestSource(), RequestSource(3)]
    for what, *values in actions:
        if what == "add":
            length, probabilities, source = values
            requests.append(
                engine.add(
                    of(len(requests), length), ParseOptions(probabilities=probabilities), sources[source]
                )
            )
        elif what == "step":
            engine.step()
        elif requests:
            number = values[0] % len(requests)
            had_ended = requests[number].state == "done"
            assert requests[number].cancel() is not had_ended
            if not had_ended:
                cancelled.add(number)
    for number, request in enumerate(requests):
        if number in cancelled:
            with pytest.raises(CancelledError):
                engine.result(request)
            continue
        [alone] = parse(parser, [request.sentence], options=request.options)
        found = engine.result(request)
        assert (found.heads, found.labels) == (alone.heads, alone.labels)
        if request.options.probabilities:
            assert found.probabilities == pytest.approx(alone.probabilities, rel=1e-5)
        else:
            assert found.probabilities is None


def test_a_sentence_that_can_not_be_read_fails_alone(parser, monkeypatch):
    refuse_bad_words(monkeypatch)
    engine = Engine(parser, batch_size=4)
    given = [of(number, 3 + number) for number in range(9)]
    given[5] = sentence((0, 1), forms=["word0", "bad"])
    requests = [engine.add(one) for one in given]
    for number, request in enumerate(requests):
        if number == 5:
            with pytest.raises(RuntimeError, match="no such word"):
                engine.result(request)
        else:
            assert engine.result(request) == parse(parser, [given[number]])[0]


@pytest.mark.parametrize("runner", RUNNERS)
def test_what_ran_when_the_user_interrupted_is_parsed_later(parser, monkeypatch, runner):
    run_by(monkeypatch, runner)
    engine = Engine(parser, batch_size=4)
    requests = [engine.add(of(number, 5)) for number in range(90)]
    engine.step()
    kind = RUNNERS[runner]
    advance = kind.advance

    def interrupted(this):
        advance(this)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kind, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.step()
    assert [engine.result(each) for each in requests] == parse(parser, [each.sentence for each in requests])


@pytest.mark.parametrize("count", [3, 90])
def test_a_sentence_that_cannot_be_parsed_again_fails_alone(parser, monkeypatch, count):
    """Reparsing fails for sentences of seven words."""

    class Failing:
        changes_trees = True

        def reparse(self, opinions, trees, constraints):
            if 7 in opinions:
                raise ValueError("seven")
            return trees

    monkeypatch.setattr(engine_module.Reparser, "of", lambda model: Failing())
    monkeypatch.setattr(running, "opinions", lambda scoring: lengths)
    lengths = []
    encode = HostRunner.encode

    def encode_and_note(runner, requests):
        lengths[:] = [len(request.sentence) for request in requests]
        return encode(runner, requests)

    monkeypatch.setattr(HostRunner, "encode", encode_and_note)
    engine = Engine(parser, batch_size=8)
    requests = [engine.add(of(number, 7 if number % 3 == 1 else 5)) for number in range(count)]
    for number, request in enumerate(requests):
        if number % 3 == 1:
            with pytest.raises(ValueError, match="seven"):
                engine.result(request)
        else:
            assert len(engine.result(request).heads) == 5


def test_sentences_that_are_too_much_for_the_memory_are_encoded_in_smaller_groups(parser, monkeypatch):
    encode, sizes = HostRunner.encode, []

    def with_little_memory(runner, group):
        words = sum(len(request.sentence) for request in group)
        if words > 50:
            raise MemoryError
        sizes.append(words)
        return encode(runner, group)

    engine = Engine(parser)
    requests = [engine.add(of(number, 10)) for number in range(30)]
    monkeypatch.setattr(HostRunner, "encode", with_little_memory)
    found = [engine.result(each) for each in requests]
    monkeypatch.undo()
    assert found == parse(parser, [each.sentence for each in requests])
    assert len(sizes) < 20


def test_a_sentence_whose_transitions_fail_fails_alone(parser, monkeypatch):
    parse_group = RuntimeParser.parse

    def fail_for_seven_words(this, encoded, *options):
        if 7 in encoded[0].lengths:
            raise ZeroDivisionError
        return parse_group(this, encoded, *options)

    monkeypatch.setattr(RuntimeParser, "parse", fail_for_seven_words)
    engine = Engine(parser)
    requests = [engine.add(of(number, 6 + number % 3)) for number in range(20)]
    for request in requests:
        if len(request.sentence) == 7:
            with pytest.raises(ZeroDivisionError):
                engine.result(request)
        else:
            assert len(engine.result(request).heads) == len(request.sentence)


def test_a_small_source_is_not_behind_a_large_one(parser):
    engine, small, large = Engine(parser, batch_size=8), RequestSource(), RequestSource()
    many = [engine.add(of(number, 10), source=large) for number in range(600)]
    few = [engine.add(of(number, 10), source=small) for number in range(10)]
    for request in few:
        engine.result(request)
    assert sum(request.state == "done" for request in many) < 300


def test_batches_shrink_while_a_short_source_waits(parser):
    engine, long = Engine(parser), RequestSource()
    many = [engine.add(of(number, 10), source=long) for number in range(100)]
    engine.step()
    assert sum(each.has_ended for each in many) == running.GROUP_ON_CPU
    short = [engine.add(of(number, 10), source=RequestSource()) for number in range(20)]
    engine.step()
    assert all(each.has_ended for each in short)
    assert sum(each.has_ended for each in many) - running.GROUP_ON_CPU <= running.SHARED_GROUP


@pytest.mark.extended
def test_weights_divide_the_words(parser):
    engine = Engine(parser, batch_size=2)
    light, heavy = RequestSource(), RequestSource(weight=3)
    requests = {
        source: [engine.add(of(number, 10), source=source) for number in range(200)]
        for source in (light, heavy)
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(running, "GROUP_ON_CPU", 8)
        while sum(each.state == "done" for own in requests.values() for each in own) < 100:
            engine.step()
    done = {source: sum(each.state == "done" for each in own) for source, own in requests.items()}
    assert 2 < done[heavy] / done[light] < 4


def test_too_many_words_in_waiting(parser):
    engine = Engine(parser, batch_size=2, max_waiting=20)
    requests = [engine.add(of(0, 12))]
    with pytest.raises(Full, match="12 words wait already"):
        engine.hand_in(Request(of(1, 12), TREE_ALONE, RequestSource(), threading.Lock()))
    requests += [engine.add(of(number, 12)) for number in range(1, 9)]  # the engine computes meanwhile
    assert [engine.result(each) for each in requests] == parse(parser, [each.sentence for each in requests])


def test_threads_share_an_engine(parser):
    engine, found = Engine(parser, batch_size=4), {}

    def hand_in(thread):
        for number in range(thread, 60, 6):
            found[number] = engine.result(engine.add(of(number, 1 + number % 13)))

    threads = [threading.Thread(target=hand_in, args=(thread,)) for thread in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = parse(parser, [of(number, 1 + number % 13) for number in range(60)])
    assert [found[number] for number in range(60)] == expected


def test_a_stream_that_is_closed_leaves_nothing_behind(parser):
    engine = Engine(parser, batch_size=3)
    stream = engine.stream([of(number, 6) for number in range(50)])
    next(stream)
    stream.close()
    assert engine.result(engine.add(of(3, 7))) == parse(parser, [of(3, 7)])[0]


@given(st.lists(st.one_of(st.integers(1, 9), st.none()), max_size=30), st.integers(0, 1000))
def test_blocks_do_not_overlap(sizes, seed):
    blocks, live = _Blocks(), {0: 2}
    order = torch.Generator().manual_seed(seed)
    for size in sizes:
        if size is None and len(live) > 1:
            start = sorted(live)[1 + int(torch.randint(len(live) - 1, (), generator=order))]
            blocks.release(start)
            del live[start]
        elif size:
            start = blocks.take(size)
            assert all(start >= begin + taken or start + size <= begin for begin, taken in live.items())
            blocks.share(start, 1)
            live[start] = size
    assert max((begin + taken for begin, taken in live.items()), default=0) <= 2 + sum(filter(None, sizes))
