"""The options of a parse: flags, fields of requests and arguments in Python come from one model."""

from dataclasses import fields

import pytest

from parser.commands.arguments import argument_parser
from parser.parsing.options import Constraints, ParseOptions, as_options
from parser.service.typed_messages import ParseRequest


def of_parse(flags):
    return ParseOptions(**{option.name: flags[option.name] for option in fields(ParseOptions)})


def test_flags_and_fields_have_the_defaults_of_the_options():
    flags = vars(argument_parser().parse_args(["parse", "tests/model", "in.conllu"]))
    assert of_parse(flags) == ParseOptions()
    assert ParseRequest(conllu="").options == ParseOptions()
    assert as_options(Constraints()).items() <= vars(ParseOptions()).items()
    assert as_options(Constraints(learned=False))["constraints"] == "none"


def test_flags_and_fields_are_the_same_options():
    flags = "--probabilities --alternatives 3 --keep given --non-projective given --at-most-one obj,det"
    flags += " --constraints none"
    parsed = vars(
        argument_parser().parse_args(["parse", *flags.split(), "--not-root=X", "tests/model", "in.conllu"])
    )
    asked = {"probabilities": True, "alternatives": 3, "keep": "given", "non_projective": "given"}
    asked |= {"at_most_one": ["obj", "det"], "not_root": ["X"], "constraints": "none"}
    assert of_parse(parsed) == ParseOptions(**asked)
    assert ParseRequest(conllu="", **asked).options == ParseOptions(**asked)


@pytest.mark.parametrize("name", ["at_most_one", "not_root"])
def test_a_string_is_not_taken_for_its_letters(name):
    for values in ([1], None, 5):
        with pytest.raises(ValueError, match=f"{name} is .*; it should be a tuple of strings"):
            Constraints(**{name: values})
    with pytest.raises(ValueError, match=rf"{name}: 'DET' is one string; give a tuple: \('DET',\)"):
        Constraints(**{name: "DET"})


@pytest.mark.parametrize("name", ["keep", "non_projective"])
def test_an_unknown_choice_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} is 'all'; it should be 'given' or '?(None|refuse)"):
        Constraints(**{name: "all"})


def test_lists_are_as_good_as_tuples():
    found = Constraints(at_most_one=["nsubj"], not_root=["PUNCT"])
    assert found == Constraints(at_most_one=("nsubj",), not_root=("PUNCT",))
    assert hash(found) == hash(Constraints(at_most_one=("nsubj",), not_root=("PUNCT",)))
