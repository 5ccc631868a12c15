"""`roundwise plan`: forecasts of a study, before the first result or while it is running."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roundwise.cli import PLANNING, app
from roundwise.cli.options import Json, StudyOptions, grouped, option
from roundwise.cli.output import check_output, console_width, print_json, say, say_text, write_file
from roundwise.cli.study.rounds import Storage, prefers_longer_times
from roundwise.errors import InputError
from roundwise.messages import shell_command
from roundwise.planning.request import PlanRequest
from roundwise.study.spec import settings_of

if TYPE_CHECKING:
    from roundwise.planning import StudyPlan
    from roundwise.planning.planner import Progress

ENDINGS = (".json", ".html", ".txt", ".svg", ".pdf")


@app.command(rich_help_panel=PLANNING)
@grouped
def plan(
    *,
    name: Annotated[str, typer.Argument(help="Name of the study.", metavar="[NAME]")] = "study",
    study_options: StudyOptions,
    settings: Annotated[dict[str, Any], PlanRequest],
    study: Annotated[str | None, option("--study", "Running study to forecast from where it stands.", "NAME")] = None,
    storage: Storage = None,
    out: Annotated[
        Path | None, option("--out", "Output file: .json (for `new --from-plan`), .html, .pdf, .txt, .svg.", "FILE")
    ] = None,
    as_json: Json = False,
) -> None:
    """Forecast the results, rounds, days and cost of a study, and recommend settings.

    Example: roundwise plan checkout --question best-arm --arms red,green,blue --binary --baseline 30%
    """
    from roundwise.planning.planner import plan_request

    if study is not None:
        _plan_rest(study, storage, settings, as_json)
        return
    if out is not None and out.suffix.lower() not in ENDINGS:
        raise InputError(f"'{out}' must end in {', '.join(ENDINGS)}.")
    check_output(out, theirs=out is None or out.suffix.lower() not in (".json", ".txt"))
    if study_options.question is None:
        raise InputError("Give --question (for a new study), or --study NAME (for one that is running).")
    request = study_options.declare(PlanRequest, {**settings, "name": name})
    with _refined() as progress:
        found = plan_request(request, progress=progress)
    if out is not None:
        _write(found, out)
    if as_json:
        print_json(found.plain())
        return
    files = " with your own file in place of FILE" if " FILE" in found.command else ""
    next_ = f"run that command{files}, or change the numbers and plan again; nothing was recorded."
    if found.command.endswith("--from-plan FILE"):
        next_ = "plan again with --out plan.json, from which that command creates it; nothing was recorded."
    if out is not None and out.suffix.lower() == ".json":
        next_ = f"{shell_command(f'new {quote(name)} --from-plan {quote(str(out))}')} creates it."
    written = "" if out is None else f"The plan is in {out}.\n"
    say(found.text())
    longer = "Longer times count as better here. If shorter ones are, plan with --lower-is-better.\n"
    say_text(f"{written}{longer if prefers_longer_times(found.request) else ''}Next: {next_}")


def _write(found: StudyPlan, out: Path) -> None:
    kind = out.suffix.lower()
    if kind == ".pdf":
        from roundwise.report.export import print_pdf

        write_file(out, print_pdf(found.html()))
        return
    forms = {".json": found.json, ".html": found.html, ".svg": found.figure}
    write_file(out, forms.get(kind, found.text)() + "\n")


def _plan_rest(study: str, storage: str | None, settings: dict[str, Any], as_json: bool) -> None:
    from roundwise.planning import Costs, replan
    from roundwise.study import load_study
    from roundwise.study.spec import one_for_each

    with load_study(study, storage) as loaded:
        given = {
            name: about.parse(name, settings[name])
            for name, (about, _) in settings_of(PlanRequest).items()
            if settings.get(name) is not None
        }
        arms, prices = loaded.state.spec.arms, given.get("sample_cost")
        costs = Costs(
            sample=None if prices is None else one_for_each(prices, arms, "sample cost"),
            round=given.get("round_cost", 0.0),
            days=given.get("round_days"),
            per_day=given.get("per_day"),
        )
        found = replan(loaded.state, runs=given["runs"], seed=given["seed"], costs=costs)
    if as_json:
        print_json(found.plain())
    else:
        say_text(found.text())


@contextmanager
def _refined() -> Iterator[Progress | None]:
    """On a terminal, show the table while it is refined."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    from roundwise.planning.render import row_lines

    with Live(console=Console(stderr=True, width=console_width()), transient=True, auto_refresh=False) as live:

        def shown(found: StudyPlan, done: float) -> None:
            live.update(Group(Text("\n".join(row_lines(found))), ProgressBar(total=1.0, completed=done)), refresh=True)

        yield shown
