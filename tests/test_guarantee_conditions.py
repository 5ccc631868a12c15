"""What happens to real data, and to the promise: each condition of docs/wager.md kept where it should be, and broken.

The event is always that a given true null is rejected, which the promise bounds by delta. `kept` and `broken` are exact
binomial tests: each is wrong with probability at most 1e-5 where the promise holds (or the break does not exist).
"""

import math

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from roundwise import (
    GLR,
    PET,
    Above,
    BestArm,
    Binary,
    Bounded,
    EqualVariances,
    Gaussian,
    MinimumBelow,
    Normal,
    Problem,
    SubGaussian,
    TopK,
    TrackAndStop,
    Wager,
)
from roundwise.model.batch import Batch, join_parts
from roundwise.model.problem import advance, begin, final_answer
from roundwise.rules.eprocess.rule import EProcessRule
from roundwise.thresholds import KaufmannKoolenPairwise
from test_wager import (
    SIGMA_1,
    arm_0_rejected,
    binary,
    cut,
    first_set_rejected,
    half_the_arms_rejected,
    kept,
    none_rejected,
    normal,
    play,
    same,
    told,
)

RUNS = 1000
DELTA = 0.05


def broken(times, runs, delta):
    """The data contradict a probability of at most delta."""
    return binomtest(times, runs, delta, alternative="greater").pvalue < 1e-5


def rejected(question, world, event, noise=SIGMA_1, policy=None, arms=3, batches=10, runs=RUNS, seed=1):
    """In how many runs the event of a question happened."""
    problem = Problem(question, arms, DELTA, noise)
    return int(play(problem, policy or Wager(), world, runs, batches, seed, event(problem)).happened.sum())


def rows(draw):
    """A world from totals of n rows with mean 0 for each arm."""
    return lambda rng, plan, r: told(plan, lambda n: Batch(n, draw(rng, n)))


def noise_of(rng, n):
    return np.sqrt(n) * rng.standard_normal(n.shape)


class TestCounts:
    """Counts may differ from what was asked for any reason but the outcomes."""

    def test_fewer_or_more_results_than_asked(self):
        def world(rng, plan, r):
            return told(plan, lambda n: counted(rng, np.floor(n * rng.uniform(0, 2, n.shape))))

        def counted(rng, n):
            return Batch(n, noise_of(rng, n))

        assert kept(rejected(BestArm(), world, arm_0_rejected), RUNS, DELTA)

    def test_counts_picked_after_looking_break_it(self):
        """The batch ends where arm 1 looks best beside arm 0, of eight looks."""

        def world(rng, plan, r):
            return told(plan, lambda n: stopped(rng, n))

        def stopped(rng, n):
            steps = np.ceil(n / 8)[..., None] * np.ones(8)
            totals = np.cumsum(np.sqrt(steps) * rng.standard_normal(steps.shape), axis=-1)
            counts = np.cumsum(steps, axis=-1)
            lead = (totals[:, 1] - totals[:, 0]) / np.sqrt(np.maximum(counts[:, 1], 1.0))
            best = lead.argmax(axis=-1)[:, None, None]
            return Batch(*(np.take_along_axis(each, best, axis=-1)[..., 0] for each in (counts, totals)))

        assert broken(rejected(BestArm(), world, arm_0_rejected, arms=2), RUNS, DELTA)

    def test_an_arm_that_returns_nothing(self):
        """Now and then an arm is silent, the leader too: its pairs are not bet on, and the search goes on."""

        def world(rng, plan, r):
            silent = rng.integers(0, 3, plan.pulls.shape[0])[:, None] == np.arange(3)
            return told(plan, lambda n: Batch(n * ~silent, noise_of(rng, n * ~silent)))

        assert kept(rejected(BestArm(), world, arm_0_rejected), RUNS, DELTA)

    @pytest.mark.parametrize("noise", [SIGMA_1, Gaussian(1.0), Normal()])
    def test_a_silent_leader_rejects_nobody(self, noise):
        """0/0 is no evidence."""
        problem = Problem(BestArm(), 3, DELTA, noise)
        trial = play(problem, Wager(), normal(np.array([0.4, 0.0, 0.0])), 50, 1, 1).trial
        silent = trial.kept.alternative.leader[:, None] == np.arange(3)
        pulls = np.where(silent, 0.0, trial.plan.pulls)
        after = advance(problem, Wager(), trial, Batch(pulls, pulls * 0.1, pulls))
        others = np.where(silent, 0.0, 1.0).astype(bool)
        np.testing.assert_array_equal(after.kept.wealth.gains[others], trial.kept.wealth.gains[others])
        np.testing.assert_array_equal(after.kept.wealth.rejected[others], trial.kept.wealth.rejected[others])
        assert np.isfinite(after.kept.wealth.gains).all()
        assert np.isfinite(after.plan.pulls).all()
        assert (after.plan.pulls.sum(axis=-1) > 0).all()

    @pytest.mark.parametrize("question", [BestArm(), TopK(1), Above(0.2), MinimumBelow(0.2)])
    def test_a_batch_without_any_result_changes_no_money(self, question):
        problem = Problem(question, 3, DELTA, SIGMA_1)
        trial = play(problem, Wager(), normal(np.array([0.4, 0.0, 0.1])), 20, 2, 1).trial
        nothing = np.zeros_like(trial.plan.pulls)
        after = advance(problem, Wager(), trial, Batch(nothing, nothing))
        assert (final_answer(problem, Wager(), after) == final_answer(problem, Wager(), trial)).all()
        assert (after.done == trial.done).all()
        if question.name == "best-arm":
            same(after.kept.wealth, trial.kept.wealth)

    def test_a_search_with_silent_arms_still_ends(self):
        means = np.array([0.5, 0.0, 0.1])

        def world(rng, plan, r):
            heard = (rng.uniform(size=plan.pulls.shape) < 0.7).astype(float)
            return told(plan, lambda n: Batch(n * heard, n * heard * means + noise_of(rng, n * heard)))

        problem = Problem(BestArm(), 3, DELTA, SIGMA_1)
        ended = play(problem, Wager(), world, 300, 30, 1)
        assert ended.done.all()
        assert kept(int((ended.answer != 0).sum()), 300, DELTA)


class TestFirstBatch:
    def test_sums_are_not_bet_on_but_serve_as_past(self):
        problem = Problem(BestArm(), 3, DELTA, SIGMA_1)
        trial = begin(problem, Wager())
        pulls = trial.plan.pulls
        trial = advance(problem, Wager(), trial, Batch(pulls, pulls * [5.0, 0.0, 0.0]))
        assert (trial.kept.wealth.gains == 0).all()
        assert not trial.done
        assert trial.kept.alternative.leader == 0
        trial = advance(problem, Wager(), trial, Batch(trial.plan.pulls, trial.plan.pulls * [5.0, 0.0, 0.0]))
        assert trial.done

    def test_with_parts_one_large_batch_may_be_enough(self):
        problem = Problem(BestArm(), 3, DELTA, SIGMA_1)
        ended = play(problem, Wager(), normal(np.array([5.0, 0.0, 0.0])), 50, 1, 1)
        assert ended.done.all()

    @pytest.mark.parametrize(("question", "event"), [(BestArm(), arm_0_rejected), (Above(0.5), half_the_arms_rejected)])
    def test_sorted_rows_cut_into_parts_break_it_and_permuted_ones_do_not(self, question, event):
        """0/1 outcomes of all batches but the first: arm 0 written with its failures first, arm 1 with successes."""

        def world(in_order):
            def pulled(rng, plan, r):
                if not r:
                    return binary(np.full(2, 0.5))(rng, plan, r)
                wins = rng.binomial(plan.pulls.astype(np.int64), 0.5).astype(float)
                first = np.stack([plan.pulls[:, 0] - wins[:, 0], np.zeros(len(wins))], axis=1)  # place of the first win
                ends = np.cumsum(np.stack([np.zeros_like(wins), *cut(plan)]), axis=0)
                before = np.clip(ends - first, 0.0, wins)
                if not in_order:  # partitioned at random
                    drawn = Binary().draw_part_totals(rng, np.stack(cut(plan))[:, :, None], wins[:, None], 1)[:, :, 0]
                    before = np.cumsum(np.concatenate([np.zeros((1, *wins.shape)), drawn]), axis=0)
                return join_parts([Batch(n, won) for n, won in zip(cut(plan), np.diff(before, axis=0), strict=True)])

            return pulled

        setting = {"noise": Binary(), "policy": Wager(first_pulls=40), "arms": 2, "batches": 5}
        assert broken(rejected(question, world(True), event, **setting), RUNS, DELTA)
        assert kept(rejected(question, world(False), event, **setting), RUNS, DELTA)


def whole(files):
    """One batch of several files, as it is when they are held until all are there."""
    return join_parts(files)._replace(parts=None)


class TestSeveralFiles:
    """A batch that comes in four files."""

    def outcome(self, tell):
        problem, policy = Problem(BestArm(), 2, DELTA, SIGMA_1), Wager()
        rng, trial, ever = np.random.default_rng(1), begin(problem, policy, (RUNS,)), np.zeros(RUNS, dtype=bool)
        for _ in range(4):
            files = [Batch(n, noise_of(rng, n)) for n in cut(trial.plan._replace(parts=4))]
            for batch in tell(files):
                trial = advance(problem, policy, trial, batch)
            ever |= trial.kept.wealth.rejected[:, 0]
        return int(ever.sum())

    def test_held_and_joined_they_are_one_batch(self):
        assert kept(self.outcome(lambda files: [whole(files)]), RUNS, DELTA)

    def test_in_the_order_in_which_they_came_they_are_parts(self):
        assert kept(self.outcome(lambda files: [join_parts(files)]), RUNS, DELTA)

    def test_one_after_the_other_they_are_batches(self):
        assert kept(self.outcome(lambda files: files), RUNS, DELTA)

    def test_files_that_repeat_what_came_before_break_it(self):
        """Exports that grow: a part is bet on, and then again as part of the merged batch."""
        assert broken(self.outcome(lambda files: [whole(files[: i + 1]) for i in range(4)]), RUNS, DELTA)

    def test_the_same_file_twice_breaks_it(self):
        assert broken(self.outcome(lambda files: [file for file in files for _ in range(2)]), RUNS, DELTA)


INSTANCE = np.array([1.0, 0.85, 0.8, 0.75, 0.7, 0.65])


def shifting(size, means, missing=False):
    """Every row of a batch is shifted alike; perhaps up to half of the results of an arm go missing."""

    def world(rng, plan, r):
        shift = size * rng.standard_normal((plan.pulls.shape[0], 1))

        def draw(n):
            came = np.floor(n * rng.uniform(0.5, 1.0, n.shape)) if missing else n
            return Batch(came, came * (means + shift) + noise_of(rng, came))

        return told(plan, draw)

    return world


class TestCommonShift:
    """A season or a new grader: comparisons within a batch do not see it."""

    @pytest.mark.long
    @pytest.mark.parametrize(("question", "event"), [(BestArm(), arm_0_rejected), (TopK(2), first_set_rejected)])
    @pytest.mark.parametrize("noise", [SIGMA_1, Gaussian(1.0)])
    def test_the_error_is_kept(self, question, event, noise):
        assert kept(rejected(question, shifting(5.0, 0.0), event, noise, arms=4), RUNS, DELTA)

    @pytest.mark.long
    @pytest.mark.parametrize("question", [BestArm(), TopK(2)])
    def test_the_efficiency_is_kept(self, question):
        """With estimates from within batches five sigma change nothing; with pooled means they ruin it."""
        problem = Problem(question, 6, DELTA, SIGMA_1)
        calm, rough = (play(problem, Wager(), shifting(size, INSTANCE), 300, 25, 1) for size in (0.0, 5.0))
        pooled = play(problem, Wager(stopping=EProcessRule(shifts=False)), shifting(5.0, INSTANCE), 300, 25, 1)
        calm_pooled = play(problem, Wager(stopping=EProcessRule(shifts=False)), shifting(0.0, INSTANCE), 300, 25, 1)
        assert rough.done.all()
        assert np.mean(rough.samples) == pytest.approx(np.mean(calm.samples), rel=1e-3)
        assert np.mean(calm.samples) == pytest.approx(np.mean(calm_pooled.samples), rel=0.05)  # protection is free
        assert np.mean(pooled.samples < 10 * np.mean(rough.samples)) < 0.5  # NaN: not done after 25 batches

    def test_pets_rule_breaks_where_batches_are_not_balanced(self):
        """The evidence of pooled means: with Track-and-Stop's batches, and with PET's when results go missing."""
        problem = Problem(BestArm(), 6, DELTA, SIGMA_1)
        for policy, missing in (
            (TrackAndStop(), False),
            (TrackAndStop(stopping=GLR(KaufmannKoolenPairwise())), False),
            (PET(), True),
        ):
            ended = play(problem, policy, shifting(5.0, INSTANCE, missing), 200, 14, 1)
            assert broken(int((ended.done & (ended.answer != 0)).sum()), 200, DELTA)
            calm = play(problem, policy, shifting(0.0, INSTANCE, missing), 200, 14, 1)
            assert kept(int((calm.done & (calm.answer != 0)).sum()), 200, DELTA)
        ours = play(problem, Wager(), shifting(5.0, INSTANCE, True), 200, 25, 1)
        assert ours.done.all()
        assert kept(int((ours.answer != 0).sum()), 200, DELTA)

    def test_pets_own_batches_are_balanced_as_long_as_it_explores(self):
        problem = Problem(BestArm(), 6, DELTA, SIGMA_1)
        ended = play(problem, PET(), shifting(5.0, INSTANCE), 100, 10, 1)
        assert kept(int((ended.answer != 0).sum()), 100, DELTA)

    def test_a_level_is_not_protected(self):
        assert kept(rejected(Above(0.0), shifting(0.0, 0.0), half_the_arms_rejected), RUNS, DELTA)
        assert broken(rejected(Above(0.0), shifting(0.1, 0.0), half_the_arms_rejected), RUNS, DELTA)
        assert broken(rejected(MinimumBelow(0.0), shifting(0.1, 0.0), none_rejected), RUNS, DELTA)

    def test_a_shift_of_each_arm_breaks_it(self):
        """A plate, a grader or a week for each arm: nothing tells it from a difference of the arms."""

        def world(rng, plan, r):
            shift = 0.05 * rng.standard_normal(plan.pulls.shape)
            return told(plan, lambda n: Batch(n, n * shift + noise_of(rng, n)))

        assert broken(rejected(BestArm(), world, arm_0_rejected), RUNS, DELTA)


class TestDependence:
    def clusters(self, size, correlation):
        """Rows in clusters of one arm, all of variance 1: design effect 1 + (size - 1) correlation."""
        sd = math.sqrt(correlation + (1 - correlation) / size)  # of a cluster's mean

        def world(as_rows):
            def draw(rng, n):
                number = np.ceil(n / size)
                sums = np.sqrt(number) * sd * rng.standard_normal(n.shape)  # of the clusters' means
                freedom = np.maximum(number - 1, 0)
                scatter = np.where(freedom > 0, rng.chisquare(np.maximum(freedom, 1)), 0.0) * sd**2
                return Batch(number, sums, scatter) if as_rows else Batch(size * number, size * sums)

            return lambda rng, plan, r: told(plan, lambda n: draw(rng, n))

        return world

    def test_clusters_break_it(self):
        assert broken(rejected(BestArm(), self.clusters(7, 0.5)(False), arm_0_rejected), RUNS, DELTA)

    def test_cluster_means_as_rows_keep_it(self):
        times = rejected(BestArm(), self.clusters(7, 0.5)(True), arm_0_rejected, Normal())
        assert kept(times, RUNS, DELTA)

    def paired(self, correlation):
        """Row i of every arm is of the same item: normal rewards with this correlation between arms."""

        def draw(rng, n):
            order = np.argsort(n, axis=-1)
            more = np.diff(np.take_along_axis(n, order, axis=-1), axis=-1, prepend=0.0)
            common = np.empty_like(n)
            np.put_along_axis(common, order, np.cumsum(noise_of(rng, more), axis=-1), axis=-1)
            return math.sqrt(correlation) * common + math.sqrt(1 - correlation) * noise_of(rng, n)

        return rows(draw)

    @pytest.mark.parametrize("correlation", [0.5, 0.9])
    def test_paired_items_keep_best_arm(self, correlation):
        assert kept(rejected(BestArm(), self.paired(correlation), arm_0_rejected, arms=5), RUNS, DELTA)

    @pytest.mark.long
    @pytest.mark.parametrize("correlation", [0.7, 0.9])
    def test_paired_items_break_the_product_over_arms(self, correlation):
        """Which arms are above: ten arms that are wrong together."""

        def all_rejected(problem):
            return lambda trial: trial.kept.wealth.below.sum(axis=-1) >= math.log(1 / problem.delta)

        assert kept(rejected(Above(0.0), self.paired(0.0), all_rejected, arms=10), RUNS, DELTA)
        assert broken(rejected(Above(0.0), self.paired(correlation), all_rejected, arms=10), RUNS, DELTA)

    def test_unequal_variances_break_the_pooled_t_bet(self):
        same_sd, other_sd = (normal(np.zeros(5), np.array([sd, 1.0, 1.0, 1.0, 1.0])) for sd in (1.0, 3.0))
        assert kept(rejected(BestArm(), same_sd, arm_0_rejected, EqualVariances(), arms=5), RUNS, DELTA)
        assert broken(rejected(BestArm(), other_sd, arm_0_rejected, EqualVariances(), arms=5), RUNS, DELTA)
        assert kept(rejected(BestArm(), other_sd, arm_0_rejected, Normal(), arms=5), RUNS, DELTA)
        assert kept(rejected(BestArm(), other_sd, arm_0_rejected, SubGaussian(3.0), arms=5), RUNS, DELTA)

    def test_unequal_variances_do_not_break_levels(self):
        """There every arm has its own variance."""
        world = normal(np.zeros(4), np.array([3.0, 1.0, 0.1, 10.0]))
        assert kept(rejected(Above(0.0), world, half_the_arms_rejected, Normal(), arms=4), RUNS, DELTA)


class TestNoiseModels:
    def test_bounded_values_as_sums_are_bet_on_as_sub_gaussian(self):
        """Without the values the range is all that is known."""
        trials = []
        for noise in (Bounded(-1.0, 3.0), SubGaussian(2.0)):
            problem = Problem(BestArm(), 2, DELTA, noise)
            trial = begin(problem, Wager())
            for totals in ([20.0, -3.0], [40.0, 0.0]):
                pulls = np.full(2, 60.0)
                trial = advance(problem, Wager(), trial, Batch(pulls, np.array(totals)))
            trials.append(trial)
        same(trials[0].kept.wealth, trials[1].kept.wealth)
        assert (trials[0].kept.wealth.gains != 0).all()


def bets_by_rival(problem, policy, world, won, batches, seed):
    """What was won against each cell in favour of each arm, after more batches; and where cell 0 was ever rejected."""
    rng = np.random.default_rng(seed)
    trial = begin(problem, policy, (len(won),))
    trial = trial._replace(kept=trial.kept._replace(wealth=trial.kept.wealth._replace(gains=won.sum(axis=-1))))
    happened = np.zeros(len(won), dtype=bool)
    for r in range(batches):
        before = trial.kept
        rival = before.alternative.rival
        trial = advance(problem, policy, trial, world(rng, trial.plan, r))
        gain = trial.kept.wealth.gains - before.wealth.gains
        won = won + gain[..., None] * (rival[..., None] == np.arange(problem.arms))
        happened |= trial.kept.wealth.rejected[:, 0]
    return won, happened


class TestChangesOfMind:
    def test_an_arm_that_is_added_because_of_the_data(self):
        """Whenever the best arm is not rejected after six batches, a better one (by next to nothing) is added.

        Started at 1, every addition may cost another delta; started at the smallest current E, all together cost one.
        """
        problem, policy = Problem(BestArm(), 2, DELTA, Gaussian(1.0)), Wager()

        def errors(start_of):
            gains = np.zeros((RUNS, 2))
            wrong = np.zeros(RUNS, dtype=bool)
            for addition in range(6):
                trial = begin(problem, policy, (RUNS,))
                begun = trial.kept._replace(wealth=trial.kept.wealth._replace(gains=gains))
                ended = play(
                    problem, policy, normal(np.zeros(2)), RUNS, 6, addition, arm_0_rejected(problem),
                    start=trial._replace(kept=begun),
                )  # fmt: skip
                wrong |= ended.happened
                after = ended.trial.kept.wealth.gains
                gains = np.stack([start_of(after), after[:, 1]], axis=-1)
            return int(wrong.sum())

        assert kept(errors(lambda gains: gains.min(axis=-1)), RUNS, DELTA)
        assert broken(errors(lambda gains: np.zeros(RUNS)), RUNS, DELTA)

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("carried", "promise"),
        [
            ("the smaller purse", kept),  # of the arm and the one dropped
            ("its bets on the others", broken),
        ],
    )
    def test_an_arm_that_is_dropped_because_of_the_data(self, carried, promise):
        """Six equal arms. After every six batches the arm is dropped that speaks most for arm 0."""

        def batch(rng, plan, r):
            return Batch(plan.pulls, rng.normal(0.0, np.sqrt(plan.pulls)))

        won = np.zeros((RUNS, 6, 6))  # log of what was won against each cell in favour of each arm
        wrong = np.zeros(RUNS, dtype=bool)
        for arms in range(6, 1, -1):
            problem, policy = Problem(BestArm(), arms, DELTA, Gaussian(1.0)), Wager()
            won, happened = bets_by_rival(problem, policy, batch, won, batches=6, seed=arms)
            wrong |= happened
            dropped = won[:, 0, 1:].argmin(axis=-1) + 1
            stay = np.array([np.delete(np.arange(arms), each) for each in dropped])
            purse = won.sum(axis=-1)
            won = np.take_along_axis(np.take_along_axis(won, stay[:, :, None], axis=1), stay[:, None, :], axis=2)
            if carried == "the smaller purse":
                least = np.minimum(purse, np.take_along_axis(purse, dropped[:, None], axis=-1))
                won = np.take_along_axis(least, stay, axis=-1)[:, :, None] * np.eye(arms - 1)
            wrong |= won[:, 0].sum(axis=-1) >= problem.goal
        assert promise(int(wrong.sum()), RUNS, DELTA)

    def test_what_was_won_in_favour_of_a_dropped_arm_is_no_evidence_among_the_others(self):
        """The best of three arms is dropped: the other two, equal, have both lost against it."""
        problem = Problem(BestArm(), 3, DELTA, SIGMA_1)
        gains = play(problem, Wager(), normal(np.array([1.0, 0.0, 0.0])), RUNS, 4, 1).trial.kept.wealth.gains
        assert broken(int((gains[:, 1] >= problem.goal).sum()), RUNS, DELTA)
        assert kept(int((np.minimum(gains[:, 1], gains[:, 0]) >= problem.goal).sum()), RUNS, DELTA)

    def test_delta_changed_after_looking(self):
        """Planned at .01; whoever then settles for .3 where that looks good has an error of up to .3, not of .01."""
        problem = Problem(BestArm(), 2, 0.01, SIGMA_1)

        def reaches(delta):
            return lambda trial: trial.kept.wealth.gains[:, 0] >= math.log(1 / delta)

        times = int(play(problem, Wager(), normal(np.zeros(2)), RUNS, 12, 1, reaches(0.3)).happened.sum())
        assert kept(times, RUNS, 0.3)
        assert broken(times, RUNS, 0.01)

    def test_what_is_not_rejected_is_a_confidence_set_at_any_time(self):
        """Stopped early, the best arm is among those left with probability 1 - delta; the guess promises nothing."""
        problem = Problem(BestArm(), 4, 0.1, SIGMA_1)
        means = np.array([0.05, 0.0, 0.0, 0.0])
        left = play(problem, Wager(first_pulls=10), normal(means), RUNS, 8, 1, arm_0_rejected(problem))
        assert kept(int(left.happened.sum()), RUNS, 0.1)
        early = play(problem, Wager(first_pulls=10), normal(means), RUNS, 2, 1).trial
        assert broken(int((early.record.means.argmax(axis=-1) != 0).sum()), RUNS, 0.1)
        assert (~early.kept.wealth.rejected).sum(axis=-1).mean() > 2  # which the set says

    @pytest.mark.long
    def test_peeking_is_free(self):
        """Thirty looks at a growing sample: the bets keep delta, a 5 % z-test at every look does not."""
        problem = Problem(BestArm(), 2, DELTA, SIGMA_1)
        policy = Wager(first_pulls=20, growth=0.15)

        def z_test(trial):
            (n_0, n_1), (m_0, m_1) = trial.record.counts.T, trial.record.means.T
            return (m_1 - m_0) / np.sqrt(1 / n_0 + 1 / n_1) > norm.ppf(1 - DELTA)

        assert kept(
            rejected(BestArm(), normal(np.zeros(2)), arm_0_rejected, policy=policy, arms=2, batches=30), RUNS, DELTA
        )
        looked = play(problem, policy, normal(np.zeros(2)), RUNS, 30, 1, z_test)
        assert broken(int(looked.happened.sum()), RUNS, DELTA)
