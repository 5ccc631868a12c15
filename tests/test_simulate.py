"""Simulation: the same numbers for a seed, the reference values, errors below delta."""

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy.stats import binomtest

from roundwise import (
    GLR,
    PET,
    Above,
    AnyAbove,
    BernoulliArms,
    BestArm,
    Gaussian,
    GaussianArms,
    InputError,
    Largest,
    MinimumBelow,
    RoundRobin,
    Statements,
    TopK,
    TrackAndStop,
    Wager,
    simulate,
)
from roundwise.environments import RandomGaps, Replay
from roundwise.policies import OptBBAI, TriBBAI
from roundwise.questions.lower_bounds import sample_lower_bound
from roundwise.simulation import run as lockstep
from roundwise.simulation.summary import error_upper_bound
from roundwise.theory import paper
from roundwise.theory.figures import paper as figures
from roundwise.theory.figures.canvas import new_figure
from roundwise.thresholds import KaufmannKoolenPairwise, KaufmannKoolenSum, Lemma32, Lemma32ByCounts, LogLogHeuristic

PAPER = GaussianArms(RandomGaps())


def same(one, other):
    for name in ("samples", "batches", "decided", "answer", "correct", "complexity"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


class TestSeeds:
    def test_workers_do_not_change_the_numbers(self):
        policies = [PET(), TrackAndStop()]
        alone = simulate(BestArm(), PAPER, policies, runs=2300, seed=3)
        shared = simulate(BestArm(), PAPER, policies, runs=2300, seed=3, workers=2)
        for one, other in zip(alone, shared, strict=True):
            same(one, other)

    def test_whole_blocks_do_not_depend_on_how_many_follow(self):
        (short,) = simulate(BestArm(), PAPER, [PET()], runs=1000, seed=3)
        (long,) = simulate(BestArm(), PAPER, [PET()], runs=2000, seed=3)
        np.testing.assert_array_equal(short.samples, long.samples[:1000])

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("question", "world", "policy"),
        [
            (BestArm(), PAPER, TrackAndStop()),
            (BestArm(), PAPER, OptBBAI()),
            (BestArm(), PAPER, Wager()),
            (
                BestArm(),
                Replay(("a", "b", "c"), [0.0, 0.5, 1.0], [[9, 8, 4], [5, 5, 5], [3, 5, 9]], False),
                Wager(first_pulls=5),
            ),
            (TopK(2), Replay(("a", "b", "c"), [0.0, 0.5, 1.0], [[9, 8, 4], [5, 5, 5], [3, 5, 9]]), Wager()),
            (MinimumBelow(0.4), BernoulliArms([0.4, 0.5, 0.6]), PET()),
            (Statements([[1.0, -1.0, 0.0]], [0.0]), GaussianArms([0.4, 0.0, 0.0]), Wager()),
        ],
        ids=lambda value: getattr(value, "name", ""),
    )
    def test_blocks_that_are_stacked_do_not_change_the_numbers(self, monkeypatch, question, world, policy):
        monkeypatch.setattr(lockstep, "block_size", lambda arms: 40)
        found = []
        for lot in (1, 70 * world.arms, 10**9):  # one block at a time, a few, all
            monkeypatch.setattr(lockstep, "LOT", lot)
            watch = {"open": lambda trial: trial.record.totals[:, 0]}
            options = {"runs": 210, "seed": 3, "keep_counts": True, "watch": watch, "max_batches": 12}
            found.append(simulate(question, world, [policy, PET()], **options))
        for other in found[1:]:
            for one, two in zip(found[0], other, strict=True):
                same(one, two)
                np.testing.assert_array_equal(one.counts, two.counts)
                np.testing.assert_array_equal(one.watched["open"], two.watched["open"])

    def test_other_policies_do_not_change_the_numbers(self):
        (alone,) = simulate(BestArm(), PAPER, [RoundRobin()], runs=200, seed=5)
        _, beside = simulate(BestArm(), PAPER, [PET(), RoundRobin()], runs=200, seed=5)
        same(alone, beside)

    def test_another_seed_gives_other_numbers(self):
        (one,) = simulate(BestArm(), PAPER, [PET()], runs=100, seed=1)
        (other,) = simulate(BestArm(), PAPER, [PET()], runs=100, seed=2)
        assert (one.complexity != other.complexity).all()


@pytest.fixture(scope="module")
def results():
    """The runs that docs/reproducing.md is about."""
    return paper.reproduced(runs=1000, seed=1)


class TestReferenceValues:
    """Those of docs/baselines.md; both sides are means of 1000 runs, so the difference has sqrt(2) standard errors.

    With eight comparisons at 4.5 standard errors each, a false alarm has probability below 1e-4.
    """

    BEST_ARM = {
        "PET": (328_400, 5_090, 8.02),
        "Round Robin": (307_600, 4_170, 8.26),
        "Track-and-Stop": (133_600, 1_860, 8.08),
        "Track-and-Stop, C-tracking": (140_200, 1_870, 8.15),
        "Opt-BBAI": (386_000, 4_460, 3.54),
    }
    MINIMUM = {"PET": (10_960, 153), "Round Robin": (10_440, 124)}

    @pytest.mark.long
    @pytest.mark.parametrize("policy", BEST_ARM)
    def test_best_arm(self, results, policy):
        mean, se, batches = self.BEST_ARM[policy]
        found = results["best-arm"][policy].summary
        assert abs(found.samples_mean - mean) < 4.5 * math.hypot(se, found.samples_se)
        assert found.batches_mean == pytest.approx(batches, abs=4.5 * math.sqrt(2) * found.batches_se + 0.005)
        assert found.error == 0

    @pytest.mark.long
    @pytest.mark.parametrize("policy", MINIMUM)
    def test_minimum_threshold(self, results, policy):
        mean, se = self.MINIMUM[policy]
        found = results["minimum-threshold"][policy].summary
        assert abs(found.samples_mean - mean) < 4.5 * math.hypot(se, found.samples_se)

    @pytest.mark.long
    def test_quantiles_of_pet_lie_on_its_grid(self, results):
        quantiles = results["best-arm"]["PET"].summary.samples_quantiles
        assert list(quantiles.values()) == [130_050, 288_490, 288_490, 288_490, 633_750]

    @pytest.mark.long
    def test_opt_bbai_over_c(self, results):
        """docs/baselines.md: 1.533e6 / 95 570 / 24 760 for c = 128 / 8 / 2."""
        for c, mean in ((128, 1.533e6), (8, 95_570), (2, 24_760)):
            found = results["best-arm"][f"Opt-BBAI, c = {c}"].summary
            assert abs(found.samples_mean - mean) < 4.5 * math.sqrt(2) * found.samples_se

    @pytest.mark.long
    def test_complexity_of_the_instances(self, results):
        complexity = results["best-arm"]["PET"].complexity
        assert complexity.mean() == pytest.approx(925, abs=4.5 * math.sqrt(2) * complexity.std() / math.sqrt(1000))
        assert results["minimum-threshold"]["PET"].complexity == pytest.approx(200)

    @pytest.mark.long
    def test_the_second_batch_of_pet_is_rarely_entered_and_where_it_is(self, results):
        """Never on the instances of the figures; mostly where few of many arms matter."""
        entered = {name: found["PET"].watched["tracked"] for name, found in results.items() if "PET" in found}
        assert not entered["best-arm"].any()
        assert not entered["minimum-threshold"].any()
        assert {name: each.mean() > 0.8 for name, each in entered.items()} == dict.fromkeys(entered, True) | {
            "best-arm": False,
            "minimum-threshold": False,
        }
        far = {name: each.summary for name, each in results["best-arm, 200 arms"].items()}
        assert far["PET"].samples_mean == pytest.approx(33.1e6, rel=0.005)
        assert far["PET"].batches_mean == 11
        assert far["Round Robin"].samples_mean == pytest.approx(59e6, rel=0.01)

    @pytest.mark.long
    def test_claims_say_what_reproduces(self, results):
        claims = paper.claims(results)
        verdicts = [claim.verdict for claim in claims]
        assert verdicts[0] == "reproduces for c = 32, 128; reversed for c = 2, 8"
        assert verdicts[2] == "reproduces in 8 of 8 readings with forced exploration"
        assert verdicts[3] == HEAVY_TAIL
        assert verdicts[4] == "reproduces"
        assert claims[5].measured == "entered in 0 of 31 000 runs on the instances of Figure 3"
        assert all(len(claim.measured) < 300 for claim in claims)  # longer ones are cut in the table

    def test_readings_of_track_and_stop_are_all_different(self):
        """2 x 2 x 2 x 2 of what the paper leaves open."""
        assert len(paper.readings()) == 16
        assert len(set(paper.readings().values())) == 16
        assert paper.readings()["Track-and-Stop"] == TrackAndStop()

    @pytest.mark.long
    def test_tables(self, results):
        rows = paper.summary_rows(results)
        assert len(rows) == 51
        assert rows[0]["experiment"] == "best-arm"
        assert {"samples_mean", "samples_50%", "batches_max", "error_upper_95"} <= set(rows[0])
        first, *others = paper.columns(results)
        assert all(set(part) == set(first) for part in others)


HEAVY_TAIL = (
    "the heavy tail reproduces: 16 of 16 readings have runs of more than 100 000 samples, PET has none. With and "
    "without forced exploration they lift the mean above the 95 % quantile: means are not compared"
)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 9))])
def test_the_verdict_on_figure_3c_does_not_hang_on_the_seed(seed):
    (level,) = (each for each in paper.experiments() if each.name == "minimum-threshold")
    policies = {name: policy for name, policy in level.policies.items() if name not in ("Round Robin", "Wager")}
    found = paper.run_experiment(dataclasses.replace(level, policies=policies), runs=1000, seed=seed)
    assert paper.rare_long_runs(found).verdict == HEAVY_TAIL


@pytest.mark.long
def test_a_run_that_was_cut_is_no_result_in_the_figure():
    """It is counted at the top, without a dot of its own, and there is no mean."""
    (runs,) = simulate(MinimumBelow(0.6), GaussianArms([0.5, 0.6]), [TrackAndStop()], runs=50)
    samples = runs.samples.copy()
    samples[:3] = paper.LIMIT
    samples[3] = paper.LIMIT / 2
    _, (whole, cut) = new_figure(8, 4, panels=2)
    figures.draw_boxes(whole, [runs], "samples", ["all"])
    figures.draw_boxes(cut, [dataclasses.replace(runs, samples=samples)], "samples", ["some cut"])
    drawn = [np.concatenate([line.get_ydata() for line in axes.lines]) for axes in (whole, cut)]
    assert drawn[1][np.isfinite(drawn[1])].max() == paper.LIMIT / 2
    assert [np.isnan(each).any() for each in drawn] == [False, True]  # the mean
    assert [text.get_text() for text in cut.texts][-1] == "3 runs cut\nat 1e12: no mean"
    assert not any("cut" in text.get_text() for text in whole.texts)


HARD = {
    # name: question, environment; close to the border, so that errors are likely if a threshold is too small
    "best arm, near tie": (BestArm(), GaussianArms([0.05, 0.0, 0.0])),
    "best arm, rare rates": (BestArm(), BernoulliArms([0.02, 0.01])),
    "best arm, rates near 1": (BestArm(), BernoulliArms([0.99, 0.98])),
    "top-2 of 5": (TopK(2), GaussianArms([0.3, 0.2, 0.1, 0.0, -0.1])),
    "above": (Above(0.0), GaussianArms([0.1, -0.1, 0.2])),
    "minimum below": (MinimumBelow(0.0), GaussianArms([0.08, 0.05])),
    "any above": (AnyAbove(0.0), GaussianArms([-0.05, -0.08])),
    "statements": (Statements.ranking(3), GaussianArms([0.2, 0.1, 0.0])),
    "largest": (Largest([[1, 1, 0], [0, 1, 1]]), GaussianArms([0.1, 0.0, 0.0])),
}


@pytest.mark.long
@pytest.mark.parametrize("case", HARD)
def test_errors_stay_below_delta(case):
    """Exact binomial test at a false-alarm probability of 1e-4: reject only if errors are too many for delta."""
    question, environment = HARD[case]
    policies = {
        "pet": PET(),
        "tas": TrackAndStop(first_time=20),
        "rr": RoundRobin(first_time=20, stopping=GLR(Lemma32ByCounts())),
    }
    if question.pieces(environment.arms) is not None and isinstance(environment.noise, Gaussian):
        policies["pairwise"] = TrackAndStop(first_time=20, stopping=GLR(KaufmannKoolenPairwise()))
    for each in simulate(question, environment, policies, runs=2000, delta=0.1, max_samples=1e8):
        wrong = int((each.decided & ~each.correct).sum())
        assert binomtest(wrong, 2000, 0.1, alternative="greater").pvalue > 1e-4


def test_a_threshold_that_is_too_small_is_caught():
    """The same test has teeth: a quarter of ln(1/delta) at every look errs too often, and the test says so."""

    class Quarter(Lemma32):
        def value(self, problem, counts):
            return np.full(counts.shape[:-1], math.log(1 / problem.delta) / 4)

    question, environment = HARD["best arm, near tie"]
    policy = RoundRobin(first_time=6, growth=1.2, stopping=GLR(Quarter()))
    (each,) = simulate(question, environment, [policy], runs=2000, delta=0.1, max_samples=1e8)
    wrong = int((each.decided & ~each.correct).sum())
    assert binomtest(wrong, 2000, 0.1, alternative="greater").pvalue < 1e-4


class TestResults:
    def test_columns_and_summary(self):
        (runs,) = simulate(TopK(2), GaussianArms([1, 0.5, 0.0]), [PET()], runs=50, keep_counts=True)
        table = runs.columns()
        assert list(table) == [
            "policy", "run", "samples", "batches", "decided", "answer", "correct", "complexity", "lower_bound",
            "guarantee", "count_0", "count_1", "count_2",
        ]  # fmt: skip
        assert (table["count_0"] + table["count_1"] + table["count_2"] == table["samples"]).all()
        assert set(table["answer"]) == {"[0, 1]"}
        plain = runs.summary.plain()
        json.dumps(plain, allow_nan=False)
        assert plain["samples_over_lower_bound"] == pytest.approx((runs.samples / table["lower_bound"]).mean())
        assert runs.summary.samples_se == pytest.approx(np.std(runs.samples, ddof=1) / math.sqrt(50))

    def test_a_tie_runs_into_the_limit_and_is_undecided(self):
        (runs,) = simulate(BestArm(), GaussianArms([1.0, 1.0]), [PET()], runs=20, max_samples=1e6)
        assert not runs.decided.any()
        assert set(runs.columns()["answer"]) == {"undecided"}
        assert runs.summary.undecided == 1
        assert runs.summary.lower_bound == math.inf
        assert runs.summary.error == 0

    def test_the_ratio_to_the_bound_is_the_mean_of_the_runs_own(self):
        """Instances of one run each: what a hard one needs does not drown what an easy one needs."""
        (runs,) = simulate(BestArm(), PAPER, [RoundRobin()], runs=40)
        ratios = [
            float(s) / (float(c) * 0.9 * math.log(19)) for s, c in zip(runs.samples, runs.complexity, strict=True)
        ]
        of_means = float(runs.samples.mean() / runs.lower_bound.mean())
        assert runs.summary.samples_over_lower_bound == pytest.approx(sum(ratios) / 40)
        assert abs(of_means / runs.summary.samples_over_lower_bound - 1) > 1e-3

    @pytest.mark.parametrize(
        ("question", "means", "limits"),
        [
            (BestArm(), [0.01, 0.0], {"max_batches": 3}),  # all but a few are cut off, far below the bound
            (BestArm(), [0.2, 0.0], {"max_samples": 900}),  # some are
            (BestArm(), [0.0, 0.0], {"max_batches": 3}),  # the bound is infinite
            (BestArm(0.5), [0.0] * 20, {}),  # the bound is 0
        ],
    )
    def test_there_is_no_ratio_where_runs_are_undecided_or_the_bound_says_nothing(self, question, means, limits):
        (runs,) = simulate(question, GaussianArms(means), [RoundRobin(first_time=400)], runs=20, **limits)
        assert runs.decided.all() == (not limits)
        assert runs.summary.samples_over_lower_bound is None
        assert runs.summary.plain()["samples_over_lower_bound"] is None

    def test_one_undecided_run_is_enough(self):
        (runs,) = simulate(BestArm(), GaussianArms([0.5, 0.0]), [RoundRobin()], runs=20)
        assert runs.summary.samples_over_lower_bound is not None
        cut = dataclasses.replace(runs, decided=np.arange(20) > 0)
        assert cut.summary.samples_over_lower_bound is None

    def test_a_limit_on_batches(self):
        (runs,) = simulate(BestArm(), GaussianArms([0.1, 0.0]), [PET()], runs=20, max_batches=2)
        assert (runs.batches == 2).all()

    def test_policies_of_the_same_name_are_numbered(self):
        runs = simulate(BestArm(), GaussianArms([1, 0]), [PET(), PET(guess=4)], runs=5)
        assert [each.policy for each in runs] == ["pet", "pet (2)"]

    def test_no_guarantee_is_said(self):
        policies = [
            TriBBAI(),
            OptBBAI(),
            TrackAndStop(stopping=GLR(LogLogHeuristic())),
            TrackAndStop(stopping=GLR(KaufmannKoolenSum())),
        ]
        found = simulate(BestArm(), GaussianArms([1, 0]), policies, runs=5)
        assert [each.doubt is None for each in found] == [False, False, False, True]
        (bernoulli,) = simulate(
            BestArm(), BernoulliArms([0.9, 0.1]), [TrackAndStop(stopping=GLR(KaufmannKoolenSum()))], runs=5
        )
        assert "normal rewards" in bernoulli.doubt

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"runs": 0}, "runs"),
            ({"runs": 1.5}, "`runs` is 1.5"),
            ({"runs": None}, "`runs` is None"),
            ({"workers": 0}, "`workers` is 0"),
            ({"workers": 1.5}, "`workers` is 1.5"),
            ({"seed": -1}, "seed"),
            ({"seed": math.nan}, "`seed` is nan"),
            ({"delta": 5}, "For 5 % write 0.05"),
            ({"watch": {"all": lambda trial: 1.0}}, "'all'"),
        ],
    )
    def test_errors(self, options, message):
        with pytest.raises(InputError, match=message):
            simulate(BestArm(), GaussianArms([1, 0]), [PET()], **options)

    def test_numbers_that_are_whole_will_do(self):
        (one,) = simulate(BestArm(), GaussianArms([1, 0]), [PET()], runs=1e1, seed=2.0)
        (other,) = simulate(BestArm(), GaussianArms([1, 0]), [PET()], runs=10, seed=2)
        same(one, other)

    def test_no_policies(self):
        assert simulate(BestArm(), GaussianArms([1, 0]), [], workers=2) == []

    def test_a_watch_of_any_kind(self):
        """What is watched is not cut to what the first runs to finish had."""
        watch = {
            "words": lambda trial: np.where(trial.record.batches > 8, "late indeed", "soon"),
            "arms": lambda trial: trial.record.counts,
        }
        (runs,) = simulate(BestArm(), PAPER, [RoundRobin()], runs=50, keep_counts=True, watch=watch)
        assert set(runs.watched["words"]) == {"late indeed", "soon"}
        np.testing.assert_array_equal(runs.watched["words"] == "soon", runs.batches <= 8)
        np.testing.assert_array_equal(runs.watched["arms"], runs.counts)

    @pytest.mark.parametrize(
        "limits", [{"max_samples": 1e12}, {"budget": 10**9}, {"budget": 10**9, "max_samples": 1e12}]
    )
    def test_a_watch_sees_the_plan_of_the_policy_itself(self, limits):
        """`simulate` keeps batches within its limits by a policy around the policy, which is not what is watched."""
        watch = {"entered": lambda trial: trial.plan.memory.tracked, "pulls": lambda trial: trial.plan.pulls}
        options = {"runs": 200, "watch": watch}
        (free,) = simulate(BestArm(), PAPER, [PET(exploration=0.5)], **options)
        (within,) = simulate(BestArm(), PAPER, [PET(exploration=0.5)], **options, **limits)
        assert 50 < free.watched["entered"].sum() < 200
        for key in ("entered", "pulls"):
            np.testing.assert_array_equal(free.watched[key], within.watched[key])

    def test_progress_counts_every_run(self):
        seen = []
        simulate(BestArm(), GaussianArms([1, 0]), [PET(), RoundRobin()], runs=1500, progress=seen.append)
        assert seen == [1000, 500, 1000, 500]


def test_the_sample_lower_bound():
    """kl(delta, 1 - delta) written out: d ln(d/(1-d)) + (1-d) ln((1-d)/d)."""
    for d in (0.3, 0.05, 1e-8):
        kl = d * math.log(d / (1 - d)) + (1 - d) * math.log((1 - d) / d)
        assert sample_lower_bound(7.0, d) == pytest.approx(7 * kl, rel=1e-12)


def test_the_simpler_sample_lower_bound():
    """kl(delta, 1 - delta) >= ln(1/(2.4 delta)) for every delta (Section 1.1), and not with 2.3."""
    deltas = np.concatenate([np.geomspace(1e-300, 0.01, 500), np.linspace(0.01, 0.99, 2000)])
    kl = np.array([float(sample_lower_bound(1.0, delta)) for delta in deltas])
    assert (kl >= np.log(1 / (2.4 * deltas))).all()
    assert (kl < np.log(1 / (2.3 * deltas))).any()


@pytest.mark.parametrize(("wrong", "number"), [(0, 1000), (3, 50), (50, 50), (1, 2)])
def test_the_error_bound_is_clopper_pearson(wrong, number):
    """SciPy's exact interval at 90 % two-sided has the 95 % one-sided bound as its upper end."""
    expected = binomtest(wrong, number).proportion_ci(0.9, method="exact").high
    assert error_upper_bound(wrong, number) == pytest.approx(expected, rel=1e-9)
