"""Requests made from the description of the API itself (OpenAPI): whatever fits it, or just does not, no request meets
a fault of the server, and every answer is one that the description has."""

from contextlib import closing

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

import serving
from roundwise.web.app import Application
from roundwise.web.security import build_access
from serving import ask

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    unsupported_method,
)
schemathesis.serializer.alias("application/jsonl", "text/plain")
ARMS = ["a", "b", "c"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A server with two studies: one that waits for results, and one that is decided."""
    with serving.serving(f"sqlite:///{tmp_path_factory.mktemp('schema')}/studies.db") as (url, _):
        for name in ("waits", "decided"):
            new = {"name": name, "question": {"name": "best-arm"}, "arms": ARMS, "noise": {"name": "binary"}}
            assert ask(url, "POST", "/api/v1/studies", new)[0] == 201
            ask(url, "POST", f"/api/v1/studies/{name}/ask")
        rows = [{"arm": arm, "count": 400, "successes": n} for arm, n in zip(ARMS, (20, 380, 30), strict=True)]
        assert ask(url, "POST", "/api/v1/studies/decided/results", {"rows": rows})[2]["status"] == "decided"
        yield url


def description():
    """What the API says of itself, without a server."""
    app = Application("sqlite:///unused.db", build_access("127.0.0.1", [], ""))
    with closing(app.state.staged), closing(app.state.jobs):
        return app.openapi()


described = schemathesis.openapi.from_dict(description())


@pytest.mark.long
@described.exclude(path_regex="/(events|verify|report|forecast)$|/plan$").parametrize()
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_what_the_description_says(case, site):
    if "name" in case.path_parameters:
        case.path_parameters["name"] = ("waits", "decided", case.path_parameters["name"])[len(str(case.body)) % 3]
    case.call_and_validate(base_url=site, checks=CHECKS, timeout=60)


@pytest.mark.slow
@described.exclude(path_regex="/events$").parametrize()
@settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_what_the_description_says_at_length(case, site):
    case.call_and_validate(base_url=site, checks=CHECKS, timeout=300)
