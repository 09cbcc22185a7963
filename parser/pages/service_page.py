"""The pages of a service: one draws the trees of a text that the user enters, one describes the interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from parser.pages.page import asset, rendered

STYLES = ("page.css", "tree.css", "tree_list.css", "service_page.css")
SCRIPTS = (
    *("tree_layout.js", "tree_drawing.js", "word_box.js", "tree_list.js"),
    *("conllu_reading.js", "word_table.js", "service_client.js", "service_page.js"),
)
"""Scripts in the order in which they run."""


def service_page() -> str:
    """Return the page as an HTML document, which loads its files from `page/`."""
    return rendered("service_page.html", title="stack-parser", styles=STYLES, scripts=SCRIPTS)


def service_page_files() -> dict[str, str]:
    """Return the texts of the files by name."""
    return {name: asset(name) for name in (*STYLES, *SCRIPTS)}


Schema = Mapping[str, Any]


def interface_page(document: Schema) -> str:
    """Return the page as an HTML document. document: an OpenAPI 3.1 document."""
    schemas = document.get("components", {}).get("schemas", {})
    return rendered(
        "interface_page.html",
        title=f"{document['info']['title']} {document['info']['version']}",
        operations=list(_operations(document)),
        objects=[
            {
                "name": name,
                "text": schema.get("description", ""),
                "fields": [
                    (field, _type(value), value.get("description", ""))
                    for field, value in schema.get("properties", {}).items()
                ],
            }
            for name, schema in schemas.items()
        ],
    )


def _operations(document: Schema) -> Iterator[dict[str, Any]]:
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            body = told.get("requestBody", {}).get("content", {}).get("application/json", {})
            yield {
                "method": method.upper(),
                "path": path,
                "text": told.get("description") or told["summary"],
                "takes": _type(body["schema"]) if body else "",
                "answers": [
                    (status, answer["description"], ", ".join(answer.get("content", ())))
                    for status, answer in sorted(told["responses"].items())
                ],
            }


def _type(schema: Schema) -> str:
    """Return a type as text such as `array of string`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"array of {_type(schema['items'])}"
    return str(schema.get("type", "any"))
