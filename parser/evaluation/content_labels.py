"""Labels of content words, as in the scorer of the CoNLL 2018 shared task."""

# fmt: off
CONTENT_LABELS = frozenset([
    "acl", "advcl", "advmod", "amod", "appos", "ccomp", "compound", "conj", "csubj", "dep", "discourse",
    "dislocated", "expl", "fixed", "flat", "goeswith", "iobj", "list", "nmod", "nsubj", "nummod", "obj",
    "obl", "orphan", "parataxis", "reparandum", "root", "vocative", "xcomp",
])
# fmt: on


def without_subtype(label: str) -> str:
    return label.split(":", 1)[0]
