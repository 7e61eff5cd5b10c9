"""The OpenAPI document is what the service does: schemathesis sends what it allows and what it forbids."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.service.served import app_of, client, post

# Clients whose own warnings are not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:schemathesis")

APP = app_of(chunk_limit=50)
schema = schemathesis.openapi.from_asgi("/openapi.json", APP, headers={"host": "127.0.0.1"})


@schema.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_the_document_allows_or_forbids_is_answered_as_it_says(case: "Case[Any]") -> None:
    # That ids differ, or dials agree, no schema says.
    case.call_and_validate(headers={"host": "127.0.0.1"}, excluded_checks=[positive_data_acceptance])


@pytest.mark.anyio
async def test_every_example_of_the_document_is_answered() -> None:
    async with client(app_of()) as http:
        document = (await http.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    paths = {"PruneRequest": "/v1/prune", "AssembleRequest": "/v1/assemble", "RerankRequest": "/v1/rerank"}
    for name, path in paths.items():
        assert schemas[name]["examples"]
        for example in schemas[name]["examples"]:
            response = await post(app_of(), path, example)
            assert response.status_code == 200, response.text


@pytest.mark.anyio
async def test_every_refusal_in_the_document_has_the_one_shape() -> None:
    async with client(app_of()) as http:
        document = (await http.get("/openapi.json")).json()
    shapes: set[Any] = set()
    for path in ("/v1/prune", "/v1/rerank", "/v1/assemble"):
        responses = document["paths"][path]["post"]["responses"]
        assert {"400", "401", "403", "413", "415", "422", "429", "503"} <= responses.keys()
        shapes |= {
            answer["content"]["application/json"]["schema"]["$ref"]
            for code, answer in responses.items()
            if code != "200"
        }
    assert shapes == {"#/components/schemas/Problem"}
