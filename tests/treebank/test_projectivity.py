import pytest
from plain_transitions import all_trees
from plain_transitions import is_projective as is_projective_by_definition

from parser.treebank.projectivity import is_projective


@pytest.mark.parametrize("length", range(1, 6))
def test_agrees_with_the_definition_on_every_tree(length):
    for heads in all_trees(length):
        assert is_projective(heads) == is_projective_by_definition(heads), heads
