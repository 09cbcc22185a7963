"""Requests that are drawn from the description of the interface, and requests that it does not allow."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from services import TEXT

pytest.importorskip("fastapi")
pytest.importorskip("schemathesis")

import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

httpx = pytest.importorskip("httpx")
pytestmark = [pytest.mark.extended, pytest.mark.filterwarnings("default")]  # the libraries used here warn
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.mark.parametrize("requests", [60, pytest.param(1_000, marks=pytest.mark.soak)])
def test_what_is_answered_is_described(requests, service):
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    parsing = schema["/v1/parse"]["POST"]
    modes = [parsing.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode]

    @settings(max_examples=requests)
    @given(st.one_of(modes))
    def ask(case):
        case.call_and_validate(checks=CHECKS)

    ask()
    answer = httpx.post(f"{service.url}/v1/parse", json={"texts": [TEXT]}, timeout=60)
    assert len(answer.json()["sentences"]) == 3
