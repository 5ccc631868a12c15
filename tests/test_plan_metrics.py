"""Plans and forecasts of studies with several metrics: what each needs, and which one needs most."""

import dataclasses
import json

import numpy as np
import pytest

from roundwise import Binary, Claims, InputError, LargeSample, Metric, Normal, create_study, plan
from roundwise.planning import PlanRequest, replan
from roundwise.planning.budgets import plan_metrics, propose_budgets
from roundwise.planning.fixed_designs import fixed_design
from roundwise.planning.render import comparison_table
from roundwise.planning.request import Scenario
from roundwise.planning.scenarios import SeveralMetrics
from roundwise.planning.study_plan import read_plan
from roundwise.simulation.environments import world_of

ARMS = ["old", "new"]
LATENCY = Metric("latency", Normal(), margin=20, lower_is_better=True)
BASKET = Metric("basket", Normal(), "secondary", margin=1)
STUDY = {"question": Claims.against_control(ARMS, "old"), "arms": ARMS, "noise": Binary(), "metrics": [LATENCY, BASKET]}
SAID = {"baseline": 0.1, "leads": [0.02], "metric_baseline": {"latency": 300, "basket": 40}, "runs": 100}


def request_of(**settings):
    usual = STUDY | SAID | {"metric_deviation": "latency=250,basket=30", "budget": 12_000}
    return PlanRequest.declare(**usual | settings)


def needs_of(request):
    alone = dataclasses.replace(request, metrics=(), delta=request.delta / 3)
    return {each.name: each for each in plan_metrics(request, alone, alone.rows()[0])}


def test_each_metric_needs_what_it_needs_alone_with_its_share_of_delta():
    request = request_of()
    found, (latency, basket) = needs_of(request), request.by_metric
    assert latency.delta == pytest.approx(0.05 / 3)
    alike = Scenario(means=(300.0, 300.0))
    assert found["latency"].budget == propose_budgets(latency, alike, (0.9,), fewer=10)[0].budget
    gain = 1 + 40 * 0.02 / 0.1  # beyond the margin, a fifth of its baseline as the main metric
    assert found["basket"].lead == pytest.approx(gain)
    for metric, means in ((latency, (300, 300)), (basket, (40, 40 + gain))):
        fixed = fixed_design(metric.problem, means, deviation=metric.deviation)
        needed = found[metric.columns.outcome].budget
        assert 0.8 * fixed.samples < needed < 1.7 * fixed.samples


@pytest.mark.long
def test_the_slowest_is_named(tmp_path):
    """Twice the deviation needs four times the results."""
    found = plan(**STUDY, **SAID, budget=12_000, metric_deviation={"latency": 500, "basket": 30})
    needs = {each.name: each.budget for each in found.metrics}
    quarter = needs_of(request_of())["latency"].budget
    assert needs["latency"] == pytest.approx(4 * quarter, rel=0.15)
    assert max(needs, key=needs.get) == "latency"
    text = " ".join(found.text().split())
    assert "Of 3 metrics, 'latency' (guardrail) needs most" in text
    assert found.command == "roundwise new study --from-plan FILE"
    (tmp_path / "plan.json").write_text(json.dumps(found.plain()))
    settings, _ = read_plan(tmp_path / "plan.json")
    assert (settings.metrics, settings.delta) == ((LATENCY, BASKET), 0.05)
    assert "needs most" in found.html()


def test_what_a_metric_lacks_is_said():
    with pytest.raises(InputError, match="baseline of 'basket'"):
        request_of(metric_baseline="latency=300")
    with pytest.raises(InputError, match="standard deviation of 'basket'"):
        request_of(metric_deviation="latency=250")
    with pytest.raises(InputError, match="give numbers by name"):
        request_of(metric_deviation="250")


def test_a_pilot_says_what_to_expect_of_every_metric(tmp_path):
    rng = np.random.default_rng(1)
    path, latency = tmp_path / "past.csv", rng.normal(300, 50, 100).round(3)
    rows = [f"{i % 2},{value},40" for i, value in enumerate(latency)]
    path.write_text("\n".join(["outcome,latency,basket", *rows]))
    metrics = [LATENCY, Metric("basket", LargeSample(), "secondary")]
    found = request_of(metrics=metrics, pilot=path, metric_baseline=None, metric_deviation="basket=7", baseline=None)
    assert found.metric_baseline["latency"] == pytest.approx(latency.mean())
    assert found.metric_deviation == {"basket": 7.0, "latency": pytest.approx(latency.std(ddof=1))}


def test_a_power_that_jumps_has_a_budget():
    """Large-sample waits for 400 results of each arm: a large lead is shown at once then, and never before."""
    usual = {"question": Claims.against_control(ARMS, "old"), "arms": ARMS, "deviation": 1.0}
    request = PlanRequest.declare(**usual, noise=LargeSample(), means=[0.0, 1.0])
    (found,) = propose_budgets(request, request.rows()[0], (0.9,), fewer=10)
    assert 800 < found.budget < 1600


@pytest.mark.parametrize("parts", [1, 4])
def test_metrics_are_drawn_from_their_own_worlds(parts):
    worlds = [world_of(Binary(), [0.2, 0.5]), world_of(Normal(), [300.0, 310.0], 10.0)]
    joint, rng = SeveralMetrics(worlds[0], (worlds[1],), ("squares",)), np.random.default_rng(1)
    state, pulls = joint.initial_state(rng, 50), np.full((50, 2), 400.0)
    pulled = joint.pull(rng, state, pulls) if parts == 1 else joint.pull_parts(rng, state, pulls, parts, 1)
    batch, after = pulled
    (times,) = batch.metrics
    assert batch.totals.mean(axis=0) / 400 == pytest.approx([0.2, 0.5], abs=0.01)
    assert times.totals.mean(axis=0) / 400 == pytest.approx([300, 310], abs=0.2)
    assert times.scatter.mean(axis=0) / 399 == pytest.approx([100, 100], rel=0.03)
    assert after.means is not None
    assert after.others[0].means[0].tolist() == [300, 310]


def test_a_running_study_is_forecast_by_every_metric(tmp_path):
    noisy = Metric("noise", Normal(), "secondary", margin=1)
    storage = f"sqlite:///{tmp_path / 'x.db'}"
    question = Claims.against_control(ARMS, "old")
    study = create_study(
        "s",
        question=question,
        arms=ARMS,
        noise=Binary(),
        metrics=[LATENCY, noisy],
        budget=2000,
        seed=1,
        storage=storage,
    )
    rng, rows = np.random.default_rng(1), ["arm,outcome,latency,noise"]
    for arm, n in study.ask().table:
        rate = 0.2 if arm == "old" else 0.5
        values = zip(rng.random(n) < rate, rng.normal(300, 20, n), rng.normal(0, 90, n), strict=True)
        rows += [f"{arm},{int(yes)},{time:.3f},{other:.3f}" for yes, time, other in values]
    (tmp_path / "1.csv").write_text("\n".join(rows))
    study.tell(tmp_path / "1.csv")
    found = replan(study.state, runs=60)
    claims = dict(found.claims)
    assert list(claims) == [
        "new beats old",
        "latency: new is not worse than old by 20 or more",
        "noise: new beats old by more than 1",
    ]
    assert claims["new beats old"] > 0.9
    assert found.slowest[0] == "noise"
    assert "Slowest metric: noise" in found.text()


@pytest.mark.long
def test_a_trial_is_compared_claim_by_claim():
    """Dunnett, O'Brien-Fleming, and roundwise with the same shares and its own; the target is not the null."""
    arms = ["placebo", "a", "b", "c", "d"]
    found = plan(
        Claims.against_control(arms, "placebo"),
        arms=arms,
        noise=Binary(),
        means=[0.36, 0.34, 0.47, 0.47, 0.54],
        delta=0.025,
        budget=500,
        split="2:1:1:1:1",
        runs=200,
    )
    head, *lines = comparison_table(found)
    assert head[1:] == [
        "Dunnett, one look",
        "O'Brien-Fleming, 5 looks",
        "roundwise, same shares",
        "roundwise, its own shares",
    ]
    assert [line[0] for line in lines] == [
        *(f"{arm} beats placebo" for arm in arms[1:]),
        "at least one that is true",
        "all that are true",
        "results on average",
    ]
    fixed, *_, own = found.compared
    assert own.power > fixed.power
    assert "roundwise with its own shares shows a true claim in" in found.text().replace("\n", " ")
