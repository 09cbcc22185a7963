"""All states that a plain parser can reach, one by one and as a batch."""

import torch
from plain_parser import Configuration

from parser.transitions.system import State


def key(configuration):
    heads = configuration.heads
    return tuple(configuration.stack), tuple(configuration.buffer), tuple(sorted(heads.items()))


def reachable_states(system, length):
    """All unfinished states that the parser can reach."""
    found, waiting = {}, [Configuration(system, length)]
    while waiting:
        configuration = waiting.pop()
        if key(configuration) not in found and not configuration.finished():
            found[key(configuration)] = configuration
            waiting += [configuration.after(move) for move in configuration.legal()]
    return list(found.values())


def as_state(configurations, length):
    lengths = torch.full((len(configurations),), length)
    state = State.initial(lengths)
    for row, configuration in enumerate(configurations):
        stack, heads = configuration.stack, configuration.heads
        state.stack[row, : len(stack)] = torch.tensor(stack)
        state.stack[row, len(stack) :] = torch.randint(length + 1, (length + 1 - len(stack),))  # stale
        state.depth[row] = len(stack)
        state.front[row] = length + 1 - len(configuration.buffer)
        state.headless[row] = sum(word not in heads for word in stack if word)
        for word, head in heads.items():
            state.heads[row * length + word - 1] = head
    return state
