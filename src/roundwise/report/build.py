"""What there is to say about a study: facts, how it went round by round, and the report of all that in every form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from shlex import quote

from roundwise._version import __version__
from roundwise.arrays import Plain
from roundwise.ingest import Results
from roundwise.messages import Guarantee, option
from roundwise.questions.base import Wording
from roundwise.report.estimates import measure, trace_evidence
from roundwise.report.export import (
    Frame,
    frame,
    print_pdf,
    render_json,
    render_markdown,
    render_table_csv,
    render_workbook,
)
from roundwise.report.headline import Findings, name_answer, open_words, write_headline
from roundwise.report.html import render_report, render_report_card
from roundwise.report.model import Event, FileRow, ReportData, RoundRow, list_events
from roundwise.report.terminal import render_text, render_top
from roundwise.report.wording import choose_units, clause, ends, rounds, share
from roundwise.store import Entry
from roundwise.store.log import stamp
from roundwise.study.fold import Round
from roundwise.study.guarantee import dangers_of, guarantee_of, notes_of, standing
from roundwise.study.spec import StudySpec
from roundwise.study.state import State


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(ReportData):
    """Everything there is to say about a study, for a screen, a page, a notebook, a spreadsheet or a program."""

    @property
    def arms(self) -> Frame:
        """The arms as a data frame, the best first (needs pandas)."""
        return frame(self, "arms")

    @property
    def claims(self) -> Frame:
        """What must be shown as a data frame (needs pandas)."""
        return frame(self, "claims")

    @property
    def by_round(self) -> Frame:
        """What every round brought of every arm as a data frame (needs pandas)."""
        return frame(self, "rounds")

    def plain(self) -> Plain:
        """The report as JSON."""
        return render_json(self)

    def json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.plain(), indent=2, allow_nan=False)

    def top(self) -> str:
        """The headline for a terminal; above it what became of the guarantee, unless it was kept, and all dangers."""
        return "\n".join(render_top(self))

    def text(self) -> str:
        """The report for a terminal."""
        return render_text(self)

    def markdown(self) -> str:
        """The report as Markdown."""
        return render_markdown(self)

    def html(self) -> str:
        """The report as one HTML page that needs nothing else."""
        return render_report(self)

    def pdf(self) -> bytes:
        """The report as a PDF, printed by a browser (Chromium, Chrome or Edge) without a window."""
        return print_pdf(self.html())

    def xlsx(self) -> bytes:
        """The report as an Excel workbook: summary, arms, claims, rounds, files (needs openpyxl)."""
        return render_workbook(self)

    def csv(self, table: str = "arms") -> str:
        """One table as CSV: arms, claims, rounds or files."""
        return render_table_csv(self, table)

    def _repr_html_(self) -> str:
        """For a notebook."""
        return render_report_card(self)

    def __repr__(self) -> str:
        return f"<Report of '{self.study}', {self.status}: {self.headline}>"


def build_report(state: State, intervals: bool, entries: Sequence[Entry] = ()) -> Report:
    """The report of a study; `intervals` takes up to a few seconds.

    Dates, people and what came before the last checkpoint come from all `entries`; without them nothing old is read.
    """
    asked = state.rounds if entries or intervals else state.recent
    settings, record, events = state.settings, state.record, list_events(entries)
    question = settings.question
    verdict = state.decided or state.verdict()
    status = "decided" if verdict is not None else "undecided" if state.closed is None else "closed"
    courses = trace_evidence(state, entries)
    rows, claims = measure(state, None if verdict is None else verdict["answer"], courses, intervals)
    courses = tuple(each._replace(claim=row.claim) for each, row in zip(courses, claims, strict=bool(courses)))
    widths = [each.upper - each.lower for each in rows if each.lower is not None and each.upper is not None]
    units = choose_units(settings.noise, sorted(widths)[len(widths) // 2] if widths else None)
    rising = not question.seeks_low_means
    control = question.control
    waiting = state.awaited
    found = Findings(
        question,
        sorted(rows, key=lambda arm: (arm.mean is None, (-1 if rising else 1) * (arm.mean or 0.0))),
        claims,
        units,
        None if control is None else settings.arms[control],
        name_answer(question, None if verdict is None else verdict["answer"], settings.arms),
        None if verdict is None else str(verdict["words"]),
    )
    guarantee = guarantee_of(state)
    wording = Wording(units.mean, units.given, units.given_gap)
    name = quote(state.name)
    return Report(
        study=state.name,
        question=question.name,
        asks=question.question_text(settings.arms, wording),
        status=status,
        answer=found.answer,
        headline=write_headline(found, _why(state)),
        delta=settings.delta,
        results=int(record.samples),
        late=int(state.late.counts.sum()),
        waiting=0 if waiting is None else int(waiting.counts.sum()),
        budget=settings.budget,
        rounds=int(state.trial.record.batches),
        still_to_come={} if waiting is None else _by_name(settings.arms, waiting.outstanding),
        arm_rows=tuple(rows),
        claim_rows=tuple(claims),
        cells=tabulate_rounds(asked),
        files=_files(state, asked, events),
        courses=courses,
        assumed=settings.noise.words,
        units=units,
        rising=rising,
        level=question.level,
        control=found.control,
        ends=ends(settings.delta, standing(state).bounds_match_decision),
        differences=ends(settings.delta, True),
        dangers=tuple(dangers_of(state, guarantee)),
        notes=tuple(notes_of(state, [each.name for each in rows if each.widened])),
        guarantee=guarantee,
        sentence=_sentence(state, found, guarantee),
        next=_next(state, verdict),
        reproduce=f"roundwise export {name} --out record.jsonl\n"
        f"roundwise import record.jsonl --storage sqlite:///copy.db\n"
        f"roundwise verify {name} --storage sqlite:///copy.db" + (f" --digest {entries[-1].digest}" if entries else ""),
        policy=settings.policy.name,
        allocated=_allocated(settings),
        created=events[0].at if events else _stamp(state.created),
        changed=events[-1].at if events else None,
        waiting_since=_waiting_since(state, status, events),
        by=tuple(dict.fromkeys(each.by for each in events)),
        digest=events[-1].digest if events else None if state.last is None else state.last.digest,
        version=__version__,
    )


def _stamp(created: str) -> str | None:
    try:
        return stamp(datetime.fromisoformat(created))
    except ValueError:
        return None


def _why(state: State) -> str:
    """Why there is no answer."""
    if state.closed is not None:
        return f"Closed undecided ({state.closed})"
    return "Not decided yet" if state.over is None else f"Undecided ({state.over})"


def _files(state: State, rounds: Sequence[Round], events: Sequence[Event]) -> tuple[FileRow, ...]:
    """Every file whose results are in the study, with when and by whom it was recorded."""
    recorded = {each.sha256: each for each in events if each.sha256 is not None}
    files: list[tuple[int | None, Results]] = []
    for asked in rounds:
        files += [(None if state.after_decision(asked) else asked.number, each) for each in asked.files]
    files += [(None, each) for _, each in state.later]
    found = []
    for number, each in files:
        event = recorded.get(each.digest)
        found.append(
            FileRow(
                name=each.name,
                round=number,
                results=int(each.counts.sum()),
                rows=each.rows,
                digest=each.digest,
                skipped=each.skipped,
                contradicts=None if each.contradicted is None else each.contradicted.plain(),
                at=None if event is None else event.at,
                by=None if event is None else event.by,
            )
        )
    return tuple(found)


def _waiting_since(state: State, status: str, events: Sequence[Event]) -> str | None:
    """Since when results of the open round, or the next step, are waited for."""
    if status != "undecided" or state.over is not None or not events:
        return None
    asked = [each.at for each in events if each.kind == "asked"]
    return asked[-1] if state.awaited is not None and asked else events[-1].at


def _sentence(state: State, found: Findings, guarantee: Guarantee) -> str:
    """For a protocol or a paper."""
    settings, record = state.settings, state.trial.record
    promise = (
        f"the probability of a wrong conclusion is at most {share(settings.delta)} at any number of rounds, assuming "
        f"that {clause(settings.noise.words)}"
    )
    if guarantee.reasons:
        promise = f"an error probability of {share(settings.delta)} was aimed at, but is not guaranteed"
    elif guarantee.conditions:
        promise += f", provided that {guarantee.provided}"
    what = f"has not concluded ({open_words(found)})" if found.words is None else f"concluded that {found.words}"
    came = "1 result" if record.samples == 1 else f"{int(record.samples)} results"
    return (
        f"With {came} of {len(settings.arms)} arms in {rounds(int(record.batches))}, "
        f"{_allocated(settings)} (roundwise {__version__}), the study {what}; {promise}."
    )


def _allocated(settings: StudySpec) -> str:
    """Who said how many results of each arm there are."""
    if settings.split is None:
        return f"allocated by {settings.policy.name}"
    shares = "equally" if len(set(settings.split)) == 1 else ":".join(f"{each:g}" for each in settings.split)
    return f"split {shares} as was fixed beforehand, judged by the rule of {settings.policy.name}"


def _next(state: State, verdict: Plain | None) -> str:
    name = quote(state.name)
    keep = f"{option('report_file', study=name)} makes a report to keep"
    if verdict is not None:
        return f"{keep}."
    if state.closed is not None:
        return f"{keep}; the study is closed."
    waiting = state.outstanding
    if state.settings.policy.stopping.exact_batches and state.over is not None:
        return f"{keep}; a new study with {option('wager')} takes rounds of any size."
    if state.over is not None:
        return f"{keep}; what is open was not ruled out."
    if waiting is None:
        return f"{option('ask', study=name)} says what to do next."
    tell = option("tell", study=name)
    if waiting.files:
        give_up = option("close_round", study=name)
        left = int(waiting.outstanding.sum())
        if left == 1:
            come = f"1 result of round {waiting.number} is still to come"
            return f"{come}: tell it with {tell}, or {give_up} if it will not."
        return (
            f"{left} results of round {waiting.number} are still to come: tell them with {tell}, or {give_up} if they "
            "will not."
        )
    return f"do round {waiting.number}, then {tell}."


def _by_name(names: tuple[str, ...], values: Iterable[float]) -> dict[str, int]:
    return {name: int(value) for name, value in zip(names, values, strict=True) if value > 0}


# --- what each round brought, and what it did to the evidence


def tabulate_rounds(rounds: Sequence[Round]) -> tuple[RoundRow, ...]:
    """What every round brought of every arm that it asked for or had."""
    found = []
    for asked in rounds:
        came = asked.whole
        for arm, pulls, count, total in zip(asked.arms, asked.pulls, came.counts, came.totals, strict=True):
            if pulls or count:
                mean = float(total / count) if count else None
                found.append(
                    RoundRow(
                        round=asked.number,
                        arm=arm,
                        asked=int(pulls),
                        results=int(count),
                        mean=mean,
                        counts=asked.counted,
                    )
                )
    return tuple(found)
