"""`roundwise plan`: what a study will take, before the first result, and from where it stands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from roundwise.cli import PLANNING, app, grouped, options
from roundwise.cli.output import check_output, console_width, print_json, say, write_file
from roundwise.cli.study.common import ColumnNames, Storage
from roundwise.cli.study.new import arm_list
from roundwise.errors import InputError
from roundwise.model.spec import from_spec, parse_quantity

if TYPE_CHECKING:
    from roundwise.planning import StudyPlan
    from roundwise.planning.planner import Progress

ENDINGS = (".json", ".html", ".txt", ".svg", ".pdf")


@app.command(rich_help_panel=PLANNING)
@grouped
def plan(
    *,
    name: Annotated[str, typer.Argument(help="What the study is to be called.", metavar="[NAME]")] = "study",
    question: options.AnyQuestion = None,
    arms: options.ArmNames = None,
    arms_file: options.ArmsFile = None,
    around: Annotated[
        str | None, typer.Option("--around", help="What results are like: 30%. Leads are chosen, or see --leads.")
    ] = None,
    leads: Annotated[str | None, typer.Option("--leads", help="A ladder of leads: 1%,2%,5%.", metavar="LIST")] = None,
    means: Annotated[str | None, typer.Option("--means", help="Or what each arm is like: 30%,31%,35%.")] = None,
    scenario: Annotated[
        Path | None, typer.Option("--scenario", help="Or a table with a column for each arm, a line a scenario.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="The lead (or scenario) that the settings are chosen for.")
    ] = None,
    sample_cost: Annotated[
        str | None, typer.Option("--sample-cost", help="Price of a result: one number, or one for each arm.")
    ] = None,
    batch_cost: Annotated[str, typer.Option("--batch-cost", help="Price of a round.")] = "0",
    batch_days: Annotated[str | None, typer.Option("--batch-days", help="Days that a round takes.")] = None,
    missing: Annotated[str, typer.Option("--missing", help="Share of results that never come back: 10%.")] = "0",
    deviation: Annotated[
        str | None,
        typer.Option("--deviation", help="Deviation of one result, where the noise model leaves it open."),
    ] = None,
    shared: Annotated[
        str | None,
        typer.Option("--shared", help="With items: correlation of two equally good arms on one item (30%)."),
    ] = None,
    power: Annotated[str, typer.Option("--power", help="Power of the fixed design beside it.")] = "90%",
    asked: options.Asked,
    features: options.FeaturesFile = None,
    against: options.Against,
    assumed: options.Assumed,
    delta: options.Delta = 0.05,
    policy: Annotated[str | None, typer.Option("--policy", help="How to sample: wager (default), pet, ...")] = None,
    max_round: options.MaxRound = None,
    min_per_arm: options.MinPerArm = 0,
    budget: options.Budget = None,
    round_: options.WholeRound = None,
    split: options.Shares = None,
    named: ColumnNames,
    items: options.SameItems = False,
    runs: Annotated[int, typer.Option("--runs", help="Simulated studies for each row.")] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same plan.")] = 1,
    study: Annotated[
        str | None, typer.Option("--study", help="Plan from here: what this running study will still take.")
    ] = None,
    storage: Storage = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write it: .json (for `new --from-plan`), .html, .pdf, .txt, .svg.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """What a study will take: results, rounds, days and cost, and the settings to use.

    Example: roundwise plan checkout --question best-arm --arms red,green,blue --binary --around 30%
    """
    from roundwise.planning import plan as planned
    from roundwise.planning.items import SHARED
    from roundwise.study.spec import arm_names

    if study is not None:
        _from_here(study, storage, runs, seed, (sample_cost, batch_cost, batch_days), as_json)
        return
    if out is not None and out.suffix.lower() not in ENDINGS:
        raise InputError(f"'{out}' must end in {', '.join(ENDINGS)}.")
    check_output(out, theirs=out is None or out.suffix.lower() not in (".json", ".txt"))
    if question is None:
        raise InputError("Give --question (for a new study), or --study NAME (for one that is running).")
    names = arm_names(arm_list(arms, arms_file))
    goal = options.study_question(question, asked, against, names, features)
    noise = assumed.model.with_items() if items else assumed.model
    if shared is not None and named.item_column is None and not noise.shares_items:
        raise InputError("--shared goes with --items or --item-column.")
    with _refined() as progress:
        found = planned(
            goal,
            arms=names,
            noise=noise,
            delta=delta,
            policy=None if policy is None else from_spec("policy", policy, trusted=True),
            max_round=max_round,
            min_per_arm=min_per_arm,
            budget=budget,
            round=round_,
            split=split,
            columns=named.columns,
            around=around,
            leads=leads,
            means=means,
            scenario=scenario,
            target=target,
            sample_cost=sample_cost,
            batch_cost=batch_cost,
            batch_days=batch_days,
            missing=missing,
            deviation=None if deviation is None else parse_quantity(deviation, "--deviation"),
            shared=SHARED if shared is None else shared,
            power=power,
            runs=runs,
            seed=seed,
            name=name,
            progress=progress,
        )
    if out is not None:
        _write(found, out)
    if as_json:
        print_json(found.plain())
        return
    next_ = "run that command, or change a number here; nothing was recorded."
    if out is not None and out.suffix.lower() == ".json":
        next_ = f"`roundwise new {quote(name)} --from-plan {quote(str(out))}` creates it."
    written = "" if out is None else f"The plan is in {out}.\n"
    say(f"{found.text()}\n{written}Next: {next_}")


def _write(found: StudyPlan, out: Path) -> None:
    kind = out.suffix.lower()
    if kind == ".pdf":
        from roundwise.report.export import print_pdf

        write_file(out, print_pdf(found.html()))
        return
    forms = {".json": found.json, ".html": found.html, ".svg": found.figure}
    write_file(out, forms.get(kind, found.text)() + "\n")


def _from_here(
    study: str, storage: str | None, runs: int, seed: int, prices: tuple[str | None, str, str | None], as_json: bool
) -> None:
    from roundwise.planning import replan
    from roundwise.planning.quantities import costs_of
    from roundwise.study import load_study

    with load_study(study, storage) as loaded:
        state = loaded.state
        found = replan(state, runs=runs, seed=seed, costs=costs_of(*prices, state.settings.arms))
    if as_json:
        print_json(found.plain())
    else:
        say(found.text())


@contextmanager
def _refined() -> Iterator[Progress | None]:
    """On a terminal, the table as it gets better; the final one stays."""
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
