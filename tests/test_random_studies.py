"""Whatever happens in a study, by command or from Python: after every step what must hold of any study holds."""

import html
import json
import random
import re
from pathlib import Path

import pytest

import postgres
import serving
from random_lives import CAP, Life
from roundwise import list_studies, verify_study

LOGS = sorted((Path(__file__).parent / "golden").glob("*/*.jsonl.gz"))


class Looked(Life):
    """A life that is looked at."""

    def check(self):
        """What must hold of any study."""
        report, status, state = self.looked(lambda study: (study.report(), study.status(), study.state))
        plain, brief = json.loads(report.json()), json.loads(status.json())
        alike = ["status", "answer", "guarantee", "results", "pending", "rounds", "remaining"]
        if not self.base:  # checkpoints of earlier versions do not say how rounds were split, which a status needs
            alike.append("dangers")
        for each in alike:
            assert plain[each] == brief[each], f"report and status differ in {each}"
        (row,) = list_studies(storage=self.storage)
        for each in ("results", "pending", "guarantee"):
            assert row[each] == plain[each], f"report and list differ in {each}"
        assert (row["answer_text"] is None) == (plain["answer"] is None)
        self.counted(plain)
        self.stays(plain)
        self.agreed(report, state)
        self.promised(plain)
        text, page = report.text(), _flat(html.unescape(re.sub(r"<[^>]+>", "", report.html())))
        assert plain["headline"].rstrip(".") in text
        assert _flat(plain["headline"]) in page
        assert not re.search(r"\b(nan|None|Traceback)\b|\binf\b|\x1b", text)
        audit = verify_study(self.name, storage=self.storage)
        assert audit.sound, audit.differences

    def counted(self, plain):
        """Every result that was told counts, once."""
        for arm in plain["arms"]:
            values = [row[2] for rows in self.rows.values() for row in rows if row[1] == arm["arm"]]
            if self.noise.startswith("--cap"):
                values = [min(max(each, 0.0), CAP) for each in values]
            base, total = self.base.get(arm["arm"], (0, 0.0))
            came, told = arm["results"] + arm["pending"], base + len(values)
            assert came == told or (plain["status"] == "closed" and came < told), f"{arm['arm']}: {came} of {told}"
            if arm["results"] == told > 0:
                assert arm["mean"] * came == pytest.approx(total + sum(values), rel=1e-6, abs=1e-6)
        assert plain["results"] == sum(arm["results"] for arm in plain["arms"])

    def stays(self, plain):
        """What was shown, and what was answered, unless all was counted anew.

        Statements are one answer: its lines follow the answer that leads, and are shown when all of them are.
        """
        names = {each["claim"] for each in plain["claims"]}
        shown = {each["claim"] for each in plain["claims"] if each["shown"]}
        if not self.anew:
            assert plain["question"] == "statements" or self.shown & names <= shown
            assert self.answer is None or self.answer == plain["answer"]
        self.shown, self.answer = shown, plain["answer"]

    def agreed(self, report, state):
        """Bounds agree with what is shown, and arms that left are open in nothing."""
        assert not self.gone & report.remaining.keys()
        settled = {each.label for each in report.claim_rows if each.shown}
        for each in report.claim_rows:
            left = self.gone & {each.compares, each.label}
            assert not left or each.shown or each.given_up or each.label in settled, each.claim
        for arm in report.arm_rows:
            assert arm.lower is None or arm.upper is None or arm.lower <= arm.upper
            assert arm.mean is None or arm.lower is None or arm.lower <= arm.mean
            assert arm.mean is None or arm.upper is None or arm.mean <= arm.upper
        if self.question in ("claims", "by a margin", "two-sided", "futility") and not self.lower:
            margin = {"claims": 0, "two-sided": 0}.get(self.question, 0.02)
            for each in report.claim_rows:
                bound, level = (each.upper, 0.1) if each.below and self.question == "futility" else (each.lower, margin)
                if each.below:
                    bound, level = each.upper and -each.upper, -(0.1 if self.question == "futility" else margin)
                if bound is not None:
                    assert bound >= level - 1e-9 if each.shown else bound <= level + 1e-9, each

    def promised(self, plain):
        """The guarantee has a condition for everything that happened, and none else but what is a danger above it."""
        noted = self.noted | ({"missing_outcomes"} if self.gaps else set())
        status = plain["guarantee"]["status"]
        codes = {each["code"] for kind in ("conditions", "reasons") for each in plain["guarantee"][kind]}
        assert status == "void" or noted <= codes
        if codes == {"seed_chosen"}:  # every life has a seed that was chosen
            return
        if (
            not noted
            and not self.doubted
            and not codes & {"rounds_differ", "all_rejected", "surplus", "rows_contradict"}
        ):
            assert status in ("kept", "approximate")
        assert status in ("kept", "approximate") or plain["dangers"] or noted or self.doubted


def _flat(text):
    return re.sub(r"\s+", " ", text)


def lived(life, steps=9):
    """A life, looked at after every step."""
    for _ in range(steps):
        life.step()
        life.check()
    return life


LIVES = (
    ("best", "--binary", "id"),
    ("two-sided", "--normal", "none"),
    ("claims", "--range 0 1", "item"),
    ("top", "--binary", "wide"),
    ("features", "--sigma 0.5", "id"),
    ("by a margin", "--large-sample", "id"),
    ("near", "--cap 0.7", "none"),
    ("above", "--max-variance 0.3", "none"),
    ("futility", "--normal --equal-variances", "none"),
)


@pytest.mark.long
@pytest.mark.parametrize(("seed", "kind"), list(enumerate(LIVES)), ids=lambda each: str(each))
def test_whatever_happens_a_study_keeps_its_word(seed, kind, tmp_path):
    lived(Looked(seed, tmp_path).begun(*kind), 4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 150))
def test_many_lives(seed, tmp_path):
    lived(Looked(seed, tmp_path).begun())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 206))
def test_behind_a_server(seed, tmp_path):
    with serving.serving(f"sqlite:///{tmp_path}/served.db") as (url, _):
        lived(Looked(seed, tmp_path, url).begun())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 306))
def test_in_a_database_that_many_share(seed, tmp_path):
    lived(Looked(seed, tmp_path, postgres.server().fresh()).begun())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(400, 430))
def test_of_an_earlier_version(seed, tmp_path):
    lived(Looked(seed, tmp_path).resumed(random.Random(seed).choice(LOGS)), 6)
