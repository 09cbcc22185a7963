"""Folders like those of Universal Dependencies, with sentences of the treebank that ships."""

from pathlib import Path

METADATA = "License: CC BY-SA 4.0\nIncludes text: yes\nContributors: Writer, A; Writer, Another\n"
README = f"# Summary\n\n<pre>\n{METADATA}</pre>\n"
FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, MISC = 1, 2, 3, 4, 5, 6, 9


def sentences(split, count):
    text = Path(f"data/quickstart/{split}.conllu").read_text(encoding="utf-8")
    return "".join(f"{block}\n\n" for block in text.split("\n\n")[:count])


def blanked(text, *columns):
    """The text without the values of some columns, as if they had not been annotated."""
    lines = [line.split("\t") for line in text.split("\n")]
    return "\n".join(
        "\t".join("_" if place in columns else value for place, value in enumerate(line)) for line in lines
    )


def without_comments(text):
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))


def make_treebank(folder, name, **files):
    """Write the files of a treebank. files: content by split."""
    (folder / name).mkdir(parents=True)
    (folder / name / "README.md").write_text(README)
    (folder / name / "LICENSE.txt").write_text("Share alike.\n")
    prefix = name.removeprefix("UD_").lower().replace("-", "_")
    for split, content in files.items():
        (folder / name / f"{prefix}-ud-{split}.conllu").write_text(content, encoding="utf-8")
