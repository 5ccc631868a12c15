"""Requests made from the description of the API itself (OpenAPI): whatever fits it, or just does not, no request meets
a fault of the server, and every answer is one that the description has."""

import re
from contextlib import closing

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from serving import ask, serving

ARMS = ["a", "b", "c"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A server with two studies: one that waits for results, and one that is decided."""
    with serving(f"sqlite:///{tmp_path_factory.mktemp('schema')}/studies.db") as (url, _):
        for name in ("waits", "decided"):
            new = {"name": name, "question": {"name": "best-arm"}, "arms": ARMS, "noise": {"name": "binary"}}
            assert ask(url, "POST", "/api/v1/studies", new)[0] == 201
            ask(url, "POST", f"/api/v1/studies/{name}/ask")
        rows = [{"arm": arm, "count": 400, "successes": n} for arm, n in zip(ARMS, (20, 380, 30), strict=True)]
        assert ask(url, "POST", "/api/v1/studies/decided/results", {"rows": rows})[2]["status"] == "decided"
        yield url


@pytest.fixture(scope="module")
def operations():
    """Every operation that the API describes; nothing heavy is imported while tests are collected."""
    import schemathesis

    from roundwise.web.app import Application
    from roundwise.web.security import build_access

    app = Application("sqlite:///unused.db", build_access("127.0.0.1", [], ""))
    with closing(app.state.staged), closing(app.state.jobs):
        described = app.openapi()
    schemathesis.serializer.alias("application/jsonl", "text/plain")
    return [each.ok() for each in schemathesis.openapi.from_dict(described).get_all_operations()]


def requested(operation, site, options, known=False):
    """Make requests of one operation and check every answer."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
        unsupported_method,
    )

    checks = (
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
        unsupported_method,
    )

    @options
    @given(operation.as_strategy())
    def check(case):
        if known and "name" in case.path_parameters:  # two requests in three are about a study that is there
            names = ("waits", "decided", case.path_parameters["name"])
            case.path_parameters["name"] = names[len(str(case.body)) % 3]
        case.call_and_validate(base_url=site, checks=checks, timeout=300)

    check()


@pytest.mark.long
def test_what_the_description_says(operations, site):
    options = settings(
        max_examples=4,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    seen = 0
    for each in operations:
        if not re.search("/(events|verify|report|forecast)$|/plan$", each.path):
            requested(each, site, options, known=True)
            seen += 1
    assert seen > 20


@pytest.mark.slow
def test_what_the_description_says_at_length(operations, site):
    options = settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    for each in operations:
        if not each.path.endswith("/events"):
            requested(each, site, options)
