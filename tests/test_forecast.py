"""What lies ahead of a study in assumed worlds: their results, how they are partitioned, and where many runs end."""

import math

import numpy as np
import pytest

from roundwise import (
    PET,
    Above,
    AnyAbove,
    BernoulliArms,
    BestArm,
    Binary,
    Bounded,
    Claims,
    ConditionalPower,
    Gaussian,
    GaussianArms,
    InputError,
    Normal,
    Poisson,
    Problem,
    Rounds,
    SubGaussian,
    TopK,
    Wager,
    simulate,
)
from roundwise.planning.forecast import (
    LeadPrior,
    ResultsSoFar,
    allowed_world,
    draw_means,
    partitions_for,
    simulate_ahead,
)
from roundwise.planning.scenarios import IncompleteResults
from roundwise.policies import TriBBAI
from roundwise.simulation.environments import TableArms, deviations, limited_world, world_of

SIGMAS = 4.5  # of two means that ought to be the same: a false alarm in 150 000


def agree(one, other):
    """Whether two samples may have the same mean."""
    error = math.hypot(np.std(one) / math.sqrt(len(one)), np.std(other) / math.sqrt(len(other)))
    return abs(np.mean(one) - np.mean(other)) <= SIGMAS * error + 1e-12


class TestDealings:
    """Rows are drawn once and partitioned several times, whatever is known of them."""

    WORLDS = (
        (GaussianArms([0.5, -1.0], 2.0), "squares"),
        (BernoulliArms([0.3, 0.6]), "sums"),
        (limited_world(Bounded(0, 1), np.array([0.3, 0.6]), 0.2), "rows"),
    )

    @pytest.mark.parametrize("missing", [0.0, 0.2])
    @pytest.mark.parametrize(("world", "needs"), WORLDS, ids=[needs for _, needs in WORLDS])
    def test_parts_add_up_and_every_partition_has_the_same_law(self, world, needs, missing):
        rng, runs, partitions = np.random.default_rng(5), 4000, 3
        world = IncompleteResults(world, missing) if missing else world
        now = world.initial_state(rng, runs)
        batch, _ = world.pull_parts(rng, now, np.full((runs, 2), 40.0), 4, partitions, needs)
        parts = batch.parts
        assert parts.totals.shape == (runs, partitions, 2, 4)
        assert (parts.counts.sum(axis=-1) == batch.counts[:, None]).all()
        assert np.allclose(parts.totals.sum(axis=-1), batch.totals[:, None])
        law = [parts.totals[:, :, 1, 2]]
        if needs != "sums":
            counts = np.maximum(parts.counts, 1.0)
            off = (
                counts * (parts.totals / counts - (batch.totals / np.maximum(batch.counts, 1.0))[:, None, :, None]) ** 2
            )
            whole = (parts.scatter + off).sum(axis=-1)
            assert np.allclose(whole, batch.scatter[:, None])
            law += [parts.scatter[:, :, 1, 2]]
        if needs == "rows":
            assert (parts.table.counts.sum(axis=-2) == batch.table.counts[:, None]).all()
            law += [parts.table.counts[:, :, 1, 2, 10]]
        for values in law:
            for other in range(1, partitions):
                assert agree(values[:, 0], values[:, other])
                assert agree(values[:, 0] ** 2, values[:, other] ** 2)
                assert abs(np.corrcoef(values[:, 0], values[:, other])[0, 1]) < 0.6  # not the same order again

    def test_few_where_arms_are_many(self):
        few, many = (Problem(BestArm(), arms, 0.05, Binary()) for arms in (3, 1000))
        assert [partitions_for(few, first) for first in (True, False)] == [16, 4]
        assert [partitions_for(many, first) for first in (True, False)] == [4, 1]


class TestWorlds:
    @pytest.mark.parametrize("deviation", [None, 0.1, 0.3, 2.0])
    def test_between_two_limits(self, deviation):
        means = np.array([1.2, 1.5, 2.9])
        world = limited_world(Bounded(1, 3), means, deviation)
        assert world.shares @ world.values == pytest.approx(means, abs=1e-9)
        spread = np.sqrt(world.shares @ world.values**2 - means**2)
        widest = np.sqrt((means - 1) * (3 - means))
        assert spread == pytest.approx(np.minimum(0.5 if deviation is None else deviation, widest), rel=0.05)
        assert deviations(Bounded(1, 3), means, deviation) == pytest.approx(spread)

    def test_a_table_is_drawn_from_its_shares(self):
        world = limited_world(Bounded(0, 1), np.array([0.3, 0.6]), 0.2)
        batch, _ = world.pull(
            np.random.default_rng(1), world.initial_state(np.random.default_rng(1), 3), np.full((3, 2), 1e5), "rows"
        )
        assert (batch.totals / 1e5) == pytest.approx(np.tile([0.3, 0.6], (3, 1)), abs=0.005)
        assert batch.scatter / 1e5 == pytest.approx(np.full((3, 2), 0.04), rel=0.03)
        assert (batch.table.counts.sum(axis=-1) == 1e5).all()

    def test_missing_results(self):
        world = IncompleteResults(BernoulliArms([0.3, 0.6]), 0.25)
        batch, _ = world.pull(
            np.random.default_rng(1), world.initial_state(np.random.default_rng(1), 4), np.full((4, 2), 1e5)
        )
        assert batch.counts / 1e5 == pytest.approx(np.full((4, 2), 0.75), abs=0.01)
        assert batch.totals / batch.counts == pytest.approx(np.tile([0.3, 0.6], (4, 1)), abs=0.01)

    def test_what_the_data_allow(self):
        """Alike arms with few results are drawn together; what is known for sure stays."""
        rng = np.random.default_rng(1)
        alike = draw_means(rng, 4000, np.array([0.1, 0.0, -0.1, 0.05]), np.full(4, 0.01), 0.3)
        assert alike.std(axis=1).mean() < 0.8 * np.sqrt(0.01 + np.var([0.1, 0.0, -0.1, 0.05]))
        apart = draw_means(rng, 4000, np.array([1.0, 0.0, -1.0]), np.full(3, 1e-4), 0.3)
        assert apart.mean(axis=0) == pytest.approx([1, 0, -1], abs=0.003)
        assert apart.std(axis=0) == pytest.approx([0.01] * 3, rel=0.1)

    @pytest.mark.long
    @pytest.mark.parametrize("question", [None, BestArm(lower_is_better=True), TopK(2), Above(0.1), AnyAbove(0.1)])
    def test_draws_are_the_posterior(self, question):
        """Against importance sampling from the prior, which knows nothing of the formulas."""
        estimate, variance = np.array([0.4, 0.0, -0.2]), np.array([0.02, 0.05, 0.01])
        rng, size, lead = np.random.default_rng(2), 400_000, 0.2
        prior = None if question is None else LeadPrior.of(question, 3, lead)
        scale = 0.3 if question is None or question.level is None else 1.5 * lead
        between = np.abs(scale * rng.standard_cauchy(2 * size))
        between = between[between < 50 * scale][:size, None]  # as far as the grid goes
        centre = rng.uniform(-4, 4, (size, 1))
        if question is not None and question.level is not None:
            centre = np.full((size, 1), question.level)
        means = centre + between * rng.standard_normal((size, 3))
        if question is not None:  # half of the time in a pattern
            apart = np.abs(1.5 * rng.standard_normal(2 * size))
            apart = lead * apart[apart < 4.05][:size, None]
            signs = 2.0 * rng.integers(0, 2, (size, 3)) - 1
            if isinstance(question, AnyAbove):
                signs = np.where(rng.integers(0, 2, (size, 1)) * (np.arange(3) == rng.integers(0, 3, (size, 1))), 1, -1)
            elif question.level is None:
                sought = rng.random((size, 3)).argsort(axis=1) < question.number_sought
                signs = question.sign * sought
            means = np.where(rng.integers(0, 2, (size, 1)), means, centre + apart * signs)
        weight = np.exp(-0.5 * ((means - estimate) ** 2 / variance).sum(axis=1))
        weight /= weight.sum()
        found = draw_means(rng, 100_000, estimate, variance, 0.3, prior)
        mean = weight @ means
        assert found.mean(axis=0) == pytest.approx(mean, abs=0.01)
        assert np.cov(found.T) == pytest.approx((weight * (means - mean).T) @ (means - mean), abs=0.004)

    @pytest.mark.parametrize(
        "noise",
        [Binary(), Poisson(), Bounded(0, 1), Gaussian(0.3), SubGaussian(0.3), Normal()],
        ids=lambda n: n.name,
    )
    def test_every_model_has_them(self, noise):
        counts = np.array([400.0, 300.0, 200.0])
        data = ResultsSoFar(counts=counts, totals=counts * [0.3, 0.5, 0.4], scatter=counts * 0.09, freedom=counts)
        world = allowed_world(noise, data, 1)
        means = world.initial_state(np.random.default_rng(1), 2000).means
        assert means.mean(axis=0) == pytest.approx([0.3, 0.5, 0.4], abs=0.03)
        if isinstance(noise, Bounded):
            assert isinstance(world, TableArms)

    def test_nothing_to_go_by(self):
        nothing = np.zeros(2)
        with pytest.raises(InputError, match="no results yet"):
            allowed_world(Binary(), ResultsSoFar(counts=nothing, totals=nothing), 1)
        with pytest.raises(InputError, match="deviation"):
            allowed_world(Normal(), ResultsSoFar(counts=nothing + 2, totals=nothing), 1)


class TestAhead:
    @pytest.mark.parametrize("policy", [Wager(), Wager(max_batch=400), PET()], ids=["wager", "limited", "pet"])
    def test_as_a_simulation(self, policy):
        """A fresh simulation needs the same, in results, rounds and of each arm."""
        rates = [0.6, 0.4, 0.3]
        problem = Problem(BestArm(), 3, 0.05, Binary())
        ends = simulate_ahead(problem, policy, BernoulliArms(rates), runs=400, seed=1)
        (runs,) = simulate(BestArm(), BernoulliArms(rates), [policy], runs=400, seed=2, keep_counts=True)
        assert agree(ends.samples, runs.samples)
        assert agree(ends.rounds, runs.batches)
        for i in range(3):
            assert agree(ends.counts[:, i], runs.counts[:, i])
        assert ends.decided.all()

    @pytest.mark.parametrize("most", [100, 700, 1501])
    def test_the_budget_is_never_passed(self, most):
        """And a simulation that ends there is decided as often."""
        problem, rates = Problem(BestArm(), 3, 0.05, Binary()), [0.5, 0.4, 0.4]
        policy = Rounds(Wager(max_batch=200), budget=most)
        ends = simulate_ahead(problem, policy, BernoulliArms(rates), runs=300, seed=1)
        assert (ends.samples[~ends.decided] == most).all()
        assert ends.samples.max() <= most
        (runs,) = simulate(BestArm(), BernoulliArms(rates), [Wager(max_batch=200)], runs=300, seed=2, max_samples=most)
        assert agree(ends.decided, runs.decided)
        assert agree(ends.samples, runs.samples)

    def test_rounds_and_splits(self):
        problem = Problem(BestArm(), 3, 0.05, Binary())
        policy = Rounds(Wager(), budget=1000, round_size=100, split=(2, 1, 1))
        ends = simulate_ahead(problem, policy, BernoulliArms([0.6, 0.4, 0.4]), runs=50, seed=1)
        assert np.array_equal(ends.samples, 100 * ends.rounds)
        assert np.array_equal(ends.counts[:, 0], ends.samples / 2)

    def test_exacting_rules_end_where_the_budget_does_not_cover_a_batch(self):
        problem = Problem(BestArm(), 2, 0.05, Gaussian())
        policy = Rounds(TriBBAI(), budget=13)
        ends = simulate_ahead(problem, policy, world_of(Gaussian(), [1.0, 0.0]), runs=20, seed=1)
        assert not ends.decided.any()
        assert (ends.samples < 13).all()

    def test_missing_results_are_asked_for_and_paid(self):
        problem = Problem(BestArm(), 2, 0.05, Binary())
        sure = simulate_ahead(problem, Wager(), BernoulliArms([0.6, 0.45]), runs=400, seed=1)
        half = simulate_ahead(problem, Wager(), IncompleteResults(BernoulliArms([0.6, 0.45]), 0.5), runs=400, seed=1)
        assert 1.5 < half.samples.mean() / sure.samples.mean() < 2.5

    @pytest.mark.long
    @pytest.mark.parametrize("limited", [Wager(max_batch=50), Rounds(Wager(), round_size=50)], ids=["max", "round"])
    def test_many_rounds_are_taken_together(self, limited):
        """Past forty rounds the forecast is at most a few per cent too large."""
        problem, world = Problem(BestArm(), 2, 0.05, Binary()), BernoulliArms([0.54, 0.5])
        coarse = simulate_ahead(problem, limited, world, runs=150, seed=1)
        (fine,) = simulate(BestArm(), world, [limited], runs=150, seed=1)
        assert coarse.steps < fine.batches.max()
        assert np.median(fine.batches) > 60
        assert coarse.rounds == pytest.approx(np.ceil(coarse.samples / 50), abs=0.07 * np.max(coarse.rounds))
        assert np.mean(coarse.samples) / np.mean(fine.samples) == pytest.approx(1.0, abs=0.2)

    def test_claims_without_a_budget_end_when_all_that_is_true_is_shown(self):
        problem = Problem(Claims.against_control(3), 3, 0.05, Gaussian())
        ends = simulate_ahead(problem, ConditionalPower(), world_of(Gaussian(), [0.0, 0.0, 1.0]), runs=50, seed=1)
        assert ends.decided.all()
        assert ends.shown[:, 1].all()
        assert np.isfinite(ends.samples).all()

    def test_claims_as_a_simulation(self):
        rates = [0.3, 0.3, 0.5]
        question = Claims.against_control(3)
        policy = Rounds(ConditionalPower(), budget=300)
        problem = Problem(question, 3, 0.05, Binary())
        ends = simulate_ahead(problem, policy, BernoulliArms(rates), runs=400, seed=1)
        (runs,) = simulate(question, BernoulliArms(rates), [policy], runs=400, seed=2)
        assert agree(ends.samples, runs.samples)
        for j in range(2):
            assert agree(ends.shown[:, j], runs.answer[:, j])
        assert agree(ends.correct, runs.correct)
