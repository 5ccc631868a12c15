"""`roundwise new, ask, tell, status, list, report`, and what the commands of studies share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from roundwise.cli import STUDIES, app, keep_modules
from roundwise.cli.options import ColumnOptions, Json, StudyOptions, StudySettings, grouped, option, rule
from roundwise.cli.output import (
    ASKED,
    check_output,
    console_width,
    print_json,
    print_table,
    recorded,
    say,
    say_text,
    write_file,
)
from roundwise.cli.study.requests import RequestOptions
from roundwise.errors import InputError, RoundwiseError
from roundwise.messages import Guarantee, Reason, count, keep_flags, several, shell_command, visible
from roundwise.model.spec import Kind, parse_spec
from roundwise.report.text import render_text, wrap_text
from roundwise.study.spec import StudySpec

if TYPE_CHECKING:
    from roundwise.ingest import TellKeywords
    from roundwise.report import Report
    from roundwise.store import Entry
    from roundwise.study import Study

ENDINGS = (".html", ".md", ".pdf", ".xlsx", ".csv", ".json", ".txt")


class FileOptions(NamedTuple):
    """What the rows of result files are."""

    columns: ColumnOptions = ColumnOptions()
    ignore_arms: Annotated[
        str | None, rule("--ignore-arms", "Other arms whose rows are skipped ('*' for all).", "LIST")
    ] = None
    arm_names: Annotated[str, rule("--arm-names", "Names of arms in these files, e.g. org/small=small.", "LIST")] = ""
    missing: Annotated[
        str | None, rule("--missing", "Reason why rows have no outcome; they count as missing.", "REASON")
    ] = None
    empty: Annotated[
        str | None, rule("--empty", "Empty outcomes of these files: zero, missing or refused.", "RULE")
    ] = None
    failed: Annotated[bool, rule("--failed", "Lists: give up requests without an outcome.")] = False
    cumulative: Annotated[bool, rule("--cumulative", "Running totals since the study began.")] = False
    new: Annotated[bool, rule("--new", "Count every row as new, without the duplicate check.")] = False

    @property
    def words(self) -> TellKeywords:
        given = {"columns": self.columns.columns(), "ignore_arms": self.ignore_arms or ()}
        return self._asdict() | given  # type: ignore[return-value]


def _keep_storage(url: str | None) -> str | None:
    keep_flags(storage="" if url is None else f" --storage {quote(url)}")
    return url


STORAGE = "Storage URL: sqlite:///, postgresql:// or http:// (default ROUNDWISE_STORAGE, else roundwise.db)."
Name = Annotated[str, typer.Argument(help="Name of the study.", metavar="NAME")]
Storage = Annotated[str | None, option("--storage", STORAGE, "URL", callback=_keep_storage)]
Why = Annotated[str, option("--why", "Reason, kept in the record.", "REASON")]
Yes = Annotated[bool, option("--yes", "Skip the confirmation.")]


def agreed(effect: str, yes: bool) -> str:
    """Print the effect of a change on the guarantee and ask for confirmation; without a terminal `--yes` is required.
    Returns the text to print afterwards: the effect, if there was no question.
    """
    if yes:
        return effect
    if not sys.stdin.isatty():
        raise InputError(f"{effect} Nothing was changed; to confirm, add --yes.")
    sys.stderr.write(f"{wrap_text(visible(effect), console_width())}\n")
    if not typer.confirm("Do it?", err=True):
        raise InputError("Nothing was changed.")
    return "Done."


def end_with_report(study: Study, done: str) -> None:
    """Build the report once the entry is recorded; from then on `done` is recorded, whatever happens."""
    study.full_reports, study.on_recorded = True, lambda: recorded(done)


def show(plain: dict[str, object] | None, text: str) -> None:
    """Print JSON where there is some, else text."""
    if plain is not None:
        print_json(plain)
    else:
        say_text(text)


def show_report(report: Report, as_json: bool, before: str = "") -> None:
    """Print a report, as JSON or as text that fits the terminal, with a line above it."""
    if as_json:
        print_json(report.plain())
        return
    if before:
        say_text(before)
    say(render_text(report, console_width()))


def guarantee(entries: Sequence[Entry]) -> dict[str, object]:
    """The guarantee of a study, also of one whose record cannot be replayed."""
    from roundwise.study import replay
    from roundwise.study.guarantee import guarantee_of

    try:
        return guarantee_of(replay(entries)).plain()
    except RoundwiseError as error:
        return Guarantee.of([Reason("unreadable", error=str(error))]).plain()


@app.command(rich_help_panel=STUDIES)
@grouped
def new(
    *,
    name: Name,
    study: StudyOptions,
    settings: StudySettings,
    from_plan: Annotated[
        Path | None, option("--from-plan", "Plan file whose recommended settings to use (`plan --out`).", "FILE")
    ] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Create a study.

    Example: roundwise new checkout --question best-arm --arms red,green,blue --binary
    """
    from roundwise.planning import first_line, read_plan
    from roundwise.study.guarantee import guarantee_of, notes_of
    from roundwise.study.study import asked_in_words, create_from_spec

    forecast = None
    if from_plan is None:
        if study.question is None:
            raise InputError("Give --question, or --from-plan FILE.")
        spec = study.declare(StudySpec, settings)
    else:
        if study.beyond_plan(settings):
            raise InputError(
                "Give either --from-plan FILE or the settings of a study: a plan has all of them but the seed, the "
                "columns and the rules at reading."
            )
        spec, forecast = read_plan(from_plan)
        spec = study.of_plan(spec, settings)
    with create_from_spec(name, spec, storage) as created:
        recorded(f"'{name}' is created")
        guarantee = guarantee_of(created.state)
        collecting = [f"{each}\n" for each in notes_of(created.state, ()) if each.code == "collecting"]
    if forecast is None:
        forecast = first_line(spec)
    promise = f"Error at most {spec.delta:g}" if guarantee.kept else f"Error aimed at {spec.delta:g}"
    stands = "" if guarantee.kept else f"The guarantee is {guarantee}.\n"
    keep_modules(_user_modules({"question": study.question, "noise": study.noise.noise, "policy": settings["policy"]}))
    next_ = f"{shell_command(f'ask {quote(name)}')} says what to do first."
    plain = {
        "study": name,
        "question": spec.question.name,
        "arms": spec.arms,
        "delta": spec.delta,
        "guarantee": guarantee.plain(),
        "forecast": forecast,
        "next": next_,
    }
    ahead = "" if forecast is None else f"Forecast: {forecast}; see `roundwise plan -h` for more.\n"
    again = f"{shell_command(f'remove {quote(name)}')}, then create it with --lower-is-better"
    higher = f"Longer times count as better here. If shorter ones are: {again}.\n" if prefers_longer_times(spec) else ""
    blind = any(each.role == "guardrail" for each in spec.metrics) and not spec.question.opposites
    sided = "With --two-sided it could also be shown that a guardrail is violated.\n" if blind else ""
    said = "".join([higher, stands, *collecting, sided, ahead])
    text = f"Created '{name}': {asked_in_words(spec)} {promise}.\n{said}Next: {next_}"
    show(plain if as_json else None, text)


def prefers_longer_times(spec: StudySpec) -> bool:
    """Whether results are times, and the larger count as better, which is hardly ever meant."""
    from roundwise.report.model import TIMES

    asked = spec.question
    return spec.unit in TIMES and asked.name in ("best-arm", "top-k", "claims") and not asked.lower_is_better


def _user_modules(said: dict[Kind, str | None]) -> Iterator[str]:
    """The modules of the user's own classes that the options name."""
    for kind, text in said.items():
        fields = {"name": ""} if text is None else parse_spec(kind, text)
        threshold = parse_spec("threshold", fields["threshold"]) if "threshold" in fields else {"name": ""}
        yield from (each["name"].partition(":")[0] for each in (fields, threshold) if ":" in each["name"])


@app.command(rich_help_panel=STUDIES)
@grouped
def ask(
    *,
    name: Name,
    out: Annotated[Path | None, option("--out", "CSV file to write the round to; with --as a folder.", "FILE")] = None,
    requests: RequestOptions,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Show the next round: how many results to collect for each arm."""
    from roundwise.report import build_report
    from roundwise.report.export import render_csv
    from roundwise.study import load_study
    from roundwise.study.guarantee import guarantee_of

    requests.check(out, as_json)
    if requests.form is None:
        check_output(out, theirs=False)
    with load_study(name, storage) as study:
        render = None if requests.form is None else requests.read(study.state)
        asked, state = study.asking()
    plain: dict[str, object] = {"study": name, "round": None, "asked": {}, "remaining": {}}
    guarantee = guarantee_of(state)
    if asked is None:
        report = build_report(state, intervals=True)  # the headline that `tell` printed
        ended = {"status": report.status, "answer": report.answer, "headline": report.headline, "next": report.next}
        show(
            {**plain, **ended, "guarantee": guarantee.plain()} if as_json else None,
            f"{report.top()}\nNext: {report.next}",
        )
        return
    recorded(f"round {asked.number} of '{name}' is asked for")
    if render is not None:
        requests.write(asked.number, *render(asked, state), out)
        if out is not None:
            say_text(f"Next: run and grade them, then {shell_command(f'tell {quote(name)} FILE')}.")
        return
    wanted = {arm: int(n) for arm, n in zip(asked.arms, asked.pulls, strict=True)}
    missing = {arm: int(n) for arm, n in zip(asked.arms, asked.outstanding, strict=True)}
    if out is not None:
        write_file(out, render_csv(ASKED, [(arm, n) for arm, n in missing.items() if n]))
    if as_json:
        asking = {"round": asked.number, "asked": wanted, "remaining": missing, "status": "undecided"}
        print_json({**plain, **asking, "guarantee": guarantee.plain()})
        return
    if not guarantee.kept:
        say_text(f"The guarantee is {guarantee}.")
    so_far = f", {several(sum(missing.values()), 'result')} still to come" if asked.files else ""
    say_text(f"{name}, round {asked.number}: collect {several(sum(wanted.values()), 'result')}{so_far}.")
    rows = [(arm, wanted[arm], missing[arm]) for arm in asked.arms if wanted[arm]]
    columns = ("arm", "results", "still to come") if asked.files else ("arm", "results")
    print_table(columns, [row[: len(columns)] for row in rows[:60]])
    if len(rows) > 60:
        say(f"... and {len(rows) - 60} more arms; --out FILE writes them all.")
    if state.spec.noise.shares_items:
        say_text("Use the same items for all arms, each item new: an arm with fewer results gets the first of them.")
    where = f" (written to {out})" if out is not None else ""
    fixed = ""
    if asked.number == 1 and not asked.files and not asked.by_number:
        fixed = (
            " For a layout that is fixed (a plate, a page at 50 : 50), create the study with --split and --round-size."
        )
    say_text(f"Next: do this round{where}, then {shell_command(f'tell {quote(name)} FILE')}.{fixed}")


@app.command(rich_help_panel=STUDIES)
@grouped
def tell(
    name: Name,
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Result files: CSV, JSON, Excel, Parquet or of other tools.", metavar="FILE"),
    ] = None,
    round_over: Annotated[
        str | None, option("--round-over", "Reason to close the round with results missing.", "REASON")
    ] = None,
    sql: Annotated[str | None, option("--sql", "Query whose rows are the results.", "QUERY")] = None,
    database: Annotated[
        str | None,
        option(
            "--database", "Database of the query: SQLite, DuckDB or postgresql:// (default: files, by DuckDB).", "PLACE"
        ),
    ] = None,
    *,
    said: FileOptions,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Record results: rows of arm,outcome; sums arm,count,total; or 0/1 results arm,count,successes."""
    from roundwise.formats.query import query_file
    from roundwise.study import load_study

    if database is not None and sql is None:
        raise InputError("--database goes with --sql QUERY.")
    if sql is not None and files:
        raise InputError("Give either files or --sql.")
    with ExitStack() as stack:
        sources: list[os.PathLike[str]] = list(files or [])
        told = ", ".join(map(str, sources))
        if sql is not None:  # before the studies are opened: their database must not be opened twice
            sources, told = [stack.enter_context(query_file(sql, database))], "the query"
        study = stack.enter_context(load_study(name, storage))
        end_with_report(study, f"{told or 'that the rest will not come'} is recorded")
        report = study.tell(*sources, round_over=round_over, **said.words)
    show_report(report, as_json, f"Recorded {told}." if told else "")


@app.command(rich_help_panel=STUDIES)
def status(name: Name, storage: Storage = None, as_json: Json = False) -> None:
    """Show where a study stands: results so far, results to come, what is undecided."""
    from roundwise.planning import report_ahead
    from roundwise.study import load_study

    with load_study(name, storage) as study:
        show_report(report_ahead(study), as_json)


@app.command("list", rich_help_panel=STUDIES)
def list_studies(storage: Storage = None, as_json: Json = False) -> None:
    """List the studies in the storage with their state, answer and budget."""
    from roundwise.study import audit

    found = audit.list_studies(storage)
    if as_json:
        print_json(found)
        return
    if not found:
        create = shell_command("new NAME --question best-arm --arms a,b,c --binary")
        say_text(f"There are no studies. Next: {create} creates one.")
        return
    rows = []
    for each in found:
        came = count(each["results"]) + ("" if each["budget"] is None else f" of {count(each['budget'])}")
        mark = each["guarantee"]["status"]
        stands = (each["answer_text"] or each["state"]) + ("" if mark == "kept" else f" ({mark})")
        rows.append((each["name"], stands, came, each["changed"][:16]))
    print_table(("study", "state or answer", "results", "last change (UTC)"), rows)
    say_text(f"Next: {shell_command('status NAME')} shows where one stands.")


@app.command(rich_help_panel=STUDIES)
def report(
    name: Name,
    out: Annotated[Path | None, option("--out", f"Output file: {', '.join(ENDINGS)}.", "FILE")] = None,
    table: Annotated[str, option("--table", "Table to write as .csv: arms, claims, rounds or files.", "NAME")] = "arms",
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Print the full report of a study, or write it as a page, PDF, Excel workbook or CSV."""
    from roundwise.planning import report_ahead
    from roundwise.report.export import TABLES, find_printer
    from roundwise.study import load_study

    kind = "" if out is None else out.suffix.lower()
    if out is not None and kind not in ENDINGS:
        raise InputError(f"'{out}' must end in {', '.join(ENDINGS)}.")
    if table not in TABLES:
        raise InputError(f"There is no table '{table}'. Give --table {', '.join(TABLES)}.")
    check_output(out, theirs=False)
    if kind == ".pdf":
        find_printer()
    with load_study(name, storage) as study:
        found = report_ahead(study)
    if out is None:
        show_report(found, as_json)
        return
    forms: dict[str, Callable[[], str | bytes]] = {
        ".html": found.html,
        ".md": found.markdown,
        ".pdf": found.pdf,
        ".xlsx": found.xlsx,
        ".csv": lambda: found.csv(table),
        ".json": found.json,
        ".txt": lambda: f"A report of roundwise\n\n{found.text()}\n",
    }
    write_file(out, forms[kind]())
    next_ = found.next
    if found.status != "undecided":
        next_ = f"keep it with the record, which {shell_command(f'export {quote(name)}')} writes."
    show(found.plain() if as_json else None, f"{found.top()}\nThe report is in {out}.\nNext: {next_}")
