"""Rows are kept in random order, or in random strata, and partitioned whatever file they came in.

Files that are sorted, or cut from a sorted list, must not make the parts alike.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from roundwise import (
    BestArm,
    Binary,
    Bounded,
    Gaussian,
    Normal,
    Poisson,
    Problem,
    Wager,
    create_study,
    load_study,
)
from roundwise.ingest import Results, batch_of, parts_of, read_results, record, strata_of
from roundwise.model import batch as batches
from roundwise.model.batch import split_counts
from roundwise.model.problem import advance, begin

ALARM = 1e-4  # the probability with which each of these tests fails by chance alone, at most


def pieces(batch):
    """The parts of the first partition."""
    return [batch.parts.batch(p) for p in range(batch.parts.number)]


def sums_of(strata):
    found = record.Sums(2)
    found.add(strata.arms, strata.counts, strata.totals, strata.scatter)
    return found


def cut_into_files(values, files, order):
    """Rows of each arm (K, n) as tables: each file sorted by outcome, or the whole list sorted and then cut."""
    values = np.sort(values, axis=1) if order == "globally sorted" else values
    tables = []
    for part in np.split(values, files, axis=1):
        part = np.sort(part, axis=1)
        names = np.repeat([f"arm {i}" for i in range(len(part))], part.shape[1])
        tables.append({"arm": names.tolist(), "outcome": part.ravel()})
    return tables


def read(tables, noise, seed, arms=2):
    """The batch of these files, as a study reads them."""
    names = [f"arm {i}" for i in range(arms)]
    return batch_of([read_results(each, names, noise, parts=4, seed=seed, file=i) for i, each in enumerate(tables, 1)])


@pytest.fixture
def few_partitions(monkeypatch):
    """Luck is averaged out over fewer partitions than in a study: what is wrong in one shows more, and sooner."""
    monkeypatch.setattr(batches, "PARTITIONS", batches.FEWEST)


@pytest.mark.long
@pytest.mark.parametrize("order", ["each sorted", pytest.param("globally sorted", marks=pytest.mark.slow)])
def test_the_best_arm_is_struck_off_in_the_first_batch_with_at_most_delta(order, few_partitions):
    """Two arms with a gap of 1e-6, 80 results of each in 20 files: where every file was split alike, 1 in 6."""
    runs, rng = 300, np.random.default_rng(1)
    problem, policy = Problem(BestArm(), 2, 0.05, Gaussian(1.0)), Wager(first_pulls=80)
    wrong = 0
    for _ in range(runs):
        values = rng.normal([[1e-6], [0.0]], 1.0, (2, 80))
        batch = read(cut_into_files(values, 20, order), Gaussian(1.0), int(rng.integers(2**53)))
        assert batch.parts.number == 4
        wrong += bool(advance(problem, policy, begin(problem, policy), batch).kept.wealth.rejected[0])
    assert wrong <= binom.isf(ALARM, runs, 0.05)


def agreements(batches):
    """In how many batches two parts of the first arm lie on the same side of its mean, 0."""
    return sum((batch.parts.totals[0, 0, 0] > 0) == (batch.parts.totals[0, 0, 1] > 0) for batch in batches)


class TestPartsDoNotRepeatEachOther:
    """Sums of symmetric results in two parts have the same sign in half of all runs, if the parts are independent."""

    RUNS = 500

    def bounds(self):
        return binom.ppf(ALARM / 2, self.RUNS, 0.5), binom.isf(ALARM / 2, self.RUNS, 0.5)

    @pytest.mark.long
    @pytest.mark.parametrize("files", [2, pytest.param(10, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("order", [pytest.param("each sorted", marks=pytest.mark.slow), "globally sorted"])
    def test_in_any_order_and_cut_in_any_way(self, order, files, few_partitions):
        rng = np.random.default_rng(files)
        found = agreements(
            read(cut_into_files(rng.normal(size=(1, 80)), files, order), Gaussian(1.0), int(rng.integers(2**53)), 1)
            for _ in range(self.RUNS)
        )
        low, high = self.bounds()
        assert low <= found <= high

    def test_partitioning_every_file_evenly_would(self):
        """What must not be done: an even split of each file, with a permutation of its own. The check above sees it."""
        rng, found = np.random.default_rng(3), 0
        for _ in range(self.RUNS):
            totals = np.zeros(4)
            for values in np.split(np.sort(rng.normal(size=80)), 10):
                totals += rng.permutation(values).reshape(4, 2).sum(axis=1)
            found += (totals[0] > 0) == (totals[1] > 0)
        assert found > self.bounds()[1]

    @pytest.mark.long
    @pytest.mark.parametrize("order", [pytest.param("each sorted", marks=pytest.mark.slow), "globally sorted"])
    def test_in_lots(self, order, monkeypatch, few_partitions):
        """Also where a file has strata and another single rows."""
        monkeypatch.setattr(record, "MOST", 16)
        monkeypatch.setattr(record, "FEWEST", 16)
        rng, batches = np.random.default_rng(7), []
        for _ in range(self.RUNS):
            values = rng.normal(size=89)
            values = np.sort(values) if order == "globally sorted" else values
            files = [{"arm": ["arm 0"] * len(each), "outcome": np.sort(each)} for each in np.split(values, [40, 80])]
            batches.append(read(files, Gaussian(1.0), int(rng.integers(2**53)), 1))
        assert all(batch.parts.number == 4 and batch.counts[0] == 89 for batch in batches)
        low, high = self.bounds()
        assert low <= agreements(batches) <= high


def test_the_numbers_never_change():
    """What rows draw is part of the record of every study. (Computed with Python's whole numbers, too.)"""
    assert [int(key) for key in record.draw_keys(7, np.array([1]), np.array([5]))] == [16833097866645316574]
    assert [int(key) for key in record.draw_keys(7, np.array([1]), np.array([5]), file=3)] == [8232365585862691442]


class TestKept:
    def rows(self, size, arms=2, seed=1):
        rng = np.random.default_rng(seed)
        return {"arm": [f"arm {i}" for i in rng.integers(0, arms, size)], "outcome": rng.normal(size=size)}

    def read(self, table, noise=Gaussian(1.0), arms=2, **more):  # noqa: B008
        return read_results(table, [f"arm {i}" for i in range(arms)], noise, **more)

    def test_few_rows_are_all_there_in_another_order(self):
        table = self.rows(500)
        found = self.read(table, seed=5).strata
        for arm in range(2):
            own = table["outcome"][np.array(table["arm"]) == f"arm {arm}"]
            kept = found.totals[found.arms == arm]
            assert sorted(kept) == sorted(own)
            assert kept.tolist() != own.tolist()
        assert found.of_rows
        again = self.read(table, seed=6).strata
        assert again.totals.tolist() != found.totals.tolist()

    def test_many_rows_are_kept_in_lots(self):
        table = self.rows(20_000)
        whole = self.read(table, Normal(), seed=5)
        found = whole.strata
        assert len(found.arms) == 2 * 4096
        for each, name in ((found, "counts"), (found, "totals")):
            np.testing.assert_allclose(np.bincount(each.arms, getattr(each, name)), getattr(whole, name), atol=1e-9)
        np.testing.assert_allclose(sums_of(found).scatter, whole.scatter, rtol=1e-12)
        first = found.counts[found.arms == 0]
        expected = len(first) * (first.sum() / 4096) * (1 - 1 / 4096)  # of sum (x - mean)^2, multinomial
        assert np.sum((first - first.mean()) ** 2) == pytest.approx(expected, rel=0.15)  # 6 standard errors
        back = Results.from_payload(whole.payload())
        for name in ("arms", "counts", "totals", "scatter"):
            assert getattr(back.strata, name).tobytes() == getattr(found, name).tobytes()

    def test_not_where_values_are_asked_for(self):
        rng = np.random.default_rng(2)
        found = self.read({"arm": ["arm 0"] * 9000, "outcome": rng.random(9000)}, Bounded(0, 1), seed=1)
        assert found.strata.of_rows
        assert len(found.values[0]) == 9000

    def test_not_where_sums_say_as_much(self):
        for noise in (Binary(), Poisson()):
            assert self.read({"arm": ["arm 0"] * 9, "outcome": [1] * 9}, noise).strata is None

    def test_the_width_depends_on_the_arms(self):
        assert [record.width_for(arms) for arms in (2, 64, 65, 1000, 10**6)] == [4096, 4096, 2048, 256, 64]

    @pytest.mark.parametrize("cut", [1, 2, 7])
    def test_files_are_pooled(self, cut, monkeypatch):
        """Whatever the files: the same rows, and strata where one of them has strata."""
        monkeypatch.setattr(record, "MOST", 64)
        table = self.rows(400)
        pieces = [
            {
                "arm": table["arm"][start : start + 400 // cut + 1],
                "outcome": table["outcome"][start : start + 400 // cut + 1],
            }
            for start in range(0, 400, 400 // cut + 1)
        ]
        files = [self.read(each, seed=3, file=i) for i, each in enumerate(pieces, 1)]
        pool = strata_of(files)
        whole = self.read(table)
        np.testing.assert_allclose(sums_of(pool).counts, whole.counts)
        np.testing.assert_allclose(sums_of(pool).totals, whole.totals, rtol=1e-12)
        np.testing.assert_allclose(sums_of(pool).scatter, whole.scatter, rtol=1e-12)
        assert np.bincount(pool.arms).tolist() == ([64, 64] if cut < 7 else [195, 205])
        for each in range(3):
            parts = parts_of(files, 4)
            np.testing.assert_allclose(parts.totals[each].sum(axis=-1), whole.totals, rtol=1e-12)
        one, two = (parts_of(files, 4).totals[partition, :, 0].tolist() for partition in (0, 1))
        assert one != two
        assert one == parts_of(files, 4).totals[0, :, 0].tolist()


class TestParts:
    @pytest.mark.long
    def test_they_hold_all_rows(self):
        for size in range(1, 30):
            table = {"arm": ["a"] * size, "outcome": np.arange(float(size))}
            for noise in (Gaussian(1.0), Poisson()):
                found = batch_of([read_results(table, ["a", "b"], noise, parts=4, seed=size)])
                assert np.array_equal(found.parts.counts[0], split_counts(np.array([float(size), 0.0]), 4)[0])
                np.testing.assert_allclose(found.parts.totals[:, 0].sum(axis=-1), found.totals[0])

    def test_zero_one_sums_are_dealt_as_rows(self):
        """The first part of 12 results with 5 ones has the hypergeometric law, from sums and from rows."""
        ones = np.zeros(12)
        ones[:5] = 1
        law = hypergeom(12, 5, 5)
        for table, noise in (
            ({"arm": ["a"], "count": [12], "successes": [5]}, Binary()),
            ({"arm": ["a"] * 12, "outcome": ones}, Binary()),
            ({"arm": ["a"], "count": [12], "successes": [5]}, Bounded(0, 1)),
            ({"arm": ["a"], "count": [12], "total": [5]}, Binary()),
            ({"arm": ["a"] * 12, "outcome": ones}, Gaussian(1.0)),
        ):
            read = read_results(table, ["a", "b"], noise, parts=4, seed=1)
            drawn = [x for seed in range(8) for x in parts_of([replace(read, seed=seed)], 4).totals[:250, 0, 0]]
            for value in range(6):
                chance = law.pmf(value)
                found = drawn.count(value)
                assert binom.ppf(ALARM / 40, 2000, chance) <= found <= binom.isf(ALARM / 40, 2000, chance)

    def test_poisson_sums(self):
        read = read_results({"arm": ["a"], "count": [8], "total": [20]}, ["a", "b"], Poisson(), parts=4, seed=1)
        each = [parts_of([replace(read, seed=seed)], 4).totals[:250, 0, 1] for seed in range(8)]
        drawn, law = np.concatenate(each), binom(20, 3 / 8)
        assert abs(drawn.mean() - 7.5) < 4 * law.std() / np.sqrt(2000)
        assert drawn.var() == pytest.approx(law.var(), rel=0.15)  # 4.7 standard errors

    def test_sums_and_rows_together(self):
        noise = Bounded(0, 1)
        wins = read_results({"arm": ["a", "b"], "count": [40, 9], "successes": [10, 9]}, ["a", "b"], noise, parts=4)
        rows = read_results({"arm": ["a"] * 8, "outcome": [0.5] * 8}, ["a", "b"], noise, parts=4)
        batch = batch_of([wins, rows])
        assert batch.table.values.tolist() == [0, 0.5, 1]
        assert batch.table.counts.tolist() == [[30, 8, 10], [0, 0, 9]]
        assert np.array_equal(batch.parts.counts[0], split_counts(np.array([48.0, 9.0]), 4)[0])
        np.testing.assert_allclose(sum(part.table.counts for part in pieces(batch)), batch.table.counts)
        sums = read_results({"arm": ["a"], "count": [4], "total": [1]}, ["a", "b"], noise, parts=4)
        assert batch_of([wins, sums]).parts is None

    def test_items_stay_whole(self):
        items = [f"q{i}" for i in range(20)]
        table = {"q": items * 2, "arm": ["a"] * 20 + ["b"] * 20, "outcome": 2.0 ** np.tile(np.arange(20), 2)}
        from roundwise.ingest import Columns

        read = read_results(table, ["a", "b"], Gaussian(1.0), parts=4, seed=4, columns=Columns(item="q"))
        for part in pieces(batch_of([read])):
            assert part.counts[0] == part.counts[1]
            assert part.totals[0] == part.totals[1]


@pytest.fixture
def study(tmp_path):
    url = f"sqlite:///{tmp_path}/x.db"
    with create_study("s", question=BestArm(), arms=("a", "b"), noise=Gaussian(1.0), storage=url, seed=5) as study:
        yield study


def rows(day, a=30, b=30):
    """Rows with the same number of each arm in the same order, and values of their own."""
    return {"arm": ["a"] * a + ["b"] * b, "outcome": np.arange(a + b) % 5 + day}


class TestLive:
    def test_the_first_batch_has_parts_in_one_file_or_several(self, study):
        study.ask()
        for day in range(3):
            study.tell(rows(day, a=10, b=10))
        (batch,) = study.state.batches
        assert np.array_equal(batch.parts.counts[0], split_counts(np.full(2, 30.0), 4)[0])
        study.ask()
        study.tell(rows(9, a=200, b=200))
        assert study.state.batches[1].parts.number == 24

    def test_a_corrected_file_is_kept_in_an_order_of_its_own(self, study):
        study.ask()
        study.tell(rows(1))
        before = study.state.rounds[0].files[0].strata.totals - 1
        study.amend(study.state.rounds[0].files[0].digest, rows(2), "wrong day")
        after = study.state.rounds[0].files[0].strata.totals - 2
        assert before.tolist() != after.tolist()
        assert sorted(before) == sorted(after)
        assert study.state.files == 2


class TestSeed:
    def test_it_is_drawn_not_made_from_the_name(self, tmp_path):
        seeds = set()
        for i in range(3):
            with create_study(
                "same", question=BestArm(), arms=("a", "b"), noise=Binary(), storage=f"sqlite:///{tmp_path}/{i}.db"
            ) as study:
                seeds.add(study.state.spec.seed)
        assert len(seeds) == 3  # 1e-15 by chance

    def test_it_may_be_given_and_is_kept(self, tmp_path):
        given = {"question": BestArm(), "arms": ("a", "b"), "noise": Binary(), "storage": f"sqlite:///{tmp_path}/x.db"}
        create_study("s", **given, seed=7).close()
        with load_study("s", given["storage"]) as study:
            assert study.state.spec.seed == 7
        create_study("s", **given, load_if_exists=True).close()  # whatever would be drawn now
        with pytest.raises(ValueError, match="settings"):
            create_study("s", **given, load_if_exists=True, seed=8)
        with pytest.raises(ValueError, match="`seed` is -1"):
            create_study("t", **given, seed=-1)
