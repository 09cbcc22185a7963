"""Write parser/client/messages.py: types of the requests and answers that the service describes (OpenAPI).

python scripts/write_client.py            writes the module
python scripts/write_client.py --check    exits with 1 if it is out of date
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fastapi import FastAPI

from parser.service.typed_protocol import PARSE, typed_routes

MODULE = Path(__file__).parents[1] / "parser" / "client" / "messages.py"
HEADER = '''\
"""The types of requests and answers. Unknown values are left out of answers.

Written by scripts/write_client.py from the description of the service. Do not edit.
"""

from __future__ import annotations

from typing import Literal, Required, TypedDict
'''
WIDTH = 106
"""Most characters of a line of documentation."""
TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
REFERENCES = "#/components/schemas/"
Schema = Mapping[str, Any]


def description() -> Schema:
    """Return the description of the typed protocol."""
    application = FastAPI()
    service: Any = SimpleNamespace(threads=None)
    application.include_router(typed_routes(service))
    return application.openapi()


def module(described: Schema) -> str:
    """Return the module for a description."""
    schemas = described["components"]["schemas"]
    names = sorted(_needed(described["paths"][PARSE], schemas, set()))
    return "\n\n".join([HEADER, *(_class(name, schemas[name]) for name in names)])


def _needed(part: Any, schemas: Schema, known: set[str]) -> set[str]:
    """Return the names of the schemas that a part of the description refers to, with those that are known."""
    if isinstance(part, dict):
        name = str(part.get("$ref", "")).removeprefix(REFERENCES)
        if name and name not in known:
            known.add(name)
            _needed(schemas[name], schemas, known)
        for inner in part.values():
            _needed(inner, schemas, known)
    elif isinstance(part, list):
        for inner in part:
            _needed(inner, schemas, known)
    return known


def _class(name: str, schema: Schema) -> str:
    return "\n".join([f"class {name}(TypedDict, total=False):", *_body(schema)]) + "\n"


def _body(schema: Schema) -> Iterator[str]:
    if "description" in schema:
        yield from _documentation(schema["description"])
        yield ""
    for name, field in schema["properties"].items():
        kind = type_of(field)
        yield f"    {name}: {f'Required[{kind}]' if name in schema.get('required', ()) else kind}"
        if "description" in field:
            yield from _documentation(field["description"])


def _documentation(text: str) -> Iterator[str]:
    """A docstring, as ruff formats it."""
    quoted = f'"""{" ".join(text.split()).removesuffix(".")}."""'
    lines = textwrap.wrap(quoted, WIDTH, break_long_words=False, break_on_hyphens=False)
    yield from (f"    {line}" for line in lines)


def type_of(field: Schema) -> str:
    """Return the type of a value in Python."""
    if "$ref" in field:
        return str(field["$ref"]).removeprefix(REFERENCES)
    if "anyOf" in field:
        return " | ".join(type_of(choice) for choice in field["anyOf"])
    if "enum" in field or "const" in field:
        return f"Literal[{', '.join(map(json.dumps, field.get('enum') or [field['const']]))}]"
    if field["type"] == "array":
        return f"list[{type_of(field['items'])}]"
    return TYPES[field["type"]]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if it is out of date"
    )
    text = module(description())
    if not arguments.parse_args().check:
        MODULE.write_text(text, encoding="utf-8")
    elif not MODULE.exists() or MODULE.read_text(encoding="utf-8") != text:
        told = "parser/client/messages.py is out of date: run `python scripts/write_client.py`"
        print(told, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
