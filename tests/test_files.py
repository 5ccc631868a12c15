"""Files of real life: columns by name, ways to write numbers, ids, running totals, missing outcomes, wide tables."""

import gzip
import json
import zipfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from roundwise import BestArm, Binary, Bounded, DataError, Gaussian, InputError, Poisson, SubGaussian, create_study
from roundwise.errors import at_the_shell
from roundwise.studies.results import Columns, Earlier, Options, Results, read_results
from roundwise.studies.results.books import excel_sheet
from roundwise.studies.results.packing import packed_hashes, unpacked_hashes

ARMS = ["placebo", "25mg", "Big button"]
OWN = Columns(arm="variant", outcome="converted")


@pytest.fixture
def tell(tmp_path, monkeypatch):
    """Write contents to a file and read it."""
    monkeypatch.chdir(tmp_path)

    def call(contents, noise=Binary(), name="results.csv", told=(), waiting=None, fresh=False, **words):  # noqa: B008
        (tmp_path / name).write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        columns = words.pop("study", None)
        earlier = Earlier(told, waiting, fresh=fresh)
        return read_results(name, ARMS, noise, columns=columns, options=Options(**words), earlier=earlier, seed=3)

    return call


def table(*rows, header="arm,outcome"):
    return "".join(f"{row}\n" for row in (header, *rows))


# --- columns


class TestColumns:
    def test_by_name_in_the_study_and_over_it(self, tell):
        text = table("9,placebo,1,0", "8,25mg,0,1", header="count,variant,converted,other")
        found = tell(text, study=OWN)
        assert found.totals.tolist() == [1, 0, 0]
        assert found.notes == ("results.csv: not used: 'count', 'other'.",)
        assert tell(text, study=OWN, columns=Columns(outcome="Other")).totals.tolist() == [0, 1, 0]

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            (Columns(arm="varient"), r"line 1: there is no column 'varient', only 'variant', 'converted'. Did you mean "
             r"'variant'\?\n  Name it with --arm-column NAME."),
            (Columns(outcome="zzz"), r"there is no column 'zzz'.*\n.*--outcome-column"),
            (Columns(id="user"), r"there is no column 'user'.*\n.*--id-column"),
        ],
    )  # fmt: skip
    def test_a_name_that_is_not_there(self, tell, columns, message):
        with pytest.raises(DataError, match=message):
            tell(table("placebo,1", header="variant,converted"), columns=columns)

    def test_names_that_cannot_be(self):
        for wrong in ({"arm": " "}, {"arm": "x", "outcome": "X"}, {"id": 3}):
            with pytest.raises(InputError, match="column"):
                Columns(**wrong)

    def test_guessed_where_names_are_nearly_right(self, tell):
        """Capitals and blanks, or a slip beside names that are right: the column is found, the right name is said."""
        for wrong in ("u1,big  Button,1", "u1,placebo,0\nu2,Big buton,1"):
            with pytest.raises(DataError, match=r"there is no arm .* Did you mean 'Big button'\?"):
                tell(table(wrong, header="who,group,bought"))
        with pytest.raises(DataError, match="but no column 'arm'"):
            tell(table("u1,nothing of ours,1", header="who,group,bought"))

    def test_guessed_where_one_column_has_the_arms(self, tell):
        text = table("u1,25mg,1,3.5", "u2,placebo,0,7", header="who,group,bought,minutes")
        found = tell(text)
        assert found.totals.tolist() == [0, 1, 0]
        assert found.notes[1:] == (
            "results.csv: 'group' was taken for the arm, by what is in it; --arm-column says so for good.",
            "results.csv: 'bought' was taken for the outcome, by what is in it; --outcome-column says so for good.",
        )
        with pytest.raises(
            DataError, match=r"which column is the outcome: it could be 'bought', 'minutes'.\n  Say --out"
        ):
            tell(text, Gaussian(1.0))
        with pytest.raises(DataError, match=r"which column has the arms: it could be 'group', 'again'"):
            tell(table("25mg,placebo,1", header="group,again,outcome"))
        assert tell(table("25mg,5,2", header="group,count,successes")).totals.tolist() == [0, 2, 0]

    def test_never_guessed_where_the_first_line_is_no_header(self, tell):
        for text in ("placebo,1\n25mg,0\n", "x,1\nplacebo,0\n"):
            with pytest.raises(DataError, match="no column 'arm'"):
                tell(text)

    def test_the_delimiter_is_found_by_the_names(self, tell):
        assert tell("variant;a,b,c;converted\nplacebo;1,2;1\n", study=OWN).totals.tolist() == [1, 0, 0]


# --- cells


@pytest.mark.parametrize(
    ("cells", "noise", "value"),
    [
        (["true", "FALSE", "Yes", "no", "t", "f", "y", "N"], Binary(), 4),
        (["31%", "0", "12.5 %"], Bounded(0, 1), 0.435),
        (['"1,000"', '"2,345,678.5"', "+7"], Gaussian(1.0), 2346685.5),
    ],
)
def test_numbers_as_people_write_them(tell, cells, noise, value):
    found = tell(table(*(f"placebo,{cell}" for cell in cells)), noise)
    assert found.counts[0] == len(cells)
    assert found.totals[0] == pytest.approx(value, rel=1e-15)
    said = [note for note in found.notes if "was read as" in note]
    assert len(said) == (noise != Binary())


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["31%", "0.4"], r"line 3: some outcomes have a % sign \(line 2\) and others have none \(line 3\)"),
        (["0.4", "31%"], r"line 3: some outcomes have a % sign \(line 3\) and others have none \(line 2\)"),
        (['"1,00"'], "line 2: the outcome '1,00' of arm 'placebo' is not a number"),
        (["1" * 10_000_000], "line 2: the outcome '1{39}…' of arm 'placebo' is not a number"),
        (["yess"], "not a number"),
    ],
)
def test_numbers_that_are_not_understood(tell, cells, message):
    with pytest.raises(DataError, match=message):
        tell(table(*(f"placebo,{cell}" for cell in cells)), Gaussian(1.0))


def test_nothing_of_a_file_moves_the_cursor(tell):
    """Escapes, changes of direction and ten million letters stay in the file."""
    evil = "\x1b]0;x\x07\u202e" + "A" * 10_000_000
    for text in (
        table(f"{evil},1"),
        table(f'placebo,"{evil}"'),
        table("placebo,1", header=f"arm,{evil}"),
        table("placebo,1,x", header=f"arm,outcome,{evil}"),
        json.dumps([{"arm": evil, "outcome": 1}]),
        json.dumps([{"arm": {evil: evil}, "outcome": [evil]}]),
    ):
        try:
            said = "\n".join(tell(text).notes)
        except DataError as error:
            said = str(error)
        assert len(said) < 2000
        assert all(letter == "\n" or letter.isprintable() for letter in said)
    with pytest.raises(DataError) as error:
        tell(table("x,1"), name="a\x1b[2Jb.csv")
    assert "\x1b" not in str(error.value)


# --- arms


class TestArms:
    def test_all_unknown_names_at_once(self, tell):
        text = table("placebo,1", "BIG BUTTON,1", "big-button,0", "BIG BUTTON,0", "Xyz,1")
        with pytest.raises(DataError) as error:
            tell(text)
        said = str(error.value).splitlines()
        assert said[0] == "results.csv has 3 kinds of problems; nothing was recorded."
        assert said[1] == "- line 3: there is no arm 'BIG BUTTON' in this study. Did you mean 'Big button'?"
        assert said[2].startswith("  So in 2 lines (3, 5). Correct the name")
        assert "'big-button' in this study. Did you mean 'Big button'?" in said[3]

    def test_rows_of_other_experiments(self, tell):
        text = table("placebo,1", "old,1", "older,0", "old,0")
        found = tell(text, ignore_arms="old, older")
        assert (found.rows, found.totals.tolist()) == (1, [1, 0, 0])
        assert found.notes == ("results.csv: 3 rows of other arms were left out (old 2, older 1).",)
        assert tell(text, ignore_arms=["*"]).rows == 1
        with pytest.raises(DataError, match="there is no arm 'older'"):
            tell(text, ignore_arms=["old"])
        with pytest.raises(DataError, match="Did you mean 'placebo'"):  # a slip is no other experiment
            tell(table("25mg,1", "Placebo,1"), ignore_arms="*")
        with pytest.raises(InputError, match="'placebo' is an arm of this study and cannot be ignored"):
            tell(text, ignore_arms="placebo")


# --- all problems at once, and what is missing


def test_all_problems_of_a_file_by_kind_and_arm(tell):
    rows = ["placebo,1", "25mg,", "placebo,NA", "25mg,x", "25mg,z", "placebo,3", ",1", "placebo,1,1", "placebo"]
    with pytest.raises(DataError) as error:
        tell(table(*rows))
    assert str(error.value) == (
        "results.csv has 6 kinds of problems; nothing was recorded.\n"
        "- line 3: 2 rows have no outcome (placebo 1, 25mg 1), the first of them here.\n"
        "  Complete the table; or say why, and they are counted as missing: missing=REASON.\n"
        "- line 5: the outcome 'x' of arm '25mg' is not a number.\n"
        "  So in 2 lines (5, 6; 25mg 2). Correct it, or remove the line if there is no result; missing values must not "
        "stand for results.\n"
        "- line 7: outcome 3 of arm 'placebo' is neither 0 nor 1, the outcomes this study was created for.\n"
        "  Correct the row, or start a new study with --range or --sigma: the error guarantee needs 0 or 1.\n"
        "- line 8: there is no name of an arm.\n"
        "  Add it, or remove the line.\n"
        "- line 9: the header has 2 columns, but this line 3.\n"
        "  Quote cells that hold the delimiter; numbers with a decimal comma need semicolons between columns.\n"
        "- line 10: the header has 2 columns, but this line 1.\n"
        "  If the file was cut, write it again; else complete the line."
    )


def test_the_documentation_shows_what_is_said(tell):
    page = (Path(__file__).parents[1] / "docs" / "studies.md").read_text()
    shown = page.split("### All that is wrong, at once\n\n```text\n")[1].split("```")[0]
    with pytest.raises(DataError) as error, at_the_shell():
        tell(table("placebo,1", "25mg,", "25 mg,3", "placebo,", "placebo,high"), Gaussian(1.0), name="patients.csv")
    assert str(error.value) + "\n" == shown


class TestMissing:
    TEXT = table("placebo,1", "25mg,", "placebo,N/A", "placebo,null", "Big button,0")

    def test_they_are_counted_with_a_reason(self, tell):
        found = tell(self.TEXT, missing="moved away")
        assert (found.counts.tolist(), found.missing.tolist(), found.why) == ([1, 0, 1], [2, 1, 0], "moved away")
        assert found.notes == ("results.csv: 3 outcomes are missing (placebo 2, 25mg 1): moved away.",)
        back = Results.from_payload(json.loads(json.dumps(found.payload())))
        assert (back.missing.tolist(), back.why) == ([2, 1, 0], "moved away")
        with pytest.raises(InputError, match="The reason why outcomes are missing is empty"):
            tell(self.TEXT, missing=" ")

    def test_a_batch_does_not_wait_for_them(self, tmp_path):
        with create_study(
            "s", question=BestArm(), arms=["a", "b"], noise=Gaussian(1.0), storage=f"sqlite:///{tmp_path}/x.db"
        ) as study:
            pulls = study.ask().pulls
            rows = {"arm": np.repeat(["a", "b"], pulls.astype(int)), "outcome": np.arange(60.0) % 7}
            rows["outcome"][[3, 40, 41]] = np.nan
            with pytest.raises(DataError, match=r"row 4: 3 rows have no outcome \(a 1, b 2\)"):
                study.tell(rows)
            report = study.tell(rows, missing="drop-out")
            assert (report.rounds, report.results) == (1, 57)
            assert "the reasons why 3 outcomes are missing have nothing to do with" in report.guarantee
            assert study.state.lost == {"a": 1, "b": 2}
            assert not any("arms differ in how many" in each for each in report.dangers)
            study.ask()
            rows = {"arm": ["a", "b"] * 200, "outcome": np.arange(400.0) % 7}
            rows["outcome"][:80:2] = np.nan
            report = study.tell(rows, missing="ill", again=True)
            assert study.state.lost == {"a": 41, "b": 2}
            assert any(
                "arms differ in how many outcomes are missing as chance does once in" in each for each in report.dangers
            )

    def test_a_file_with_nothing_else(self, tell):
        found = tell(table("placebo,", "placebo,"), missing="lost")
        assert (found.rows, found.missing.tolist()) == (0, [2, 0, 0])


# --- nothing counts twice


WITH_IDS = Columns(id="user")


def users(*rows):
    return table(*rows, header="user,arm,outcome")


class TestIds:
    def test_rows_that_are_recorded_are_skipped(self, tell):
        first = tell(users("1,placebo,1", "2,25mg,0"), study=WITH_IDS)
        found = tell(users("2,25mg,0", "3,25mg,1", "1,placebo,0"), study=WITH_IDS, told=[first])
        assert (found.rows, found.skipped, found.totals.tolist()) == (1, 2, [0, 1, 0])
        assert found.notes == ("results.csv: 2 rows were recorded before and were skipped.",)
        back = Results.from_payload(json.loads(json.dumps(found.payload())))
        third = tell(users("3,25mg,1", "4,25mg,1"), study=WITH_IDS, told=[first, back])
        assert third.rows == 1
        with pytest.raises(DataError, match="results.csv brings nothing new: all of its 2 rows are recorded"):
            tell(users("3,25mg,1", "1,25mg,1"), study=WITH_IDS, told=[first, back])
        assert tell(users("1,placebo,1"), study=WITH_IDS, told=[first], again=True).rows == 1

    def test_numbers_and_texts_are_one_id(self, tell):
        first = tell(users("1,placebo,1", " 2 ,25mg,0"), study=WITH_IDS)
        frame = {"user": [1.0, 2], "arm": ["placebo", "25mg"], "outcome": [1, 0]}
        with pytest.raises(DataError, match="nothing new"):
            read_results(frame, ARMS, Binary(), columns=WITH_IDS, earlier=Earlier([first]), seed=3)

    def test_hashes_are_keyed_by_the_study(self, tell):
        frame = {"user": [1, 2], "arm": ["placebo", "25mg"], "outcome": [1, 0]}
        one, two = (read_results(frame, ARMS, Binary(), columns=WITH_IDS, seed=seed) for seed in (1, 2))
        assert not set(one.hashes.tolist()) & set(two.hashes.tolist())

    def test_several_rows_of_one_id(self, tell):
        text = users("1,placebo,1", "2,25mg,0", "1,placebo,0", "2,25mg,0")
        with pytest.raises(
            DataError,
            match=r"line 4: 2 rows have the id of an earlier row and the same arm; this one that of line 2.\n.*"
            "average_ids=True",
        ):
            tell(text, study=WITH_IDS)
        found = tell(text, Bounded(0, 1), study=WITH_IDS, average_ids=True)
        assert (found.rows, found.totals.tolist()) == (2, [0.5, 0, 0])
        assert found.notes == ("results.csv: 2 rows were averaged with others of the same id.",)
        with pytest.raises(DataError, match=r"the mean 0.5 of the rows of one id of arm 'placebo' is no whole number"):
            tell(text, study=WITH_IDS, average_ids=True)
        for average in (False, True):
            with pytest.raises(
                DataError, match=r"line 3: 1 rows have the id of a row of another arm.*line 2 .*\n  Remove"
            ):
                tell(users("1,placebo,1", "1,25mg,0"), study=WITH_IDS, average_ids=average)

    def test_an_id_that_is_missing(self, tell):
        with pytest.raises(DataError, match="line 3: there is no id in this row"):
            tell(users("1,placebo,1", ",placebo,1"), study=WITH_IDS)

    def test_missing_rows_are_not_missed_twice(self, tell):
        first = tell(users("1,placebo,", "2,25mg,0"), study=WITH_IDS, missing="ill")
        found = tell(users("1,placebo,", "2,25mg,0", "3,25mg,1"), study=WITH_IDS, missing="ill", told=[first])
        assert (found.rows, found.missing) == (1, None)

    def test_a_million_take_little_room(self):
        hashes = np.random.default_rng(1).integers(0, 2**63, 1_000_000, dtype=np.uint64)
        packed = packed_hashes(hashes)
        assert len(packed) < 8.5e6  # 64 bits each as they are would be 10.7
        np.testing.assert_array_equal(unpacked_hashes(packed), np.sort(hashes))


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

    def test_the_numbers_say_which_story_is_likelier(self, tell):
        """1000 results with 100 ones, and then 1010 with 125: hardly the same and ten more, of which all are ones."""
        first, asked = tell("arm,count,successes\nplacebo,1000,100\n25mg,1000,120\n"), np.array([9999.0] * 3)
        new = "arm,count,successes\nplacebo,1040,125\n25mg,1030,145\n"
        assert tell(new, told=[first], waiting=asked).counts.tolist() == [1040, 1030, 0]
        with pytest.raises(DataError, match="looks like a running total"):
            tell("arm,count,successes\nplacebo,1040,104\n25mg,1030,124\n", told=[first], waiting=asked)

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
        assert found.notes == ("results.csv: a running total: 22 results were recorded before, and 13 are new.",)
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
        with pytest.raises(DataError, match=r"begins with 0 of the 30 rows that are recorded.*\n.*--id-column"):
            tell(table(*sorted(rows)), noise, told=[first], cumulative=True)
        with pytest.raises(DataError, match="sums are recorded, which rows cannot be compared with"):
            tell(table(*rows), noise, told=[tell("arm,count,total\nplacebo,3,1\n", noise)], cumulative=True)

    def test_rows_that_could_be_the_same_by_chance(self, tell):
        short = tell(table("placebo,0", "placebo,0", "25mg,1"))
        assert tell(table("placebo,0", "placebo,0", "25mg,1", "25mg,0"), told=[short]).rows == 4

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


# --- wide tables and items


class TestItems:
    WIDE = "question,placebo,25mg,level\nq1,1,0,easy\nq2,0,1,hard\nq3,1,,hard\n"

    def test_one_column_an_arm(self, tell):
        found = tell(self.WIDE)
        assert (found.rows, found.counts.tolist(), found.totals.tolist()) == (5, [3, 2, 0], [2, 1, 0])
        assert found.notes == (
            "results.csv: not used: 'question', 'level'.",
            "results.csv: empty cells were taken for items that an arm was not tried on (25mg 1); --missing REASON "
            "counts them as missing.",
        )
        assert tell(self.WIDE, missing="no answer").missing.tolist() == [0, 1, 0]
        items = found.lots.items
        assert len(set(items.tolist())) == 3  # one a row
        with pytest.raises(DataError, match="line 3: the outcome 'x' of arm '25mg' is not a number"):
            tell(self.WIDE.replace("q2,0,1", "q2,0,x"))
        with pytest.raises(DataError, match="there are two columns 'placebo'"):
            tell("placebo,placebo,25mg\n1,1,1\n")

    def test_pairs_are_kept(self, tell):
        columns = Columns(item="question")
        found = tell(self.WIDE, study=columns)
        long = tell(
            table(
                "q1,placebo,1", "q2,placebo,0", "q3,placebo,1", "q1,25mg,0", "q2,25mg,1", header="question,arm,outcome"
            ),
            study=columns,
        )
        for each in (found, long, Results.from_payload(json.loads(json.dumps(long.payload())))):
            lots = each.lots
            pairs = {(int(arm), int(item)): value for arm, item, value in zip(lots.arms, lots.items, lots.totals)}  # noqa: B905
            assert len(pairs) == 5
            shared = [item for arm, item in pairs if arm == 1]
            assert sorted((pairs[0, item], pairs[1, item]) for item in shared) == [(0, 1), (1, 0)]

    def test_an_arm_is_tried_on_an_item_once(self, tell):
        columns = Columns(item="question")
        text = table("q1,placebo,1", "q1,25mg,0", "q1,placebo,0", header="question,arm,outcome")
        with pytest.raises(DataError, match="line 4: 1 rows have the item of an earlier row and the same arm"):
            tell(text, study=columns)
        first = tell(self.WIDE, study=columns)
        found = tell(self.WIDE + "q4,1,1,easy\n", study=columns, told=[first])
        assert (found.rows, found.skipped) == (2, 5)


def test_sums_have_no_ids(tell):
    with pytest.raises(DataError, match="sums have no ids"):
        tell("arm,count,successes,user\nplacebo,1,1,3\n", study=WITH_IDS)


def test_times_are_kept(tell):
    text = "ts,arm,outcome\n2026-01-03 10:00,placebo,1\n2026-01-02T09:00:00Z,placebo,1\nnever,placebo,0\n"
    found = tell(text, study=Columns(time="ts"))
    assert found.times == ("2026-01-02T09:00:00Z", "2026-01-03 10:00")
    assert found.notes == ()


# --- other forms of tables


ROWS = [{"arm": "placebo", "outcome": 1}, {"arm": "25mg", "outcome": False}, {"arm": "placebo", "outcome": "0", "x": 1}]


@pytest.mark.parametrize(
    "text",
    [
        "".join(json.dumps(row) + "\n" for row in ROWS),
        "\ufeff\r\n" + "\r\n\r\n".join(json.dumps(row) for row in ROWS),
        json.dumps(ROWS),
        json.dumps(ROWS, indent=2),
        json.dumps({"data": ROWS, "version": 3}, indent=1),
        json.dumps({"arm": ["placebo", "25mg", "placebo"], "outcome": [1, 0, 0]}),
        gzip.compress("".join(json.dumps(row) + "\n" for row in ROWS).encode(), mtime=0),
        gzip.compress(b"arm,outcome\nplacebo,1\n25mg,0\nplacebo,0\n", mtime=0),
        "arm\toutcome\nplacebo\ttrue\n25mg\tfalse\nplacebo\tfalse\n",
    ],
    ids=["lines", "lines with blanks", "list", "indented", "inside", "columns", "lines.gz", "csv.gz", "tsv"],
)
def test_json_and_compressed(tell, text):
    found = tell(text)
    assert (found.rows, found.counts.tolist(), found.totals.tolist()) == (3, [2, 1, 0], [1, 0, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"arm": "placebo", "outcome": 1}\n{"arm": "placebo"\n', r"results.csv, line 2: this is not JSON \(Expecting"),
        ('{"arm": "placebo", "outcome": 1}\n[1]\n', r"results.csv, line 2: this is no object such as"),
        ('{"arm": "placebo", "outcome": 1}\n{"arm": "no", "outcome": 1}\n', "line 2: there is no arm 'no'"),
        ('{"arm": "placebo", "outcome": 1}\n{"outcome": 1}\n', "line 2: there is no name of an arm"),
        ('{"arm": "placebo", "outcome": 1}\n{"arm": "placebo"}\n', "line 2: 1 row has no outcome"),
        ('{"arm": "placebo", "outcome": ' + "9" * 5000 + "}\n", r"this is not JSON \(a number has thousands of digits"),
        ("[" * 100_000, r"this is not JSON \(it is nested too deeply"),
        ('{"a":' * 100_000, r"this is not JSON"),
        ("[1, 2]", "this JSON is no table"),
        ("[]", "is empty"),
        ("{}", "the header is empty"),
        ('{"arm": ["placebo"], "outcome": [1, 2]}', "different lengths"),
        ('[{"arm": "placebo", "outcome": {"x": 1}}]', r"row 1: the outcome '.*' of arm 'placebo' is not a number"),
        ('[{"arm": ["placebo"], "outcome": 1}]', "there is no arm"),
    ],
)
def test_json_that_is_refused(tell, text, message):
    with pytest.raises(DataError, match=message):
        tell(text)


def book(path, cells, shared=(), dimension="A1:B2"):
    """A workbook with one sheet of these cells, as XML."""
    main, rel = "http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://schemas.openxmlformats.org/"
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{rel}r"><sheets><sheet name="A" r:id="x"/></sheets>'
        "</workbook>",
        "xl/_rels/workbook.xml.rels": '<Relationships><Relationship Id="x" Target="worksheets/s.xml"/></Relationships>',
        "xl/sharedStrings.xml": f'<sst xmlns="{main}">'
        + "".join(f"<si><t>{each}</t></si>" for each in shared)
        + "</sst>",
        "xl/worksheets/s.xml": f'<worksheet xmlns="{main}"><dimension ref="{dimension}"/><sheetData>{cells}</sheetData>'
        "</worksheet>",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in parts.items():
            file.writestr(name, text)


TOP = '<row r="1"><c r="A1" t="inlineStr"><is><t>arm</t></is></c><c r="B1" t="str"><v>outcome</v></c></row>'


class TestWorkbooks:
    def test_kinds_of_cells(self, tmp_path):
        cells = TOP + (
            '<row r="3"><c r="A3" t="s"><v>0</v></c><c r="B3"><f>1+0</f><v>1</v></c></row>'
            '<row><c t="inlineStr"><is><r><t>pla</t></r><r><t>cebo</t></r></is></c><c t="b"><v>1</v></c></row>'
            '<row r="9"><c r="B9"><v>0</v></c><c r="A9" t="s"><v>1</v></c></row>'
        )
        book(tmp_path / "r.xlsx", cells, ["placebo", "25mg"])
        found = read_results(tmp_path / "r.xlsx", ARMS, Binary())
        assert (found.counts.tolist(), found.totals.tolist()) == ([2, 1, 0], [2, 0, 0])

    def test_a_cell_in_the_last_corner_takes_no_memory(self, tmp_path):
        """Nor does a sheet that says it reaches there."""
        import tracemalloc

        cells = TOP + '<row r="2"><c r="A2" t="inlineStr"><is><t>25mg</t></is></c><c r="B2"><v>1</v></c></row>'
        corner = '<row r="1048576"><c r="XFD1048576"><v>7</v></c></row>'
        book(tmp_path / "r.xlsx", cells, dimension="A1:XFD1048576")
        book(tmp_path / "corner.xlsx", cells + corner, dimension="A1:XFD1048576")
        tracemalloc.start()
        assert read_results(tmp_path / "r.xlsx", ARMS, Binary()).rows == 1
        with pytest.raises(
            DataError, match=r"row 1048576: the header has 2 columns, but there is a cell in column XFD"
        ):
            read_results(tmp_path / "corner.xlsx", ARMS, Binary())
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 10e6

    def test_a_bomb(self, tmp_path):
        book(tmp_path / "r.xlsx", TOP + "<row>" + '<c r="A2"><v>1</v></c>' * 1_000_000 + "</row>")
        with pytest.raises(DataError, match="a row of more cells than a sheet has columns"):
            read_results(tmp_path / "r.xlsx", ARMS, Binary())

    @pytest.mark.parametrize(
        "cells",
        [
            TOP + '<row r="2"><c r="1A"><v>1</v></c></row>',
            TOP + '<row r="2"><c r="ZZZ2"><v>1</v></c></row>',
            TOP + '<row r="x"><c r="A2"><v>1</v></c></row>',
            TOP + '<row r="2"><c r="A2" t="s"><v>-1</v></c></row>',
            TOP + '<row r="2"><c r="A2" t="s"><v>5</v></c></row>',
            TOP + '<row r="2"><c r="A2"><v>x</v></c></row>',
            TOP + "<row>",
        ],
    )
    def test_sheets_that_make_no_sense(self, tmp_path, cells):
        book(tmp_path / "r.xlsx", cells)
        with pytest.raises(DataError, match="r.xlsx: cannot be read as an Excel workbook"):
            read_results(tmp_path / "r.xlsx", ARMS, Binary())

    def test_titles_that_are_numbers(self, tmp_path):
        book(tmp_path / "r.xlsx", '<row r="2"><c r="A2"><v>3</v></c><c r="B2"><v>0.5</v></c></row>')
        with (tmp_path / "r.xlsx").open("rb") as file:
            sheet = excel_sheet("r.xlsx", file)
        assert (sheet.header, sheet.header_line) == (["3", "0.5"], 2)


# --- sums that count


def test_where_sums_only_teach_it_is_said(tell):
    def notes(text, noise):
        return read_results(text, ARMS, noise, parts=4).notes

    sums = {"arm": ARMS, "count": [9, 9, 9], "total": [3, 2, 1]}
    wins = {"arm": ARMS, "count": [9, 9, 9], "successes": [3, 2, 1]}
    assert notes(sums, SubGaussian(1.0)) == (
        "data frame: sums cannot be dealt into parts, so this first round only teaches: it counts if every result is a "
        "row of its own.",
    )
    for text, noise in (
        (sums, Binary()),
        (sums, Poisson()),
        (sums, Gaussian(1.0)),
        (wins, Binary()),
        (wins, Gaussian(1.0)),
        (wins, Bounded(0, 1)),
    ):
        assert notes(text, noise) == ()
