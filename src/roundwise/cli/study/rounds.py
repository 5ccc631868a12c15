"""`roundwise new, ask, tell, status, list, report`, and what the commands of studies share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from roundwise.cli import STUDIES, app
from roundwise.cli.options import FILES, ColumnOptions, Json, StudyOptions, StudySettings, grouped
from roundwise.cli.output import ASKED, check_output, print_json, print_table, recorded, say, write_file
from roundwise.errors import InputError, RoundwiseError, visible
from roundwise.messages import Guarantee, Reason, count
from roundwise.model.spec import Kind, parse_spec
from roundwise.study.spec import StudySpec

if TYPE_CHECKING:
    from roundwise.ingest import TellKeywords
    from roundwise.store import Entry
    from roundwise.study import Study

ENDINGS = (".html", ".md", ".pdf", ".xlsx", ".csv", ".json", ".txt")


def _about_files(flag: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(flag, help=help, metavar=metavar, rich_help_panel=FILES)


class FileOptions(NamedTuple):
    """What the rows of result files are."""

    columns: ColumnOptions = ColumnOptions()
    ignore_arms: Annotated[
        str | None, _about_files("--ignore-arms", "Other arms whose rows to skip ('*' for all).", "LIST")
    ] = None
    missing: Annotated[
        str | None, _about_files("--missing", "Reason why rows have no outcome; they count as missing.", "REASON")
    ] = None
    cumulative: Annotated[
        bool, _about_files("--cumulative", "Running totals since the study began; the difference counts.")
    ] = False
    new: Annotated[bool, _about_files("--new", "Treat every row as new; skip the duplicate check.")] = False
    average_ids: Annotated[bool, _about_files("--average-ids", "Average the rows of one id to one result.")] = False

    @property
    def words(self) -> TellKeywords:
        """As `Study.tell` takes it."""
        given: TellKeywords = self._asdict() | {
            "columns": self.columns.columns(),
            "ignore_arms": self.ignore_arms or (),
        }  # type: ignore[assignment]
        return given


Name = Annotated[str, typer.Argument(help="Name of the study.", metavar="NAME")]
Storage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        help="Storage URL: sqlite:///, postgresql:// or http:// (default ROUNDWISE_STORAGE, else roundwise.db).",
    ),
]
Why = Annotated[str, typer.Option("--why", help="Reason for the record.")]
Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")]


def agreed(effect: str, yes: bool) -> str:
    """Say what a change does to the guarantee and ask; without a terminal `--yes` is required.

    Returns what is left to be said once it is done: the same, if nobody was asked.
    """
    if yes:
        return effect
    if not sys.stdin.isatty():
        raise InputError(f"{effect} Nothing was changed; to do it, say --yes.")
    sys.stderr.write(f"{visible(effect)}\n")
    if not typer.confirm("Do it?", err=True):
        raise InputError("Nothing was changed.")
    return "Done."


def end_with_report(study: Study, done: str) -> None:
    """Make the report after recording the full one; from then on `done` is recorded, whatever happens."""
    study.full_reports, study.on_recorded = True, lambda: recorded(done)


def show(plain: dict[str, object] | None, text: str) -> None:
    """JSON where there is some, else text."""
    if plain is not None:
        print_json(plain)
    else:
        say(text)


def show_of(entries: Sequence[Entry], plain: dict[str, object] | None, text: str) -> None:
    """As `show`, with the guarantee of the record in the JSON."""
    show(None if plain is None else {**plain, "guarantee": guarantee(lambda: entries)}, text)


def guarantee(read: Callable[[], Sequence[Entry]]) -> dict[str, object]:
    """What became of the guarantee of a study; there is none where its record cannot be read or replayed."""
    from roundwise.study import replay
    from roundwise.study.guarantee import guarantee_of

    try:
        return guarantee_of(replay(read())).plain()
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
        Path | None,
        typer.Option("--from-plan", help="File of a plan whose recommended settings to use (`plan --out`)."),
    ] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Create a study.

    Example: roundwise new checkout --question best-arm --arms red,green,blue --binary
    """
    from roundwise.planning import first_line, read_plan
    from roundwise.study.guarantee import guarantee_of
    from roundwise.study.study import asked_in_words, create_from_spec

    forecast = None
    if from_plan is None:
        if study.question is None:
            raise InputError("Give --question, or --from-plan FILE.")
        spec = study.declare(StudySpec, settings)
    else:
        if study.question is not None or study.arms is not None or study.arms_file is not None:
            raise InputError("Give either --from-plan FILE or the settings of a study: a plan has all of them.")
        spec, forecast = read_plan(from_plan)
        if settings["seed"] is not None:
            spec = replace(spec, seed=settings["seed"], seed_given=True)
        if (columns := study.columns.columns()) is not None:
            spec = replace(spec, columns=columns)
        if study.noise.items:
            spec = replace(spec, noise=spec.noise.with_items())
    with create_from_spec(name, spec, storage) as created:
        recorded(f"'{name}' is created")
        guarantee = guarantee_of(created.state)
    if forecast is None:
        forecast = first_line(spec)
    promise = f"Error at most {spec.delta:g}" if guarantee.kept else f"Error aimed at {spec.delta:g}"
    stands = "" if guarantee.kept else f"The guarantee is {guarantee}.\n"
    own = _own({"question": study.question, "noise": study.noise.noise, "policy": settings["policy"]})
    next_ = f"`roundwise {own}ask {quote(name)}` says what to do first."
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
    text = f"Created '{name}': {asked_in_words(spec)} {promise}.\n{stands}{ahead}Next: {next_}"
    show(plain if as_json else None, text)


def _own(said: dict[Kind, str | None]) -> str:
    """The options that import the user's own classes, unless ROUNDWISE_OWN does."""
    found = []
    for kind, text in said.items():
        fields = {"name": ""} if text is None else parse_spec(kind, text)
        threshold = parse_spec("threshold", fields["threshold"]) if "threshold" in fields else {"name": ""}
        found += [each["name"].partition(":")[0] for each in (fields, threshold) if ":" in each["name"]]
    known = os.environ.get("ROUNDWISE_OWN", "").split()
    return "".join(f"--own {module} " for module in dict.fromkeys(found) if module not in known)


@app.command(rich_help_panel=STUDIES)
def ask(
    name: Name,
    out: Annotated[Path | None, typer.Option("--out", help="CSV file to write the round to.")] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Show the next round: how many results to collect for each arm."""
    from roundwise.report import build_report
    from roundwise.report.export import render_csv
    from roundwise.study import load_study
    from roundwise.study.guarantee import guarantee_of

    check_output(out, theirs=False)
    with load_study(name, storage) as study:
        asked, state = study.asking()
    if asked is None:
        report = build_report(state, intervals=True)  # the headline that `tell` printed
        show(report.plain() if as_json else None, f"{report.top()}\nNext: {report.next}")
        return
    recorded(f"round {asked.number} of '{name}' is asked for")
    wanted = {arm: int(n) for arm, n in zip(asked.arms, asked.pulls, strict=True)}
    missing = {arm: int(n) for arm, n in zip(asked.arms, asked.outstanding, strict=True)}
    if out is not None:
        write_file(out, render_csv(ASKED, [(arm, n) for arm, n in missing.items() if n]))
    guarantee = guarantee_of(state)
    if as_json:
        plain = {"study": name, "round": asked.number, "results": wanted, "remaining": missing}
        print_json({**plain, "guarantee": guarantee.plain()})
        return
    if not guarantee.kept:
        say(f"The guarantee is {guarantee}.")
    so_far = f", {sum(missing.values())} of them still to come" if asked.files else ""
    many = sum(wanted.values())
    say(f"{name}, round {asked.number}: collect {many} result{'' if many == 1 else 's'}{so_far}.")
    rows = [(arm, wanted[arm], missing[arm]) for arm in asked.arms if wanted[arm]]
    if asked.files:
        print_table(("arm", "results", "still to come"), rows[:60])
    else:
        print_table(("arm", "results"), [row[:2] for row in rows[:60]])
    if len(rows) > 60:
        say(f"... and {len(rows) - 60} more arms; --out FILE writes them all.")
    if state.spec.noise.shares_items:
        say("On the same items, new to all arms: an arm that is asked for fewer is tried on the first of them.")
    where = f" (written to {out})" if out is not None else ""
    say(f"Next: do this round{where}, then `roundwise tell {quote(name)} FILE`.")


@app.command(rich_help_panel=STUDIES)
@grouped
def tell(
    name: Name,
    files: Annotated[list[Path] | None, typer.Argument(help="Result files: CSV, JSON, Excel or Parquet.")] = None,
    round_over: Annotated[
        str | None, typer.Option("--round-over", help="Reason to close the round although results are missing.")
    ] = None,
    *,
    said: FileOptions,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Record results: rows arm,outcome; sums arm,count,total; or 0/1 results arm,count,successes."""
    from roundwise.study import load_study

    with load_study(name, storage) as study:
        told = ", ".join(str(each) for each in files or [])
        end_with_report(study, f"{told or 'that the rest will not come'} is recorded")
        report = study.tell(*(files or []), round_over=round_over, **said.words)
    show(report.plain() if as_json else None, (f"Recorded {told}.\n" if told else "") + report.text())


@app.command(rich_help_panel=STUDIES)
def status(name: Name, storage: Storage = None, as_json: Json = False) -> None:
    """Show where a study stands: results so far, results to come, what is undecided."""
    from roundwise.planning import report_ahead
    from roundwise.study import load_study

    with load_study(name, storage) as study:
        report = report_ahead(study)
    show(report.plain() if as_json else None, report.text())


@app.command("list", rich_help_panel=STUDIES)
def list_studies(storage: Storage = None, as_json: Json = False) -> None:
    """List the studies of the storage with their state, answer and budget."""
    from roundwise.study import audit

    found = audit.list_studies(storage)
    if as_json:
        print_json(found)
        return
    if not found:
        say("There are no studies. Next: `roundwise new NAME --question best-arm --arms a,b,c --binary` creates one.")
        return
    rows = []
    for each in found:
        came = count(each["results"]) + ("" if each["budget"] is None else f" of {count(each['budget'])}")
        waiting = "" if each["since"] is None else f"since {each['since'][:16]}"
        mark = each["guarantee"]["status"]
        stands = (each["answer"] or each["state"]) + ("" if mark == "kept" else f" ({mark})")
        rows.append((each["name"], stands, came, waiting, each["changed"][:16], each["by"]))
    print_table(("study", "state or answer", "results", "waiting", "last change (UTC)", "by"), rows)
    say("Next: `roundwise status NAME` shows where one stands.")


@app.command(rich_help_panel=STUDIES)
def report(
    name: Name,
    out: Annotated[
        Path | None, typer.Option("--out", help=f"Output file: {', '.join(ENDINGS)}.", show_default=False)
    ] = None,
    table: Annotated[
        str, typer.Option("--table", help="Table to write as .csv: arms, claims, rounds or files.")
    ] = "arms",
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Print the full report of a study, or write it as a page, PDF, Excel workbook or CSV."""
    from roundwise.planning import report_ahead
    from roundwise.report.export import TABLES, find_browser
    from roundwise.study import load_study

    kind = "" if out is None else out.suffix.lower()
    if out is not None and kind not in ENDINGS:
        raise InputError(f"'{out}' must end in {', '.join(ENDINGS)}.")
    if table not in TABLES:
        raise InputError(f"There is no table '{table}'. Give --table {', '.join(TABLES)}.")
    check_output(out, theirs=False)
    if kind == ".pdf":
        find_browser()
    with load_study(name, storage) as study:
        found = report_ahead(study)
    if out is None:
        if as_json:
            print_json(found.plain())
        else:
            say(found.text())
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
        next_ = f"keep it with the record, which `roundwise export {quote(name)}` writes."
    if as_json:
        print_json(found.plain())
    else:
        say(f"{found.top()}\nThe report is in {out}.\nNext: {next_}")
