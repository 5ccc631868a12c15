"""Other forms of tables: one column an arm, JSON, compressed files, workbooks."""

import gzip
import json
import zipfile

import pytest

from result_files import ARMS, reader, table
from roundwise import Binary, DataError
from roundwise.formats.excel import excel_sheet
from roundwise.ingest import Columns, Reading, Results, read_results
from roundwise.messages import FileNote


@pytest.fixture
def tell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return reader(tmp_path)


# --- wide tables and items


class TestItems:
    WIDE = "question,placebo,25mg,level\nq1,1,0,easy\nq2,0,1,hard\nq3,1,,hard\n"

    def test_one_column_an_arm(self, tell):
        found = tell(self.WIDE)
        assert (found.rows, found.counts.tolist(), found.totals.tolist()) == (5, [3, 2, 0], [2, 1, 0])
        assert found.notes == (
            FileNote("unused_columns", file="results.csv", columns=["question", "level"]),
            FileNote("empty_cells", file="results.csv", arms={"25mg": 1}),
        )
        assert tell(self.WIDE, missing="no answer").missing.tolist() == [0, 1, 0]
        items = found.strata.items
        assert len(set(items.tolist())) == 3  # one a row
        with pytest.raises(DataError, match=r"line 3.*'x'"):
            tell(self.WIDE.replace("q2,0,1", "q2,0,x"))
        with pytest.raises(DataError, match="'placebo'"):
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
            strata = each.strata
            pairs = {(int(arm), int(item)): value for arm, item, value in zip(strata.arms, strata.items, strata.totals)}  # noqa: B905
            assert len(pairs) == 5
            shared = [item for arm, item in pairs if arm == 1]
            assert sorted((pairs[0, item], pairs[1, item]) for item in shared) == [(0, 1), (1, 0)]

    def test_an_arm_is_tried_on_an_item_once(self, tell):
        columns = Columns(item="question")
        text = table("q1,placebo,1", "q1,25mg,0", "q1,placebo,0", header="question,arm,outcome")
        with pytest.raises(DataError, match="line 4"):
            tell(text, study=columns)
        first = tell(self.WIDE, study=columns)
        found = tell(self.WIDE + "q4,1,1,easy\n", study=columns, told=[first])
        assert (found.rows, found.skipped) == (2, 5)


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
        json.dumps({"arm": {"0": "placebo", "2": "25mg", "3": "placebo"}, "outcome": {"0": 1, "2": 0, "3": 0}}),
        gzip.compress("".join(json.dumps(row) + "\n" for row in ROWS).encode(), mtime=0),
        gzip.compress(b"arm,outcome\nplacebo,1\n25mg,0\nplacebo,0\n", mtime=0),
        "arm\toutcome\nplacebo\ttrue\n25mg\tfalse\nplacebo\tfalse\n",
    ],
    ids=["lines", "lines with blanks", "list", "indented", "inside", "columns", "pandas", "lines.gz", "csv.gz", "tsv"],
)
def test_json_and_compressed(tell, text):
    found = tell(text)
    assert (found.rows, found.counts.tolist(), found.totals.tolist()) == (3, [2, 1, 0], [1, 0, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"arm": "placebo", "outcome": 1}\n{"arm": "placebo"\n', "results.csv.*line 2"),
        ('{"arm": "placebo", "outcome": 1}\n[1]\n', "results.csv.*line 2"),
        ('{"arm": "placebo", "outcome": 1}\n{"arm": "no", "outcome": 1}\n', "line 2.*'no'"),
        ('{"arm": "placebo", "outcome": 1}\n{"outcome": 1}\n', "line 2"),
        ('{"arm": "placebo", "outcome": 1}\n{"arm": "placebo"}\n', "line 2"),
        ('{"arm": "placebo", "outcome": ' + "9" * 5000 + "}\n", "number"),
        ("[" * 100_000, r"this is not JSON \(it is nested too deeply"),
        ('{"a":' * 100_000, r"this is not JSON"),
        ("[1, 2]", "table"),
        ("[]", "is empty"),
        ("{}", "the header is empty"),
        ('{"arm": ["placebo"], "outcome": [1, 2]}', "different lengths"),
        ('{"placebo": {"count": 5, "total": 2}, "25mg": {"count": 5, "total": 1}}', "'placebo'"),
        ('[{"arm": "placebo", "outcome": {"x": 1}}]', "row 1.*'.*'"),
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
        with pytest.raises(DataError, match="row 1048576"):
            read_results(tmp_path / "corner.xlsx", ARMS, Binary())
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 10e6

    @pytest.mark.long
    def test_a_bomb(self, tmp_path):
        book(tmp_path / "r.xlsx", TOP + "<row>" + '<c r="A2"><v>1</v></c>' * 1_000_000 + "</row>")
        with pytest.raises(DataError, match="columns"):
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
        with pytest.raises(DataError, match=r"r.xlsx"):
            read_results(tmp_path / "r.xlsx", ARMS, Binary())

    def test_a_formula_that_was_never_computed_is_not_an_empty_cell(self, tmp_path):
        cells = TOP + '<row r="2"><c r="A2" t="s"><v>0</v></c><c r="B2"><f>1+0</f><v></v></c></row>'
        book(tmp_path / "r.xlsx", cells, ["placebo"])
        with pytest.raises(DataError, match=r"row 2: the outcome '=1\+0' of arm 'placebo' is a formula that was not"):
            read_results(tmp_path / "r.xlsx", ARMS, Binary(), reading=Reading(empty="zero"))
        empty = cells.replace('<c r="B2">', '<c r="B2" t="str">')  # it was computed, and says nothing
        book(tmp_path / "r.xlsx", empty, ["placebo"])
        assert read_results(tmp_path / "r.xlsx", ARMS, Binary(), reading=Reading(empty="zero")).rows == 1

    def test_a_header_below_the_top(self, tmp_path):
        title = '<row r="1"><c r="A1" t="str"><v>Export</v></c></row>'
        book(tmp_path / "r.xlsx", title + TOP.replace('"1"', '"3"').replace("A1", "A3").replace("B1", "B3"))
        with pytest.raises(DataError, match="The header seems to be in row 3: remove what is above it"):
            read_results(tmp_path / "r.xlsx", ARMS, Binary())

    def test_titles_that_are_numbers(self, tmp_path):
        book(tmp_path / "r.xlsx", '<row r="2"><c r="A2"><v>3</v></c><c r="B2"><v>0.5</v></c></row>')
        with (tmp_path / "r.xlsx").open("rb") as file:
            sheet = excel_sheet("r.xlsx", file)
        assert (sheet.header, sheet.header_line) == (["3", "0.5"], 2)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"\x28\xb5\x2f\xfd\x00", "is compressed with Zstandard"),
        (b"BZh91AY&SY\x00", "is compressed with bzip2"),
        (b"\xfd7zXZ\0\0", "is compressed with xz"),
        (b"<!DOCTYPE html>\n<html>", "is a web page"),
    ],
)
def test_files_that_are_no_tables_are_called_by_their_name(tell, start, message):
    with pytest.raises(DataError, match=f"results.csv {message}"):
        tell(start)


def test_a_cell_may_hold_what_a_model_said(tell):
    answer = "well, " * 50_000
    assert tell(f'arm,outcome,answer\nplacebo,1,"{answer}"\n25mg,0,"no, never"\n').rows == 2
