"""Row checks: their statistics against SciPy's, false alarms under each model, power, and what a study says of them."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from roundwise import BestArm, Binary, Bounded, EqualVariances, Gaussian, Normal, Poisson, SubGaussian
from roundwise.ingest import row_checks
from roundwise.ingest.row_checks import (
    FIRST,
    TOGETHER,
    Moments,
    RowChecks,
    RowCounter,
    RowStatistics,
    _find,
    _find_together,
    levels_of_checks,
)
from roundwise.study.audit import audit_entries
from roundwise.study.state import replay
from studies import studies

# --- statistics


def count(*arms, cuts=1):
    """The statistics of rows, given as one array an arm and read in so many pieces."""
    size = len(arms)
    index = np.concatenate([np.full(len(each), i) for i, each in enumerate(arms)])
    places = np.concatenate([np.arange(len(each)) for each in arms])
    values = np.concatenate(arms)
    counter = RowCounter(
        np.array([float(len(each)) for each in arms]), np.array([np.cumsum([0, *each])[-1] for each in arms])
    )
    for some in np.array_split(np.arange(len(values)), cuts):
        counter.add(index[some], values[some], places[some])
    assert len(counter.statistics().moments.counts) == size
    return counter.statistics()


def same(one, other, rtol=1e-9):
    for first, second in zip(one, other, strict=True):
        np.testing.assert_allclose(first, second, rtol=rtol, atol=1e-9)


def test_tests_of_normality_are_scipys():
    rng = np.random.default_rng(1)
    for n in (20, 41, 640):
        for values in (rng.standard_normal(n), rng.exponential(size=n), rng.standard_t(3, size=n)):
            moments = count(values, values[::-1]).moments
            skewness, kurtosis = row_checks.skewness_test(moments), row_checks.kurtosis_test(moments)
            assert skewness.sizes[0] == pytest.approx(stats.skew(values))
            assert kurtosis.sizes[0] == pytest.approx(stats.kurtosis(values, fisher=False))
            assert skewness.chances[0] == pytest.approx(stats.skewtest(values).pvalue, rel=1e-6, abs=1e-300)
            if stats.kurtosis(values) > 0:
                upper = stats.kurtosistest(values, alternative="greater").pvalue
                assert kurtosis.chances[0] == pytest.approx(2 * upper, rel=1e-6, abs=1e-300)
            else:
                assert kurtosis.chances[0] > 0.3  # flat samples: nothing is said of them


def test_other_tests_are_scipys():
    rng = np.random.default_rng(2)
    one, other = rng.normal(size=30), 2 * rng.normal(size=50)
    moments = count(one, other).moments
    ratio = one.var(ddof=1) / other.var(ddof=1)
    found = row_checks.deviations_test(moments)
    assert found.chances[0] == pytest.approx(2 * min(stats.f.cdf(ratio, 29, 49), stats.f.sf(ratio, 29, 49)))
    assert found.chances[0] == pytest.approx(found.chances[1])
    for sigma in (0.5, 1.0, 2.0):  # a Chernoff bound is above the tail, by little
        chance = float(row_checks.sigma_test(moments, np.array([sigma, sigma]), True).chances[0])
        square = 29 * one.var(ddof=1) / sigma**2
        tail = 2 * min(stats.chi2.cdf(square, 29), stats.chi2.sf(square, 29))
        assert tail <= chance <= max(40 * tail, 1.0)
    counts = rng.poisson(7.0, size=60).astype(float)
    found = row_checks.dispersion_test(count(counts, counts).moments)
    assert found.chances[0] == pytest.approx(2 * stats.chi2.sf(59 * counts.var(ddof=1) / counts.mean(), 59))
    few = rng.poisson(0.4, size=60).astype(float)
    pairs, total, scale = (few * (few - 1)).sum() / 2, few.sum(), 1 + few.mean()
    wanted = 2 * stats.poisson.sf(np.ceil(pairs / scale) - 1, total * (total - 1) / (120 * scale))
    assert row_checks.dispersion_test(count(few, few).moments).chances[0] == pytest.approx(wanted)
    repetition = count(np.r_[np.zeros(20), np.zeros(35), np.ones(5)], one).repetition
    assert row_checks.repetition_test(repetition).chances[0] == pytest.approx(stats.binom.sf(34, 40, 0.5))
    assert (repetition.value[0], repetition.rows[0], repetition.hits[0]) == (0.0, 40, 35)


def test_files_add_up_to_all_rows():
    rng = np.random.default_rng(3)
    parts = [(rng.exponential(size=n).round(1), rng.normal(5, 2, size=m)) for n, m in ((7, 30), (40, 1), (3, 9))]
    whole = count(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    files = [count(*each) for each in parts]
    moments = files[0].moments.plus(files[1].moments).plus(files[2].moments)
    same(moments, whole.moments)
    repetition = RowStatistics.none(2).repetition
    for each in files:
        repetition = repetition.plus(each.repetition)
    assert repetition.value.tolist() == whole.repetition.value.tolist()
    assert (repetition.rows <= whole.repetition.rows).all()


def test_bits_do_not_depend_on_how_a_file_is_cut():
    rng = np.random.default_rng(4)
    arms = rng.exponential(size=100).round(1), rng.normal(size=70)
    for cuts in (2, 13, 170):
        for one, other in zip(count(*arms).moments, count(*arms, cuts=cuts).moments, strict=True):
            assert one.tolist() == other.tolist()
        for one, other in zip(count(*arms).repetition, count(*arms, cuts=cuts).repetition, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("noise", [Normal(), EqualVariances()])
def test_adjusted_rows_contradict_nothing_where_an_arm_has_hardly_any_in_a_round(noise):
    """One or two rows do not say how much those of a round vary: earlier ones were brought to their deviation, and 6 %
    of true studies seemed not to be normal, 23 % to have unequal variances."""
    rng, found = np.random.default_rng(15), 0
    for _ in range(100):
        checks = RowChecks.none(2)
        for k in range(6):
            few = int(rng.integers(1, 3))
            sizes = (few, 20) if rng.random() < 0.5 else (180, few)
            shift = rng.normal()  # of all arms: the mean of the covariate is known roughly
            rows = [rng.normal(shift, 1.8 if not k else 1.0, n) for n in sizes]
            file = SimpleNamespace(row_statistics=count(*rows), covariate=True, rows=sum(sizes))
            checks = checks.plus(noise, [file], ["a", "b"], ["a", "b"])
        found += bool(checks.findings)
    assert found <= 1


def test_shifts_of_large_rounds_are_left_out():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(2, 60))
    calm, moved = count(rows[0]).moments, count(rows[1] + 100).moments
    own = calm.plus(moved, own_means=np.array([True]))
    assert own.second == pytest.approx(calm.second + moved.second)
    assert (own.freedom[0], calm.plus(moved).freedom[0]) == (118, 119)
    assert calm.plus(moved).second[0] > 1000 * own.second[0]


# --- false alarms and power


def alarms(draw, noise, runs, batches, arms=2, seed=0, joint=True):
    """For each of many arms the rows after which a check first found something of it, or of all arms of its study."""
    rng, found = np.random.default_rng(seed), []
    for start in range(0, runs, 2000):
        size = min(2000, runs - start)
        known, when = RowStatistics.none(size), np.full(size, np.inf)
        for n in batches:
            file = count(*draw(rng, (size, n)))
            before, moments = known.moments, known.moments.plus(file.moments, own_means=n >= FIRST)
            known = RowStatistics(moments, known.repetition.plus(file.repetition))
            number = row_checks._number_of_tests(noise, arms)
            levels = levels_of_checks(before.counts, moments.counts, number)
            for test in row_checks._tests(noise, known).values() if levels.any() else ():
                when = np.where(test().chances < levels, np.minimum(when, moments.counts), when)
            joined = [Moments(*(x.reshape(-1, arms) for x in each)) for each in (before, file.moments, moments)]
            levels = levels_of_checks(*(each.counts.sum(axis=-1) for each in joined[::2]), number)
            for test in row_checks.joint_tests(noise, *joined[1:]).values() if joint and levels.any() else ():
                when = np.where(np.repeat(test.chances < levels, arms), np.minimum(when, moments.counts), when)
        found.append(when)
    return np.concatenate(found)


LAWS = {
    "normal": (lambda rng, size: rng.standard_normal(size), Gaussian(1.0)),
    "normal of unknown deviation": (lambda rng, size: 7 + 3 * rng.standard_normal(size), Normal()),
    "rounded to one deviation": (lambda rng, size: rng.standard_normal(size).round(), Normal()),
    "less than sigma": (lambda rng, size: rng.uniform(-1, 1, size), SubGaussian(1.0)),
    **{
        f"Poisson {mean:g}": (lambda rng, size, mean=mean: rng.poisson(mean, size).astype(float), Poisson())
        for mean in (0.05, 0.4, 2.1, 5.0, 440.0)
    },
}
SCHEDULES = {"doubling": (20, 20, 40, 80, 160, 320), "equal": (20,) * 16, "small": (7,) * 24}


@pytest.mark.parametrize("law", LAWS)
def test_few_false_alarms(law):
    """A hundredth of the full test: 200 studies, in which a sound check fails with probability 1e-3."""
    draw, noise = LAWS[law]
    assert np.isfinite(alarms(draw, noise, 400, SCHEDULES["doubling"][:5])).sum() <= 2


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("law", LAWS)
def test_false_alarms_in_20_000_studies(law, schedule):
    """At most 1 in 1 000; the bound on the count is exact, and wrong with probability 1e-5."""
    draw, noise = LAWS[law]
    found = np.isfinite(alarms(draw, noise, 40_000, SCHEDULES[schedule], seed=1)).reshape(-1, 2).any(axis=1)
    print(f"{law}, {schedule}: {found.sum()} of 20000")
    assert found.sum() <= stats.binom.isf(1e-5, 20_000, 1e-3)


def baskets(share, rng, size):
    return (rng.random(size) < share) * rng.lognormal(0, 1.2, size)


@pytest.mark.parametrize(
    ("draw", "noise", "median", "most"),
    [
        (lambda rng, size: baskets(0.01, rng, size), Normal(), 40, 40),
        (lambda rng, size: baskets(0.2, rng, size), Normal(), 40, 80),
        (lambda rng, size: baskets(0.05, rng, size), Gaussian(0.5), 40, 40),
        (lambda rng, size: rng.lognormal(0, 1.2, size), Normal(), 40, 80),
        (lambda rng, size: rng.lognormal(0, 0.5, size), Normal(), 160, 320),
        (lambda rng, size: rng.exponential(size=size), Normal(), 80, 160),
        (lambda rng, size: rng.pareto(2.5, size), Normal(), 40, 80),
        (lambda rng, size: 1.8 * rng.standard_normal(size), SubGaussian(1.0), 40, 80),
        (lambda rng, size: rng.negative_binomial(0.1, 0.1 / 0.6, size).astype(float), Poisson(), 40, 320),
        (lambda rng, size: rng.normal(440, 62, size).round(), Poisson(), 20, 20),
        (lambda rng, size: rng.negative_binomial(1, 1 / 6, size).astype(float), Poisson(), 20, 40),
    ],
)
def test_power(draw, noise, median, most):
    """The rows of an arm after which half, and 95 %, of the studies are told (docs/guarantee.md)."""
    when = alarms(draw, noise, 300, SCHEDULES["doubling"], seed=2, joint=False)
    assert np.quantile(when, 0.5, method="lower") <= median
    assert np.quantile(when, 0.95, method="lower") <= most


def test_arms_that_are_skewed_alike_are_found_together():
    """Gamma(2) rows of two arms after 80 of each: found in 28 of 60 studies alone, in 47 together."""
    rng = np.random.default_rng(28)
    found = {False: 0, True: 0}
    for _ in range(60):
        files = [count(*rng.gamma(2.0, size=(2, n))) for n in (20, 20, 40)]
        for joint in found:
            checks, known = (), RowStatistics.none(2)
            for file in files:
                before, moments = known.moments.counts, known.moments.plus(file.moments, own_means=True)
                known = RowStatistics(moments, known.repetition.plus(file.repetition))
                checks += tuple(_find(Normal(), before, known, "xy", checks))
                if joint:
                    checks += tuple(_find_together(Normal(), before, file.moments, moments, checks))
            found[joint] += bool(checks)
    assert found == {False: 28, True: 47}


# --- studies


@pytest.fixture
def make(tmp_path):
    with studies(tmp_path) as found:
        yield found


def rows(rng, n, **draws):
    return {
        "arm": np.repeat(list(draws), n).tolist(),
        "outcome": np.concatenate([f(n) for f in draws.values()]).tolist(),
    }


def run(study, rng, rounds, n, **draws):
    for _ in range(rounds):
        if study.state.decided is None:
            study.ask()
        study.tell(rows(rng, n, **draws), new=True)


def revenue(rng):
    return {"old": lambda n: baskets(0.2, rng, n), "premium": lambda n: baskets(0.01, rng, n) * 20.6}


def test_revenue_is_never_kept(make):
    """20 % against 1 % buyers under every model that existed: none says "kept" by row 80."""
    for name, noise in (("a", Normal()), ("b", Gaussian(2.0)), ("c", SubGaussian(2.0))):
        rng = np.random.default_rng(6)
        study = make(name, arms=("old", "premium"), noise=noise, round_size=40)
        run(study, rng, 4, 20, **revenue(rng))
        assert {"rows_contradict", "refuted"} & {*study.report().guarantee.codes}, noise


def test_a_contradiction_is_said_everywhere_and_stays(make):
    rng = np.random.default_rng(7)
    study = make(arms=("old", "premium"), noise=Normal(), round_size=80)
    run(study, rng, 2, 40, **revenue(rng))
    report = study.report()
    condition = next(each for each in report.guarantee.conditions if each.code == "rows_contradict")
    assert condition.fields["assumption"] == "normal"
    assert {each["check"] for each in condition.fields["findings"]} & {"skewness", "repeated"}
    said = "results are normal, which the rows of"
    for text in (str(report.guarantee), report.top(), report.text(), report.html(), report.markdown()):
        assert said in text.replace("\n", " ") or "contradict the assumption that results are normal" in text
    assert report.text().index("contradict") < report.text().index(report.headline)
    assert "To continue without this assumption" in report.text()
    assert any(each["code"] == "rows_contradict" for each in report.plain()["guarantee"]["conditions"])
    run(study, rng, 3, 40, old=lambda n: rng.normal(size=n), premium=lambda n: rng.normal(size=n))
    assert "rows_contradict" in study.report().guarantee.codes
    assert "rows_contradict" in [
        each.code for each in replay(study.entries()).summary.row_checks and study.report().guarantee.conditions
    ]
    assert audit_entries(study.entries()).differences == ()


def test_normal_rows_are_kept_and_shifts_of_rounds_are_not_seen(make):
    rng = np.random.default_rng(8)
    study = make(arms=("x", "y"), noise=Normal(), round_size=120)
    for shift in (0.0, 0.0, 50.0, 0.0):
        run(study, rng, 1, 60, x=lambda n: rng.normal(shift, 1, n), y=lambda n: rng.normal(shift, 1, n))  # noqa: B023
    assert not study.state.summary.row_checks.findings


def test_mild_skewness_in_large_rounds_is_a_note(make):
    rng = np.random.default_rng(9)
    study = make(arms=("x", "y"), noise=Normal(), round_size=4000)
    run(study, rng, 1, 2000, x=lambda n: rng.gamma(16, 1, n), y=lambda n: rng.gamma(16, 1, n))
    report = study.report()
    assert "rows_contradict" not in report.guarantee.codes
    assert "rows_skewed" in [each.code for each in report.notes]


def test_sums_are_not_checked_and_the_report_says_so(make):
    study = make(arms=("x", "y"), noise=Normal(), round_size=80)
    study.ask()
    study.tell({"arm": ["x", "y"], "count": [40, 40], "total": [10.0, 9.0], "squares": [50.0, 60.0]})
    assert "rows_unchecked" in [each.code for each in study.report().notes]
    binary = make("binary", arms=("x", "y"), noise=Binary(), round_size=80)
    binary.ask()
    binary.tell({"arm": ["x", "y"], "count": [40, 40], "successes": [10, 9]})
    assert "rows_unchecked" not in [each.code for each in binary.report().notes]


@pytest.mark.parametrize("ones", [(0, 3), (30, 45), (2, 200), (200, 200), (19, 25)])
def test_sums_of_zeros_and_ones_are_as_good_as_rows(ones):
    """All statistics but repetitions, which are counted as if the commonest value came first."""
    n = np.array([200.0, 21.0 if ones[1] < 21 else 200.0])
    rows = [np.repeat([1.0, 0.0], [k, int(size) - k]) for k, size in zip(ones, n, strict=True)]
    given, found = count(*rows), RowStatistics.of_zero_one(n, np.array(ones, dtype=float))
    same(given.moments, found.moments)
    commonest = [each[np.argsort(each != (each.mean() > 0.5), kind="stable")] for each in rows]
    same(count(*commonest).repetition, found.repetition)
    few = RowStatistics.of_zero_one(np.array([7.0, 0.0]), np.array([2.0, 0.0]))
    same(count(np.repeat([0.0, 1.0], [5, 2]), np.zeros(0)).repetition, few.repetition)


@pytest.mark.parametrize("squares", [False, True])
def test_shares_told_as_sums_contradict_a_normal_law(make, squares):
    """Also without a column of successes: values whose sum is that of their squares are 0 or 1."""
    study = make(arms=("x", "y"), noise=Normal(), round_size=400)
    study.ask()
    told = {"arm": ["x", "y"], "count": [200, 200], "total" if squares else "successes": [10, 19]}
    study.tell(told | ({"squares": [10, 19]} if squares else {}))
    report = study.report()
    assert "rows_contradict" in report.guarantee.codes
    assert "rows_unchecked" not in [each.code for each in report.notes]
    other = make(
        "counts", arms=("x", "y"), noise=Poisson(), round_size=400
    )  # which vary less than Poisson counts: valid
    other.ask()
    assert (
        "rows_contradict" not in other.tell({"arm": ["x", "y"], "count": [200, 200], "total": [10, 19]}).guarantee.codes
    )


def test_results_at_an_end_of_the_range_are_noted(make):
    rng = np.random.default_rng(10)
    study = make(arms=("x", "y"), noise=Bounded(0, 10), round_size=80)
    run(study, rng, 1, 40, x=lambda n: np.minimum(rng.exponential(9, n), 10), y=lambda n: rng.uniform(1, 9, n))
    note = next(each for each in study.report().notes if each.code == "rows_at_end")
    assert (note.fields["arm"], note.fields["end"]) == ("x", 10.0)
    assert "rows_contradict" not in study.report().guarantee.codes


def test_a_correction_is_checked_anew(make):
    """Rows that were wrong and are corrected are no longer a finding; the correction is a condition itself."""
    rng = np.random.default_rng(11)
    study = make(arms=("x", "y"), noise=Normal(), round_size=80)
    study.ask()
    wrong = rows(rng, 40, x=lambda n: rng.normal(size=n), y=lambda n: rng.normal(size=n))
    right = {**wrong, "outcome": list(wrong["outcome"])}
    wrong["outcome"][5] = 1e6
    study.tell(wrong)
    assert "rows_contradict" in study.report().guarantee.codes
    study.amend("data frame", right, why="a decimal point was missing")
    assert study.report().guarantee.codes == ("amended", "seed_chosen")


def test_arms_that_change_keep_their_statistics():
    file = count(np.arange(30.0), np.ones(3))
    other = file.of_arms(("x", "y"), ("y", "z", "x"))
    assert other.moments.counts.tolist() == [3, 0, 30]
    checks = RowChecks.none(2)._replace(statistics=file).of_arms(("x", "y"), ("y", "z", "x"))
    again = RowChecks.from_payload(checks.payload(), 3)
    for one, wanted in zip(again.statistics.moments, other.moments, strict=True):
        np.testing.assert_array_equal(one, wanted)
    assert isinstance(again.statistics.moments, Moments)
    with pytest.raises(ValueError, match="other arms"):
        RowChecks.from_payload(checks.payload(), 2)


def test_one_line_at_ask_and_tell(roundwise, tmp_path):
    rng = np.random.default_rng(12)
    roundwise("new", "shop", "--question", "best-arm", "--arms", "old,premium", "--normal", "--round-size", "160")
    roundwise("ask", "shop")
    told = rows(rng, 80, **revenue(rng))
    lines = [f"{arm},{value}" for arm, value in zip(told["arm"], told["outcome"], strict=True)]
    (tmp_path / "day.csv").write_text("\n".join(["arm,outcome", *lines, ""]))
    assert "contradict the assumption that results are normal" in " ".join(
        roundwise("tell", "shop", "day.csv")[1].split()
    )
    code, out, _ = roundwise("ask", "shop")
    assert code == 0
    assert "The guarantee is conditional on the assumption that results are normal" in " ".join(out.split())


def test_best_of_two_is_unchanged_without_findings(make):
    """Nothing is recorded of rows where the model says nothing of them."""
    study = make(question=BestArm(), arms=("x", "y"), noise=Binary(), round_size=40)
    study.ask()
    study.tell({"arm": ["x", "y"] * 20, "outcome": [0, 1] * 20})
    assert all(each.row_statistics is None for each in study.state.rounds[0].files)


def test_counts_of_all_arms_together_are_checked_from_the_first_plate():
    """Six wells of each of four arms that vary by 14 % more than Poisson counts are found at once."""
    rng = np.random.default_rng(27)

    def found(means):
        values = rng.poisson(means).astype(float)
        counter = RowCounter(np.full(4, 6.0), values.sum(axis=1))
        counter.add(np.repeat(np.arange(4), 6), values.ravel(), np.tile(np.arange(6), 4))
        return [each.arm for each in _find_together(Poisson(), np.zeros(4), *[counter.statistics().moments] * 2, ())]

    assert all(found(440 * rng.gamma(51.0, 1 / 51.0, (4, 6))) == [TOGETHER] for _ in range(20))
    assert not any(found(np.full((4, 6), mean)) for mean in (5.0, 440.0) for _ in range(60))
