"""Recorded work that is not computed yet: applications of templates, and their operations as arrays."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from parser.batching.levels import Integers
from parser.batching.operations.template import Template
from parser.batching.operations.wiring import Origin

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

    def values_of(self, places: Sequence[int]) -> Integers:
        """[applications, places] The numbers of values. places: numbers of the template's values."""
        arguments = self.template.arguments
        if places == tuple(range(arguments)):
            return self.arguments
        columns = [
            self.arguments[:, place] if place < arguments else self.first + (place - arguments)
            for place in places
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
        found = self._of_templates.get(template)
        if found is None:
            found = np.array([self._number(origin) for origin in template.wiring.origins], np.int64)
            self._of_templates[template] = found
        return found

    def _number(self, origin: Origin) -> int:
        if origin not in self._origins:
            self._origins[origin] = len(self.of_origin)
            kind = self._kinds.setdefault(origin.signature(), len(self.all))
            self.of_origin.append(kind)
            if kind == len(self.all):
                self.all.append(origin)
        return self._origins[origin]


class Pending:
    """The operations of some applications. They are numbered application by application.

    Arrays have an entry for each operation, unless another shape is given.
    """

    def __init__(self, applications: Sequence[Applications], kinds: Kinds, start: int):
        """applications: at least one; start: the number of the first value that can still need computing."""
        self.applications, self.kinds, self._start = applications, kinds, start
        wirings = [own.template.wiring for own in applications]
        first = np.concatenate([own.first for own in applications])
        self.template = np.arange(len(applications)).repeat([len(own.first) for own in applications])
        """[applications] The number of the application's template."""
        self._places, self.application = _parts(self.template, [len(wiring.origin) for wiring in wirings])
        self.origin = self.of_wirings(
            [kinds.origins_of(own.template)[own.template.wiring.origin] for own in applications]
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
        return np.concatenate(parts)[self._places]

    @cached_property
    def indices(self) -> Integers:
        """The index of the operation; 0 if it takes none."""
        flat = np.concatenate([*(own.indices.ravel() for own in self.applications), np.zeros(1, np.int64)])
        sizes = np.array([own.template.indices for own in self.applications])[self.template]
        place = self.of_wirings([own.template.wiring.index_place for own in self.applications])
        start = (sizes.cumsum() - sizes)[self.application]
        return flat[np.where(place < 0, -1, start + place)]

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
        for place in range(int(outputs.max())):
            chosen = outputs > place
            giver[first[chosen] + place] = numbers[chosen]
        return giver


def _parts(template: Integers, sizes: Sequence[int]) -> tuple[Integers, Integers]:
    """For each part [parts], application by application, its place among all templates' parts, and the
    application.

    template: [applications], the number of each application's template; sizes: the parts of each template.
    """
    of_template = np.array(sizes)
    own = of_template[template]
    begin = (of_template.cumsum() - of_template)[template] - (own.cumsum() - own)
    application = np.arange(len(template)).repeat(own)
    return np.arange(len(application)) + begin[application], application


def _arguments(applications: Sequence[Applications], template: Integers, first: Integers) -> Integers:
    """[arguments of all operations] The numbers of the argument values, operation by operation.

    template: see `_parts`; first: [applications], the first value that each application computes.
    """
    of_wirings = [own.template.wiring.arguments for own in applications]
    places, application = _parts(template, list(map(len, of_wirings)))
    local = np.concatenate(of_wirings)[places]
    given = np.concatenate([*(own.arguments.ravel() for own in applications), np.zeros(1, np.int64)])
    counts = np.array([own.template.arguments for own in applications])[template]
    starts, counts = (counts.cumsum() - counts)[application], counts[application]
    return np.where(
        local < counts, given.take(starts + local, mode="clip"), first[application] + local - counts
    )
