"""One report in all its forms; the evidence it shows is the stopping rule; its intervals agree with the decision."""

import csv
import html.parser
import io
import json
import math
import re
import shutil
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from roundwise import (
    GLR,
    PET,
    Above,
    AnyAbove,
    Batch,
    BestArm,
    Binary,
    Bounded,
    Claims,
    Columns,
    Gaussian,
    InputError,
    MinimumBelow,
    Normal,
    Poisson,
    Problem,
    Statements,
    TopK,
    TrackAndStop,
    Wager,
    advance,
    begin,
    create_study,
    final_answer,
)
from roundwise.policies import OptBBAI
from roundwise.report import build_report
from roundwise.report.charts import draw_evidence, draw_means
from roundwise.report.export import BROWSERS
from roundwise.report.model import Units, odds, per_cent, progress
from roundwise.report.text import (
    _describe_gap,
    arm_table,
    as_rows,
    claim_table,
    describe_dates,
    describe_history,
    file_table,
    round_table,
)
from roundwise.thresholds import KaufmannKoolenPairwise, KaufmannKoolenSum, Lemma32ByCounts, LogLogHeuristic
from test_study import ARMS, QUESTIONS, World, finished

ODD = ('<b>"x"&', "a|b", "`c`*d*", "[e](http://f) \\g", "\N{SNOWMAN}", "x" * 60)


@pytest.fixture
def study(tmp_path):
    """A function that makes a study."""
    made = []

    def make(**changes):
        given = {"question": BestArm(), "arms": ARMS, "noise": Gaussian(1.0), **changes}
        made.append(create_study("s", **given, storage=f"sqlite:///{tmp_path}/{len(made)}.db"))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def odd(study):
    """The report of a study whose arms have odd names, with notes."""
    live = study(arms=ODD, noise=Binary())
    live.ask()
    five = {"arm": ODD[:-1], "count": [30] * 5, "successes": [3, 6, 9, 12, 28]}
    live.tell(five, round_over="<script>alert(1)</script>")
    live.ask()
    live.tell({"arm": ODD, "count": [90] * 6, "successes": [3, 6, 9, 12, 80, 1]}, round_over="enough", new=True)
    return live.report()


class Page(html.parser.HTMLParser):
    """Checks that tags are closed in order; collects the cells of tables and all text."""

    VOID = {"meta", "br", "circle", "line", "rect", "link", "img"}

    def __init__(self, page):
        super().__init__()
        self.open, self.cells, self.texts, self.attributes = [], [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.attributes += attributes
        if tag not in self.VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_startendtag(self, tag, attributes):
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def _broken(cell):
    """A cell of a page as Markdown has it: a blank before a per cent sign may be broken, and a title is never empty."""
    return cell.replace("\N{NO-BREAK SPACE}", " ") or "state"


def pipes(markdown):
    """The tables of a Markdown text as lists of rows; fails where a row has another number of cells."""
    tables = []
    for block in re.findall(r"(?:^\|.*\n)+", markdown, flags=re.MULTILINE):
        rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in block.splitlines()]
        assert {len(row) for row in rows} == {len(rows[0])}
        assert all(cell.strip() == "---" for cell in rows[1])
        plain = [[_unmarked(cell.strip()) for cell in row] for row in rows]
        tables.append([plain[0], *plain[2:]])
    return tables


def _unmarked(text):
    return html.unescape(re.sub(r"\\([\\|*`\[\]])", r"\1", text))


def shown(report, table):
    """A table of the report as its readers see it."""
    return as_rows(
        {"arms": arm_table, "claims": claim_table, "rounds": round_table, "files": file_table}[table](report)
    )


class TestForms:
    def test_all_forms_say_the_same(self, odd):
        plain, page, text = json.loads(odd.json()), Page(odd.html()), odd.text()
        tables = pipes(odd.markdown())
        assert tables == [shown(odd, name) for name in ("arms", "rounds", "files")]
        assert [_broken(cell) for table in tables for row in table for cell in row] == list(map(_broken, page.cells))
        best = sorted(range(6), key=lambda i: -(odd.arm_rows[i].mean or 0))
        assert [row[0] for row in tables[0][1:]] == [ODD[i] for i in best] == [each["arm"] for each in plain["arms"]]
        assert list(odd.arms["arm"]) == [ODD[i] for i in best]
        for cells, arm, found in zip(tables[0][1:], plain["arms"], odd.ranked, strict=True):
            row = dict(zip(tables[0][0], cells, strict=True))
            assert row["results"] == str(arm["results"]) == str(found.results)
            digits = len(row["rate"].removesuffix(" %").partition(".")[2])
            assert row["rate"] == per_cent(arm["mean"], digits=digits)
            low, high = (per_cent(arm[end], side, digits) for end, side in (("lower", "down"), ("upper", "up")))
            assert row[odd.ends] == f"{low.removesuffix(' %')} to {high}"
            line = rf"^{re.escape(row['arm'])} +{row['results']} .*{re.escape(row['rate'])} "
            assert re.search(line, text, flags=re.MULTILINE)
        for claim, found in zip(plain["claims"], odd.claim_rows, strict=True):
            assert {name: getattr(found, name) for name in claim} == claim
            assert list(claim) == list(odd.claims.columns)
        for form in (odd.markdown(), odd.html(), text):
            assert "690 results in 2 rounds" in html.unescape(form)
            for said in (*odd.warnings, odd.question_text):
                assert said in html.unescape(_unmarked(form))
        assert plain["results"] == sum(arm["results"] for arm in plain["arms"]) == 150 + 540
        assert plain["by_round"] == odd.by_round.replace({np.nan: None}).to_dict("records")

    def test_claims_have_a_table_of_their_own_where_they_are_not_about_single_arms(self, study):
        live = study(question=TopK(2))
        finished(live, World(Gaussian(1.0), (0.0, 1.0, 2.0, 0.1)))
        report = live.report()
        arms, claims, *_ = pipes(report.markdown())
        assert arms == shown(report, "arms")
        assert claims == shown(report, "claims")
        assert len(claims) == 5
        cells = Page(report.html()).cells[sum(map(len, arms)) :][: 5 * len(claims[0])]
        assert [_broken(cell) for row in claims for cell in row] == list(map(_broken, cells))
        for row, claim in zip(claims[1:], report.claim_rows, strict=True):
            assert row[0] in report.text()
            assert (row[2], row[3]) == (odds(claim.log_threshold), f"shown in round {claim.shown_at}")

    def test_the_page_needs_nothing_else(self, odd):
        page = odd.html()
        shown = Page(page)
        assert page.startswith("<!doctype html>")
        assert not any(name in ("src", "href", "onload", "style") for name, _ in shown.attributes)
        assert "<script" not in page
        assert "@import" not in page
        assert "url(" not in page
        assert '<b>"x"' not in page
        assert '<b>"x"&' in "".join(shown.texts)
        assert 'charset="utf-8"' in page
        titles = {value for name, value in shown.attributes if name == "data-label"}  # of cells, where a row is a list
        assert {"results", "rate"} <= titles

    def test_markdown_shows_names_as_they_are(self, odd):
        markdown = odd.markdown()
        assert "<b>" not in markdown
        assert "<script" not in markdown
        assert "\\[e\\](http" in markdown
        assert markdown.count("```") == 2

    def test_markdown_of_a_study_whose_name_is_html(self, tmp_path):
        """Also where its commands are shown: not every reader of Markdown knows blocks of code."""
        storage = f"sqlite:///{tmp_path}/s.db"
        arms = ["_a_", "__b__", "snake_case", "~d~"]
        with create_study("<img src=x onerror=alert(1)>", question=BestArm(), arms=arms, noise=Binary(),
                          storage=storage) as study:  # fmt: skip
            markdown = study.report().markdown()
        assert "<" not in markdown
        assert "- roundwise export '&lt;img src=x onerror=alert(1)&gt;' --out record.jsonl" in markdown
        for name in (r"\_a\_", r"\_\_b\_\_", "snake_case", r"\~d\~"):
            assert f"| {name} |" in markdown

    def test_notebooks(self, odd):
        card = odd._repr_html_()
        Page(card)
        assert card.startswith("<style>.roundwise{")
        assert "body{" not in card
        assert html.escape(odd.headline) in card.replace("&nbsp;", " ")
        assert repr(odd) == f"<Report of 's', {odd.status}: {odd.headline}>"

    def test_spreadsheets(self, odd, tmp_path):
        import openpyxl

        (tmp_path / "r.xlsx").write_bytes(odd.xlsx())
        book = openpyxl.load_workbook(tmp_path / "r.xlsx")
        assert book.sheetnames == ["summary", "arms", "claims", "rounds", "files"]
        for name in ("arms", "claims", "rounds", "files"):
            cells = [[cell.value for cell in row] for row in book[name].iter_rows()]
            text = list(csv.reader(io.StringIO(odd.csv(name))))
            assert cells[0] == text[0]
            assert len(cells) == len(text)
            assert all(cell.data_type != "f" for row in book[name].iter_rows() for cell in row)
        assert [row[0].value for row in book["arms"].iter_rows(min_row=2)] == [each.name for each in odd.ranked]
        with pytest.raises(InputError, match=r"'arm'.*'arms'"):
            odd.csv("arm")

    def test_no_cell_is_a_formula(self, study):
        import openpyxl

        names = ("=1+1", "+cmd", "-x", "@sum", "plain")
        live = study(arms=names, noise=Binary())
        live.ask()
        live.tell({"arm": names, "count": [30] * 5, "successes": [3, 6, 9, 12, 28]}, round_over="=HYPERLINK(1)")
        report = live.report()
        rows = list(csv.reader(io.StringIO(report.csv())))[1:]
        assert [row[0] for row in rows] == ["plain", "'@sum", "'-x", "'+cmd", "'=1+1"]
        book = openpyxl.load_workbook(io.BytesIO(report.xlsx()))
        assert all(cell.data_type != "f" for sheet in book for row in sheet.iter_rows() for cell in row)
        assert [row[0].value for row in book["arms"].iter_rows(min_row=2)] == ["plain", "@sum", "-x", "+cmd", "=1+1"]

    @pytest.mark.long
    @pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="needs Chromium, Chrome or Edge")
    def test_pdf(self, odd):
        found = odd.pdf()
        assert found.startswith(b"%PDF-")
        assert len(found) > 10_000

    def test_pdf_without_a_browser(self, odd, monkeypatch):
        monkeypatch.setattr("roundwise.report.export.BROWSERS", ("no-such-browser",))
        monkeypatch.setitem(sys.modules, "weasyprint", None)
        with pytest.raises(InputError, match=r"neither Chromium.*nor WeasyPrint was found.*write the report as .html"):
            odd.pdf()

    def test_pdf_by_weasyprint(self, odd, monkeypatch):
        """Where there is no browser; charts then have styles of their own, without variables."""

        class HTML:
            def __init__(self, string):
                self.page = string

            def write_pdf(self):
                return self.page.encode()

        monkeypatch.setattr("roundwise.report.export.BROWSERS", ("no-such-browser",))
        monkeypatch.setitem(sys.modules, "weasyprint", SimpleNamespace(HTML=HTML))
        page = odd.pdf().decode()
        charts = re.findall(r"<svg[^>]*>(<style>.*?</style>)?", page, flags=re.DOTALL)
        assert len(charts) > 2
        assert all(charts)
        assert not any("var(" in style or "--own" in style for style in charts)
        assert ".line.s0" in charts[0]
        assert page.endswith("% a report of roundwise\n")

    def test_json_is_strict_before_any_result(self, study):
        for policy in (Wager(), PET(), TrackAndStop(), OptBBAI()):
            live = study(policy=policy)
            for report in (live.report(), build_report(live.state, intervals=False)):
                plain = json.loads(report.json(), parse_constant=pytest.fail)
                assert (plain["answer"], plain["results"]) == (None, 0)
                assert [arm["mean"] for arm in plain["arms"]] == [None] * 4
                Page(report.html())
                pipes(report.markdown())
                assert report.headline == "Not decided yet. No results yet"

    @pytest.mark.long
    def test_many_arms(self, study):
        names = [f"arm {i}" for i in range(1500)]
        live = study(arms=names, noise=Binary())
        live.ask()
        live.tell({"arm": names, "count": [30] * 1500, "successes": [i % 20 for i in range(1500)]})
        report = live.report()
        arms, *_ = pipes(report.markdown())
        assert len(arms) == 61
        assert arms[1][2] == "63.3 %"  # the best come first
        assert len(report.plain()["arms"]) == 1500
        assert len(report.html()) < 60_000


class TestTheFirstLine:
    def test_the_answer_with_its_size(self, study):
        live = study(noise=Binary(), arms=("Guest checkout", "Big button"))
        live.tell({"arm": live.ask().arms, "count": [30, 30], "successes": [12, 10]})
        told = {"arm": live.ask().arms, "count": [400, 400], "successes": [258, 100]}
        live.tell(told, round_over="enough", new=True)
        report = live.report()
        found = re.search(r"Guest checkout.* 62.8 %.*Big button\D*([\d.]+) points", report.headline)
        assert report.answer == "Guest checkout"
        behind = next(each.gap_to_best_lower for each in report.arm_rows if each.name == "Big button")
        assert 0 <= 100 * behind - float(found[1]) < 0.1  # rounded away from what it bounds
        assert report.text().splitlines()[0] == f"{report.headline}."
        (row,) = [line for line in report.text().splitlines() if line.startswith("Guest checkout ") and "430" in line]
        assert row

    def test_what_is_left_and_what_is_out(self, study):
        live = study(noise=Binary())
        live.ask()
        live.tell({"arm": ARMS, "count": [30] * 4, "successes": [1, 15, 16, 2]})
        live.ask()
        report = live.tell({"arm": ARMS, "count": [90] * 4, "successes": [3, 45, 48, 6]}, round_over="x", new=True)
        assert re.search(r"c \(53.3 %\).*b \(50.0 %\).*d.*a", report.headline)

    @pytest.mark.parametrize(
        ("question", "means", "said"),
        [
            (Above(0.5), (-1.0, 2.0, -1.0, -1.0), r"0\.5.*\bb \(\S+\)"),
            (TopK(2), (0.0, 2.0, 3.0, 0.0), r"2.*\bc \(\S+\).*\bb \(\S+\)"),
            (AnyAbove(0.5), (0.0, 3.0, 0.0, 0.0), r"0\.5.*\bb \(\S+\)"),
            (MinimumBelow(0.5), (3.0, 3.0, 3.0, 3.0), r"0\.5.*\(\S+\)"),
            (BestArm(tolerance=0.5), (0.0, 3.0, 0.0, 0.0), r"\bb\b.*0\.5"),
            (Statements.against_control(ARMS, "a", 0.2), (0.0, 3.0, -2.0, -2.0), r"\bb \(\+\S+, .*\+\S+\).*0\.2"),
        ],
        ids=["above", "top-k", "any-above", "minimum-below", "tolerance", "control"],
    )
    def test_of_every_question(self, study, question, means, said):
        live = study(question=question)
        finished(live, World(Gaussian(1.0), means))
        report = live.report()
        assert report.status == "decided"
        assert re.search(said, report.headline), report.headline


class TestControl:
    """Differences from the control: bounds that agree with what is shown."""

    @pytest.mark.long
    @pytest.mark.parametrize("noise", [Gaussian(1.0), Binary()], ids=["gaussian", "binary"])
    def test_bounds_agree_with_the_decision(self, study, noise):
        margin = 0.05
        live = study(question=Statements.against_control(ARMS, "a", margin), noise=noise)
        world = World(noise, (0.3, 0.8, 0.32, 0.6))
        for _ in range(4):
            if (asked := live.ask()) is None:
                break
            live.tell(world(asked.pulls))
            report = live.report()
            for claim in report.claim_rows:
                arm = next(each for each in report.arm_rows if each.name == claim.compares)
                assert claim.estimate == pytest.approx(arm.mean - report.arm_rows[0].mean)
                assert arm.difference == pytest.approx(claim.estimate)
                low, high = arm.difference_lower, arm.difference_upper
                assert low <= high
                if claim.shown:
                    assert high < margin if claim.below else low > margin
                else:
                    assert low <= margin <= high
                base = report.arm_rows[0].lower  # of what may be negative there is a lift once it is not
                assert (arm.lift is None) == (noise != Binary() and (base is None or base <= 0))
                if arm.lift_lower is not None:
                    assert arm.lift_lower <= arm.lift <= arm.lift_upper

    @pytest.mark.slow  # (the bounds themselves are in tests/test_intervals_coverage.py and in every calibration)
    def test_they_hold_at_all_times(self, study):
        """Eight studies of three differences that are looked at after every round: few are ever missed."""
        means, missed = (0.4, 0.5, 0.4, 0.3), 0
        for seed in range(8):
            live = study(question=Statements.against_control(ARMS, "a"), noise=Binary(), max_round_size=400)
            world, ever = World(Binary(), means, seed), set()
            for _ in range(4):
                if (asked := live.ask()) is None:
                    break
                live.tell(world(asked.pulls))
                for arm, mean in zip(live.report().arm_rows[1:], means[1:], strict=True):
                    if not arm.difference_lower <= mean - means[0] <= arm.difference_upper:
                        ever.add(arm.name)
            missed += len(ever)
        assert missed <= 9  # of 24; more has probability below 1e-3, were each missed with probability 0.15


def stops(question, claims):
    """What the table says of stopping, read as its heading says."""
    shown = [claim.shown for claim in claims]
    if question.name == "best-arm" and not question.tolerance:
        return sum(shown) == len(shown) - 1
    if question.name in ("minimum-below", "any-above"):
        return shown[0] or all(shown[1:])
    return all(shown)


class TestTheEvidenceIsTheStoppingRule:
    @pytest.mark.long
    @pytest.mark.parametrize(("question", "means", "answer"), QUESTIONS, ids=lambda each: getattr(each, "name", None))
    @pytest.mark.parametrize("seed", [1, 2])
    def test_along_whole_studies(self, study, question, means, answer, seed):
        live = study(question=question)
        world = World(Gaussian(1.0), means, seed)
        while (asked := live.ask()) is not None:
            report = live.tell(world(asked.pulls))
            assert stops(question, report.claim_rows) == (report.status == "decided")
            for claim in report.claim_rows:
                assert claim.shown == (claim.log_evidence >= claim.log_threshold - 1e-9), claim
                assert claim.log_threshold >= math.log(20) - 1e-12
        assert report.guarantee.status == "kept"

    @pytest.mark.parametrize("noise", [Binary(), Bounded(-1, 3), Poisson(), Normal()])
    def test_under_every_noise_model(self, study, noise):
        live = study(noise=noise)
        world = World(noise, (0.3, 0.8, 0.2, 0.4), seed=2)
        while (asked := live.ask()) is not None:
            report = live.tell(world(asked.pulls))
            assert stops(BestArm(), report.claim_rows) == (report.status == "decided")
            assert all(claim.shown == (claim.log_evidence >= claim.log_threshold - 1e-9) for claim in report.claim_rows)

    def test_the_papers_rule(self, study):
        live = study(policy=TrackAndStop(first_time=100))
        world = World(Gaussian(1.0), (0.0, 0.7, 0.1, 0.2), form="sums")
        while (asked := live.ask()) is not None:
            report = live.tell(world(asked.pulls))
            (claim,) = report.claim_rows
            assert claim.shown == (claim.log_evidence > claim.log_threshold) == (report.status == "decided")
        assert claim.claim == "b is the best arm, against every other answer"

    def test_a_policy_that_tests_only_at_the_end_of_its_phases(self, study):
        live = study(policy=PET())
        world = World(Gaussian(1.0), (0.0, 3.0, 0.1, 0.2), form="sums")
        while (asked := live.ask()) is not None:
            report = live.tell(world(asked.pulls))
            if report.claim_rows[0].shown and report.status != "decided":
                assert "pet has its own times at which it decides" in report.headline

    def test_a_policy_with_a_rule_of_its_own(self, study):
        live = study(policy=OptBBAI(c=1.0))
        world = World(Gaussian(1.0), (0.0, 1.5, 0.1, 0.2), form="sums")
        live.ask()
        report = live.tell(world(live.ask().pulls))
        assert report.claim_rows == ()
        assert "No results yet" not in report.headline
        assert "to be shown" not in report.text()
        assert "## Evidence" not in report.markdown()
        assert any(each.code == "exact_rounds" for each in report.notes)

    def test_almost(self, odd):
        claim = replace(
            odd.claim_rows[0], log_evidence=math.log(19.9), log_threshold=math.log(20), shown=False, arm=None
        )
        assert "almost 20 : 1" in replace(odd, claim_rows=(claim,)).text()

    def testodds(self):
        assert odds(math.log(20)) == "20 : 1"
        assert odds(0.0) == "1 : 1"
        assert odds(math.log(0.3)) == "0.3 : 1"
        assert odds(math.log(1234567)) == "1\N{NO-BREAK SPACE}234\N{NO-BREAK SPACE}567 : 1"
        assert odds(1000.0) == "10^434 : 1"


def test_the_plot_marks_the_level(study):
    live = study(question=Above(0.5), noise=Gaussian(1.0))
    world = World(Gaussian(1.0), (0.1, 0.9, 0.2, 0.3), form="sums")
    for _ in range(3):
        if (asked := live.ask()) is not None:
            live.tell(world(asked.pulls))
    report = live.report()
    assert report.level == 0.5
    assert '<line class="level"' in report.html()
    assert '<line class="level"' not in study().report().html()


class TestIntervals:
    @pytest.mark.long
    @pytest.mark.parametrize(
        "noise", [Gaussian(1.0), Binary(), Bounded(-1, 3), Normal()], ids=lambda each: type(each).__name__
    )
    def test_agree_with_the_decision(self, study, noise):
        live = study(noise=noise)
        world = World(noise, (0.1, 0.9, 0.2, 0.3) if not isinstance(noise, Normal) else (0, 2, 0, 0.5))
        while (asked := live.ask()) is not None:
            live.tell(world(asked.pulls))
            report = live.report()
            for arm, claim in zip(report.arm_rows, report.claim_rows, strict=True):
                assert bool(arm.gap_to_best_lower) == claim.shown  # behind the best just when it is ruled out
                assert arm.gap_to_best_lower == claim.margins
                assert arm.lower is None or arm.lower <= arm.mean
                assert arm.upper is None or arm.mean <= arm.upper
        best = next(arm for arm in report.arm_rows if arm.name == report.answer)
        assert all((arm.upper or math.inf) >= (arm.lower or -math.inf) for arm in report.arm_rows)
        assert all((best.upper or math.inf) > (arm.lower or -math.inf) for arm in report.arm_rows)

    @pytest.mark.parametrize(
        "policy",
        [
            PET(),
            TrackAndStop(stopping=GLR(KaufmannKoolenPairwise())),
            TrackAndStop(stopping=GLR(LogLogHeuristic())),
            OptBBAI(),
        ],
        ids=["pet", "pairwise", "heuristic", "opt-bbai"],
    )
    @pytest.mark.parametrize("noise", [Gaussian(1.0), Binary()], ids=["gaussian", "binary"])
    def test_of_the_papers_rule(self, study, policy, noise):
        live = study(policy=policy, noise=noise)
        live.tell(World(noise, (0.1, 0.9, 0.2, 0.3), form="sums")(live.ask().pulls))
        for arm, mean in zip(live.report().arm_rows, (0.1, 0.9, 0.2, 0.3), strict=True):
            assert arm.lower < mean < arm.upper
            assert isinstance(noise, Gaussian) or 0 <= arm.lower < arm.upper <= 1

    def test_no_bound_is_said_in_words(self, study):
        live = study(noise=Poisson())
        live.tell(World(Poisson(), (1.0, 1.0, 1.0, 1.0), form="sums")(live.ask().pulls))
        report = live.report()
        first, *others = report.arm_rows
        text = replace(report, arm_rows=(replace(first, lower=None, upper=None), *others)).text()
        assert "no bound yet" in text
        assert "?" not in text.split("\n\n", 2)[2]

    def test_every_arm_ruled_out_is_said(self, study):
        """Arm a is ruled out, then turns out to be far the best, and the others are ruled out too."""
        live = study(arms=("a", "b", "c"), noise=Gaussian(1.0))
        out = False
        while (asked := live.ask()) is not None:
            world = World(Gaussian(1.0), (9.0, 1.0, 1.0) if out else (0.0, 1.0, 1.0), form="sums")
            out = live.tell(world(asked.pulls)).claim_rows[0].shown
        report = live.report()
        assert all(claim.shown for claim in report.claim_rows)
        assert "all_rejected" in report.guarantee.codes

    @pytest.mark.long
    def test_hold_at_all_times(self, study):
        """Five studies of four arms with many looks; of 20 intervals at delta 0.05 rarely one ever misses its mean."""
        missed = 0
        for seed in range(5):
            live = study(noise=Binary(), max_round_size=300)
            means = (0.3, 0.5, 0.55, 0.2)
            world = World(Binary(), means, seed)
            for _ in range(6):
                if (asked := live.ask()) is None:
                    break
                live.tell(world(asked.pulls))
            arms = live.report().arm_rows
            missed += sum(not arm.lower <= mean <= arm.upper for arm, mean in zip(arms, means, strict=True))
        assert missed <= 5  # more has probability below 4e-4, were each to miss independently with probability 0.05


class TestWords:
    def test_without_a_guarantee_none_is_claimed(self, study):
        live = study(policy=TrackAndStop(stopping=GLR(LogLogHeuristic())))
        report = finished(live, World(Gaussian(1.0), (0.0, 2.0, 0.1, 0.2), form="sums"))
        assert report.guarantee.codes == ("unproved_threshold",)
        assert "is not guaranteed" in report.sentence
        assert "at most 5 %" not in report.text() + report.markdown() + report.html()
        assert "an error of 5 % was aimed at, without a guarantee" in report.text()

    def test_intervals_come_from_what_is_proved(self, study):
        """The threshold `sum` is proved for normal results only: for others the intervals are those of `counts`."""
        found = []
        for threshold in (KaufmannKoolenSum(), Lemma32ByCounts()):
            live = study(noise=Binary(), policy=TrackAndStop(stopping=GLR(threshold), first_time=100))
            live.tell({"arm": list(ARMS), "count": live.ask().pulls, "successes": [5, 10, 15, 20]})
            found.append([(arm.lower, arm.upper) for arm in live.report().arm_rows])
        assert found[0] == found[1]

    def test_an_arm_without_results_is_not_bounded(self, study):
        """A number of 150 digits stood there, and made the table as wide."""
        live = study(policy=TrackAndStop())
        live.ask()
        live.tell({"arm": ["a", "b"], "count": [1, 1], "total": [1.0, 0.0]}, round_over="the rest is lost")
        arms = {each.name: each for each in live.report().arm_rows}
        assert (arms["c"].lower, arms["c"].upper) == (None, None)
        assert arms["a"].lower is not None
        assert max(map(len, live.report().text().splitlines())) < 400

    def test_sums_where_rows_are_wanted(self, study):
        live = study(noise=Bounded(0, 1))
        live.ask()
        report = live.tell({"arm": list(ARMS), "count": [30] * 4, "total": [3.0, 9, 20, 15]})
        assert any(each.code == "sums_only" for each in report.notes)


def test_a_decided_study_shows_the_claims_of_the_candidate_that_won():
    """The estimates may point to another candidate when an earlier one wins (seed found by search)."""
    rng = np.random.default_rng(8)
    means = np.array([1, 0.9, 0, 0.1])
    problem, policy = Problem(BestArm(0.3), 4, 0.05, Gaussian(1.0)), Wager()
    trial = begin(problem, policy)
    while not trial.done:
        counts = trial.plan.pulls
        trial = advance(problem, policy, trial, Batch(counts, rng.normal(means * counts, np.sqrt(counts))))
    found = policy.stopping.claims(problem, trial, "abcd")
    assert all(each.shown for each in found)
    assert found[0].words.startswith("abcd"[int(final_answer(problem, policy, trial))])


def test_what_is_missing_stands_with_its_arm(study):
    """And where arms differ in it by more than chance, that is a danger."""
    live = study(arms=("a", "b"), noise=Binary())
    live.ask()
    rows = {"arm": ["a"] * 60 + ["b"] * 60, "outcome": [0, 1] * 30 + [None] * 30 + [1] * 30}
    live.tell(rows, missing="left the study")
    report = live.report()
    assert [(each.name, each.missing) for each in report.arm_rows] == [("a", 0), ("b", 30)]
    assert as_rows(arm_table(report))[0][-1] == "missing"
    assert [each.fields["arm"] for each in report.dangers if each.code == "missing_differ"] == ["b"]


def test_the_report_of_tell_does_not_count_files(tmp_path):
    """It has read those of the last round alone; the full report has read all."""
    with create_study(
        "s", question=BestArm(), arms=["a", "b"], noise=Binary(), round_size=20, storage=f"sqlite:///{tmp_path}/x.db"
    ) as study:
        for _ in range(3):
            study.ask()
            told = study.tell({"arm": ["a", "b"], "count": [10, 10], "successes": [5, 5]}, new=True)
        assert " file" not in describe_history(told)
        assert describe_history(study.report()).endswith("3 files.")


def test_the_dates_of_the_data(tmp_path):
    """By their own times, or else by when their files were recorded."""
    for name, columns in (("own", Columns(time="ts")), ("recorded", Columns())):
        with create_study(
            name,
            question=BestArm(),
            arms=["a", "b"],
            noise=Binary(),
            columns=columns,
            storage=f"sqlite:///{tmp_path}/s",
        ) as study:
            study.ask()
            for day in (4, 19):
                times = [f"2026-05-{day:02} 09:13", f"2026-05-{day + 1:02}"]
                study.tell({"arm": ["a", "b"], "outcome": [day % 2, 1], "ts": times})
            report = study.report()
        if name == "own":
            assert describe_dates(report) == "results of 4 May 2026 to 20 May 2026"
            assert json.loads(report.json())["files"][0]["last_time"] == "2026-05-05"
        else:
            assert describe_dates(report).startswith("files recorded ")
        assert describe_dates(report) in report.html()


def test_the_chart_of_claims_shows_what_is_shown(tmp_path):
    """Also where there are more claims than lines."""
    arms = ["control", *(f"arm {i}" for i in range(20))]
    with create_study(
        "many", question=Claims.against_control(arms, "control"), arms=arms, noise=Binary(), storage=f"sqlite:///{tmp_path}/s",
        split="equal", round_size=21_000,
    ) as study:  # fmt: skip
        for _ in range(2):
            study.ask()
            study.tell({"arm": arms, "count": [1000] * 21, "successes": [300] * 20 + [420]}, new=True)
        report = study.report()
    assert [each.compares for each in report.claim_rows if each.shown] == ["arm 19"]
    assert "arm 19 beats control: shown in round" in draw_evidence(report)
    assert "and 8 more, farther from the threshold" in draw_evidence(report)
    assert "arm 19  42.0 %, shown" in draw_means(report)


def test_evidence_that_was_lost_is_no_progress():
    assert progress(-math.inf, 3.0) == "0 % of the way"


def test_a_currency_stands_before_the_first_of_two_numbers():
    report = SimpleNamespace(units=Units(False, unit="€"), status="running")
    arm = SimpleNamespace(gap_to_leader_upper=1.1234, gap_to_leader_lower=0.231, gap_to_best_lower=None)
    assert _describe_gap(report, arm) == "€0.23 to 1.13"
    report.units = Units(False, unit="s")
    assert _describe_gap(report, arm) == "0.231 to 1.124 s"
    assert Units(False, unit="€").value(2.6324) == "€2.63"
