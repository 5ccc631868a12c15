"""One Report for the terminal, Markdown, HTML and JSON: the numbers shown are those that stop the study."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import asdict, dataclass
from shlex import quote
from typing import Any

import numpy as np

from roundwise import __version__
from roundwise.noise import Binary, Bounded, Gaussian, Noise, Poisson, SubGaussian
from roundwise.policies.limited import Limited
from roundwise.questions import BestArm
from roundwise.stopping.betting import Betting
from roundwise.stopping.claims import Claim, claims
from roundwise.stopping.declared import Declared
from roundwise.stopping.glr import GLR
from roundwise.stopping.thresholds import Counts, Mixture, Sum
from roundwise.study.replay import State

MANY = 1000  # arms up to which intervals are computed


@dataclass(frozen=True)
class Arm:
    """One arm: what came back, and bounds that hold at all times."""

    name: str
    count: int
    mean: float | None
    lower: float | None  # None where it was not computed or nothing is known
    upper: float | None
    behind: float | None  # how far behind the best, at least


@dataclass(frozen=True)
class Report:
    """Everything there is to say about a study."""

    study: str
    question: str
    status: str  # decided, undecided, closed
    answer: Any  # as in JSON, None if undecided
    headline: str
    delta: float
    samples: int
    batches: int
    outstanding: dict[str, int]
    arms: list[Arm]
    claims: list[Claim]
    assumed: str
    warnings: list[str]
    guarantee: bool  # whether the error probability is proved
    sentence: str  # for a protocol or a paper
    next: str
    reproduce: str
    version: str

    def plain(self) -> dict[str, Any]:
        """The report as JSON."""
        found = asdict(self)
        found["claims"] = [
            {"claim": each.words, "log_evidence": each.evidence, "log_bar": each.bar, "shown": each.shown}
            for each in self.claims
        ]
        return found

    def text(self) -> str:
        """The report for a terminal."""
        lines = [f"{self.study}: {self.headline}", ""]
        lines += [
            f"{self.samples} results in {_batches(self.batches)}; error {self._promise()}. {self.assumed}",
            "",
        ]
        lines += [*_aligned(self._arm_table()), ""]
        lines += [*_aligned(self._claim_table()), ""] if self.claims else []
        if self.outstanding:
            waiting = [f"{arm}: {n}" for arm, n in self.outstanding.items()]
            lines += [f"Outstanding: {', '.join(waiting[:30])}{', ...' if len(waiting) > 30 else ''}.", ""]
        return "\n".join([*lines, *(f"Note: {each}" for each in self.warnings), f"Next: {self.next}"])

    def markdown(self) -> str:
        """The report as Markdown."""
        lines = [f"# {_md(self.study)}", "", f"**{_md(_upper(self.headline))}**", "", _md(self.sentence), ""]
        lines += [f"- Question: {self.question}", f"- Error probability: {self._promise()}"]
        lines += [f"- Results: {self.samples} in {_batches(self.batches)}", f"- Assumed: {self.assumed}", ""]
        lines += ["## Arms", "", *_pipes(self._arm_table()), ""]
        if self.claims:
            lines += ["## Evidence", "", _EVIDENCE, "", *_pipes(self._claim_table()), ""]
        if self.warnings:
            lines += ["## Notes", "", *(f"- {_md(each)}" for each in self.warnings), ""]
        lines += ["## To reproduce", "", "```", self.reproduce, "```", "", f"roundwise {self.version}", ""]
        return "\n".join(lines)

    def html(self) -> str:
        """The report as one HTML page that needs nothing else."""
        esc = html.escape
        arms = self._arm_table()
        evidence = f"<h2>Evidence</h2>\n<p>{esc(_EVIDENCE)}</p>\n{_rows(self._claim_table())}" if self.claims else ""
        notes = "".join(f"<li>{esc(each)}</li>" for each in self.warnings)
        return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{esc(self.study)}</title><style>{_STYLE}</style></head><body>
<h1>{esc(self.study)}</h1>
<p class="headline">{esc(_upper(self.headline))}</p>
<p>{esc(self.sentence)}</p>
<ul><li>Question: {esc(self.question)}</li><li>Error probability: {self._promise()}</li>
<li>Results: {self.samples} in {_batches(self.batches)}</li><li>Assumed: {esc(self.assumed)}</li></ul>
<h2>Arms</h2>
{_interval_plot(self.arms)}
{_rows(arms)}
{evidence}
{f"<h2>Notes</h2><ul>{notes}</ul>" if notes else ""}
<h2>To reproduce</h2>
<pre>{esc(self.reproduce)}</pre>
<p class="foot">roundwise {esc(self.version)}</p>
</body></html>
"""

    def _promise(self) -> str:
        return f"at most {self.delta:g}" if self.guarantee else f"aimed at {self.delta:g}, without a guarantee"

    def _arm_table(self) -> list[list[str]]:
        bounds = any(each.lower is not None or each.upper is not None for each in self.arms)
        behind = any(each.behind is not None for each in self.arms)
        shown = self.arms if len(self.arms) <= 60 else sorted(self.arms, key=lambda arm: -(arm.mean or 0.0))[:60]
        head = ["arm", "results", "mean"]
        head += [f"{1 - self.delta:.4g} interval"] if bounds else []
        head += ["behind the best by"] if behind else []
        table = [head]
        for each in shown:
            row = [each.name, str(each.count), _number(each.mean)]
            row += [f"{_number(each.lower)} to {_number(each.upper)}"] if bounds else []
            if behind:
                best = "the best" if self.status == "decided" else "may be the best"
                row.append(f"at least {_number(each.behind)}" if each.behind else best)
            table.append(row)
        return table

    def _claim_table(self) -> list[list[str]]:
        shown = self.claims if len(self.claims) <= 60 else sorted(self.claims, key=lambda each: each.evidence)[:60]
        table = [["to be shown", "evidence", "needed", ""]]
        for each in shown:
            won, bar = _odds(each.evidence), _odds(each.bar)
            if won == bar and not each.shown:
                won = f"almost {won}"
            table.append([each.words, won, bar, "shown" if each.shown else "open"])
        return table


def report_of(state: State, intervals: bool) -> Report:
    """The report of a study; `intervals` takes up to a few seconds."""
    settings, trial = state.settings, state.trial
    problem, record, name = settings.problem, trial.record, quote(state.name)
    rule = settings.policy.stopping
    verdict = state.decided or state.verdict()
    status = "decided" if verdict is not None else "undecided" if state.closed is None else "closed"
    outstanding = state.outstanding
    missing = {} if outstanding is None else _by_name(settings.arms, outstanding.outstanding)
    shown = claims(problem, rule, trial, settings.arms)
    open_answers = _open(state, shown)
    doubt = rule.doubt(problem)
    headline = verdict["words"] if verdict is not None else f"undecided; {open_answers}"
    if state.closed is not None and verdict is None:
        headline = f"closed undecided ({state.closed}); {open_answers}"
    return Report(
        state.name,
        settings.question.name,
        status,
        None if verdict is None else verdict["answer"],
        headline,
        settings.delta,
        int(record.samples),
        int(record.batches),
        missing,
        _arms(state, intervals),
        shown,
        assumed_words(settings.noise),
        _warnings(state),
        doubt is None,
        _sentence(state, verdict, open_answers),
        _next(state, verdict),
        f"roundwise export {name} --out record.jsonl\nroundwise import record.jsonl --storage sqlite:///copy.db\n"
        f"roundwise verify {name} --storage sqlite:///copy.db",
        __version__,
    )


def assumed_words(noise: Noise) -> str:
    """What is assumed of the results, in plain words."""
    if isinstance(noise, Binary):
        return "Results are 0 or 1."
    if isinstance(noise, Bounded):
        return f"Every result lies between {noise.low:g} and {noise.high:g}."
    if isinstance(noise, Gaussian):
        return f"Results are normal with standard deviation {noise.sigma:g}, exactly."
    if isinstance(noise, SubGaussian):
        return f"Results have tails no heavier than normal with standard deviation {noise.sigma:g}."
    if isinstance(noise, Poisson):
        return "Results are Poisson counts."
    return "Results are normal with the same, unknown standard deviation for every arm."


def _arms(state: State, intervals: bool) -> list[Arm]:
    settings, record = state.settings, state.trial.record
    problem, rule, size = settings.problem, settings.policy.stopping, len(settings.arms)
    lower = upper = np.full(size, np.nan)
    behind = np.full(size, np.nan)
    batches = state.batches
    if intervals and batches and size <= MANY:
        if isinstance(rule, Betting):
            from roundwise.stopping.intervals import behind_best, mean_intervals

            lower, upper = mean_intervals(problem, rule, batches)
            if isinstance(settings.question, BestArm) and not settings.question.tolerance:
                behind = behind_best(problem, rule, batches)
        else:  # the deviation that the threshold bounds, all on one arm; some thresholds bound pairs of arms only
            whole = isinstance(rule, GLR) and isinstance(rule.threshold, Mixture | Counts | Sum)
            threshold = rule.threshold if isinstance(rule, GLR) and whole else Counts()
            bar = float(threshold.value(problem, record.counts))
            radius = problem.sigma * np.sqrt(2 * bar / np.maximum(record.counts, 1e-300))
            low, high = _range(settings.noise)
            lower, upper = np.maximum(record.means - radius, low), np.minimum(record.means + radius, high)
    return [
        Arm(name, int(n), float(mean) if n else None, _known(low), _known(high), None if math.isnan(b) else float(b))
        for name, n, mean, low, high, b in zip(
            settings.arms, record.counts, record.means, lower, upper, behind, strict=True
        )
    ]


def _open(state: State, shown: list[Claim]) -> str:
    """What has not been ruled out."""
    settings = state.settings
    if isinstance(settings.question, BestArm) and not settings.question.tolerance and len(shown) == len(settings.arms):
        left = [name for name, each in zip(settings.arms, shown, strict=True) if not each.shown]
        if len(left) == len(settings.arms):
            return "any arm may be the best"
        return f"may still be the best: {', '.join(left[:20])}{', ...' if len(left) > 20 else ''}"
    if not state.trial.record.samples:
        return "no results yet"
    waiting = [each.words for each in shown if not each.shown]
    if waiting:
        return f"still to be shown: {'; '.join(waiting[:6])}{'; ...' if len(waiting) > 6 else ''}"
    return f"{settings.policy.name} has its own times at which it decides"


def _warnings(state: State) -> list[str]:
    """What endangers the guarantee, or should be known."""
    said = []
    doubt = state.settings.policy.stopping.doubt(state.settings.problem)
    if doubt is not None:
        said.append(_upper(doubt))
    if isinstance(state.settings.policy.stopping, Declared):
        said.append(
            f"{state.settings.policy.name} stops by a rule of its own, which needs every batch just as it was asked."
        )
    for each in state.amendments:
        what = "withdrawn" if each["results"] is None else "corrected"
        said.append(
            f"{each['name']} of batch {each['batch']} was {what}: {each['why']}. The guarantee holds if this had "
            "nothing to do with what the results were; it is void if they were corrected because of what they showed."
        )
    for asked in state.asked:
        if asked.settled and asked.settled != "amended" and (asked.counts < asked.pulls).any():
            said.append(
                f"Batch {asked.number} was settled with {int(asked.counts.sum())} of {int(asked.pulls.sum())} results "
                f"({asked.settled}). The guarantee holds if what is missing has nothing to do with its values."
            )
    needs = state.settings.noise.needs
    if needs == "rows" and any(each.values is None for asked in state.asked for each in asked.told):
        said.append("Some results came as sums only: for those the range alone is used, which needs more samples.")
    for asked in state.asked:
        said += [note for each in asked.told for note in each.notes]
    return said


def _sentence(state: State, verdict: dict[str, Any] | None, open_answers: str) -> str:
    """For a protocol or a paper."""
    settings, record = state.settings, state.trial.record
    policy = settings.policy.policy if isinstance(settings.policy, Limited) else settings.policy
    what = (
        f"the study concluded that {verdict['words']}"
        if verdict is not None
        else f"the study has not concluded ({open_answers})"
    )
    promise = (
        f"the probability of a wrong conclusion is at most {settings.delta:g} at any number of batches, assuming that "
        f"{_lower(assumed_words(settings.noise))}"
        if policy.stopping.doubt(settings.problem) is None
        else f"an error probability of {settings.delta:g} was aimed at, but is not guaranteed"
    )
    return (
        f"With {int(record.samples)} results of {len(settings.arms)} arms in {_batches(int(record.batches))}, "
        f"allocated by {policy.name} (roundwise {__version__}), {what}; {promise}."
    )


def _next(state: State, verdict: dict[str, Any] | None) -> str:
    name = quote(state.name)
    if verdict is not None:
        return f"`roundwise report {name} --out report.html` makes a report to keep."
    if state.closed is not None:
        return f"`roundwise report {name} --out report.html` makes a report to keep; the study is closed."
    waiting = state.outstanding
    if waiting is None:
        return f"`roundwise ask {name}` says what to do next."
    if waiting.told:
        return (
            f"batch {waiting.number} lacks {int(waiting.outstanding.sum())} results: tell them with "
            f"`roundwise tell {name} FILE`, or `roundwise tell {name} --settle REASON` if they will not come."
        )
    return f"do batch {waiting.number}, then `roundwise tell {name} FILE`."


def _by_name(names: tuple[str, ...], values: Any) -> dict[str, int]:
    return {name: int(value) for name, value in zip(names, values, strict=True) if value > 0}


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.4g}"


def _odds(log: float) -> str:
    """Evidence as odds: 20 : 1."""
    if log > 30:
        return f"10^{log / math.log(10):.0f} : 1"
    value = math.exp(log)
    return f"{value:,.0f} : 1".replace(",", " ") if value >= 10 else f"{value:.2g} : 1"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _batches(number: int) -> str:
    return "1 batch" if number == 1 else f"{number} batches"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:].rstrip(".")


def _aligned(table: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _pipes(table: list[list[str]]) -> list[str]:
    rows = ["| " + " | ".join(_md(cell) for cell in row) + " |" for row in table]
    return [rows[0], "|" + " --- |" * len(table[0]), *rows[1:]]


def _md(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\|*`\[\]])", r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;")


def _range(noise: Noise) -> tuple[float, float]:
    if isinstance(noise, Binary):
        return 0.0, 1.0
    return (noise.low, noise.high) if isinstance(noise, Bounded) else (-math.inf, math.inf)


def _rows(table: list[list[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table[0])
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in table[1:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _interval_plot(arms: list[Arm]) -> str:
    """Means and intervals as inline SVG; nothing where there are none, or too many to see."""
    shown = [each for each in arms if each.mean is not None and each.lower is not None and each.upper is not None]
    if not shown or len(shown) > 60:
        return ""
    low, high = min(each.lower or 0.0 for each in shown), max(each.upper or 0.0 for each in shown)
    width, left, step = 640, 160, 26
    scale = (width - left - 20) / ((high - low) or 1.0)

    def place(value: float | None) -> float:
        return left + ((value or 0.0) - low) * scale

    marks = []
    for i, each in enumerate(shown):
        y = 18 + i * step
        marks.append(
            f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{html.escape(_short(each.name))}</text>'
            f'<line x1="{place(each.lower):.1f}" x2="{place(each.upper):.1f}" y1="{y}" y2="{y}" stroke="#555" '
            f'stroke-width="2"/><circle cx="{place(each.mean):.1f}" cy="{y}" r="4" fill="#b22"/>'
        )
    height = 18 + len(shown) * step + 14
    ends = (
        f'<text x="{left}" y="{height - 2}">{low:.4g}</text>'
        f'<text x="{width - 20}" y="{height - 2}" text-anchor="end">{high:.4g}</text>'
    )
    title = "Mean of each arm with its interval"
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{title}">{"".join(marks)}{ends}</svg>'


def _short(name: str) -> str:
    return name if len(name) <= 24 else name[:23] + "…"


def json_text(report: Report) -> str:
    """The report as JSON text."""
    return json.dumps(report.plain(), indent=2, allow_nan=False)


_EVIDENCE = (
    "Each line is something that must be shown before the study may stop, with the odds won for it so far and the odds "
    "needed. The study stops when enough lines are shown: this table is the stopping rule."
)
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0;width:100%}td,th{border-bottom:1px solid #ddd;padding:.3rem .6rem;"
    "text-align:left}td:not(:first-child){white-space:nowrap}.headline{font-size:1.3rem;font-weight:600}pre{background:#f4f4f4;padding:.8rem;overflow:auto}"
    "svg{width:100%;height:auto;font-size:12px}.foot{color:#777;font-size:.85rem}"
)
