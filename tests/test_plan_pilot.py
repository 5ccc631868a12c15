"""A plan from past results: what is taken from the file, which model it leads to, and what a cap changes."""

import csv

import numpy as np
import pytest

from roundwise import (
    Above,
    BestArm,
    Binary,
    Capped,
    Claims,
    HeteroscedasticGaussian,
    LargeSample,
    Metric,
    Normal,
    Poisson,
    plan,
)
from roundwise.errors import DataError, InputError
from roundwise.ingest import Columns, Reading
from roundwise.planning import PlanRequest, alternatives
from roundwise.planning.alternatives import compare_caps
from roundwise.planning.forecast import simulate_request
from roundwise.planning.pilot import read_pilot
from roundwise.planning.render import describe_past
from roundwise.planning.scenarios import RatioArms
from roundwise.simulation.environments import world_of

RNG = np.random.default_rng(7)
ORDERS = np.where(RNG.random(3000) < 0.1, RNG.lognormal(3.5, 0.8, 3000), 0.0).round(2)


def write(path, **columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


@pytest.fixture
def orders(tmp_path):
    """3 000 visitors in 10 days, of whom 30 have no result; half of the orders in two rows."""
    visitor, day, arm, value = [], [], [], []
    for i, amount in enumerate(ORDERS):
        parts = [amount] if i % 2 else [amount / 2, amount / 2]
        for each in parts:
            visitor.append(f"v{i}")
            day.append(f"2026-05-{4 + i % 10:02d}")
            arm.append("old" if i < 1000 else "tried then")
            value.append("" if i < 30 else repr(float(each)))
    return write(tmp_path / "orders.csv", visitor=visitor, day=day, variant=arm, amount=value)


COLUMNS = Columns(outcome="amount", id="visitor", time="day")
READING = Reading(empty="missing", id_result="sum")


def request_from(path, **settings):
    usual = {"question": BestArm(), "arms": ["new", "newer"], "columns": COLUMNS, "reading": READING}
    return PlanRequest.declare(**usual | {"pilot": path} | settings)


def test_it_takes_what_is_not_said(orders):
    found, values = request_from(orders), ORDERS[30:]
    assert found.noise == LargeSample()
    assert found.baseline == pytest.approx(values.mean(), rel=1e-3)
    assert found.deviation == pytest.approx(values.std(ddof=1), rel=1e-9)
    off = values - values.mean()
    assert found.skewness == pytest.approx((off**3).mean() / (off**2).mean() ** 1.5)
    assert (found.missing, found.per_day) == (pytest.approx(30 / 3000), pytest.approx(300.0))


def test_what_is_said_stays(orders):
    said = {"noise": Capped(100.0), "baseline": 0.0, "deviation": 4.0, "missing": "5%", "round_days": 7}
    found = request_from(orders, **said)
    assert (found.noise, found.baseline, found.deviation, found.missing) == (Capped(100.0), 0.0, 4.0, 0.05)
    assert (found.per_day, found.round_days, found.skewness) == (None, 7.0, 0.0)
    assert request_from(orders, question=Above(3.0)).baseline is None  # leads are distances from the level
    assert request_from(orders, means=[3.0, 4.0]).baseline is None


def test_the_baseline_is_that_of_the_control(orders):
    question, columns = Claims.against_control(["new", "old"], "old"), Columns("variant", "amount", "visitor")
    found = request_from(orders, question=question, arms=["new", "old"], columns=columns)
    assert found.baseline == pytest.approx(ORDERS[30:1000].mean(), rel=1e-3)
    assert found.missing == pytest.approx(30 / 3000)
    assert found.past.of_control


def test_a_cap_is_applied_before_anything_is_taken(orders):
    capped = np.minimum(ORDERS[30:], 50.0)
    found = request_from(orders, noise=Capped(50.0))
    assert (found.baseline, found.deviation) == (
        pytest.approx(capped.mean(), rel=1e-3),
        pytest.approx(capped.std(ddof=1)),
    )
    assert found.past.spread(Capped(50.0)).cut == pytest.approx(1 - capped.sum() / ORDERS[30:].sum())


def test_the_spread_is_within_arms(tmp_path):
    """Arms that differ do not add to the spread of a result, and are no sign against a bell shape."""
    arms, rng = ["plain", "O2", "O3"], np.random.default_rng(5)
    for each in (12, 40):
        means = np.repeat([40.0, 31.0, 27.0], each)
        times = means + rng.normal(0, 0.8, 3 * each)
        path = write(tmp_path / f"{each}.csv", flags=np.repeat(arms, each), seconds=times)
        found = read_pilot(path, [*arms, "lto"], 3, Columns(), Reading(), None)
        assert found.spread(Normal()).deviation == pytest.approx(0.8, rel=0.25)
        assert found.spread(Normal()).mean == pytest.approx(times.mean())
        assert found.proposed[0] == Normal()
        assert read_pilot(path, ["a", "b"], 0, Columns(), Reading(), None).spread(Normal()).deviation > 5
    cells = np.repeat([300, 440, 600], 8) + rng.normal(0, 60, 24)
    path = write(tmp_path / "cells.csv", arm=np.repeat(arms, 8), cells=cells.round())
    assert read_pilot(path, arms, 0, Columns(), Reading(), None).proposed[0] == Normal()  # not Poisson


def test_a_column_that_looks_like_an_identifier(orders):
    usual = {"reading": Reading(empty="missing"), "columns": Columns("variant", "amount")}
    said = describe_past(request_from(orders, **usual).past, LargeSample())
    assert "'visitor' looks like an identifier, and" in said
    assert "looks like" not in describe_past(request_from(orders).past, LargeSample())


@pytest.mark.parametrize(
    ("values", "model"),
    [
        (RNG.random(500) < 0.3, Binary()),
        (RNG.poisson(3.0, 500), Poisson()),
        (RNG.negative_binomial(1, 0.25, 500), LargeSample()),  # counts that vary more
        (RNG.normal(440, 60, 500).round(), Normal()),  # large counts that vary more
        (RNG.normal(1, 0.3, 500), Normal()),
        (RNG.lognormal(0, 1.0, 500), LargeSample()),
        (np.where(RNG.random(500) < 0.1, RNG.normal(9, 1, 500), 0.0), LargeSample()),
    ],
    ids=["0/1", "counts", "varied counts", "large counts", "bell", "log-normal", "mostly 0"],
)
def test_the_question_tree(tmp_path, values, model):
    path = write(tmp_path / "past.csv", value=[repr(float(each)) for each in values])
    assert read_pilot(path, ["a", "b"], 0, Columns(), Reading(), None).proposed[0] == model


def test_it_says_what_it_took_and_what_a_cap_changes(orders):
    found = plan(BestArm(), arms=["new", "newer"], pilot=orders, columns=COLUMNS, reading=READING, leads="2", runs=40)
    text = " ".join(found.text().split())
    assert f"From {orders} (3 000 results): mean {ORDERS[30:].mean():.4g}" in text.replace("\xa0", " ")
    assert "300 a day, all arms together, in 10 days" in text
    assert "Noise model: large-sample, because results are not bell-shaped" in text
    none, *capped = found.caps
    assert (none.cap, none.samples) == (None, found.row.samples)
    for each in capped:
        assert each.spread.deviation < none.spread.deviation
        assert 0 < each.spread.cut < 0.2
    assert found.plain()["pilot"]["proposed"] == "large-sample"
    assert "What a cap changes" in found.html()
    assert found.row.days is not None


def test_a_chosen_model_that_the_file_contradicts(orders):
    request = request_from(orders, noise=Normal(), runs=20, leads="2")
    assert "results are normal, which the rows of" in request.past.doubt(Normal())
    with pytest.raises(DataError, match="impossible under the noise model 'binary'"):
        request_from(orders, noise=Binary())


def test_deviations_of_arms_are_not_compared_with_those_of_a_past_file(orders):
    """Results of other arms, or of the control alone, ended in an IndexError."""
    found = request_from(orders, arms=["old", "new", "newer"], noise=HeteroscedasticGaussian((1.0, 2.0, 3.0)))
    assert found.past.plain(found.noise)["doubt"] is None


def test_results_that_wait_for_the_skewness(orders):
    """Large-sample bets on an arm after 32 times its squared skewness: no answer can come before."""
    skewed = request_from(orders, leads="20", runs=40)
    found = plan(BestArm(), arms=2, noise=LargeSample(), baseline=3, deviation=skewed.deviation, leads="20", runs=40)
    waits = plan(
        BestArm(), arms=2, noise=LargeSample(), baseline=3, deviation=skewed.deviation, skewness=12, leads="20", runs=40
    )
    assert found.row.samples.typical < 2 * 32 * 12**2 < waits.row.samples.typical
    assert "since their skewness is 12 (32 times its square); with a cap it need not wait" in waits.words
    assert "if results are skewed, 32 times the squared skewness" in found.words


def test_the_skewed_world_has_its_skewness():
    world, rng = world_of(LargeSample(), [1.0, 2.0], 3.0, 5.0), np.random.default_rng(1)
    state, pulls = world.initial_state(rng, 400), np.full((400, 2), 500.0)
    batch, _ = world.pull(rng, state, pulls, "cubes")
    found = np.sqrt(500) * batch.cubes / batch.scatter**1.5
    assert found.mean() == pytest.approx(5.0, abs=0.05)
    cut = world.pull_parts(rng, state, pulls, 4, 2, "cubes")[0].parts
    assert (np.sqrt(cut.counts) * cut.cubes / cut.scatter**1.5).mean() == pytest.approx(5.0, abs=0.05)


@pytest.mark.parametrize("noise", [Normal(), LargeSample(), Capped(100.0)], ids=lambda each: each.name)
def test_no_deviation_of_1_in_silence(noise):
    with pytest.raises(InputError, match="depends on the standard deviation of a result"):
        plan(BestArm(), arms=2, noise=noise, baseline=3)


def test_problems_with_the_file(tmp_path, orders):
    with pytest.raises(DataError, match="too few to plan with"):
        read_pilot(write(tmp_path / "few.csv", value=[1, 2, 3]), ["a", "b"], 0, Columns(), Reading(), None)
    with pytest.raises(DataError, match="no outcome in 'amount'"):
        request_from(orders, reading=Reading(id_result="sum"))
    with pytest.raises(DataError, match="no times"):
        request_from(orders, columns=Columns(outcome="amount", id="visitor", time="variant"))
    with pytest.raises(InputError, match="needs a noise model"):
        plan(BestArm(), arms=2, baseline=0.3)


def test_caps_are_compared_with_the_same_share_of_the_mean(orders, monkeypatch):
    asked = []

    def simulate(request, means, runs):
        asked.append((request, means))
        return real(request, means, 20)

    real = alternatives.simulate_request
    monkeypatch.setattr(alternatives, "simulate_request", simulate)
    found = plan(
        BestArm(),
        arms=2,
        pilot=orders,
        noise=Capped(60.0),
        columns=COLUMNS,
        reading=READING,
        leads="2",
        runs=20,
        quick=True,
    )
    (none, own) = compare_caps(found.request, found.row)
    assert (own.cap, own.samples) == (60.0, found.row.samples)
    ((request, means),) = asked
    assert request.noise == LargeSample()
    assert np.divide(means, found.row.expected.means) == pytest.approx(none.spread.mean / own.spread.mean)


# --- ratios


def visits(rng, n, rate=0.1):
    """Clicks and views of n users with a rate of their own (1/6 of the variance of views comes from Poisson)."""
    views = rng.poisson(rng.gamma(2.0, 3.0, n))
    return rng.binomial(views, rng.beta(1.0, 1 / rate - 1, n)).astype(float), views.astype(float)


RATIO = Columns(arm="variant", outcome="clicks", denominator="views", id="user", time="day")


@pytest.fixture
def clicks(tmp_path):
    """4 000 users in 8 days, half of them of the control, in two rows each; 40 have no clicks recorded."""
    x, y = visits(np.random.default_rng(11), 4000)
    missing = np.arange(4000) < 40
    user = [f"u{i}" for i in range(4000)] * 2
    day = [f"2026-05-{4 + i % 8:02d}" for i in range(4000)] * 2
    arm = ["old" if i % 2 else "another" for i in range(4000)] * 2
    first = ["" if gone else each for gone, each in zip(missing, x, strict=True)]
    rest = ["" if gone else "0" for gone in missing]
    return (
        x,
        y,
        write(
            tmp_path / "clicks.csv", user=user, day=day, variant=arm, clicks=[*first, *rest], views=[*y, *[0] * 4000]
        ),
    )


def test_a_ratio_is_taken_from_its_two_columns(clicks):
    """Baseline: the ratio of the totals of the control. Spread: that of x - R y over the mean of y, R its ratio."""
    x, y, path = clicks
    question = Claims.against_control(["new", "old"], "old")
    reading = Reading(empty="missing")
    found = request_from(path, question=question, arms=["new", "old"], columns=RATIO, reading=reading)
    there = np.arange(4000) >= 40
    own = there & (np.arange(4000) % 2 == 1)
    ratio = x[own].sum() / y[own].sum()
    results = (x[own] - ratio * y[own]) / y[own].mean()
    assert found.noise == LargeSample()
    assert found.baseline == pytest.approx(ratio, rel=1e-3)
    assert found.deviation == pytest.approx(results.std(ddof=1))
    off = results - results.mean()
    assert found.skewness == pytest.approx((off**3).mean() / (off**2).mean() ** 1.5)
    assert (found.missing, found.per_day, found.reading.id_result) == (0.01, 500.0, "sum")
    assert found.past.caps() == []
    with pytest.raises(InputError, match="earlier results"):
        request_from(path, columns=RATIO, reading=reading, noise=Normal())


def test_a_plan_of_a_ratio_counts_on_a_first_round_that_sets_the_scale(clicks):
    """The power is that of `benchmarks/metrics.py ratios`: 27 % in 2 000 studies; 30 +- 1 % of plans."""
    *_, path = clicks
    settings = {"question": Claims.against_control(["a", "b"], "a"), "arms": ["a", "b"], "columns": RATIO}
    settings |= {"reading": Reading(empty="missing"), "budget": 9600, "round_size": 800, "leads": "5% of baseline"}
    found = request_from(path, **settings, missing=1e-9)
    (row,) = found.rows()
    ends = simulate_request(found, row.means, 300)
    assert ends.answered(found) == pytest.approx(0.3, abs=3.5 * np.sqrt(0.3 * 0.7 / 300))
    world, rng = RatioArms(world_of(LargeSample(), row.means, found.deviation)), np.random.default_rng(1)
    state, pulls = world.initial_state(rng, 5), np.full((5, 2), 400.0)
    first, state = world.pull_parts(rng, state, pulls, 12, 1, "cubes")
    later, _ = world.pull_parts(rng, state, pulls, 12, 1, "cubes")
    assert first.parts is None
    assert later.parts.counts.shape[-1] == 12


def test_ratios_of_further_metrics_are_taken_too(clicks):
    x, y, path = clicks
    spend = Metric("clicks", LargeSample(), margin=0.01, denominator="views")
    found = request_from(
        path, question=Claims.against_control(["new", "old"], "old"), arms=["new", "old"], metrics=[spend],
        columns=Columns(arm="variant", outcome="views", id="user"), reading=Reading(empty="missing", id_result="sum"),
    )  # fmt: skip
    own = (np.arange(4000) >= 40) & (np.arange(4000) % 2 == 1)
    (metric,) = found.by_metric
    assert metric.means == pytest.approx([x[own].sum() / y[own].sum()] * 2)
    assert metric.skewness == found.metric_skewness["clicks"] > 1
