"""Studies outlive the software: every log that a release kept is opened, continued, verified and reported."""

import re
import sys
from collections import defaultdict
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "golden"))
import make

from roundwise._version import RULES
from roundwise.arrays import unpack_array
from roundwise.ingest import Columns, Reading, Results
from roundwise.model.spec import list_parameters
from roundwise.noise import NOISES
from roundwise.policies import PET, POLICIES, OptBBAI, RoundRobin, TrackAndStop, Wager
from roundwise.policies.conditional_power import ConditionalPower
from roundwise.questions import QUESTIONS
from roundwise.report import build_report
from roundwise.rules import GLR, THRESHOLDS, Declared
from roundwise.rules.eprocess.claims import ClosedTestingRule
from roundwise.rules.eprocess.rule import EProcessRule
from roundwise.rules.finite.rule import ListRule
from roundwise.store import EventKind
from roundwise.study import fold
from roundwise.study.audit import audit_entries
from roundwise.study.guarantee import guarantee_of
from roundwise.study.metrics import Metric
from roundwise.study.spec import StudySpec
from roundwise.study.state import replay

KEPT = sorted(make.HERE.glob("*/*.jsonl.gz"))


LOGS = [pytest.param(path, id=f"{path.parent.name}/{path.name[:-9]}") for path in KEPT]


@pytest.fixture(params=LOGS or [pytest.param(None, id="fresh")])
def studies(request, tmp_path):
    """The studies of one file; those of this version, as long as no release kept any."""
    entries = list(make.logs()) if request.param is None else [make.read(request.param, tmp_path)]
    return [make.InMemory(each) for each in entries]


def declared_settings(entries):
    """The settings of a study: as it was created, and as changes left them."""
    yield entries[0].payload
    yield from (e.payload["spec"] for e in entries if e.kind == "checkpoint" and e.payload["spec"] is not None)


def classes_in(spec):
    """What a recorded setting is made of: (class, name of a setting) of itself and of those within it."""
    for key, value in spec.items():
        yield spec["name"], key
        if key == "threshold":
            yield "threshold", value if isinstance(value, str) else value["name"]
        elif isinstance(value, dict):
            yield from classes_in(value)


@pytest.mark.skipif(not KEPT, reason="no logs are kept")
def test_every_setting_class_and_event_is_in_some_log(tmp_path):
    """A record is frozen only as far as a log has it. Add a case to tests/golden/make.py for what is missing."""
    found: dict[str, set] = defaultdict(set)
    for path in KEPT:
        entries = make.read(path, tmp_path)
        found["events"] |= {each.kind for each in entries}
        found["results"] |= {key for each in entries if each.kind == "told" for key in each.payload["results"]}
        for spec in declared_settings(entries):
            metrics = spec.get("metrics", [])
            found["settings"] |= set(spec)
            found["metrics"] |= {key for each in metrics for key in each}
            for key in ("columns", "reading"):
                found[key] |= set(spec.get(key, {}))
            own = [spec["policy"]] if "policy" in spec else []  # a list has one of its own
            for each in (spec["question"], spec["noise"], *own, *(each["noise"] for each in metrics)):
                found["classes"] |= set(classes_in(each))
    names = lambda kind: {each.name for each in fields(kind)}  # noqa: E731
    built_in = {("threshold", name) for name in THRESHOLDS}
    for name, kind in {**QUESTIONS, **NOISES, **POLICIES}.items():
        built_in |= {(name, key) for key in ("name", *list_parameters(kind))}
    wanted = {"events": set(EventKind), "settings": names(StudySpec), "metrics": names(Metric)}
    wanted |= {"columns": names(Columns), "reading": names(Reading), "results": names(Results), "classes": built_in}
    missing = {kind: each - found[kind] for kind, each in wanted.items() if each - found[kind]}
    assert not missing, "add a case for each to tests/golden/make.py, then run it"


@pytest.mark.skipif(not KEPT, reason="no logs are kept")
def test_the_record_page_describes_every_event_and_field(tmp_path):
    """docs/record.md names each event, each field of events, results and checkpoints, and the tags of rules."""
    found = set()
    for path in KEPT:
        for entry in make.read(path, tmp_path)[1:]:
            found |= {entry.kind, *entry.payload}
            if entry.payload.get("results"):
                found |= set(entry.payload["results"])
            if entry.kind == "checkpoint":
                rule = entry.payload["state"]["rule"]
                found |= {rule["tag"], *(rule["saved"] or ()), *entry.payload["claims"]}
    page = (make.HERE.parents[1] / "docs" / "record.md").read_text()
    assert sorted(found - set(re.findall(r"`([\w/-]+)`", page))) == []


def continued(study, batches=2):
    """Go on with a study for a few batches."""
    rng = np.random.default_rng(0)
    if (waiting := study.state.partial_round) is not None:
        study.close_round(f"no more of round {waiting.number}")
    for _ in range(batches):
        if make.step(study, make.ALIKE, rng) is None:
            break


def test_its_last_checkpoint_is_read_and_not_recounted(studies):
    for study in studies:
        state = study.state
        assert state.trial.record.batches > 0 or state.checkpoint is None
        assert not state.summary.refolded


@pytest.mark.long
def test_it_is_opened_reported_verified_and_continued(studies):
    for study in studies:
        state = study.state
        assert reported(replay(study.entries())).text()
        assert build_report(state, intervals=False).text()
        audit = audit_entries(study.entries())
        assert audit.sound, (study.name, audit.differences)
        before = len(study.entries())
        continued(study)
        assert audit_entries(study.entries()).sound, study.name
        assert state.decided or study.ask() is None or len(study.entries()) > before
        assert build_report(study.state, intervals=False).html()


def one_more(plan):
    def more(self, *given):
        found = plan(self, *given)
        return found._replace(pulls=found.pulls + (found.pulls > 0))

    return more


@pytest.fixture
def every_plan_differs(monkeypatch):
    """A version whose policies all plan one more result of each arm, and that says so."""
    for policy in (Wager, PET, OptBBAI, RoundRobin, TrackAndStop, ConditionalPower):
        for name in ("first", "next"):
            monkeypatch.setattr(policy, name, one_more(getattr(policy, name)))
    monkeypatch.setattr("roundwise.study.fold.RULES", 1000)
    monkeypatch.setattr("roundwise.study.audit.RULES", 1000)


def reported(state):
    """The report, with bounds where the rule has some."""
    return build_report(state, intervals=state.spec.question.name != "claims")


def won_by(state):
    return fold.evidence(state.spec, state.trial)[0]


@pytest.mark.long
def test_it_goes_on_in_a_version_whose_every_plan_differs(studies, every_plan_differs):
    differences = 0
    for study in studies:
        state = study.state
        if state.checkpoint is not None and not state.pending_changes:
            recorded = unpack_array(state.checkpoint["claims"]["log_evidence"])
            # what was won is carried on; a threshold's statistic is computed anew, to rounding
            np.testing.assert_allclose(won_by(state), recorded, rtol=1e-12)
        assert not state.summary.refolded
        guarantee = guarantee_of(state)
        assert build_report(state, intervals=False).text()
        audit = audit_entries(study.entries())
        assert audit.sound, (study.name, audit.differences)  # all of it was recorded by other rules
        differences += len(audit.differences)
        continued(study)
        after = study.state
        if not state.decided:
            assert set(guarantee.codes) <= set(guarantee_of(after).codes), study.name
        audit = audit_entries(study.entries())
        assert audit.sound, (study.name, [each for each in audit.differences if each.same_rules])
        reported(after).html()
    assert differences or len(studies) == 1


@pytest.mark.long
def test_a_state_that_cannot_be_read_is_counted_anew(studies, monkeypatch):
    """The batches are facts; the guarantee says on what it then rests."""

    for study in studies:
        state = study.state
        before = None if state.checkpoint is None else won_by(state)
        with monkeypatch.context() as patch:
            for rule in (EProcessRule, ClosedTestingRule, Declared, GLR, ListRule):
                patch.setattr(rule, "state_tag", lambda self, problem: "unknown/1")
            state = study.state
            after = won_by(state)
            assert build_report(state, intervals=False).text()
        if before is not None:
            if state.checkpoint["rules"] == RULES:  # by other rules, other numbers
                np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-9)
            assert "recounted" in guarantee_of(state).codes
