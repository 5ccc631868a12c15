"""Result files as other tools write them: recognised by their contents, and read as rows of arm, outcome and item.

A source says whether a JSON object is its own (`fits`) and turns objects into rows. A row without an outcome says why:
an error is never a zero. `requests` names the requests of batch APIs so that their answers can be read without a
pattern.
"""

from __future__ import annotations

import io
import json
import re
import sqlite3
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from roundwise.errors import DataError, InputError, refusal
from roundwise.formats.paths import Absent, follow
from roundwise.formats.requests import arm_keys, parse_request_id
from roundwise.formats.sheet import UNPACKED, Chunk, Sheet, blank, damaged, digest_of, name_in, not_open, too_large
from roundwise.messages import Remedy, list_quoted, quoted, shown

Objects = Iterable[tuple[int, dict[str, Any]]]  # with the line or row of each
ROWS = 2000  # handed over at once
SAMPLE_KEYS = ("id", "epoch", "scores", "error", "invalidation", "model_usage")  # what is read of a sample of Inspect
_FAILURES = (
    zipfile.BadZipFile, KeyError, ValueError, IndexError, zlib.error, NotImplementedError, RuntimeError, EOFError,
    OverflowError, RecursionError, MemoryError, AttributeError, TypeError,
)  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """What the study and the user declare about a file: its arms, and column names."""

    arms: Sequence[str] = ()
    columns: dict[str, str] = field(default_factory=dict)  # "arm", "outcome", "item", ...

    @property
    def titles(self) -> list[str]:
        """The columns that the user named, of a pattern the column it is about."""
        pattern = self.pattern
        names = self.columns | ({} if pattern is None else {"arm": pattern.path})
        return list(dict.fromkeys(names.values()))

    @property
    def pattern(self) -> Pattern | None:
        """How a text is taken apart into arm and item."""
        return Pattern.parse(self.columns.get("arm", ""))


class Pattern(NamedTuple):
    """A text that holds the names of an arm and an item, and the number of a repeat.

    >>> Pattern.parse("custom_id:{item}|{arm}").names("q17|small")
    {'item': 'q17', 'arm': 'small'}
    """

    path: str  # where the text is
    texts: tuple[str, ...]  # before, between and after the names
    roles: tuple[str, ...]  # "arm", "item", "repeat", or empty for what is left out

    @classmethod
    def parse(cls, text: str) -> Pattern | None:
        """Read a path with a pattern behind a colon; None if there is no pattern."""
        path, colon, pattern = text.partition(":")
        if not colon or "{" not in pattern:
            return None
        pattern = pattern[1:-1] if len(pattern) > 1 and pattern[0] == pattern[-1] == '"' else pattern
        parts = re.split(r"\{(arm|item|repeat|)\}", pattern)
        texts, roles = tuple(parts[::2]), tuple(parts[1::2])
        known = (["arm"], ["arm", "item"], ["arm", "item", "repeat"])
        if sorted(filter(None, roles)) not in known or not all(texts[1:-1]):
            raise InputError(
                f"The pattern {quoted(pattern)} needs {{arm}} once, {{item}} and with it {{repeat}} at most once, and "
                "text between them: for example custom_id:{item}|{arm}."
            )
        return cls(path.strip(), texts, roles)

    def names(self, text: object) -> dict[str, str] | None:
        """The arm and the item in a text; None if it does not match as a whole.

        Each takes as little as possible, and the last one the rest.
        """
        first, *between, last = self.texts
        if not isinstance(text, str) or not text.startswith(first) or not text.endswith(last):
            return None
        rest, found = text[len(first) : len(text) - len(last)], []
        for separator in between:
            at = rest.find(separator, 1)
            if at < 0:
                return None
            found.append(rest[:at])
            rest = rest[at + len(separator) :]
        if not rest or len(text) < len(first) + len(last):
            return None
        return {role: name for role, name in zip(self.roles, [*found, rest], strict=True) if role}


class Row(NamedTuple):
    """One result; without an outcome `why` says what happened."""

    line: int
    arm: object
    outcome: object
    item: object = None
    repeat: object = 1
    why: str = ""
    cost: object = None


class MetricError(DataError):
    """A file with several metrics, of which none was chosen."""

    names: Sequence[str] = ()


class File(NamedTuple):
    """A file on its way to rows."""

    name: str
    path: str
    wanted: Wanted

    def choose(self, names: Iterable[str], what: str) -> str:
        """The metric that the user named, or the only one; several are refused with their names."""
        known, given = list(dict.fromkeys(names)), self.wanted.columns.get("outcome")
        if given is None and len(known) == 1:
            return known[0]
        if given in known:
            return given
        if not known:
            raise refusal(self.name, f"no result has a {what}.", "Score the results first, and tell the file then.")
        found = f"there are several {what}s: {list_quoted(known)}."
        if given is not None:
            found = f"there is no {what} {quoted(given)}, only {list_quoted(known)}."
        error = MetricError(f"{self.name}: {found}\n ", Remedy("Choose one with {@outcome_column}."))
        error.names = known
        raise error

    def item_of(self, each: dict[str, Any], usual: object) -> object:
        """What is at the path that the user named, if there is anything, or else the usual name of the item."""
        path = self.wanted.columns.get("item")
        found = Absent if path is None else follow(each, path)
        return usual if found is Absent or isinstance(found, dict | list) else found


@dataclass
class Found:
    """The rows of a file, and what applies to all of them."""

    rows: list[Row]
    lower_is_better: bool | None = None
    consecutive: bool = False  # runs of one arm after another on one machine
    cost_unit: str = ""


class Source(NamedTuple):
    """A kind of file."""

    title: str
    fits: Callable[[dict[str, Any]], bool]
    read: Callable[[File, Objects], Found]


def source_of(first: object) -> Source | None:
    """The source whose object this is; one with an arm and an outcome is a row of a table, whatever else it has."""
    if not isinstance(first, dict) or {"arm", "outcome"} <= first.keys():
        return None
    return next((source for source in SOURCES if source.fits(first)), None)


def source_sheet(source: Source, file: File, objects: Objects, digest: Callable[[], str], unit: str) -> Sheet:
    """The table of a file of another tool."""
    named = {role: name for role, name in file.wanted.columns.items() if name != role}  # else as it is called here
    file = file._replace(wanted=Wanted(file.wanted.arms, named))
    try:
        found = source.read(file, objects)
    except _FAILURES as error:
        reason = ValueError(f"no {quoted(error.args[0])}") if isinstance(error, KeyError) and error.args else error
        raise damaged(file.name, source.title, reason) from None
    rows = found.rows
    has_items = any(row.item is not None for row in rows)
    repeated = any(row.repeat != 1 for row in rows)
    costs = any(row.cost is not None for row in rows)
    more = {"item": has_items, "repeat": repeated, "cost": costs}
    used = ["arm", "outcome", *(role for role, there in more.items() if there)]
    fields = [Row._fields.index(role) for role in used]
    titles = {role: named.get(role, role) if role in ("arm", "outcome") else role for role in used}  # as the user said

    def chunks(places: Sequence[int]) -> Iterator[Chunk]:
        for start in range(0, len(rows), ROWS):
            some = rows[start : start + ROWS]
            cells = [[row[fields[place]] for row in some] for place in places]
            yield Chunk([row.line for row in some], cells)

    every = ("arm", "outcome", "item", "id", "time", "covariate", "denominator", "cost")
    roles = {role: titles.get(role) for role in every}
    sheet = Sheet(file.name, list(titles.values()), chunks, digest, unit, roles=roles)
    sheet.reasons = Counter(shown(row.why, 80) for row in rows if row.why and blank(row.outcome))
    sheet.lower_is_better, sheet.cost_unit = found.lower_is_better, found.cost_unit
    if found.consecutive:
        sheet.note("consecutive")
    return sheet


def split_names(sheet: Sheet, place: int, parse: Callable[[object], Mapping[str, str] | None], form: str) -> Sheet:
    """A table one of whose columns holds the names of arm and item: with columns for them."""
    chunks, added = sheet.chunks, len(sheet.header)
    roles = ("arm", "item", "repeat") if "{repeat}" in form else ("arm", "item")

    def split(places: Sequence[int]) -> Iterator[Chunk]:
        inner = list(dict.fromkeys([*(each for each in places if each < added), place]))
        for chunk in chunks(inner):
            texts = chunk.columns[inner.index(place)]
            names = [dict.fromkeys(roles, "") if blank(text) else parse(text) for text in texts]
            for line, text, found in zip(chunk.lines, texts, names, strict=True):
                if found is None:
                    sheet.problems.one(
                        "names", line, f"{quoted(text)} is not of the form {shown(form)}.", "Correct the pattern."
                    )
            cells = {added + k: [(found or {}).get(role) for found in names] for k, role in enumerate(roles)}
            yield Chunk(
                chunk.lines, [cells[each] if each >= added else chunk.columns[inner.index(each)] for each in places]
            )

    titles = [role if role == "repeat" else f"{role} in {sheet.header[place].strip()}" for role in roles]
    sheet.chunks, sheet.header = split, [*sheet.header, *titles]
    sheet.roles = {**sheet.roles, "arm": titles[0]}
    if "{item}" in form:
        sheet.roles["item"] = titles[1]
    return sheet


# --- evaluations of models


GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}


def _read_inspect(file: File, objects: Objects) -> Found:
    rows = []
    costs: dict[str, list[list[Any]]] = {"total_cost": [], "total_tokens": []}  # of each sample, by model
    for _, log in objects:
        samples = log["samples"]
        if not samples:
            raise refusal(file.name, "this log has no samples.", "Run the evaluation with its samples logged.")
        arm = log["eval"]["model"]
        if (path := file.wanted.columns.get("arm")) is not None and (named := follow(log["eval"], path)) is not Absent:
            arm = named
        scores = [_inspect_scores(sample) for sample in samples]
        every = [each for found in scores for each in found]
        failures = [_inspect_failure(log, sample) for sample in samples]
        metric = "" if not every and any(failures) else file.choose(every, "scorer")
        for line, (sample, found, failure) in enumerate(zip(samples, scores, failures, strict=True), 1):
            outcome = found.get(metric)
            why = failure or ("no score" if outcome is None else "")
            grade = GRADES.get(outcome, outcome) if isinstance(outcome, str) else outcome
            usage = (sample.get("model_usage") or {}).values()
            for kind, paid in costs.items():
                paid.append([each.get(kind) for each in usage])
            item = file.item_of(sample, sample["id"])
            rows.append(Row(line, arm, None if why else grade, item, sample.get("epoch", 1), why))
    priced = all(each is not None for used in costs["total_cost"] for each in used)
    kind, unit = ("total_cost", "") if priced else ("total_tokens", "tokens")
    totals = [sum(each or 0 for each in used) if used else None for used in costs[kind]]
    return Found([row._replace(cost=cost) for row, cost in zip(rows, totals, strict=True)], cost_unit=unit)


def _inspect_scores(sample: dict[str, Any]) -> dict[str, object]:
    """The values of each scorer; one with several values has a name for each."""
    found: dict[str, object] = {}
    for scorer, score in (sample.get("scores") or {}).items():
        value = score["value"]
        several = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
        found |= {scorer: value} if several is None else {f"{scorer}.{key}": each for key, each in several}
    return found


def _inspect_failure(log: dict[str, Any], sample: dict[str, Any]) -> str:
    error = sample.get("error")
    if error:
        return str(error.get("message", "error") if isinstance(error, dict) else error)
    return "invalidated" if log.get("invalidated") or sample.get("invalidation") else ""


_TASK = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.-]+\.jsonl(?:\.gz)?")


def _read_lm_eval(file: File, objects: Objects) -> Found:
    found = _TASK.fullmatch(Path(file.name).name)
    if found is None:
        raise refusal(
            file.name,
            "the task is in the file's name, which must be as lm-evaluation-harness wrote it "
            "(samples_TASK_DATE.jsonl).",
            "Restore the file's name.",
        )
    task = found[1]
    read = [
        (line, file.item_of(each, f"{task}/{each['doc_id']}"), str(each.get("filter", "none")),
         {metric: each[metric] for metric in each["metrics"]})
        for line, each in objects
    ]  # fmt: skip
    filters = {each[2] for each in read}
    alone = len(filters) == 1
    names = [metric if alone else f"{metric},{each[2]}" for each in read for metric in each[3]]
    given = file.wanted.columns.get("outcome", "")
    if alone and given.endswith(f",{next(iter(filters))}"):
        given = given.rpartition(",")[0]
        file = file._replace(wanted=Wanted(file.wanted.arms, {**file.wanted.columns, "outcome": given}))
    metric, _, chosen = file.choose(names, "metric").partition(",")
    arm, lower = _lm_eval_model(file, task, metric)
    rows = [
        Row(line, arm, values.get(metric), item, why="no value")
        for line, item, of, values in read
        if not chosen or of == chosen
    ]
    return Found(rows, lower)


def _lm_eval_model(file: File, task: str, metric: str) -> tuple[str, bool | None]:
    """The model, and whether lower is better, from the newest results in the folder of a file."""
    folder = Path(file.path).parent
    newest = max(folder.glob("results_*.json"), key=lambda each: each.name, default=None)
    if newest is not None:
        not_open(newest)
        if newest.stat().st_size <= UNPACKED >> 2:
            results = json.loads(newest.read_text(encoding="utf-8"))
            higher = follow(results, f"higher_is_better.{task}.{metric}")
            return str(results["model_name"]), None if higher is Absent else not higher
    known = [arm for arm in file.wanted.arms if re.sub(r'["<>:/|\\?*\[\]]+', "__", arm) == folder.name]
    if len(known) == 1:
        return known[0], None
    raise refusal(
        file.name,
        "the model is not in this file but in results_*.json in its folder, and there is none.",
        "Leave the file where lm-evaluation-harness wrote it, and tell it from there.",
    )


def _read_promptfoo(file: File, objects: Objects) -> Found:
    results = [
        (line, each)
        for at, given in objects
        for line, each in (enumerate(given["results"]["results"], 1) if "results" in given else [(at, given)])
    ]
    names = {"score", "success", *(name for _, each in results for name in each.get("namedScores") or {})}
    metric = "score" if "outcome" not in file.wanted.columns else file.choose(sorted(names), "score")
    arm_of = _promptfoo_arms(file, [each for _, each in results])
    rows: list[Row] = []
    tries: Counter[tuple[str, str]] = Counter()
    for line, each in results:
        failed = each.get("failureReason") == 2 or (each.get("error") and not each.get("gradingResult"))
        why = str(each.get("error") or "error") if failed else ""
        value = each.get(metric, (each.get("namedScores") or {}).get(metric))
        usual = json.dumps(each["vars"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        item, arm = file.item_of(each, usual), arm_of(each)
        tries[arm, name_in(item)] += 1
        cost = each.get("cost")
        rows.append(Row(line, arm, None if why else value, item, tries[arm, name_in(item)], why or "no score", cost))
    return Found(rows)


def _promptfoo_arms(file: File, results: Sequence[dict[str, Any]]) -> Callable[[dict[str, Any]], str]:
    """The arm of each result: by the naming under which most are arms of the study, or else by what differs."""

    def prompt(each: dict[str, Any]) -> str:
        return str(each["prompt"].get("label") or each["prompt"]["raw"])

    def provider(each: dict[str, Any]) -> str:
        own = each["provider"]
        return str(own["id"] if isinstance(own, dict) else own)

    def label(each: dict[str, Any]) -> str:
        own = each["provider"]
        return str((own.get("label") if isinstance(own, dict) else None) or provider(each))

    def both(each: dict[str, Any]) -> str:
        return f"{prompt(each)} | {label(each)}"

    known = set(file.wanted.arms)
    best = max((prompt, provider, label, both), key=lambda naming: len({naming(each) for each in results} & known))
    if {best(each) for each in results} & known:
        return best
    prompts, providers = ({naming(each) for each in results} for naming in (prompt, provider))
    return both if len(prompts) > 1 and len(providers) > 1 else provider if len(providers) > 1 else prompt


def _read_every_eval(file: File, objects: Objects) -> Found:
    name = file.wanted.columns.get("outcome", "score")
    rows = [
        Row(line, each["model_id"], each["evaluation"].get(name),
            file.item_of(each, f"{each['evaluation_name']}/{each['sample_id']}"),
            why=str(each.get("error") or "no score"))
        for line, each in objects
    ]  # fmt: skip
    if all(row.outcome is None for row in rows):
        raise refusal(file.name, f"no evaluation has a {quoted(name)}.", Remedy("Choose one with {@outcome_column}."))
    return Found(rows)


# --- batch APIs


def _openai_failure(each: dict[str, Any]) -> str:
    if each.get("error"):
        return str(each["error"].get("message") or each["error"].get("code") or "error")
    status = follow(each, "response.status_code")
    return "" if status in (200, Absent) else f"status {status}"


def _anthropic_failure(each: dict[str, Any]) -> str:
    kind = str(each["result"]["type"])
    message = follow(each, "result.error.error.message")
    return "" if kind == "succeeded" else kind if message is Absent else f"{kind}: {message}"


def _tokens(usage: Any) -> object:
    """How many tokens an answer took, of either API; None if that is not said."""
    numbers = usage if isinstance(usage, dict) else {}
    total = [numbers.get(key) for key in ("input_tokens", "output_tokens")]
    return numbers.get("total_tokens", None if None in total else sum(total))  # type: ignore[arg-type]


def _read_batch(failure: Callable[[dict[str, Any]], str], file: File, objects: Objects) -> Found:
    path, pattern = file.wanted.columns.get("outcome"), file.wanted.pattern
    keys, rows, graded, answered = arm_keys(file.wanted.arms), [], False, False
    for line, each in objects:
        custom_id = str(each["custom_id"])
        found = pattern.names(custom_id) if pattern is not None else parse_request_id(custom_id, keys)
        if found is None:
            raise refusal(
                f"{file.name}, line {line}",
                f"the custom_id {quoted(custom_id)} does not say the arm and the item.",
                Remedy("Say how it is made: {@arm_column} 'custom_id:{{item}}|{{arm}}'."),
            )
        why, grade = failure(each), Absent if path is None else follow(each, path)
        graded, answered = graded or grade is not Absent, answered or not why
        outcome = None if why or grade is Absent else grade
        used = (follow(each, place) for place in ("response.body.usage", "result.message.usage"))
        cost = next((_tokens(usage) for usage in used if usage is not Absent), None)
        repeat = found.get("repeat", 1)
        rows.append(Row(line, found["arm"], outcome, found.get("item"), repeat, why or "no grade", cost))
    if answered and not graded:
        where = "" if path is None else f" (nothing is at {quoted(path)})"
        raise refusal(
            file.name,
            f"answers of a batch are not graded{where}.",
            Remedy(
                "Grade them and tell a table with the columns custom_id and outcome; or say where the grade is with "
                "{@outcome_column}, for example response.body.score."
            ),
        )
    return Found(rows, cost_unit="tokens")


# --- times


def _read_hyperfine(file: File, objects: Objects) -> Found:
    rows: list[Row] = []
    for _, given in objects:
        metric = str(given.get("primary_metric", "time_wall_clock"))
        if (named := file.wanted.columns.get("outcome")) is not None and "schema_version" in given:
            metric = named
        for result in given["results"]:
            if "measurements" in result:
                runs = [(follow(run, f"{metric}.value"), run.get("exit_code")) for run in result["measurements"]]
            else:
                codes = result.get("exit_codes") or [0] * len(result["times"])
                runs = list(zip(result["times"], codes, strict=True))
            arm = result.get("name") or result["command"]
            for value, code in runs:
                if value is Absent:
                    raise refusal(file.name, f"a run has no {quoted(metric)}.", Remedy("Use {@outcome_column}."))
                why = "" if code == 0 else f"exit code {code}"
                rows.append(Row(len(rows) + 1, arm, None if why else value, why=why))
    return Found(rows, lower_is_better=True, consecutive=True)


def _read_pytest_benchmark(file: File, objects: Objects) -> Found:
    rows: list[Row] = []
    for _, given in objects:
        names = [bench["name"] for bench in given["benchmarks"]]
        key = "name" if len(set(names)) == len(names) else "fullname"
        if {bench["fullname"] for bench in given["benchmarks"]} & set(file.wanted.arms):
            key = "fullname"
        for bench in given["benchmarks"]:
            if not bench["stats"].get("data"):
                raise refusal(
                    file.name,
                    f"{quoted(bench[key])} has no single times.",
                    "Run pytest with --benchmark-json FILE, or --benchmark-save-data.",
                )
            rows += [Row(0, bench[key], value) for value in bench["stats"]["data"]]
    numbered = [row._replace(line=line) for line, row in enumerate(rows, 1)]
    return Found(numbered, lower_is_better=True, consecutive=True)


# --- searches


def refuse_search(name: str, trials: Iterable[tuple[str, float | None]], lower: bool = False) -> DataError:
    """An error that says why trials of a search are no results, and which were the best."""
    ordered = sorted(((value, arm) for arm, value in trials if value is not None), reverse=not lower)
    best = {arm: value for value, arm in reversed(ordered)}  # of several trials of one arm the best one
    named = "; ".join(f"{shown(arm)} ({value:.3g})" for arm, value in list(best.items())[:-6:-1])
    return refusal(
        name,
        "these are trials of an Optuna search, which chose them by their results: they cannot count as results.",
        "Run the best of them again as the arms of a study" + (f": {named}." if named else "."),
    )


def _read_optuna_journal(file: File, objects: Objects) -> Found:
    params: dict[int, dict[str, object]] = {}
    values: dict[int, float | None] = {}
    lower, number = False, -1
    for _, each in objects:
        code = each["op_code"]
        if code == 0:
            lower = each["directions"] == [1]
        elif code == 4:
            number += 1
            params[number] = {}
        elif code == 5:
            stored, distribution = each["param_value_internal"], each.get("distribution")
            params[each["trial_id"]][each["param_name"]] = _setting(stored, distribution)
        elif code == 6 and each.get("values"):
            values[each["trial_id"]] = float(each["values"][0])
    raise refuse_search(file.name, [(arm_of_parameters(params[i]), value) for i, value in values.items()], lower)


def _setting(stored: Any, distribution: object) -> object:
    """What a parameter was: Optuna stores which choice it was, and whole numbers as 3.0."""
    try:
        about = json.loads(str(distribution))
        choices = about["attributes"].get("choices")
        if choices is not None:
            return choices[int(stored)]
        return int(stored) if about["name"].startswith("Int") else stored
    except _FAILURES:
        return stored


def arm_of_parameters(parameters: Mapping[str, object]) -> str:
    """What an arm with these parameters is called: x=0.17, layers=3."""
    return ", ".join(f"{key}={parameters[key]}" for key in sorted(parameters))


SOURCES: tuple[Source, ...] = (
    Source(
        "an Inspect log", lambda each: isinstance(each.get("eval"), dict) and "model" in each["eval"], _read_inspect
    ),
    Source("samples of lm-evaluation-harness", lambda each: {"doc_id", "doc_hash", "metrics"} <= each.keys(),
           _read_lm_eval),
    Source(
        "a promptfoo file",
        lambda each: ("promptIdx" in each and "vars" in each)
        or (isinstance(each.get("results"), dict) and isinstance(each["results"].get("results"), list)),
        _read_promptfoo,
    ),
    Source("an Every Eval Ever file", lambda each: {"interaction_type", "evaluation"} <= each.keys(), _read_every_eval),
    Source(
        "the output of an Anthropic batch",
        lambda each: "custom_id" in each and isinstance(each.get("result"), dict) and "type" in each["result"],
        lambda file, objects: _read_batch(_anthropic_failure, file, objects),
    ),
    Source(
        "the output of an OpenAI batch",
        lambda each: "custom_id" in each and "response" in each,
        lambda file, objects: _read_batch(_openai_failure, file, objects),
    ),
    Source(
        "a hyperfine file",
        lambda each: isinstance(follow(each, "results.0.times"), list)
        or isinstance(follow(each, "results.0.measurements"), list),
        _read_hyperfine,
    ),
    Source("a pytest-benchmark file", lambda each: isinstance(follow(each, "benchmarks.0.stats"), dict),
           _read_pytest_benchmark),
    Source("an Optuna journal", lambda each: {"op_code", "worker_id"} <= each.keys(), _read_optuna_journal),
)  # fmt: skip


# --- archives and databases


def archive_sheet(name: str, path: str, file: BinaryIO, wanted: Wanted, most: int = UNPACKED) -> Sheet:
    """The table in a zip that is no workbook: an Inspect log."""
    digest = digest_of(file)
    try:
        archive = zipfile.ZipFile(file)
        names = archive.namelist()
        start = next((each for each in ("header.json", "_journal/start.json") if each in names), None)
        if start is None:
            inside = list_quoted([shown(each) for each in names[:5]])
            raise refusal(
                name, f"this archive is neither a workbook nor an Inspect log; it holds {inside}.", "Unpack it."
            )
        summaries = ["summaries.json"] if "summaries.json" in names else []  # all samples, without their transcripts
        some = summaries or [each for each in names if re.fullmatch(r"samples/[^/]+\.json", each)]
        if sum(archive.getinfo(each).file_size for each in (start, *some)) > most:
            raise too_large(name)
        log = json.loads(_read_member(archive, file, start, name))
        log["samples"] = []
        keys = (*SAMPLE_KEYS, wanted.columns.get("item", "").partition(".")[0])
        for each in some:
            found = json.loads(_read_member(archive, file, each, name))
            log["samples"] += found if summaries else [{key: found[key] for key in keys if key in found}]
    except _FAILURES as error:
        raise damaged(name, "an Inspect log", error) from None
    return source_sheet(SOURCES[0], File(name, path, wanted), [(1, log)], lambda: digest, "sample")


def _read_member(archive: zipfile.ZipFile, file: BinaryIO, member: str, name: str) -> bytes:
    """A member of an archive; Python before 3.14 lists those packed with Zstandard, but cannot unpack them."""
    about = archive.getinfo(member)
    if about.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with archive.open(about) as packed:
            return packed.read(about.file_size)
    if about.compress_type != 93:
        raise ValueError(f"compression {about.compress_type}")
    try:
        import zstandard
    except ImportError:
        raise refusal(
            name,
            "this log is packed with Zstandard.",
            "Run `pip install 'roundwise[inspect]'`, or `inspect log convert --to json`.",
        ) from None
    file.seek(about.header_offset)
    local = file.read(30)
    file.seek(int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little"), io.SEEK_CUR)
    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
            io.BytesIO(file.read(about.compress_size))
        ) as packed:
            return bytes(packed.read(about.file_size))
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None


_TRIALS = """
select t.number, v.value, p.param_name, p.param_value, p.distribution_json, d.direction
from trials t join trial_values v using (trial_id) left join trial_params p using (trial_id)
left join study_directions d on d.study_id = t.study_id where t.state = 'COMPLETE' limit 100000
"""


def refuse_database(name: str, path: str) -> DataError:
    """An error that says what to do with an SQLite database: its trials, or a query of it."""
    steps = iter(range(200))
    try:
        with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.set_progress_handler(lambda: next(steps, None) is None, 100_000)  # a view may run for ever
            tables = {str(row[0]) for row in database.execute("select name from sqlite_master where type = 'table'")}
            if {"trials", "trial_values", "trial_params", "study_directions"} <= tables:
                trials: dict[int, tuple[float, dict[str, object], str]] = {}
                for number, value, parameter, stored, distribution, direction in database.execute(_TRIALS):
                    trials.setdefault(number, (value, {}, direction))[1].update(
                        {} if parameter is None else {parameter: _setting(stored, distribution)}
                    )
                lower = any(each[2] == "MINIMIZE" for each in trials.values())
                return refuse_search(name, [(arm_of_parameters(each[1]), each[0]) for each in trials.values()], lower)
    except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
        return damaged(name, "an SQLite database", error)
    return refusal(
        name, "this is an SQLite database.", "Give a query of it: --sql 'select arm, outcome from ...' --database FILE."
    )
