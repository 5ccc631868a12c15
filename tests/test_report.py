"""One report in four forms; the evidence it shows is the stopping rule; its intervals agree with the decision."""

import html.parser
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from roundwise import (
    GLR,
    PET,
    Above,
    Batch,
    BestArm,
    Binary,
    Bounded,
    Counts,
    Gaussian,
    Heuristic,
    OptBBAI,
    Pairwise,
    Poisson,
    Problem,
    Sum,
    TrackAndStop,
    UnknownVariance,
    Wager,
    advance,
    begin,
    conclusion,
    create_study,
)
from roundwise.betting.rule import Betting
from roundwise.studies.report import report_of
from roundwise.studies.report.words import odds
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
    live.tell({"arm": ODD, "count": [90] * 6, "successes": [3, 6, 9, 12, 80, 1]}, round_over="enough")
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


class TestForms:
    def test_four_forms_say_the_same(self, odd):
        plain, page, text = json.loads(odd.json()), Page(odd.html()), odd.text()
        arms, evidence = pipes(odd.markdown())
        assert [row[0] for row in arms[1:]] == [each["name"] for each in plain["arms"]] == list(ODD)
        assert [cell for table in (arms, evidence) for row in table for cell in row] == page.cells
        for row, arm, found in zip(arms[1:], plain["arms"], odd.arms, strict=True):
            assert row[1] == str(arm["count"]) == str(found.count)
            assert row[2] == ("?" if arm["mean"] is None else f"{arm['mean']:.4g}")
            assert row[3] == f"{arm['lower']:.4g} to {arm['upper']:.4g}"
            assert re.search(rf"^{re.escape(row[0])} +{row[1]} +{re.escape(row[2])} ", text, flags=re.MULTILINE)
        for row, claim, found in zip(evidence[1:], plain["claims"], odd.claims, strict=True):
            assert row[0] == claim["claim"] == found.words
            assert row[2] == odds(claim["log_bar"])
            assert row[3] == (f"shown, at least {claim['spare']:.4g} to spare" if claim["shown"] else "open")
            assert row[1].removeprefix("almost ") == odds(claim["log_evidence"])
            assert re.sub(" +", " ", f"{row[1]} {row[2]} {row[3]}") in re.sub(" +", " ", text)
        for form in (odd.markdown(), odd.html(), text):
            assert str(odd.samples) in form
            for note in odd.warnings:
                assert note in (html.unescape(_unmarked(form)))
        assert plain["samples"] == sum(arm["count"] for arm in plain["arms"]) == 150 + 540

    def test_the_page_needs_nothing_else(self, odd):
        page = odd.html()
        shown = Page(page)
        assert page.startswith("<!doctype html>")
        assert not any(name in ("src", "href", "onload") for name, _ in shown.attributes)
        assert "<script" not in page
        assert "@import" not in page
        assert "url(" not in page
        assert '<b>"x"' not in page
        assert '<b>"x"&' in "".join(shown.texts)
        assert 'charset="utf-8"' in page

    def test_markdown_shows_names_as_they_are(self, odd):
        markdown = odd.markdown()
        assert "<b>" not in markdown
        assert "<script" not in markdown
        assert "\\[e\\](http" in markdown
        assert markdown.count("```") == 2

    def test_json_is_strict_before_any_result(self, study):
        for policy in (Wager(), PET(), TrackAndStop(), OptBBAI()):
            live = study(policy=policy)
            for report in (live.report(), report_of(live.state, intervals=False)):
                plain = json.loads(report.json(), parse_constant=pytest.fail)
                assert (plain["answer"], plain["samples"]) == (None, 0)
                assert [arm["mean"] for arm in plain["arms"]] == [None] * 4
                Page(report.html())
                pipes(report.markdown())

    def test_many_arms(self, study):
        names = [f"arm {i}" for i in range(1500)]
        live = study(arms=names, noise=Binary())
        live.ask()
        live.tell({"arm": names, "count": [30] * 1500, "successes": [i % 20 for i in range(1500)]})
        report = live.report()
        arms, claims = pipes(report.markdown())
        assert (len(arms), len(claims)) == (61, 61)
        assert arms[1][2] == "0.6333"  # the best come first
        assert len(report.plain()["arms"]) == 1500
        assert len(report.html()) < 60_000


def stops(question, claims):
    """What the table says of stopping, read as its heading says."""
    shown = [claim.shown for claim in claims]
    if question.name == "best-arm" and not question.tolerance:
        return sum(shown) == len(shown) - 1
    if question.name in ("minimum-below", "any-above"):
        return shown[0] or all(shown[1:])
    return all(shown)


class TestTheEvidenceIsTheStoppingRule:
    @pytest.mark.parametrize(("question", "means", "answer"), QUESTIONS, ids=lambda each: getattr(each, "name", None))
    @pytest.mark.parametrize("seed", [1, 2])
    def test_along_whole_studies(self, study, question, means, answer, seed):
        live = study(question=question)
        world = World(Gaussian(1.0), means, seed)
        while (asked := live.ask()) is not None:
            report = live.tell(world(asked.pulls))
            assert stops(question, report.claims) == (report.status == "decided")
            for claim in report.claims:
                assert claim.shown == (claim.evidence >= claim.bar - 1e-9), claim
                assert claim.bar >= math.log(20) - 1e-12
        assert report.guarantee == "kept"

    @pytest.mark.parametrize("noise", [Binary(), Bounded(-1, 3), Poisson(), UnknownVariance()])
    def test_under_every_noise_model(self, study, noise):
        live = study(noise=noise)
        world = World(noise, (0.3, 0.8, 0.2, 0.4), seed=2)
        while (asked := live.ask()) is not None:
            report = live.tell(world(asked.pulls))
            assert stops(BestArm(), report.claims) == (report.status == "decided")
            assert all(claim.shown == (claim.evidence >= claim.bar - 1e-9) for claim in report.claims)

    def test_the_papers_rule(self, study):
        live = study(policy=TrackAndStop(first_time=100))
        world = World(Gaussian(1.0), (0.0, 0.7, 0.1, 0.2), form="sums")
        while (asked := live.ask()) is not None:
            report = live.tell(world(asked.pulls))
            (claim,) = report.claims
            assert claim.shown == (claim.evidence > claim.bar) == (report.status == "decided")
        assert claim.words == "b is the best arm, against every other answer"

    def test_a_policy_that_tests_only_at_the_end_of_its_phases(self, study):
        live = study(policy=PET())
        world = World(Gaussian(1.0), (0.0, 3.0, 0.1, 0.2), form="sums")
        while (asked := live.ask()) is not None:
            report = live.tell(world(asked.pulls))
            if report.claims[0].shown and report.status != "decided":
                assert "pet has its own times at which it decides" in report.headline

    def test_a_policy_with_a_rule_of_its_own(self, study):
        live = study(policy=OptBBAI(c=1.0))
        world = World(Gaussian(1.0), (0.0, 1.5, 0.1, 0.2), form="sums")
        live.ask()
        report = live.tell(world(live.ask().pulls))
        assert report.claims == []
        assert "no results yet" not in report.headline
        assert "to be shown" not in report.text()
        assert "## Evidence" not in report.markdown()
        assert any("which needs every batch just as it was planned" in each for each in report.warnings)

    def test_almost(self, odd):
        claim = odd.claims[0]._replace(evidence=math.log(19.9), bar=math.log(20), shown=False)
        assert "almost 20 : 1" in replace(odd, claims=[claim]).text()

    def testodds(self):
        assert odds(math.log(20)) == "20 : 1"
        assert odds(0.0) == "1 : 1"
        assert odds(math.log(0.3)) == "0.3 : 1"
        assert odds(math.log(1234567)) == "1 234 567 : 1"
        assert odds(1000.0) == "10^434 : 1"


def test_the_plot_marks_the_level(study):
    live = study(question=Above(0.5), noise=Gaussian(1.0))
    world = World(Gaussian(1.0), (0.1, 0.9, 0.2, 0.3), form="sums")
    for _ in range(3):
        if (asked := live.ask()) is not None:
            live.tell(world(asked.pulls))
    report = live.report()
    assert report.level == 0.5
    assert 'fill="#26c">0.5</text>' in report.html()
    assert "#26c" not in study().report().html()


class TestIntervals:
    @pytest.mark.parametrize(
        "noise", [Gaussian(1.0), Binary(), Bounded(-1, 3), UnknownVariance()], ids=lambda each: type(each).__name__
    )
    def test_agree_with_the_decision(self, study, noise):
        live = study(noise=noise)
        world = World(noise, (0.1, 0.9, 0.2, 0.3) if not isinstance(noise, UnknownVariance) else (0, 2, 0, 0.5))
        while (asked := live.ask()) is not None:
            live.tell(world(asked.pulls))
            report = live.report()
            for arm, claim in zip(report.arms, report.claims, strict=True):
                assert bool(arm.behind) == claim.shown  # behind the best just when it is ruled out
                assert arm.behind == claim.spare
                assert arm.lower is None or arm.lower <= arm.mean
                assert arm.upper is None or arm.mean <= arm.upper
        best = report.arms[report.answer]
        assert all((arm.upper or math.inf) >= (arm.lower or -math.inf) for arm in report.arms)
        assert all((best.upper or math.inf) > (arm.lower or -math.inf) for arm in report.arms)

    @pytest.mark.parametrize(
        "policy",
        [PET(), TrackAndStop(stopping=GLR(Pairwise())), TrackAndStop(stopping=GLR(Heuristic())), OptBBAI()],
        ids=["pet", "pairwise", "heuristic", "opt-bbai"],
    )
    @pytest.mark.parametrize("noise", [Gaussian(1.0), Binary()], ids=["gaussian", "binary"])
    def test_of_the_papers_rule(self, study, policy, noise):
        live = study(policy=policy, noise=noise)
        live.tell(World(noise, (0.1, 0.9, 0.2, 0.3), form="sums")(live.ask().pulls))
        for arm, mean in zip(live.report().arms, (0.1, 0.9, 0.2, 0.3), strict=True):
            assert arm.lower < mean < arm.upper
            assert isinstance(noise, Gaussian) or 0 <= arm.lower < arm.upper <= 1

    def test_no_bound_is_said_in_words(self, study):
        """Counts in one batch: nothing is known before it of how large they may be, so nothing is bet on it."""
        live = study(noise=Poisson())
        live.tell(World(Poisson(), (1.0, 1.0, 1.0, 1.0), form="sums")(live.ask().pulls))
        text = live.report().text()
        assert "no bound yet" in text
        assert "?" not in text

    def test_every_arm_ruled_out_is_said(self, study):
        """Arm a is ruled out, then turns out to be far the best, and the others are ruled out too."""
        live = study(arms=("a", "b", "c"), noise=Gaussian(1.0))
        out = False
        while (asked := live.ask()) is not None:
            world = World(Gaussian(1.0), (9.0, 1.0, 1.0) if out else (0.0, 1.0, 1.0), form="sums")
            out = live.tell(world(asked.pulls)).claims[0].shown
        report = live.report()
        assert all(claim.shown for claim in report.claims)
        assert any("Every arm has been ruled out" in each for each in report.warnings)

    def test_hold_at_all_times(self, study):
        """Five studies of four arms with many looks; of 20 intervals at delta 0.05 rarely one ever misses its mean."""
        missed = 0
        for seed in range(5):
            live = study(noise=Binary(), max_batch=300)
            means = (0.3, 0.5, 0.55, 0.2)
            world = World(Binary(), means, seed)
            for _ in range(6):
                if (asked := live.ask()) is None:
                    break
                live.tell(world(asked.pulls))
            arms = live.report().arms
            missed += sum(not arm.lower <= mean <= arm.upper for arm, mean in zip(arms, means, strict=True))
        assert missed <= 5  # more has probability below 4e-4, were each to miss independently with probability 0.05


@pytest.mark.parametrize(("question", "means", "answer"), QUESTIONS, ids=lambda each: getattr(each, "name", None))
def test_the_bets_are_folded_once(study, monkeypatch, question, means, answer):
    live, times = study(question=question), []
    live.tell(World(Gaussian(1.0), means)(live.ask().pulls))
    fold = Betting.replayed
    monkeypatch.setattr(Betting, "replayed", lambda *given: times.append(1) or fold(*given))
    report = live.report()
    assert len(times) == 1
    assert all(claim.spare is not None for claim in report.claims)
    assert all(arm.lower is not None for arm in report.arms)


class TestWords:
    def test_sentence(self, study):
        live = study(noise=Binary(), delta=0.01)
        report = finished(live, World(Binary(), (0.1, 0.9, 0.2, 0.3)))
        assert re.fullmatch(
            r"With \d+ results of 4 arms in \d+ batch(es)?, allocated by wager \(roundwise [\d.]+\), the study "
            r"concluded that b is the best arm; the probability of a wrong conclusion is at most 0.01 at any "
            r"number of batches, assuming that results are 0 or 1\.",
            report.sentence,
        )
        assert report.reproduce.splitlines()[-1] == "roundwise verify s --storage sqlite:///copy.db"

    def test_without_a_guarantee_none_is_claimed(self, study):
        live = study(policy=TrackAndStop(stopping=GLR(Heuristic())))
        report = finished(live, World(Gaussian(1.0), (0.0, 2.0, 0.1, 0.2), form="sums"))
        assert report.guarantee == "void because the threshold ln((1 + ln t)/delta) has no proof"
        assert "is not guaranteed" in report.sentence
        assert "at most 0.05" not in report.text() + report.markdown() + report.html()
        assert "aimed at 0.05, without a guarantee" in report.text()

    def test_intervals_come_from_what_is_proved(self, study):
        """The threshold `sum` is proved for normal results only: for others the intervals are those of `counts`."""
        found = []
        for threshold in (Sum(), Counts()):
            live = study(noise=Binary(), policy=TrackAndStop(stopping=GLR(threshold), first_time=100))
            live.tell({"arm": list(ARMS), "count": live.ask().pulls, "successes": [5, 10, 15, 20]})
            found.append([(arm.lower, arm.upper) for arm in live.report().arms])
        assert found[0] == found[1]

    @pytest.mark.parametrize(
        ("question", "head"), [(Above(0.5), "0.9 bounds, each"), (BestArm(), "0.95 interval")], ids=["level", "arms"]
    )
    def test_what_bounds_are_called(self, study, question, head):
        live = study(question=question)
        world = World(Gaussian(1.0), (-1.0, 2.0, -1.0, -1.0), form="sums")
        for _ in range(2):
            live.tell(world(live.ask().pulls))
        report = live.report()
        assert report.ends == head
        assert head in report.text()

    def test_sums_where_rows_are_wanted(self, study):
        live = study(noise=Bounded(0, 1))
        live.ask()
        report = live.tell({"arm": list(ARMS), "count": [30] * 4, "total": [3.0, 9, 20, 15]})
        assert any("Some results came as sums only" in each for each in report.warnings)

    def test_a_column_that_was_not_used(self, study):
        live = study(noise=Binary())
        live.ask()
        report = live.tell({"arm": list(ARMS), "outcome": np.ones(4), "colour": ["red"] * 4})
        assert any("not used: 'colour'" in each for each in report.warnings)


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
    assert found[0].words.startswith("abcd"[int(conclusion(problem, policy, trial))])
