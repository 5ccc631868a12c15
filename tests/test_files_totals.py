"""Running totals: files that hold what is recorded are not counted twice, and are asked about once."""

from contextlib import nullcontext

import numpy as np
import pytest

from filing import ARMS, reader, table
from roundwise import BestArm, Binary, DataError, Gaussian, InputError, create_study, load_study
from roundwise.studies.results import Options, Results


@pytest.fixture
def tell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return reader(tmp_path)


class TestRunningTotals:
    SUMS = "arm,count,successes\nplacebo,10,4\n25mg,12,5\n"
    LATER = "arm,count,successes\nplacebo,15,6\n25mg,20,5\n"

    def test_sums_are_refused(self, tell):
        first = tell(self.SUMS)
        with pytest.raises(
            DataError,
            match=r"^results.csv: this looks like a running total: no arm has less than what is recorded.\n  Say "
            r"cumulative=True .* or again=True",
        ):
            tell(self.LATER, told=[first], waiting=np.array([99.0, 99, 99]))
        assert tell(self.LATER, told=[first], again=True).counts.tolist() == [15, 20, 0]
        just_what_was_asked = np.array([15.0, 20, 7])
        assert tell(self.LATER, told=[first], waiting=just_what_was_asked).counts.tolist() == [15, 20, 0]
        for clear in ("placebo,9,4\n25mg,20,5\n", "placebo,15,3\n25mg,20,5\n", "placebo,11,9\n25mg,20,5\n"):
            tell("arm,count,successes\n" + clear, told=[first], waiting=np.array([99.0, 99, 99]))

    def test_rows_in_another_order_are_refused(self, tell):
        """A warehouse has no order: counts by arm and outcome say whether a file could hold all that is recorded."""
        first, many = tell(table("placebo,1", "placebo,0", "25mg,1", "25mg,0", "placebo,1")), np.array([99.0, 99, 99])
        grown = table("25mg,0", "placebo,1", "25mg,1", "placebo,0", "placebo,1", "25mg,1")
        with pytest.raises(DataError, match="a running total: it could hold all rows that are recorded"):
            tell(grown, told=[first], waiting=many)
        assert tell(grown, told=[first], again=True).rows == 6
        assert tell(grown, told=[first], waiting=np.array([3.0, 3, 0])).rows == 6  # just what was asked for
        clear = table("25mg,1", "placebo,1", "25mg,1", "placebo,0", "placebo,1", "25mg,1")
        assert tell(clear, told=[first], waiting=many).rows == 6

    @pytest.mark.parametrize("size", [6, 40, 4000])
    def test_measured_values_are_known_again_in_any_order(self, tell, size):
        """Hardly two are the same, so that a few that come back say everything, however many are new."""
        rng = np.random.default_rng(1)

        def drawn(number):
            return [f"{arm},{x:.4f}" for arm in ARMS for x in rng.normal(50, 10, size=number)]

        words = {"noise": Gaussian(), "waiting": np.full(3, 99999.0)}
        rows = drawn(size)
        first = tell(table(*rows), noise=Gaussian())
        first = Results.from_payload(first.payload())
        for grown in ([*rows, *drawn(3 * size)], rows[: 2 * size], rows[::-1]):
            rng.shuffle(grown)
            with pytest.raises(DataError, match="a running total: most rows of results.csv, which is recorded, stand"):
                tell(table(*grown), told=[first], **words)
            assert tell(table(*grown), told=[first], again=True, **words).rows == len(grown)
            with pytest.raises(DataError, match="imported"):
                tell(table(*grown), past=[first], **words)
        assert tell(table(*drawn(size)), told=[first], past=[first], **words).rows == 3 * size

    def test_values_that_repeat_say_nothing(self, tell):
        """Marks from 1 to 5: any file has rows of any other."""
        rng = np.random.default_rng(1)

        def drawn(size, most):
            return table(*(f"{arm},{x}" for arm in ARMS for x in rng.integers(1, most, size=size)))

        words = {"noise": Gaussian(), "waiting": np.full(3, 99999.0)}
        for size, most in ((50, 6), (3000, 200)):
            first = tell(drawn(size, most), noise=Gaussian())
            assert first.some is None
            assert tell(drawn(size, most), told=[first], **words).rows == 3 * size
        few = tell(drawn(15, 1000), noise=Gaussian())  # hardly any twice, but all of them in a file that is long enough
        assert few.some is not None
        assert tell(drawn(30_000, 1000), told=[few], **words).rows == 90_000

    def test_values_in_another_order_are_refused_where_that_is_far_likelier(self, tell):
        rng = np.random.default_rng(1)

        def drawn(size):
            return [f"{arm},{x:.1f}" for arm in ARMS for x in rng.normal(size=size)]  # of which many are the same

        words = {"noise": Gaussian(), "waiting": np.full(3, 999.0)}
        rows = drawn(1000)
        first = tell(table(*rows), noise=Gaussian())
        grown = [*rows, *drawn(2)]
        rng.shuffle(grown)
        with pytest.raises(DataError, match="it could hold all rows that are recorded"):
            tell(table(*grown), told=[first], **words)
        assert tell(table(*drawn(1020)), told=[first], **words).rows == 3060

    def test_rows_that_are_as_many_as_the_sums_before_and_what_was_asked_are_asked_about(self, tell):
        """Sums of the first days, then an export of rows "so far": no row can be compared, but they can be counted."""
        sums = tell("arm,count,total\n" + "".join(f"{arm},30,60\n" for arm in ARMS), noise=Gaussian())
        rows = table(*(f"{arm},{x}" for arm in ARMS for x in [1, 2, 3] * 20))
        words = {"noise": Gaussian(), "told": [sums]}
        with pytest.raises(DataError, match="it could hold all rows that are recorded"):
            tell(rows, waiting=np.full(3, 30.0), **words)
        assert tell(rows, waiting=np.full(3, 60.0), **words).rows == 180
        assert tell(rows, waiting=np.full(3, 30.0), again=True, **words).rows == 180

    def test_after_a_running_total_every_file_is_asked_about(self, tell):
        asked = np.array([99.0, 99, 99])
        first = tell(self.SUMS)
        second = tell(self.LATER, told=[first], cumulative=True)
        assert second.running
        other = "arm,count,successes\nplacebo,3,1\n25mg,4,2\n"  # holds nothing of what is recorded
        with pytest.raises(DataError, match="the files before it were running totals: is this one, too?"):
            tell(other, told=[first, second], waiting=asked)
        third = tell(other, told=[first, second], waiting=asked, again=True)
        assert not third.running
        assert tell("arm,count,successes\nplacebo,2,1\n", told=[first, second, third], waiting=asked).rows == 1
        assert Results.from_payload(second.payload()).running

    def test_a_rate_that_moved_is_no_excuse(self, tell):
        """1000 results with 100 ones, then the same and as many with 300 on a weekend: no law says what that is."""
        first, asked = tell("arm,count,successes\nplacebo,1000,100\n25mg,1000,120\n"), np.array([9999.0] * 3)
        for text in ("placebo,2000,400\n25mg,2000,420\n", "placebo,1040,125\n25mg,1030,145\n"):
            with pytest.raises(DataError, match="looks like a running total"):
                tell("arm,count,successes\n" + text, told=[first], waiting=asked)

    def test_what_was_asked_for(self, tell):
        """Just as many as were asked for are believed, unless they are the same or hold the others to the letter."""
        first, asked = tell("arm,count,successes\nplacebo,1000,100\n25mg,1000,120\n"), np.array([1040.0, 1030, 0])
        new = "arm,count,successes\nplacebo,1040,125\n25mg,1030,145\n"
        assert tell(new, told=[first], waiting=asked).counts.tolist() == [1040, 1030, 0]
        many = tell("".join(["arm,count,successes\n", *(f"{arm},1000,100\n" for arm in ARMS)]))
        letter = "".join(["arm,count,successes\n", *(f"{arm},1001,100\n" for arm in ARMS)])
        with pytest.raises(DataError, match="looks like a running total"):
            tell(letter, told=[many], waiting=np.array([1001.0] * 3))
        same = "arm,successes,count\n25mg,120,1000\nplacebo,100,1000\n"
        with pytest.raises(DataError, match="looks like a running total"):
            tell(same, told=[first], waiting=np.array([1000.0, 1000, 0]))

    def test_after_the_decision(self, tmp_path):
        """Nothing was asked for, so what grew is asked about."""
        with create_study(
            "s", question=BestArm(), arms=["a", "b"], noise=Binary(), storage=f"sqlite:///{tmp_path}/x.db"
        ) as study:
            answer = None
            while answer is None:
                counts = [int(each) for each in study.ask().pulls]
                answer = study.tell({"arm": ["a", "b"], "count": counts, "successes": [0, counts[1]]}).answer
            more = {"arm": ["a", "b"], "count": [500, 500], "successes": [2, 490]}
            with pytest.raises(DataError, match="looks like a running total"):
                study.tell(more)
            assert study.tell(more, again=True).answer == "b"

    def test_it_is_asked_once(self, tell):
        """Once somebody said that files are new, only one that holds the last almost to the letter is asked about."""
        first, asked = tell(self.SUMS), np.array([99.0, 99, 99])
        second = tell(self.LATER, told=[first], waiting=asked, again=True)
        third = tell("arm,count,successes\nplacebo,40,14\n25mg,50,13\n", told=[first, second], waiting=asked)
        assert third.counts.tolist() == [40, 50, 0]
        assert Results.from_payload(third.payload()).new
        big = tell("arm,count,successes\nplacebo,4000,1400\n25mg,5000,1300\n", told=[third], waiting=asked)
        with pytest.raises(DataError, match="looks like a running total"):
            tell("arm,count,successes\nplacebo,4000,1400\n25mg,5001,1300\n", told=[third, big], waiting=asked)

    @pytest.mark.parametrize(("fresh", "refused"), [(True, False), (False, True)])
    def test_a_random_split_of_what_was_asked(self, tell, fresh, refused):
        """The first file of a round may have as many as were asked for, up to chance."""
        first, text = tell(self.SUMS), "arm,count,successes\nplacebo,65,26\n25mg,57,22\n"
        asked = np.array([60.0, 60, 0])
        with pytest.raises(DataError, match="running total") if refused else nullcontext():
            tell(text, told=[first], waiting=asked, fresh=fresh)

    def test_the_difference_counts(self, tell):
        first = tell(self.SUMS)
        found = tell(self.LATER, told=[first], cumulative=True)
        assert (found.counts.tolist(), found.totals.tolist()) == ([5, 8, 0], [2, 0, 0])
        assert found.notes == ("results.csv: a running total: 22 results of it recorded before, 13 new.",)
        third = tell("arm,count,successes\nplacebo,15,6\n25mg,21,6\n", told=[first, found], cumulative=True)
        assert (third.counts.tolist(), third.totals.tolist()) == ([0, 1, 0], [0, 1, 0])
        with pytest.raises(DataError, match="no running total: some arm has less"):
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
        with pytest.raises(DataError, match="looks like a running total"):
            tell(sums(values), noise, told=[first], waiting=np.array([9.0, 9, 9]))

    def test_rows(self, tell):
        rng = np.random.default_rng(1)
        rows = [f"{ARMS[i]},{x}" for i, x in zip(rng.integers(0, 3, 90), rng.normal(size=90).tolist(), strict=True)]
        noise = Gaussian(1.0)
        first = tell(table(*rows[:30]), noise)
        with pytest.raises(
            DataError, match=r"this looks like a running total: it begins with the 30 rows of a file that is recorded"
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
        with pytest.raises(DataError, match=r"begins with 0 of the 30 rows that are recorded.*\n.*Columns\(id="):
            tell(table(*sorted(rows)), noise, told=[first], cumulative=True)
        with pytest.raises(DataError, match="sums are recorded, which rows cannot be compared with"):
            tell(table(*rows), noise, told=[tell("arm,count,total\nplacebo,3,1\n", noise)], cumulative=True)

    def test_rows_that_could_be_the_same_by_chance(self, tell):
        """They are asked about, too; once somebody said that files are new, only what chance hardly does is."""
        short, longer = (tell(table("placebo,0", "placebo,0", "25mg,1"), again=again) for again in (False, True))
        text = table("placebo,0", "placebo,0", "25mg,1", "25mg,0")
        with pytest.raises(DataError, match="it begins with the 3 rows of a file that is recorded"):
            tell(text, told=[short])
        assert tell(text, told=[longer]).rows == 4

    def test_rows_of_any_of_the_last_files(self, tmp_path):
        """Also of one in the middle, of rounds that are counted."""
        values = np.random.default_rng(5).integers(0, 2, (4, 60)).tolist()
        with create_study(
            "s", question=BestArm(), arms=["a", "b"], noise=Binary(), storage=f"sqlite:///{tmp_path}/x.db"
        ) as study:
            for each in values[:3]:
                study.ask()
                study.tell({"arm": ["a", "b"] * 30, "outcome": each}, round_over="enough")
            study.ask()
        with load_study("s", f"sqlite:///{tmp_path}/x.db") as study:
            assert study.state.whole is not None  # nothing before the last checkpoint was read
            with pytest.raises(DataError, match="it begins with the 60 rows of a file that is recorded"):
                study.tell({"arm": ["a", "b"] * 60, "outcome": values[1] + values[3]})

    def test_not_both(self):
        with pytest.raises(InputError, match="not both"):
            Options(cumulative=True, again=True)

    def test_files_of_one_call_are_compared_with_each_other(self, tmp_path):
        with create_study(
            "s", question=BestArm(), arms=["a", "b"], noise=Gaussian(1.0), storage=f"sqlite:///{tmp_path}/x.db"
        ) as study:
            study.ask()
            one = {"arm": ["a", "b"] * 5, "outcome": np.arange(10.0)}
            two = {"arm": ["a", "b"] * 6, "outcome": np.arange(12.0)}
            with pytest.raises(DataError, match="looks like a running total"):
                study.tell(one, two)
            report = study.tell(one, two, cumulative=True)
            assert report.still_to_come == {"a": 24, "b": 24}
