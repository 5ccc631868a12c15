"""The boundary of a designed study beside those of textbook designs."""

import dataclasses
import json

import numpy as np
import pytest
from scipy.stats import norm

from roundwise import Above, BestArm, Binary, Designed, Gaussian, Normal, plan
from roundwise.planning.comparison import LARGEST, TRIED, compare_designs, find_stopping_leads


def stopping_leads(question, noise, **settings):
    found = plan(question, noise=noise, quick=True, **settings)
    return {each.name: each.leads for each in find_stopping_leads(found.request, found.row)}


def test_one_look_is_a_fixed_test():
    """With one look and no extension_value for more, two arms are told apart by a one-sided test at level delta."""
    policy = Designed(budget=2000, lead=0.1, looks=1, extension_value=0.0)
    found = stopping_leads(BestArm(), Gaussian(1.0), arms=2, baseline=0, budget=2000, lead=0.1, policy=policy)
    exact = norm.isf(0.05) * np.sqrt(2 / 1000)
    step = 0.1 * LARGEST / TRIED
    for name, (lead,) in found.items():
        assert exact - 1e-9 <= lead <= exact + (step if name == "roundwise" else 1e-6), name


@pytest.mark.parametrize(
    ("question", "noise", "settings"),
    [
        (BestArm(), Binary(), {"arms": 2, "baseline": 0.3, "budget": 20_000, "lead": 0.02}),
        (BestArm(lower_is_better=True), Normal(),
         {"arms": 3, "baseline": 5, "budget": 7000, "lead": 0.1, "deviation": 1}),
        (Above(0.3), Binary(), {"arms": 3, "baseline": 0.3, "budget": 3000, "lead": 0.05}),
    ],
    ids=["rates", "the lowest of three", "above"],
)  # fmt: skip
def test_a_boundary_falls_from_look_to_look(question, noise, settings):
    found = stopping_leads(question, noise, **settings)
    own = found.pop("roundwise")
    assert len(own) == 5
    assert (np.diff(own) <= 0).all()
    assert own[-1] < settings["lead"] < own[0]
    if found:  # between the two textbook designs at first, and no later than they at the end
        assert found["Pocock"][0] <= own[0] <= found["O'Brien-Fleming"][0]
        assert own[-1] <= 1.1 * found["O'Brien-Fleming"][-1]


def test_a_plan_draws_it():
    found = plan(BestArm(), arms=2, noise=Binary(), baseline="30%", budget=3000, lead="5%", quick=True)
    drawn = dataclasses.replace(found, boundary=find_stopping_leads(found.request, found.row))
    assert "The lead that ends the study, if every look shows it" in drawn.figure()
    names = [each["name"] for each in json.loads(drawn.json())["boundary"]]
    assert names == ["roundwise", "O'Brien-Fleming", "Pocock"]
    curves = dataclasses.replace(found, compared=compare_designs(found.request, found.rows, found.row, None))
    fixed, *_, own = curves.compared
    leads = np.array([row.expected.lead for row in found.rows])
    exact = norm.sf(norm.isf(0.05) - leads / np.sqrt(2 * 0.21 / 1500)) + (leads == 0) * 0.05  # either arm, if alike
    np.testing.assert_allclose(fixed.by_row, exact, atol=4 * 0.5 / 4000**0.5 + 0.01)
    assert own.by_row == ()
    assert "Pocock" in curves.figure()
    assert "Pocock" not in found.figure()
    without = plan(BestArm(), arms=2, noise=Binary(), baseline="30%", budget=3000, quick=True)
    assert find_stopping_leads(without.request, without.row) == ()
    assert "if every look shows it" not in without.html()
