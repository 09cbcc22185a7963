"""The analyses of words in a training treebank: which tags, features and rules of lemmas occur together, and
which of these a form has had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Combination = tuple[int, ...]
"""A value of each predicted column, as an index in the column's strings."""
NO_VALUE = -1
"""The index of a lemma that the treebank does not have."""
BONUS = 2.0
"""A value in the middle of those that are fitted on dev."""


@dataclass(frozen=True)
class Analyses:
    combinations: tuple[Combination, ...] = ()
    of_form: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The indices of the combinations that a form has had."""
    bonus: float = BONUS
    """What is added to the sum of log probabilities of a combination that the form has had."""

    @classmethod
    def of(cls, words: Iterable[tuple[str, Combination]], bonus: float = BONUS) -> Analyses:
        """words: forms with their combinations."""
        index: dict[Combination, int] = {}
        of_form: dict[str, dict[int, None]] = {}
        for form, combination in words:
            number = index.setdefault(combination, len(index))
            of_form.setdefault(form, {})[number] = None
        return cls(tuple(index), {form: tuple(own) for form, own in of_form.items()}, bonus)

    def words(self) -> Iterator[tuple[str, Combination]]:
        """Each form with each of its combinations."""
        for form, own in self.of_form.items():
            for number in own:
                yield form, self.combinations[number]

    def words_with(self, column: int) -> Iterator[tuple[str, Combination]]:
        """Those of `words` that have a value in the column."""
        return ((form, each) for form, each in self.words() if each[column] != NO_VALUE)
