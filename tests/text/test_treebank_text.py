"""The text of a treebank."""

import io

from parser.text.training_process import as_training_text
from parser.text.treebank_text import divided_text, surface_tokens, treebank_text
from parser.treebank.conllu import blocks, parse_block

SENTENCES = """\
# newdoc id = a
# newpar
# sent_id = 1
# text = Don't go.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\t_\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\t_\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
3.1\tthere\t_\t_\t_\t_\t_\t_\t_\t_
4\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_

# sent_id = 2
# text = (Yes)
1\t(\t_\t_\t_\t_\t2\tpunct\t_\t_
2\tYes\t_\t_\t_\t_\t0\troot\t_\t_
3\t)\t_\t_\t_\t_\t2\tpunct\t_\tSpacesAfter=\\n|SpaceAfter=No

# newpar
# sent_id = 3
# text = something else
1\tNo\t_\t_\t_\t_\t0\troot\t_\tSpaceAfter=No
2\t!\t_\t_\t_\t_\t1\tpunct\t_\t_

"""


def read(text):
    return [parse_block(block, tree=True) for block in blocks(io.StringIO(text, newline="\n"))]


def test_spaces_are_those_of_the_comment_where_it_has_the_forms():
    first, second, third = map(surface_tokens, read(SENTENCES))
    assert first == [("Don't", True, 2), ("go", False, 1), (".", True, 1)]
    assert second == [("(", False, 1), ("Yes", False, 1), (")", False, 1)]  # what follows is in MISC
    assert third == [("No", False, 1), ("!", True, 1)]  # the comment has another text


def test_blank_lines_hide_no_comment():
    second = SENTENCES.partition("\n\n")[2]  # only the comment shows its spaces
    assert surface_tokens(read("\n\n" + second)[0]) == [("(", False, 1), ("Yes", False, 1), (")", False, 1)]


def test_paragraphs_are_divided_by_blank_lines():
    assert treebank_text(read(SENTENCES)) == "Don't go. (Yes)\n\nNo!\n"
    assert treebank_text([]) == "\n"


def test_divided_text_has_blanks_and_blank_lines():
    assert divided_text(read(SENTENCES)) == "Don't go .\n\n( Yes )\n\nNo !\n\n"


def test_a_tokenizer_learns_from_tokens_words_and_spaces_alone():
    blank = "\t_" * 7
    assert as_training_text(read(SENTENCES)[:2]) == (
        f"# newpar\n1-2\tDon't{blank}\t_\n1\tDo{blank}\t_\n2\tn't{blank}\t_\n"
        f"3\tgo{blank}\tSpaceAfter=No\n4\t.{blank}\t_\n\n"
        f"1\t({blank}\tSpaceAfter=No\n2\tYes{blank}\tSpaceAfter=No\n3\t){blank}\tSpaceAfter=No\n\n"
    )


def test_a_treebank_without_comments():
    [sentence] = read("1\ta b\t_\t_\t_\t_\t0\troot\t_\t_\n2\tc\t_\t_\t_\t_\t1\tx\t_\tSpaceAfter=No\n\n")
    assert surface_tokens(sentence) == [("a b", True, 1), ("c", False, 1)]
    assert treebank_text([sentence]) == "a b c\n"
