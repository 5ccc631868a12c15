"""Results of any law with a finite variance: bets that are exact given the variance, and the gate before them.

Proposition 31 of docs/why-the-guarantee-holds.md by enumeration; error rates under skewed laws by simulation.
"""

import json

import numpy as np
import pytest
from scipy import stats

from roundwise import (
    BestArm,
    Capped,
    Claims,
    DataError,
    EqualVariances,
    GaussianArms,
    LargeSample,
    Problem,
    Wager,
    create_study,
    simulate,
    verify_study,
)
from roundwise.calibration.skewed import SKEWED_LAWS, SkewedArms
from roundwise.messages import Approximation, Condition, Guarantee, Reason
from roundwise.model.batch import Batch, PartitionRows, Parts, join_parts, partition_rows
from roundwise.model.estimates import Estimates, Past, cube_freedom
from roundwise.noise.bets import PartForm, PartsData, parts_data
from roundwise.planning import replan
from roundwise.rules.eprocess.bounds import _batches
from roundwise.solvers.halfspaces import Halfspaces

MANY = 1e9  # earlier results: their mean and variance are those of the law


def test_delyon():
    y = np.concatenate([np.linspace(-60, 60, 200_001), np.linspace(-1e-3, 1e-3, 201)])
    assert (np.exp(y - y**2 / 6) <= 1 + y + y**2 / 3 + 1e-15).all()


def outcomes(rows, chances, means, deviations):
    """All batches of two-point results with these means and deviations, and the chance of each."""
    counts = np.array(rows, dtype=float)
    wins = np.stack(np.meshgrid(*(np.arange(n + 1.0) for n in rows), indexing="ij"), axis=-1).reshape(-1, len(rows))
    law = np.prod([stats.binom.pmf(wins[:, j], rows[j], chances[j]) for j in range(len(rows))], axis=0)
    p = np.array(chances)
    high = np.array(means) + np.array(deviations) * np.sqrt((1 - p) / p)
    low = np.array(means) - np.array(deviations) * np.sqrt(p / (1 - p))
    totals = wins * high + (counts - wins) * low
    scatter = (high - low) ** 2 * wins * (1 - wins / counts)
    return Batch(np.broadcast_to(counts, wins.shape), totals, scatter), law


def past_of(runs, means, deviations, *, rows=MANY, skewness=0.0, variance=1.0):
    counts = np.full((runs, len(means)), rows)
    scatter = variance * np.array(deviations) ** 2 * (counts - 1)
    cubes = skewness * np.array(deviations) ** 3 * cube_freedom(counts)
    return Past.none(counts.shape).plus(Batch(counts, counts * means, scatter, cubes=cubes))


def forms(factors, runs):
    shape = (runs, 1, len(factors))
    arms = np.broadcast_to(np.arange(len(factors)), shape)
    return Halfspaces(arms, np.broadcast_to(np.array(factors), shape), np.zeros((runs, 1)), False)


def part_bet(noise, past, batch, factors, offset, q):
    n, arms = batch.totals.shape
    cubes = np.zeros((1, arms, n))
    data = PartsData(
        past.map_sums(np.transpose), *(np.ascontiguousarray(each.T[None]) for each in batch[:3]), cubes=cubes
    )
    form = PartForm(
        [np.arange(n)[None] + arm * n for arm in range(arms)],
        [np.full((1, n), f) for f in factors],
        np.full((1, n), offset),
    )
    value = form.of(data.totals / data.counts) - offset
    return noise.part_bets(data).forms(form, value, form.squares(1.0 / data.counts))(0, np.full(n, q))


def fixed_size_bet(noise, past, batch, factors, offset, q):
    n = len(batch.totals)
    bet = noise.fixed_size_bet(past, batch, forms(factors, n), batch.counts, np.full((1, 1, 1), q))
    return bet(np.full((n, 1), offset))[0, :, 0]


def budget_bet(noise, past, batch, factors, offset, q):
    n = len(batch.totals)
    known, need = Estimates(past, past.means, noise.variance(past)), np.full((n, 1), q * q)
    pieces = forms(factors, n)._replace(offsets=np.full((n, 1), offset))
    return noise.budget_bet(known, batch, pieces, need, np.full((n, 1), 0.5), 0.2)[:, 0]


BETS = [part_bet, fixed_size_bet, budget_bet]
LAWS = {  # rows, chances of the higher value, deviations, factors
    "alike": ((60, 60), (0.5, 0.5), (1.0, 1.0), (1.0, -1.0)),
    "skewed against plain": ((80, 30), (0.03, 0.5), (1.0, 0.3), (1.0, -1.0)),
    "skewed the other way": ((40, 40), (0.95, 0.1), (2.0, 1.0), (1.0, -1.0)),
    "one arm": ((70,), (0.05,), (1.0,), (1.0,)),
    "one arm below": ((70,), (0.05,), (1.0,), (-1.0,)),
    "three arms": ((12, 9, 9), (0.1, 0.5, 0.8), (1.0, 2.0, 0.5), (1.0, -0.5, -0.5)),
    "few rows": ((1, 2), (0.2, 0.3), (1.0, 1.0), (1.0, -1.0)),
}


@pytest.mark.parametrize("bet", BETS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("law", LAWS)
def test_the_mean_is_at_most_one_if_the_variance_is_right(bet, law):
    rows, chances, deviations, factors = LAWS[law]
    means = [3.0, 3.0, 3.0][: len(rows)]
    offset = float(np.dot(factors, means))
    batch, weights = outcomes(rows, chances, means, deviations)
    past = past_of(len(weights), means, deviations)
    for q in (0.3, 1.0, 2.5, 8.0):
        mean = (weights * np.exp(bet(LargeSample(), past, batch, factors, offset, q))).sum()
        assert mean <= 1 + 1e-9
        inside = (weights * np.exp(bet(LargeSample(), past, batch, factors, offset + 0.1, q))).sum()
        assert inside < mean


@pytest.mark.parametrize("bet", BETS, ids=lambda each: each.__name__)
def test_nothing_is_lost_in_large_batches_and_a_variance_too_small_is_caught(bet):
    rows, chances, deviations, factors = LAWS["alike"]
    batch, weights = outcomes(rows, chances, [0.0, 0.0], deviations)
    exact, small = (past_of(len(weights), [0.0, 0.0], deviations, variance=v) for v in (1.0, 0.9))
    assert 0.99 < (weights * np.exp(bet(LargeSample(), exact, batch, factors, 0.0, 1.0))).sum() <= 1
    assert (weights * np.exp(bet(LargeSample(), small, batch, factors, 0.0, 1.0))).sum() > 1.02
    larger = batch._replace(totals=1.1 * batch.totals)
    assert (weights * np.exp(bet(LargeSample(), exact, larger, factors, 0.0, 1.0))).sum() > 1.02


@pytest.mark.parametrize("bet", BETS, ids=lambda each: each.__name__)
def test_the_gate(bet):
    batch, weights = outcomes((3, 3), (0.5, 0.5), [0.0, 0.0], [1.0, 1.0])

    def bets(noise, **past):
        return bool(
            np.any(bet(noise, past_of(len(weights), [0.0, 0.0], [1.0, 1.0], **past), batch, (1.0, -1.0), 0.0, 1))
        )

    assert not bets(LargeSample(), rows=399.0)
    assert bets(LargeSample(), rows=400.0)
    assert bets(LargeSample(min_rows=50), rows=50.0)
    assert not bets(LargeSample(), rows=3199.0, skewness=10.0)
    assert not bets(LargeSample(), rows=3199.0, skewness=-10.0)
    assert bets(LargeSample(), rows=3201.0, skewness=10.0)


def test_the_gate_follows_delta():
    assert Problem(BestArm(), 2, 0.01, LargeSample()).noise == LargeSample(2000)
    assert Problem(BestArm(), 2, 0.01, LargeSample(50)).noise == LargeSample(50)
    assert Wager().first(Problem(BestArm(), 2, 0.05, LargeSample()), ()).pulls.tolist() == [400, 400]


def test_parts_know_the_skewness_of_those_before():
    """The gate opens in the middle of a batch, from its own earlier parts, and closes after a value that stands out."""
    rng = np.random.default_rng(1)
    values = rng.normal(0, 1, (2, 4000))
    values[0, 1000] = 60.0
    edges = np.array([0, 500, 1500, 3000, 4000])
    counts, totals, scatter, cubes = (np.zeros((1, 2, 4)) for _ in range(4))
    for p in range(4):
        x = values[:, edges[p] : edges[p + 1]]
        off = x - x.mean(axis=1, keepdims=True)
        counts[0, :, p], totals[0, :, p] = x.shape[1], x.sum(axis=1)
        scatter[0, :, p], cubes[0, :, p] = (off**2).sum(axis=1), (off**3).sum(axis=1)
    data = parts_data(Past.none((2,)), Parts(counts, totals, scatter, cubes=cubes))
    open_ = LargeSample().part_bets(data)._open[..., 0]
    assert open_.tolist() == [[False, False], [True, True], [False, True], [False, True]]


# ------------------------------------------------------------------------------------------------------ sums of cubes


def test_cubes_of_parts_and_batches():
    rng = np.random.default_rng(3)
    values, arms = rng.lognormal(3, 1, 240), np.repeat([0, 1], [140, 100])
    rows = PartitionRows(arms, np.ones(240), values, np.zeros(240))
    parts = partition_rows(rows, 2, 5, 1, 4, most=3, cubes=True)

    def third(x):
        return ((x - x.mean()) ** 3).sum()

    whole = join_parts([parts.batch(p) for p in range(4)])
    assert whole.cubes == pytest.approx([third(values[arms == arm]) for arm in (0, 1)])
    labels = partition_rows(rows._replace(totals=np.arange(240.0)), 2, 5, 1, 4, most=3)
    assert labels.counts.tolist() == parts.counts.tolist()  # the same partition, whatever the values
    halves = _batches(partition_rows(rows, 2, 5, 1, 12, most=3, cubes=True), 3)  # neighbours joined
    again = join_parts([Batch(*(each[0, c] for each in halves[:3]), cubes=halves.cubes[0, c]) for c in range(6)])
    assert again.cubes == pytest.approx(whole.cubes)
    past = Past.none((2,)).plus(whole)
    assert past.skewness == pytest.approx([stats.skew(values[arms == arm], bias=False) for arm in (0, 1)], rel=0.02)


def test_the_skewness_of_several_batches():
    rng, past = np.random.default_rng(5), Past.none((1,))
    for n in (40, 3, 1, 500):
        x = rng.exponential(1.0, (n, 1)) + n  # batches may lie apart
        off = x - x.mean(axis=0)
        past = past.plus(Batch(np.array([float(n)]), x.sum(axis=0), (off**2).sum(axis=0), cubes=(off**3).sum(axis=0)))
    assert past.cube_freedom == pytest.approx([39 * 38 / 40 + 2 / 3 + 499 * 498 / 500])
    assert past.skewness == pytest.approx([2.0], abs=0.6)
    assert past.skewness == pytest.approx(past.cubes / past.cube_freedom / (past.scatter / past.freedom) ** 1.5)
    assert past.freedom == pytest.approx([39 + 2 + 499])


def test_batches_without_cubes_are_not_bet_on():
    past = past_of(1, [0.0, 0.0], [1.0, 1.0]).plus(Batch(np.ones((1, 2)), np.ones((1, 2))))
    assert past.cubes is None
    assert np.isinf(past.skewness).all()


# -------------------------------------------------------------------------------------------- the class of guarantee


def test_the_worst_class_counts():
    approximate = Approximation("large_sample", rows=400)
    condition, reason = Condition("rule", text="a holds"), Reason("rule", text="b failed")
    assert Guarantee.of([]).status == "kept"
    found = Guarantee.of([approximate])
    assert found.status == "approximate"
    assert not found.kept
    assert str(found).startswith("approximate: the first results of each arm (at least 400) only estimate its spread")
    both = Guarantee.of([approximate, condition])
    assert both.status == "conditional"
    assert str(both).startswith("conditional on the assumption that a holds; and approximate:")
    assert Guarantee.of([approximate, condition, reason]).status == "void"


def told(study, rng, n, lead=0.0):
    rows = [(arm, f"{x:.6f}") for arm, m in (("old", 1.0), ("new", 1.0 + lead)) for x in m * rng.lognormal(0, 0.5, n)]
    return "arm,outcome\n" + "\n".join(f"{a},{x}" for a, x in rows) + "\n"


def test_a_live_study(tmp_path):
    rng, file = np.random.default_rng(4), f"sqlite:///{tmp_path}/s.db"
    with create_study(
        "money", question=BestArm(), arms=["old", "new"], noise=LargeSample(), round_size=400, storage=file
    ) as study:
        study.ask()
        path = tmp_path / "1.csv"
        path.write_text(told(study, rng, 200, 0.3))
        study.tell(path)
        report = study.report()
        assert report.guarantee.status == "approximate"
        (note,) = [each for each in report.notes if each.code == "collecting"]
        assert (note.fields["has"], note.fields["rows"], note.fields["skewness"]) == (200, 400, None)
        assert "budget" not in str(note)
        assert not study.state.trial.kept.wealth.gains.any()
        for number in range(2, 12):
            study.ask()
            path = tmp_path / f"{number}.csv"
            path.write_text(told(study, rng, 200, 0.3))
            study.tell(path)
            if study.state.decided is not None:
                break
        assert study.state.decided is not None
        assert number > 2
        report = study.report()
        assert "collecting" not in [each.code for each in report.notes]
        assert "approximate: the first results of each arm" in report.text()
        assert json.loads(report.json())["guarantee"]["status"] == "approximate"
        assert "approximate: the first results of each arm" in report.html()
        assert "box danger" not in report.html()
        new, old = report.ranked
        assert new.lower > old.mean > old.lower
        assert new.lower < new.mean < new.upper
        assert not verify_study("money", file).differences
        sums = tmp_path / "sums.csv"
        sums.write_text("arm,count,total,squares\nold,10,10,20\nnew,10,10,20\n")
        with pytest.raises(DataError, match="how skewed results are"):
            study.tell(sums)


@pytest.mark.parametrize("question", [BestArm(), Claims.against_control(["old", "new"], "old")])
def test_earlier_data_of_another_time_and_an_empty_round_neither_open_nor_close_the_gate(tmp_path, question):
    """Bets rest on how much results vary: on rows of the study alone. No bet was made at all after either."""
    rng, told_so_far = np.random.default_rng(6), []
    for name in ("plain", "taught"):
        file = f"sqlite:///{tmp_path}/{name}.db"
        with create_study(
            name, question=question, arms=["old", "new"], noise=LargeSample(), round_size=600, seed=3, storage=file
        ) as study:
            if name == "taught":
                values = rng.normal(10, 0.01, 4000).tolist()
                study.import_past({"arm": ["old", "new"] * 2000, "outcome": values})
                study.ask()
                study.close_round("nothing came")
            draw = np.random.default_rng(7)
            for number in (1, 2, 3):
                study.ask()
                path = tmp_path / f"{name}{number}.csv"
                path.write_text(told(study, draw, 300, 0.1))
                study.tell(path)
                if number == 1:
                    assert not {each.log_evidence for each in study.report().claim_rows} - {0.0}
            told_so_far.append([each.log_evidence for each in study.report().claim_rows])
    assert all(max(abs(each) for each in every) > 0.01 for every in told_so_far)


def test_a_budget_that_only_tells_the_spread(tmp_path):
    with create_study(
        "costly",
        question=BestArm(),
        arms=["a", "b"],
        noise=LargeSample(),
        budget=300,
        storage=f"sqlite:///{tmp_path}/s",
    ) as study:
        (note,) = [each for each in study.report().notes if each.code == "collecting"]
    assert "The budget of 300 does not allow that, so the study will hardly be decided." in str(note)


def test_a_skewed_arm_that_its_share_of_the_budget_is_too_small_for(tmp_path):
    """The note says so after the first round, next to the headline; the forecast knows of the wait."""
    rng, file = np.random.default_rng(8), f"sqlite:///{tmp_path}/s.db"
    settings = {"arms": ["old", "new"], "noise": LargeSample(), "round_size": 2000, "budget": 12_000, "storage": file}
    with create_study("shop", question=BestArm(), split="equal", **settings) as study:
        study.ask()
        values = np.concatenate([rng.normal(5, 1, 1000), np.where(np.arange(1000) < 4, 1300.0, 0.0)])
        study.tell({"arm": ["old"] * 1000 + ["new"] * 1000, "outcome": values})
        (note,) = study.report().waiting
        assert (note.fields["arm"], note.fields["has"], note.fields["budget"]) == ("new", 1000, 12_000)
        assert 6000 < note.fields["rows"] < 12_000 - 400  # there is room for both, but not with equal shares
        top = study.report().text().split("\n\n")[0]
        assert "Collecting: new has" in top
        assert "Capped(X)" in top
        assert replan(study.state, runs=20).within_budget == 0.0


# ------------------------------------------------------------------------------------------ error rates by simulation


def wrong_answers(law, size, runs, delta=0.05, lead=1e-4):
    leader, other = SKEWED_LAWS[law]
    most = {None: 1e5, 1000: 6e4, 4000: 1e5, 20_000: 4e5}[size]
    (found,) = simulate(
        BestArm(), SkewedArms((leader, other), np.array([1.0 + lead, 1.0])), [Wager()],
        runs=runs, delta=delta, noise=LargeSample(), max_samples=most, round_size=size, seed=11,
    )  # fmt: skip
    return int((found.decided & ~found.correct).sum())


@pytest.mark.long
@pytest.mark.parametrize(
    "law", ["log-normal 1.2 : 0.5", "Pareto 2.5 : log-normal", "bots : gamma", "20 % : 1 % buyers"]
)
def test_skewed_results_at_a_tie(law):
    assert stats.binomtest(wrong_answers(law, None, 100), 100, 0.05, "greater").pvalue > 1e-4


@pytest.mark.long
def test_a_value_rarer_than_was_seen_overturns_it():
    """The control: one user in 20 000 carries a tenth of the mean."""
    assert stats.binomtest(wrong_answers("whale", None, 100), 100, 0.05, "greater").pvalue < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.05, 0.01])
@pytest.mark.parametrize("size", [None, 1000, 4000, 20_000])
@pytest.mark.parametrize("law", [each for each in SKEWED_LAWS if each != "whale"])
def test_the_table_of_skewed_laws(law, size, delta):
    assert stats.binomtest(wrong_answers(law, size, 500, delta), 500, delta, "greater").pvalue > 1e-4


@pytest.mark.parametrize("gap", [0.1, 0.3])
def test_the_price_on_normal_results(gap):
    """Without the gate as many samples as bets that know the deviation to be normal."""
    samples = [
        simulate(BestArm(), GaussianArms([gap, 0.0]), [Wager()], runs=400, noise=noise, seed=2)[0].samples.mean()
        for noise in (LargeSample(min_rows=2), None)
    ]
    assert 0.85 < samples[0] / samples[1] < 1.15


@pytest.mark.parametrize("noise", [LargeSample(100), Capped(6.0), EqualVariances()], ids=lambda each: each.name)
def test_a_life_with_changes(tmp_path, noise):
    """Earlier data, an arm that leaves, one that joins and a corrected file: cubes and cuts follow, and it verifies."""
    rng, url, number = np.random.default_rng(3), f"sqlite:///{tmp_path}/s.db", iter(range(9))

    def file(arms, n):
        path = tmp_path / f"{next(number)}.csv"
        rows = [f"{arm},{x:.5f}" for arm in arms for x in rng.lognormal(0, 0.6, n) * (1.1 if arm == "a" else 1.0)]
        path.write_text("arm,outcome\n" + "\n".join(rows) + "\n")
        return path

    with create_study("s", question=BestArm(), arms=list("abc"), noise=noise, round_size=300, storage=url) as study:
        study.import_past(file("abc", 60))
        for change, arms, n in ((None, "abc", 100), (("drop", "c"), "ab", 150), (("add", "d"), "abd", 100)):
            if change is not None:
                (study.drop if change[0] == "drop" else study.add)(change[1], "as was planned")
            study.ask()
            path = file(arms, n)
            study.tell(path)
        study.amend(str(path), file("abd", 100), "a typing error")
        report = study.report()
        assert [each.name for each in report.ranked[:1]] == ["a"]
        assert report.ranked[0].lower < report.ranked[0].mean < report.ranked[0].upper
    assert verify_study("s", url).sound
