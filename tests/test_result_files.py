"""Files of real life: columns by name, ways to write numbers, arms, all problems at once, missing outcomes."""

import json
import re

import numpy as np
import pytest

from result_files import ARMS, reader, table
from roundwise import (
    BestArm,
    Binary,
    Bounded,
    DataError,
    Gaussian,
    InputError,
    LargeSample,
    Normal,
    Poisson,
    SubGaussian,
    create_study,
)
from roundwise.ingest import Columns, Reading, Results, read_results
from roundwise.messages import Condition, FileNote

OWN = Columns(arm="variant", outcome="converted")


@pytest.fixture
def tell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return reader(tmp_path)


# --- columns


class TestColumns:
    def test_sums_under_the_names_of_other_tools(self, tell):
        """Visitors and conversions are sums; but not beside an outcome, nor where two columns could be one of them."""
        found = tell(table("placebo,9,2", "25mg,8,3", header="group,Visitors,Conversions"))
        assert (found.form, found.counts.tolist(), found.totals.tolist()) == ("successes", [9, 8, 0], [2, 3, 0])
        rows = tell(table("placebo,9,2,1", "25mg,8,3,0", header="group,visitors,clicks,outcome"))
        assert (rows.form, rows.totals.tolist()) == ("rows", [1, 0, 0])
        with pytest.raises(DataError):
            tell(table("placebo,9,2,2", "25mg,8,3,2", header="group,visitors,clicks,orders"))

    def test_rows_without_an_outcome_are_what_is_said_with_the_file(self, tell):
        text = table("placebo,1", "placebo,", "25mg,", "25mg,1")
        with pytest.raises(DataError, match="If an empty cell means 0"):
            tell(text)
        assert tell(text, empty="zero").counts.tolist() == [2, 2, 0]
        assert tell(text, empty="missing").missing.tolist() == [1, 1, 0]
        with pytest.raises(DataError):
            tell(text, reading=Reading(empty="zero"), empty="refused")
        for wrong in ({"empty": "nothing"}, {"empty": "zero", "missing": "lost"}):
            with pytest.raises(InputError):
                tell(text, **wrong)

    def test_by_name_in_the_study_and_over_it(self, tell):
        text = table("9,placebo,1,0", "8,25mg,0,1", header="count,variant,converted,other")
        found = tell(text, study=OWN)
        assert found.totals.tolist() == [1, 0, 0]
        assert found.notes == (FileNote("unused_columns", file="results.csv", columns=["count", "other"]),)
        assert tell(text, study=OWN, columns=Columns(outcome="Other")).totals.tolist() == [0, 1, 0]

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            (Columns(arm="varient"), "line 1.*'varient'"),
            (Columns(outcome="zzz"), "'zzz'"),
            (Columns(id="user"), "'user'"),
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
            with pytest.raises(DataError, match="'Big button'"):
                tell(table(wrong, header="who,group,bought"))
        with pytest.raises(DataError, match="but no column 'arm'"):
            tell(table("u1,nothing of ours,1", header="who,group,bought"))

    def test_guessed_where_one_column_has_the_arms(self, tell):
        text = table("u1,25mg,1,3.5", "u2,placebo,0,7", header="who,group,bought,minutes")
        found = tell(text)
        assert found.totals.tolist() == [0, 1, 0]
        guessed = [
            (each.fields["column"], each.fields["role"]) for each in found.notes if each.code == "guessed_column"
        ]
        assert guessed == [("group", "arm"), ("bought", "outcome")]
        with pytest.raises(
            DataError,
            match=r"'bought'.*'minutes'",
        ):
            tell(text, Gaussian(1.0))
        with pytest.raises(DataError, match=r"'group'.*'again'"):
            tell(table("25mg,placebo,1", header="group,again,outcome"))
        assert tell(table("25mg,5,2", header="group,count,successes")).totals.tolist() == [0, 2, 0]

    @pytest.mark.parametrize("noise", [Binary(), Bounded(0, 100), Gaussian(20.0), Poisson()])
    def test_a_round_that_was_asked_for_is_no_table_of_results(self, tell, noise):
        """What `ask --out` wrote, told by mistake: how many are asked for must not be taken for outcomes."""
        asked = r"line 1: this is a round that was asked for; it has no results\.\n  Write them down\. Give the columns"
        for header, rows in (("arm,remaining", "placebo,1"), ("arm,remaining,clicks", "placebo,30,1")):
            with pytest.raises(DataError, match=asked):
                tell(table(rows, header=header), noise)
        filled = table("placebo,30,1", header="arm,remaining,outcome")  # the results beside what was asked for
        assert tell(filled, noise).totals.tolist() == [1, 0, 0]
        with pytest.raises(DataError, match="but no column 'count'"):
            tell(table("placebo,30,1", header="arm,remaining,successes"), noise)

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
    said = [note for note in found.notes if note.code == "number_read"]
    assert len(said) == (noise != Binary())


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["31%", "0.4"], "line 3"),
        (["0.4", "31%"], "line 3"),
        (['"1,00"'], "line 2.*'1,00'"),
        (['"0,250"'], "line 2.*'0,250'"),  # a decimal comma, and no thousands
        (["1" * 10_000_000], "line 2.*'1{39}…'"),
        (["yess"], "not a number"),
    ],
)
def test_numbers_that_are_not_understood(tell, cells, message):
    with pytest.raises(DataError, match=message):
        tell(table(*(f"placebo,{cell}" for cell in cells)), Gaussian(1.0))


@pytest.mark.parametrize("text", ["arm;count;total\nplacebo;{};2\n", "arm,count,total\nplacebo,{},2\n"])
def test_a_count_that_may_be_a_thousand_times_as_much(tell, text):
    """1.000 is a thousand where decimals have a comma: as 1 it is a wrong number that nothing else shows."""
    with pytest.raises(
        DataError, match=r"line 2: the count '1.000' of arm 'placebo' is unclear: it may be 1 or 1000\."
    ):
        tell(text.format("1.000"), Gaussian(1.0))
    assert tell(text.format("1000"), Gaussian(1.0)).counts[0] == 1000
    assert tell(text.format("10.0"), Gaussian(1.0)).counts[0] == 10


def test_further_columns_are_written_as_the_outcome_is(tell):
    """In a table with decimal commas 1.200 sessions are not 1.2 of them."""
    columns, rules = Columns(id="user", denominator="sessions"), Reading(id_result="sum")
    text = "user;arm;outcome;sessions\nu1;placebo;12,5;{}\nu2;25mg;3,5;2\n"
    ratio = {"study": columns, "reading": rules}
    with pytest.raises(DataError, match=r"line 2: a number has a decimal comma, but there is a number with a point"):
        tell(text.format("1.200"), LargeSample(), **ratio)
    said = tell("user;arm;outcome;before\nu1;placebo;1;1.200\n", Normal(), study=Columns(id="user", covariate="before"))
    assert [(each.code, each.fields["value"]) for each in said.notes] == [("number_read", 1.2)]


def test_where_the_header_is_if_not_at_the_top(tell):
    for above, line in (("Export of May,,\n", 2), ("My report\n\n", 3)):
        with pytest.raises(DataError, match=f"The header seems to be in line {line}: remove what is above it"):
            tell(above + "arm,outcome,x\nplacebo,1,2\n")


@pytest.mark.long
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
            said = "\n".join(map(str, tell(text).notes))
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
        assert said[0] == (
            "results.csv, line 3: 3 names are not arms of this study: 'BIG BUTTON' ('Big button'?), 'big-button' "
            "('Big button'?), 'Xyz'."
        )
        assert said[1].startswith("  So in 4 lines (3, 4, 5, 6). Correct the name")

    def test_no_problem_is_left_out_because_of_many_names(self, tell):
        """Each name that is no arm was a kind of its own, and of more than eight kinds the rest was not told."""
        rows = [f"Big button{each},1" for each in "abcdefgh"] + ["placebo,", "placebo,x", "placebo,3", "placebo", ",1"]
        with pytest.raises(DataError) as error:
            tell(table("placebo,1", *rows))
        said = str(error.value)
        assert "more kinds" not in said
        for each in ("8 names are not arms", "has no outcome", "'x' of arm", "outcome 3", "this line 1", "no name of"):
            assert each in said, each
        assert said.count("Correct the name") == 1

    def test_rows_of_other_experiments(self, tell):
        text = table("placebo,1", "old,1", "older,0", "old,0")
        found = tell(text, ignore_arms="old, older")
        assert (found.rows, found.totals.tolist()) == (1, [1, 0, 0])
        assert found.notes == (FileNote("other_arms", file="results.csv", arms={"old": 2, "older": 1}),)
        assert tell(text, ignore_arms=["*"]).rows == 1
        with pytest.raises(DataError, match="'older'"):
            tell(text, ignore_arms=["old"])
        for slip in ("Placebo", "placbo", "plaecbo", "placeboo"):  # a slip is no other experiment
            with pytest.raises(DataError, match="Did you mean 'placebo'"):
                tell(table("25mg,1", f"{slip},1"), ignore_arms="*")
            if slip != "Placebo":  # but it may be one, if somebody says so
                assert tell(table("25mg,1", f"{slip},1"), ignore_arms=f"*, {slip}").rows == 1
        assert tell(table("25mg,1", "old,1"), ignore_arms="*").notes[0].fields["arms"] == {"old": 1}
        with pytest.raises(InputError, match="'placebo'"):
            tell(text, ignore_arms="placebo")


# --- all problems at once, and what is missing


def test_all_problems_of_a_file_by_kind_and_arm(tell):
    rows = ["placebo,1", "25mg,", "placebo,NA", "25mg,x", "25mg,z", "placebo,3", ",1", "placebo,1,1", "placebo"]
    with pytest.raises(DataError) as error:
        tell(table(*rows))
    first, *rest = str(error.value).splitlines()
    assert "results.csv" in first
    assert "6" in first
    kinds = [each for each in rest if each.startswith("- ")]
    assert [re.match(r"- line (\d+)", each)[1] for each in kinds] == ["3", "5", "7", "8", "9", "10"]
    assert "placebo 1, 25mg 1" in kinds[0]
    assert "5, 6; 25mg 2" in str(error.value)


class TestMissing:
    TEXT = table("placebo,1", "25mg,", "placebo,N/A", "placebo,null", "Big button,0")

    def test_they_are_counted_with_a_reason(self, tell):
        found = tell(self.TEXT, missing="moved away")
        assert (found.counts.tolist(), found.missing.tolist(), found.missing_reason) == (
            [1, 0, 1],
            [2, 1, 0],
            "moved away",
        )
        missing = FileNote("missing_outcomes", file="results.csv", arms={"placebo": 2, "25mg": 1}, why="moved away")
        assert found.notes == (missing,)
        back = Results.from_payload(json.loads(json.dumps(found.payload())))
        assert (back.missing.tolist(), back.missing_reason) == ([2, 1, 0], "moved away")
        with pytest.raises(InputError, match="empty"):
            tell(self.TEXT, missing=" ")

    def test_a_batch_does_not_wait_for_them(self, tmp_path):
        with create_study(
            "s", question=BestArm(), arms=["a", "b"], noise=Gaussian(3.0), storage=f"sqlite:///{tmp_path}/x.db"
        ) as study:
            pulls = study.ask().pulls
            rows = {"arm": np.repeat(["a", "b"], pulls.astype(int)), "outcome": np.arange(60.0) % 7}
            rows["outcome"][[3, 40, 41]] = np.nan
            with pytest.raises(DataError, match="row 4"):
                study.tell(rows)
            report = study.tell(rows, missing="drop-out")
            assert (report.rounds, report.results) == (1, 57)
            assert Condition("missing_outcomes", number=3) in report.guarantee.conditions
            assert study.state.facts.missing == {"a": 1, "b": 2}
            assert not any(each.code == "missing_differ" for each in report.dangers)
            study.ask()
            rows = {"arm": ["a", "b"] * 200, "outcome": np.arange(400.0) % 7}
            rows["outcome"][:80:2] = np.nan
            report = study.tell(rows, missing="ill", new=True)
            assert study.state.facts.missing == {"a": 41, "b": 2}
            assert any(each.code == "missing_differ" for each in report.dangers)

    def test_a_file_with_nothing_else(self, tell):
        found = tell(table("placebo,", "placebo,"), missing="lost")
        assert (found.rows, found.missing.tolist()) == (0, [2, 0, 0])


# --- sums that count


def test_where_sums_only_teach_it_is_said(tell):
    def notes(text, noise):
        return read_results(text, ARMS, noise, parts=4).notes

    sums = {"arm": ARMS, "count": [9, 9, 9], "total": [3, 2, 1]}
    wins = {"arm": ARMS, "count": [9, 9, 9], "successes": [3, 2, 1]}
    assert notes(sums, SubGaussian(1.0)) == (FileNote("teaches_only", file="data frame"),)
    for text, noise in (
        (sums, Binary()),
        (sums, Poisson()),
        (sums, Gaussian(1.0)),
        (wins, Binary()),
        (wins, Gaussian(1.0)),
        (wins, Bounded(0, 1)),
    ):
        assert notes(text, noise) == ()


def test_times_are_kept(tell):
    text = "ts,arm,outcome\n2026-01-03 10:00,placebo,1\n2026-01-02T09:00:00Z,placebo,1\nnever,placebo,0\n"
    found = tell(text, study=Columns(time="ts"))
    assert found.times == ("2026-01-02T09:00:00Z", "2026-01-03 10:00")
    assert found.notes == ()
