"""Rows of the first batch in several files: sorted, or cut from a sorted list, they must not make the parts alike."""

import numpy as np
import pytest
from scipy.stats import binom

from roundwise import BestArm, Binary, Gaussian, Problem, Wager, create_study, load_study
from roundwise.studies.results import batch_of, deal, read_results
from roundwise.trial import advance, begin

ALARM = 1e-4  # the probability with which each of these tests fails by chance alone, at most


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


@pytest.mark.parametrize("order", ["each sorted", "globally sorted"])
def test_the_best_arm_is_struck_off_in_the_first_batch_with_at_most_delta(order):
    """Two arms with a gap of 1e-6, 80 results of each in 20 files: where every file was dealt alike, 1 in 6."""
    runs, rng = 400, np.random.default_rng(1)
    problem, policy = Problem(BestArm(), 2, 0.05, Gaussian(1.0)), Wager(first_pulls=80)
    wrong = 0
    for _ in range(runs):
        values = rng.normal([[1e-6], [0.0]], 1.0, (2, 80))
        batch = read(cut_into_files(values, 20, order), Gaussian(1.0), int(rng.integers(2**53)))
        assert len(batch.parts) == 4
        wrong += bool(advance(problem, policy, begin(problem, policy), batch).kept.won.lost[0])
    assert wrong <= binom.isf(ALARM, runs, 0.05)


def agreements(batches):
    """In how many batches two parts of the first arm lie on the same side of its mean, 0."""
    return sum((batch.parts[0].totals[0] > 0) == (batch.parts[1].totals[0] > 0) for batch in batches)


class TestPartsDoNotRepeatEachOther:
    """Sums of symmetric results in two parts have the same sign in half of all runs, if the parts are independent."""

    RUNS = 500

    def bounds(self):
        return binom.ppf(ALARM / 2, self.RUNS, 0.5), binom.isf(ALARM / 2, self.RUNS, 0.5)

    @pytest.mark.parametrize("files", [2, 10])
    @pytest.mark.parametrize("order", ["each sorted", "globally sorted"])
    def test_in_any_order_and_cut_in_any_way(self, order, files):
        rng = np.random.default_rng(files)
        found = agreements(
            read(cut_into_files(rng.normal(size=(1, 80)), files, order), Gaussian(1.0), int(rng.integers(2**53)), 1)
            for _ in range(self.RUNS)
        )
        low, high = self.bounds()
        assert low <= found <= high

    def test_dealing_every_file_evenly_would(self):
        """What must not be done: an even deal of each file, with a permutation of its own. The check above sees it."""
        rng, found = np.random.default_rng(3), 0
        for _ in range(self.RUNS):
            files = np.split(np.sort(rng.normal(size=80)), 10)
            totals = np.zeros(4)
            for values in files:
                seed, arms = int(rng.integers(2**53)), np.zeros(8, dtype=np.int64)
                label = deal.labels(seed, deal.cuts(seed, np.array([8.0]), 4), arms, np.zeros(1, dtype=np.int64))
                totals += np.bincount(label, values, minlength=4)
            found += (totals[0] > 0) == (totals[1] > 0)
        assert found > self.bounds()[1]


def test_every_row_of_a_file_draws_its_part_by_itself():
    """Each place is as likely in each of four parts, and so is every pair of places, in one file and across two."""
    runs, arms = 4000, np.zeros(6, dtype=np.int64)
    found = np.array(
        [
            np.concatenate(
                [
                    deal.labels(
                        seed, deal.cuts(seed, np.array([6.0]), 4, file), arms, np.zeros(1, dtype=np.int64), file
                    )
                    for file in (1, 2)
                ]
            )
            for seed in range(runs)
        ]
    )
    looks = 12 * 4 + 66
    low, high = (binom.ppf(ALARM / looks / 2, runs, 0.25), binom.isf(ALARM / looks / 2, runs, 0.25))
    for place in range(12):
        assert all(low <= (found[:, place] == part).sum() <= high for part in range(4))
        for other in range(place):
            assert low <= (found[:, place] == found[:, other]).sum() <= high


@pytest.fixture
def study(tmp_path):
    url = f"sqlite:///{tmp_path}/x.db"
    with create_study("s", question=BestArm(), arms=("a", "b"), noise=Gaussian(1.0), storage=url, seed=5) as study:
        yield study


def rows(day, a=30, b=30):
    """Rows with the same number of each arm in the same order, and values of their own."""
    return {"arm": ["a"] * a + ["b"] * b, "outcome": np.arange(a + b) + day}


def dealt(study):
    return [each.dealt for each in study.state.asked[0].files]


def sizes(study):
    return [[part.counts.tolist() for part in each.parts] for each in study.state.asked[0].files]


class TestLive:
    def test_a_file_that_is_the_whole_batch(self, study):
        study.ask()
        study.tell(rows(1, a=31))
        assert dealt(study) == ["alone"]
        assert np.ptp(np.array(sizes(study)[0]), axis=0).tolist() == [1, 1]

    def test_files_told_one_after_the_other(self, study):
        """Files that look the same but for a day: each is dealt in its own way, and not evenly."""
        study.ask()
        for day in range(3):
            study.tell(rows(day, a=10, b=10))
        assert dealt(study) == ["apart"] * 3
        assert len({str(each) for each in sizes(study)}) == 3  # 1e-4 that two of them are the same by chance
        assert len(study.state.batches[0].parts) == 4

    def test_a_file_that_completes_one_arm_only(self, study):
        study.ask()
        study.tell(rows(1, a=30, b=29))
        study.tell(rows(2, a=0, b=1))
        assert dealt(study) == ["apart"] * 2

    def test_two_files_at_once_of_which_one_would_be_enough(self, study):
        study.ask()
        study.tell(rows(1), rows(2, a=2, b=0))
        assert dealt(study) == ["apart"] * 2
        assert len(study.state.batches[0].parts) == 4

    def test_the_rest_after_a_part_is_never_the_whole_batch(self, study):
        """Also a file that would be enough by itself, once another has been told: the two ways are never mixed."""
        study.ask()
        study.tell(rows(1, a=1, b=0))
        study.tell(rows(2))
        assert dealt(study) == ["apart"] * 2

    def test_a_file_after_one_that_was_withdrawn(self, study):
        study.ask()
        study.tell(rows(1, a=1, b=0))
        study.amend(study.state.asked[0].files[0].digest, None, "of another experiment")
        study.tell(rows(2))
        assert dealt(study) == ["alone"]

    def test_a_corrected_file_has_a_number_of_its_own(self, study):
        study.ask()
        study.tell(rows(1, a=10, b=10))
        before = sizes(study)
        study.amend(study.state.asked[0].files[0].digest, rows(2, a=10, b=10), "wrong day")
        assert dealt(study) == ["apart"]
        assert sizes(study) != before  # 1e-3 by chance, and the seed is fixed
        assert study.state.files == 2
        study.tell(rows(3, a=20, b=20))
        assert study.state.files == 3
        assert dealt(study) == ["apart"] * 2

    def test_the_correction_of_the_whole_batch(self, study):
        study.ask()
        study.tell(rows(1))
        study.amend(study.state.asked[0].files[0].digest, rows(2), "wrong day")
        assert dealt(study) == ["apart"]
        assert len(study.state.batches[0].parts) == 4


class TestSeed:
    def test_it_is_drawn_not_made_from_the_name(self, tmp_path):
        seeds = set()
        for i in range(3):
            with create_study(
                "same", question=BestArm(), arms=("a", "b"), noise=Binary(), storage=f"sqlite:///{tmp_path}/{i}.db"
            ) as study:
                seeds.add(study.state.settings.seed)
        assert len(seeds) == 3  # 1e-15 by chance

    def test_it_may_be_given_and_is_kept(self, tmp_path):
        given = {"question": BestArm(), "arms": ("a", "b"), "noise": Binary(), "storage": f"sqlite:///{tmp_path}/x.db"}
        create_study("s", **given, seed=7).close()
        with load_study("s", given["storage"]) as study:
            assert study.state.settings.seed == 7
        create_study("s", **given, load_if_exists=True).close()  # whatever would be drawn now
        with pytest.raises(ValueError, match="a study 's' with other settings"):
            create_study("s", **given, load_if_exists=True, seed=8)
        with pytest.raises(ValueError, match="`seed` is -1"):
            create_study("t", **given, seed=-1)
