"""Recorded work that is not computed yet: applications of templates, and their operations as arrays."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from parser.batching.levels import Integers
from parser.batching.operations.template import Origin, Template

COMPUTED = -1
"""Replaces the operation that computes a value, for values that are computed already."""


@dataclass(frozen=True, eq=False)
class Applications:
    """The applications of one template. The outputs of each application are values with adjacent numbers."""

    template: Template
    first: Integers
    """[applications] The number of the first value that each computes."""
    arguments: Integers
    """[applications, arguments] The numbers of the argument values."""
    indices: Integers
    """[applications, indices] The indices given to each application."""

    def values_of(self, values: Sequence[int]) -> Integers:
        """[applications, values] The numbers of values in the graph. values: in the template."""
        arguments = self.template.arguments
        if values == tuple(range(arguments)):
            return self.arguments
        columns = [
            self.arguments[:, value] if value < arguments else self.first + (value - arguments)
            for value in values
        ]
        return np.stack(columns, 1) if columns else np.empty((len(self.first), 0), np.int64)


class Kinds:
    """Numbers origins and their kinds. Operations of one kind can share a batch."""

    def __init__(self) -> None:
        self.all: list[Origin] = []
        """One origin of each kind."""
        self.of_origin: list[int] = []
        """The kind of each origin."""
        self._kinds: dict[Hashable, int] = {}
        self._origins: dict[Origin, int] = {}
        self._of_templates: dict[Template, Integers] = {}

    def origins_of(self, template: Template) -> Integers:
        """Return the numbers of the template's origins."""
        origins = self._of_templates.get(template)
        if origins is None:
            for origin in template.wiring.origins:
                if origin not in self._origins:
                    self._origins[origin] = len(self.of_origin)
                    kind = self._kinds.setdefault(origin.signature(), len(self.all))
                    self.of_origin.append(kind)
                    if kind == len(self.all):
                        self.all.append(origin)
            origins = np.array([self._origins[origin] for origin in template.wiring.origins], np.int64)
            self._of_templates[template] = origins
        return origins


class Pending:
    """The operations of some applications. They are numbered application by application.

    Arrays have an entry for each operation, unless another shape is given.
    """

    def __init__(self, applications: Sequence[Applications], kinds: Kinds, start: int):
        """applications: at least one; start: the number of the first value that can still need computing."""
        self.applications, self.kinds, self._start = applications, kinds, start
        wirings = [each.template.wiring for each in applications]
        first = np.concatenate([each.first for each in applications])
        self.template = np.arange(len(applications)).repeat([len(each.first) for each in applications])
        """[applications] The number of the application's template."""
        self._positions, self.application = _parts(self.template, [len(wiring.origin) for wiring in wirings])
        self.origin = self.of_wirings(
            [kinds.origins_of(each.template)[each.template.wiring.origin] for each in applications]
        )
        """The number of the operation's origin."""
        self.kind = np.array(kinds.of_origin)[self.origin]
        """The number of the operation's kind."""
        self.first = first[self.application] + self.of_wirings([wiring.first_output for wiring in wirings])
        """The number of the value that is the operation's first output."""
        self.arguments = _arguments(applications, self.template, first)
        """[arguments of all operations] Values, operation by operation."""

    def __len__(self) -> int:
        return len(self.kind)

    def of_wirings(self, parts: Sequence[Integers]) -> Integers:
        """Return one array for all operations. parts: for each template, an entry for each operation."""
        return np.concatenate(parts)[self._positions]

    @cached_property
    def indices(self) -> Integers:
        """The index of the operation; 0 if it takes none."""
        flat = np.concatenate([*(each.indices.ravel() for each in self.applications), np.zeros(1, np.int64)])
        sizes = np.array([each.template.indices for each in self.applications])[self.template]
        position = self.of_wirings([each.template.wiring.index_position for each in self.applications])
        start = (sizes.cumsum() - sizes)[self.application]
        return flat[np.where(position < 0, -1, start + position)]

    @cached_property
    def argument_counts(self) -> Integers:
        return np.array([len(kind.widths) for kind in self.kinds.all])[self.kind]

    @cached_property
    def argument_starts(self) -> Integers:
        """The position in `arguments` at which those of the operation start."""
        return self.argument_counts.cumsum() - self.argument_counts

    @cached_property
    def givers(self) -> Integers:
        """[arguments of all operations] The operation that computes each argument, or `COMPUTED`."""
        return self.givers_of(self.arguments)

    def givers_of(self, values: Integers) -> Integers:
        """Return the operation that computes each value, or `COMPUTED`."""
        return np.where(values < self._start, COMPUTED, self._giver.take(values - self._start, mode="clip"))

    @cached_property
    def edges(self) -> tuple[Integers, Integers]:
        """Operations [edges], and for each another operation that uses its value [edges]."""
        user = np.arange(len(self)).repeat(self.argument_counts)
        within = self.givers != COMPUTED
        return self.givers[within], user[within]

    @cached_property
    def _giver(self) -> Integers:
        """[values from `start` on] The operation that computes each value."""
        outputs = np.array([len(kind.operation.outputs) for kind in self.kinds.all])[self.kind]
        first = self.first - self._start
        giver = np.full(int((first + outputs).max()), COMPUTED)
        numbers = np.arange(len(self))
        for output in range(int(outputs.max())):
            chosen = outputs > output
            giver[first[chosen] + output] = numbers[chosen]
        return giver


def _parts(template: Integers, sizes: Sequence[int]) -> tuple[Integers, Integers]:
    """For each part [parts], application by application, its position among all templates' parts, and the
    application.

    template: [applications], the number of each application's template; sizes: the parts of each template.
    """
    of_template = np.array(sizes)
    parts = of_template[template]
    begin = (of_template.cumsum() - of_template)[template] - (parts.cumsum() - parts)
    application = np.arange(len(template)).repeat(parts)
    return np.arange(len(application)) + begin[application], application


def _arguments(applications: Sequence[Applications], template: Integers, first: Integers) -> Integers:
    """[arguments of all operations] The numbers of the argument values, operation by operation.

    template: see `_parts`; first: [applications], the first value that each application computes.
    """
    of_wirings = [each.template.wiring.arguments for each in applications]
    positions, application = _parts(template, list(map(len, of_wirings)))
    local = np.concatenate(of_wirings)[positions]
    given = np.concatenate([*(each.arguments.ravel() for each in applications), np.zeros(1, np.int64)])
    counts = np.array([each.template.arguments for each in applications])[template]
    starts, counts = (counts.cumsum() - counts)[application], counts[application]
    return np.where(
        local < counts, given.take(starts + local, mode="clip"), first[application] + local - counts
    )
