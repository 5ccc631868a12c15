"""Fake and replayed worlds: the law of the totals, and tables that cannot be used."""

import numpy as np
import pytest

from roundwise import (
    PET,
    BernoulliArms,
    BestArm,
    Binary,
    Bounded,
    DataError,
    GaussianArms,
    InputError,
    Wager,
    simulate,
)
from roundwise.environments import RandomGaps, Replay


def pulled(environment, pulls, runs=40_000):
    rng = np.random.default_rng(4)
    batch, _ = environment.pull(rng, environment.initial_state(rng, runs), np.tile(pulls, (runs, 1)))
    return batch.totals


def test_gaussian_totals():
    totals = pulled(GaussianArms([1.0, -2.0], sigma=3.0), np.array([4.0, 25.0]))
    np.testing.assert_allclose(totals.mean(axis=0), [4, -50], atol=5 * 15 / 200)
    np.testing.assert_allclose(totals.std(axis=0), [6, 15], rtol=0.02)


def test_bernoulli_totals():
    totals = pulled(BernoulliArms([0.1, 0.9]), np.array([10.0, 50.0]))
    np.testing.assert_allclose(totals.mean(axis=0), [1, 45], atol=5 * 2.2 / 200)
    np.testing.assert_allclose(totals.var(axis=0), [0.9, 4.5], rtol=0.04)


@pytest.mark.parametrize("environment", [GaussianArms([1.0, 2.0]), BernoulliArms([0.5, 0.6])])
def test_no_pulls_give_nothing(environment):
    assert (pulled(environment, np.array([0.0, 0.0]), runs=5) == 0).all()


def test_random_instances_differ_between_runs():
    world = GaussianArms(RandomGaps(arms=4)).initial_state(np.random.default_rng(0), 6)
    assert len(np.unique(world.means[:, 1])) == 6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianArms([1.0, np.nan]), "NaN"),
        (lambda: GaussianArms([1.0]), "at least two arms"),
        (lambda: GaussianArms([[1.0, 2.0]]), "one instance"),
        (lambda: GaussianArms([1.0, 2.0], sigma=-1), "`sigma` is -1"),
        (lambda: BernoulliArms([0.5, 1.5]), "between 0 and 1"),
    ],
)
def test_impossible_worlds(make, message):
    with pytest.raises(InputError, match=message):
        make()


class TestTables:
    def write(self, tmp_path, text, encoding="utf-8"):
        path = tmp_path / "table.csv"
        path.write_bytes(text.encode(encoding))
        return path

    def test_a_table_with_a_byte_order_mark_and_repeated_rows(self, tmp_path):
        path = self.write(tmp_path, "arm,outcome,count\na,0,3\na,1,1\nb,0,1\nb,1,2\nb,1,2\n", "utf-8-sig")
        table = Replay.from_csv(path)
        assert table.names == ("a", "b")
        assert table.counts.tolist() == [[3, 1], [1, 4]]
        assert table.noise == Binary()

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "table.csv"),
            ("arm,outcome,count\n", "the table is empty"),
            ("arm,outcome\na,1\n", "line 1.*'count'"),
            ("arm,outcome,count\na,x,1\n", "line 2.*'x'"),
            ("arm,outcome,count\na,1,1\nb,nan,1\n", "line 3.*'nan'"),
            ("arm,outcome,count\na,1,1.5\n", "line 2.*'1.5'"),
            ("arm,outcome,count\na,1,-2\n", "line 2.*'-2'"),
            ("arm,outcome,count\na,1\n", "line 2"),
            ("arm,outcome,count\n,1,2\n", "line 2"),
            ("arm,outcome,count\na,1,2\na,0,2\n", "arms"),
            ("arm,outcome,count\na,1,2\nb,1,2\n", "every outcome is 1"),
            ("arm,outcome,count\na,1,2\na,0,1\nb,1,0\n", "'b'"),
            ("instance,arm,outcome,count\nx,a,1,2\ny,a,1,2\n", "Choose an instance"),
        ],
    )
    def test_tables_that_cannot_be_used(self, tmp_path, text, message):
        with pytest.raises(DataError, match=message):
            Replay.from_csv(self.write(tmp_path, text))

    def test_an_instance_that_is_not_there(self, tmp_path):
        path = self.write(tmp_path, "instance,arm,outcome,count\nspring,a,1,2\n")
        with pytest.raises(InputError, match=r"'sprng'.*'spring'"):
            Replay.from_csv(path, "sprng")

    def test_an_instance_where_there_are_none(self, tmp_path):
        path = self.write(tmp_path, "arm,outcome,count\na,1,2\n")
        with pytest.raises(DataError, match="no column 'instance'"):
            Replay.from_csv(path, "x")

    def test_binary_rubbish_and_no_file(self, tmp_path):
        path = tmp_path / "table.csv"
        path.write_bytes(b"\xff\xfe\x00\x01" * 10)
        with pytest.raises(DataError, match=r"table.csv"):
            Replay.from_csv(path)
        with pytest.raises(DataError, match=r"tible.csv.*table.csv"):
            Replay.from_csv(tmp_path / "tible.csv")


class TestReplay:
    table = Replay(("a", "b"), np.array([0.0, 1.0, 2.0]), np.array([[5.0, 3.0, 2.0], [2.0, 2.0, 6.0]]))

    def test_only_0_and_1_are_0_1_outcomes(self):
        assert Replay(("a", "b"), [0.0, 1.0], [[1, 2], [2, 1]]).noise == Binary()
        assert Replay(("a", "b"), [0.0, 0.5, 1.0], [[1, 2, 3], [3, 2, 1]]).noise == Bounded(0.0, 1.0)
        with pytest.raises(InputError, match="column"):
            Replay(("a", "b"), [0.0, 1.0], [[1, 2]])

    def test_truth_and_noise(self):
        world = self.table.initial_state(np.random.default_rng(0), 3)
        np.testing.assert_allclose(world.means, [[0.7, 1.4]] * 3)
        assert self.table.noise == Bounded(0.0, 2.0)

    @pytest.mark.parametrize("replacement", [True, False])
    def test_totals_have_the_right_law(self, replacement):
        """Mean and variance of the total of 4 draws, from the table by hand (finite-population factor 6/9 without)."""
        table = Replay(self.table.names, self.table.outcomes, self.table.counts, replacement)
        rng = np.random.default_rng(1)
        pulls = np.full((20_000, 2), 4.0)
        batch, _ = table.pull(rng, table.initial_state(rng, 20_000), pulls)
        variance = np.array([0.61, 0.64]) * 4 * (1 if replacement else 6 / 9)
        np.testing.assert_allclose(batch.totals.mean(axis=0), [2.8, 5.6], atol=5 * np.sqrt(variance.max() / 20_000))
        np.testing.assert_allclose(batch.totals.var(axis=0), variance, rtol=0.06)

    def test_without_replacement_everything_comes_back_once(self):
        table = Replay(self.table.names, self.table.outcomes, self.table.counts, replacement=False)
        rng = np.random.default_rng(2)
        world = table.initial_state(rng, 50)
        totals = np.zeros((50, 2))
        for _ in range(5):
            batch, world = table.pull(rng, world, np.full((50, 2), 3.0))
            totals += batch.totals
        assert (totals == [7.0, 14.0]).all()
        assert (batch.counts == 0).all()

    def test_used_up_data_ends_undecided(self):
        table = Replay(self.table.names, self.table.outcomes, self.table.counts, replacement=False)
        (runs,) = simulate(BestArm(), table, [PET()], runs=10)
        assert not runs.decided.any()
        assert (runs.samples == 20).all()


@pytest.mark.parametrize("parts", [1, 4])
def test_how_many_ones_there_were_says_what_every_row_was(parts):
    world, rng = BernoulliArms([0.1, 0.5, 1.0]), np.random.default_rng(1)
    state, pulls = world.initial_state(rng, 5), np.broadcast_to([17.0, 8.0, 0.0], (5, 3))
    batch, _ = world.pull_parts(rng, state, pulls, parts, 1, "rows")
    for run, arm in np.ndindex(5, 3):
        ones = int(batch.totals[run, arm])
        rows = np.repeat([0.0, 1.0], [int(pulls[run, arm]) - ones, ones])
        off = rows - (rows.mean() if rows.size else 0.0)
        assert batch.table.counts[run, arm].tolist() == [rows.size - ones, ones]
        assert batch.scatter[run, arm] == pytest.approx((off**2).sum(), abs=1e-9)
        assert batch.cubes[run, arm] == pytest.approx((off**3).sum(), abs=1e-9)


def test_zeros_and_ones_need_no_more_as_values_in_a_range():
    """Simulated as sums they would be bet on by their range alone, at six times the samples."""
    policy, world = [Wager(first_pulls=300)], BernoulliArms([0.05, 0.04])
    ours, known = (
        simulate(BestArm(), world, policy, runs=60, noise=noise, seed=9)[0].samples.mean()
        for noise in (Bounded(0.0, 1.0), Binary())
    )
    assert ours < 1.3 * known
