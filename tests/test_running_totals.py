"""What is told is new: files that begin with what is recorded are refused, running totals are said to be such."""

import numpy as np
import pytest

from result_files import ARMS, reader, table
from roundwise import BestArm, Binary, DataError, Gaussian, InputError, create_study, load_study
from roundwise.ingest import TellOptions
from roundwise.messages import FileNote


@pytest.fixture
def tell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return reader(tmp_path)


class TestRunningTotals:
    SUMS = "arm,count,successes\nplacebo,10,4\n25mg,12,5\n"
    LATER = "arm,count,successes\nplacebo,15,6\n25mg,20,5\n"

    def test_sums_that_could_be_one_count_with_a_warning(self, tell):
        """Both readings are said; nothing where it is what is waited for, cannot be one, or somebody said so."""
        first = tell(self.SUMS)
        found = tell(self.LATER, told=[first], waiting=np.array([99.0, 99, 99]))
        assert found.counts.tolist() == [15, 20, 0]
        assert found.notes == (FileNote("possible_total", file="results.csv", results=35, new=13),)
        assert tell(self.LATER, told=[first], new=True).notes == ()
        assert tell(self.LATER, told=[first], waiting=np.array([15.0, 20, 0])).notes == ()
        for clear in ("placebo,9,4\n25mg,20,5\n", "placebo,15,3\n25mg,20,5\n", "placebo,11,9\n25mg,20,5\n"):
            assert tell("arm,count,successes\n" + clear, told=[first]).notes == ()

    def test_rows_in_another_order_count_with_a_warning(self, tell):
        first = tell(table("placebo,1", "placebo,0", "25mg,1", "25mg,0", "placebo,1"))
        grown = table("25mg,0", "placebo,1", "25mg,1", "placebo,0", "placebo,1", "25mg,1")
        found = tell(grown, told=[first], waiting=np.array([99.0, 99, 99]))
        assert found.rows == 6
        assert found.notes[0] == FileNote("possible_total", file="results.csv", results=6, new=1)

    def test_measurements_in_another_order_are_refused(self, tmp_path):
        """An export without an order: the same rows, also rounds later. Other rows of the same numbers are new."""
        rng = np.random.default_rng(1)
        path = tmp_path / "x.csv"
        with study_of(tmp_path, Gaussian(1.0)) as study:
            rounds = []
            for _ in range(3):
                pulls = study.ask().pulls.astype(int)
                rounds.append([f"{'ab'[i]},{x:.1f}" for i, n in enumerate(pulls) for x in rng.normal(size=n)])
                path.write_text(table(*rounds[-1]))
                study.tell(path)
            study.ask()
            for rows in rounds:
                path.write_text(table(*rng.permutation(rows)))
                with pytest.raises(DataError, match="rows of a file that is recorded, in another order"):
                    study.tell(path)
            study.tell(path, new=True)

    def test_rows_that_all_come_twice_are_refused(self, tmp_path):
        """A join that doubles rows doubles the evidence, too."""
        rng, path = np.random.default_rng(2), tmp_path / "x.csv"
        with study_of(tmp_path, Gaussian(1.0)) as study:
            half = (study.ask().pulls // 2).astype(int)
            rows = [f"{'ab'[i]},{x:.3f}" for i, n in enumerate(half) for x in rng.normal(size=n)]
            path.write_text(table(*rng.permutation(rows * 2)))
            with pytest.raises(DataError, match="every row comes twice"):
                study.tell(path)
            path.write_text(table(*rng.permutation([*rows, *rows[1:]])))
            study.tell(path)

    def test_nothing_is_said_after_a_running_total(self, tell):
        """What is told is new, whatever was told before."""
        first = tell(self.SUMS)
        second = tell(self.LATER, told=[first], cumulative=True)
        other = "arm,count,successes\nplacebo,3,1\n25mg,4,2\n"
        assert tell(other, told=[first, second], waiting=np.array([99.0, 99, 99])).notes == ()

    def test_the_difference_counts(self, tell):
        first = tell(self.SUMS)
        found = tell(self.LATER, told=[first], cumulative=True)
        assert (found.counts.tolist(), found.totals.tolist()) == ([5, 8, 0], [2, 0, 0])
        assert found.notes == (FileNote("running_total", file="results.csv", recorded=22, new=13),)
        third = tell("arm,count,successes\nplacebo,15,6\n25mg,21,6\n", told=[first, found], cumulative=True)
        assert (third.counts.tolist(), third.totals.tolist()) == ([0, 1, 0], [0, 1, 0])
        with pytest.raises(DataError, match="running"):
            tell("arm,count,successes\nplacebo,15,6\n25mg,1,1\n", told=[first], cumulative=True)
        with pytest.raises(DataError, match="nothing new"):
            tell(self.SUMS + "placebo,0,0\n", told=[first], cumulative=True)

    def test_squares(self, tell):
        values = np.random.default_rng(2).normal(50, 1, 40)

        def sums(some):
            return f"arm,count,total,squares\nplacebo,{len(some)},{some.sum()!r},{(some**2).sum()!r}\n".replace(
                "np.float64(", ""
            ).replace(")", "")

        noise = Gaussian(1.0)
        first = tell(sums(values[:15]), noise)
        found = tell(sums(values), noise, told=[first], cumulative=True)
        assert found.counts[0] == 25
        assert found.totals[0] == pytest.approx(values[15:].sum(), rel=1e-12)
        assert found.scatter[0] == pytest.approx(((values[15:] - values[15:].mean()) ** 2).sum(), rel=1e-6)
        assert tell(sums(values), noise, told=[first]).notes[0].code == "possible_total"

    def test_rows(self, tell):
        rng = np.random.default_rng(1)
        rows = [f"{ARMS[i]},{x}" for i, x in zip(rng.integers(0, 3, 90), rng.normal(size=90).tolist(), strict=True)]
        noise = Gaussian(1.0)
        first = tell(table(*rows[:30]), noise)
        with pytest.raises(
            DataError,
            match=r"results.csv",
        ):
            tell(table(*rows[:60]), noise, told=[first])
        second = tell(table(*rows[:60]), noise, told=[first], cumulative=True)
        assert (second.rows, second.skipped, second.counts.sum()) == (30, 30, 30)
        third = tell(table(*rows), noise, told=[first, second], cumulative=True)
        assert (third.rows, third.skipped) == (30, 60)
        apart = tell(table(*rows[30:60]), noise, told=[first])
        both = tell(table(*rows), noise, told=[first, apart], cumulative=True)
        assert (both.rows, both.skipped) == (30, 60)
        with pytest.raises(DataError, match="nothing new"):
            tell(table(*rows[:60]) + ",\n", noise, told=[first, apart], cumulative=True)
        with pytest.raises(DataError, match="id"):
            tell(table(*sorted(rows)), noise, told=[first], cumulative=True)
        with pytest.raises(DataError, match="rows"):
            tell(table(*rows), noise, told=[tell("arm,count,total\nplacebo,3,1\n", noise)], cumulative=True)

    def test_rows_that_could_be_the_same_by_chance(self, tell):
        """They are asked about, too."""
        short, text = tell(table("placebo,0", "placebo,0")), table("placebo,0", "placebo,0", "25mg,1", "25mg,0")
        with pytest.raises(DataError, match="file"):
            tell(text, told=[short])
        assert tell(text, told=[short], new=True).rows == 4

    def test_rows_of_any_of_the_last_files(self, tmp_path):
        """Also of one in the middle, of rounds that are counted."""
        values = np.random.default_rng(5).integers(0, 2, (4, 60)).tolist()
        with study_of(tmp_path) as study:
            for each in values[:3]:
                study.ask()
                study.tell({"arm": ["a", "b"] * 30, "outcome": each}, round_over="enough")
            study.ask()
        both = values[1] + values[3]
        (tmp_path / "x.csv").write_text(table(*(f"{'ab'[i % 2]},{each}" for i, each in enumerate(both))))
        with load_study("s", f"sqlite:///{tmp_path}/x.db") as study:
            assert study.state.read_before is not None  # nothing before the last checkpoint was read
            with pytest.raises(DataError, match="file"):
                study.tell(tmp_path / "x.csv")
            study.tell({"arm": ["a", "b"] * 60, "outcome": both})  # nothing is guessed about values of Python

    def test_earlier_data_that_taught(self, tell):
        """The same contents are never evidence, too, and a file that begins with the same rows is asked about."""
        text = table("placebo,1", "placebo,0", "25mg,1")
        taught = tell(text)
        for again in (False, True):
            with pytest.raises(DataError, match="imported"):
                tell(text, past=[taught], new=again)
        longer = text + "25mg,0\n"
        with pytest.raises(DataError, match="imported as earlier data"):
            tell(longer, past=[taught])
        assert tell(longer, past=[taught], new=True).rows == 4

    def test_not_both(self):
        with pytest.raises(InputError, match="not both"):
            TellOptions(cumulative=True, new=True)

    def test_files_of_one_call_are_compared_with_each_other(self, tmp_path):
        one, two = (table(*(f"{'ab'[i % 2]},{i}" for i in range(n))) for n in (10, 12))
        (tmp_path / "one.csv").write_text(one)
        (tmp_path / "two.csv").write_text(two)
        files = (tmp_path / "one.csv", tmp_path / "two.csv")
        with study_of(tmp_path, Gaussian(1.0)) as study:
            study.ask()
            with pytest.raises(DataError, match="file"):
                study.tell(*files)
            assert study.tell(*files, cumulative=True).remaining == {"a": 24, "b": 24}


def study_of(folder, noise=None):
    return create_study(
        "s", question=BestArm(), arms=["a", "b"], noise=noise or Binary(), storage=f"sqlite:///{folder}/x.db"
    )


class TestPython:
    """Values of Python are new: an honest loop is never stopped."""

    @pytest.mark.parametrize("form", ["rows", "sums"])
    def test_what_was_asked_told_in_halves(self, tmp_path, form):
        rng = np.random.default_rng(1)
        with study_of(tmp_path) as study:
            for _ in range(6):
                pulls = [int(each) for each in study.ask().pulls]
                for share in ([n // 2 for n in pulls], [n - n // 2 for n in pulls]):
                    if form == "rows":
                        told = {"arm": np.repeat(["a", "b"], share), "outcome": rng.integers(0, 2, sum(share))}
                    else:
                        told = {"arm": ["a", "b"], "count": share, "successes": rng.binomial(share, 0.5)}
                    report = study.tell(told)
                if report.status == "decided":
                    break
            assert report.guarantee.status == "kept"
            assert not report.notes

    def test_one_result_at_a_time(self, tmp_path):
        with study_of(tmp_path) as study:
            study.ask()
            for _ in range(5):
                study.tell({"arm": ["a"], "outcome": [1]})
                study.tell({"arm": ["b"], "count": [1], "successes": [0]})
            assert study.state.partial_round.counts.tolist() == [5, 5]

    def test_a_running_total_is_one_if_it_is_said(self, tmp_path):
        with study_of(tmp_path) as study:
            study.ask()
            for n in (5, 9):
                report = study.tell({"arm": ["a", "b"], "count": [n, n], "successes": [n // 2, 1]}, cumulative=True)
            assert report.remaining == {"a": 21, "b": 21}

    def test_the_same_rows_are_refused_where_that_is_no_chance(self, tmp_path):
        """A cell of a notebook that is run twice."""
        rng = np.random.default_rng(1)
        frame = {"arm": ["a", "b"] * 50, "outcome": rng.integers(0, 2, 100)}
        with study_of(tmp_path) as study:
            study.import_past(frame)
            study.ask()
            with pytest.raises(DataError, match="imported as earlier data"):
                study.tell(frame)
            frame["outcome"][0] ^= 1
            study.tell(frame)
            study.ask()
            with pytest.raises(InputError, match="round"):
                study.tell(frame)
