"""The lab: policies on an instance, or the paper's experiments, run as jobs; their progress and results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

import numpy as np
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from roundwise.arrays import Floats, Plain
from roundwise.errors import InputError, RoundwiseError
from roundwise.messages import Remedy, count, option
from roundwise.model.spec import from_spec
from roundwise.policies import POLICIES
from roundwise.render.svg import Axis, Chart, IntervalRow, Svg, draw_intervals, shorten
from roundwise.report.export import render_csv
from roundwise.report.text import Table
from roundwise.simulation.environments import BernoulliArms, Environment, GaussianArms, PoissonArms
from roundwise.simulation.run import simulate
from roundwise.simulation.summary import Runs, Summary
from roundwise.theory import paper
from roundwise.web.forms import DIRECTIONS, QUESTIONS, Form, number, whole
from roundwise.web.jobs import Job
from roundwise.web.rendering import page, texts
from roundwise.web.reports import attach_file
from roundwise.web.routing import Pages
from roundwise.web.security import UPLOAD, VIEW

MOST_RUNS = 5000
MOST_ARMS = 200  # of an instance
MOST_WORK = 200_000  # runs times arms
LETTERS = 10_000  # of all means
WORLDS = {
    "normal": "normal, with this spread",
    "binary": "yes / no: means are rates",
    "poisson": "counts: means are numbers of events",
}


class Comparison(NamedTuple):
    """Policies on one instance, as a page shows them."""

    title: str
    truth: str
    runs: Sequence[Runs]
    table: Table
    bound: str  # the lower bound on samples, in words
    doubts: list[str]  # policies whose guarantee does not cover this instance, and why
    samples: Svg  # box plots
    batches: Svg
    trade_off: Svg


def compare_policies(title: str, truth: str, runs: Sequence[Runs]) -> Comparison:
    """Compare the runs of several policies on one instance."""
    summaries = [each.summary for each in runs]
    undecided = any(each.undecided for each in summaries)
    head = ["policy", "samples", "± se", "batches", "errors", "at most (95 %)"]
    table = [[*head, "undecided"] if undecided else head]
    for each in summaries:
        row = [each.policy + (" *" if each.doubt else ""), count(each.samples_mean), count(each.samples_se)]
        row += [f"{each.batches_mean:.1f}", f"{100 * each.error:.3g} %", f"{100 * each.error_upper_95:.3g} %"]
        table.append([*row, f"{100 * each.undecided:.3g} %"] if undecided else row)
    bound = ""
    if summaries[0].true_shown_mean is None and not np.isnan(least := summaries[0].lower_bound):
        bound = f"No method with such an error can need fewer than {count(least)} samples on average."
        if least == np.inf:
            bound = "No number of samples is enough: with these means no answer, or more than one, is right."
    return Comparison(
        title,
        truth,
        runs,
        table,
        bound,
        [f"{each.policy}: {each.doubt}." for each in summaries if each.doubt],
        _draw_boxes([(each.policy, each.samples) for each in runs], "samples"),
        _draw_boxes([(each.policy, each.batches) for each in runs], "batches"),
        _draw_trade_off(summaries) if len(summaries) > 1 else Svg(),
    )


def _draw_trade_off(summaries: Sequence[Summary]) -> Svg:
    """Mean samples against mean batches; policies that no other beats in both are bold."""
    x = Axis.logarithmic(each.batches_mean for each in summaries)
    y = Axis.logarithmic(each.samples_mean for each in summaries)
    chart = Chart(x, y, height=250.0, left=14.0, top=24.0)
    chart.draw_ticks(lambda tick: f"{tick:g}", count)
    chart.draw_names("batches on average", "samples on average")
    points = [(each.batches_mean, each.samples_mean) for each in summaries]
    for each, point in zip(summaries, points, strict=True):
        beaten = any(other != point and other[0] <= point[0] and other[1] <= point[1] for other in points)
        title = f"{each.policy}: {count(each.samples_mean)} samples in {each.batches_mean:.1f} batches"
        chart.draw_point(*point, "mute" if beaten else "s0", title=title, name=shorten(each.policy, 22))
    return chart.render("Mean samples against mean batches of each policy")


def _draw_boxes(found: list[tuple[str, Floats]], what: str) -> Svg:
    """Box plots: the middle half, the median, and 90 % of the runs."""
    rows = []
    for policy, values in found:
        low, first, median, third, high = (float(q) for q in np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95)))
        title = f"{policy}: median {count(median)}, mean {count(float(values.mean()))}"
        rows.append(IntervalRow(shorten(policy), low, median, high, "s0", (first, third), title))
    axis = Axis.logarithmic(value for row in rows for value in (row.low, row.high))
    label = f"{what} of each policy: the middle half, the median, and 90 % of the runs"
    return draw_intervals(rows, axis, count).render(label)


class LabResult(NamedTuple):
    """The result of a lab job."""

    compared: list[Comparison]
    claims: list[paper.PaperFinding]  # what the paper says, where it was run again


@dataclass(frozen=True)
class LabForm:
    """The fields of the lab's form."""

    question: str = "best-arm"
    direction: str = ""
    k: str = "2"
    level: str = "0.5"
    tolerance: str = ""
    means: str = "1, 0.8, 0.6, 0.5, 0.5"
    world: str = "normal"
    sigma: str = "1"
    delta: str = "5 %"
    runs: str = "200"
    most: str = "1 000 000"
    seed: str = "1"
    policies: tuple[str, ...] = field(default=("wager", "pet", "track-and-stop", "round-robin"))

    @property
    def names(self) -> list[str]:
        return [f"arm {i + 1}" for i in range(len(self.values))]

    @property
    def values(self) -> list[float]:
        if len(self.means) > LETTERS:
            raise InputError(f"The means have {len(self.means)} letters; the page takes at most {LETTERS}.")
        parts = re.split(r"\s*[;,]\s*|\s+(?!%)", self.means.strip())
        return [number("A mean", each) for each in parts if each]

    def environment(self) -> Environment:
        if self.world == "binary":
            return BernoulliArms(self.values)
        if self.world == "poisson":
            return PoissonArms(self.values)
        return GaussianArms(self.values, number("The spread", self.sigma))

    def job(self) -> Job:
        world, count = self.environment(), whole("Runs", self.runs)
        use = option("simulate")
        if count > MOST_RUNS:
            raise InputError(f"{count} runs requested; the page does at most {MOST_RUNS}. Use {use}.")
        if world.arms > MOST_ARMS or world.arms * count > MOST_WORK:
            raise InputError(
                f"{world.arms} means and {count} runs requested; the page does at most {MOST_ARMS} means, and "
                f"{MOST_WORK} means times runs. Use {use}."
            )
        chosen = {name: from_spec("policy", name) for name in self.policies if name in POLICIES}
        if not chosen:
            raise InputError("Choose at least one policy.")
        asked = {name: vars(self)[name] for name in ("question", "k", "level", "tolerance", "direction")}
        question = Form.of(asked | {"arms": "\n".join(self.names)}).asked()
        question.check(world.arms)
        delta, most = number("Delta", self.delta), number("At most samples", self.most)
        seed = whole("Seed", self.seed)
        truth = question.answer_text(question.answer(np.asarray(self.values)), tuple(self.names))

        def work(advance: Callable[[int], None]) -> LabResult:
            options: Plain = {"runs": count, "delta": delta, "seed": seed, "max_samples": most, "progress": advance}
            runs = [simulate(question, world, {name: policy}, **options)[0] for name, policy in chosen.items()]
            title = f"{question.name}, means {self.means.strip()}"
            return LabResult([compare_policies(title, f"{truth}.", runs)], [])

        return Job(f"{question.name}: {', '.join(chosen)}", count * len(chosen), work)


def paper_job(runs: int) -> Job:
    """The job of the paper's experiments."""
    if runs > MOST_RUNS:
        raise InputError(f"{runs} runs requested; the page does at most {MOST_RUNS}.", Remedy("Use {@paper}."))

    def work(advance: Callable[[int], None]) -> LabResult:
        results = paper.reproduced(runs, 1, advance)
        compared = [compare_policies(name, "", list(found.values())) for name, found in results.items()]
        return LabResult(compared, paper.claims(results))

    return Job(f"the paper's experiments, {runs} runs", paper.number_of_runs(runs), work)


router = Pages()


@router.get("/lab", VIEW)
def lab(request: Request) -> Response:
    """The form of the lab, and the list of jobs."""
    return _form(request, LabForm())


@router.post("/lab", UPLOAD)
def start(request: Request, sent: FormData) -> Response:
    """Run policies on an instance."""
    known = {each.name for each in fields(LabForm)} - {"policies"}
    given = {key: value for key, value in texts(sent).items() if key in known}
    form = LabForm(**given, policies=tuple(str(each) for each in sent.getlist("policies")))
    return _start(request, form, form.job)


@router.post("/lab/paper", UPLOAD)
def start_paper(request: Request, sent: FormData) -> Response:
    """Run the paper's experiments."""
    return _start(request, LabForm(), lambda: paper_job(whole("Runs", texts(sent).get("runs", ""))))


def _start(request: Request, form: LabForm, make: Callable[[], Job]) -> Response:
    try:
        key = request.app.state.jobs.start(make())
    except RoundwiseError as error:
        return _form(request, form, str(error))
    return RedirectResponse(f"/lab/{key}", status_code=303)


@router.get("/lab/{key}", VIEW)
def job(request: Request, key: str) -> Response:
    """A job: its progress, or its results."""
    found = replace(_job(request, key))  # as it is now: it may end while the page is made
    part = "job_state.html" if request.headers.get("hx-request") else "job.html"
    result = found.result or LabResult([], [])
    return page(request, part, job=found, parts=result.compared, claims=result.claims)


@router.post("/lab/{key}/cancel", UPLOAD)
def cancel(request: Request, key: str, sent: FormData) -> Response:
    """Cancel a job."""
    _job(request, key).cancelled.set()
    return RedirectResponse(f"/lab/{key}", status_code=303)


@router.get("/lab/{key}/runs.csv", VIEW)
def runs(request: Request, key: str) -> Response:
    """Every run of a job."""
    found = _job(request, key).result
    if found is None:
        raise HTTPException(404, "There are no runs yet.")
    columns = [each.columns() for one in found.compared for each in one.runs]
    heads = ("instance", *(name for name in columns[0] if all(name in each for each in columns)))
    titles = [one.title for one in found.compared for _ in one.runs]
    rows = [
        (title, *values)
        for title, table in zip(titles, columns, strict=True)
        for values in zip(*(table[name].tolist() for name in heads[1:]), strict=True)
    ]
    return attach_file(render_csv(heads, rows), "runs", "csv")


def _job(request: Request, key: str) -> Job:
    found = request.app.state.jobs.get(key)
    if found is None:
        raise HTTPException(404, "These runs are not here any more. Start them again.")
    return found


def _form(request: Request, form: LabForm, error: str = "") -> Response:
    choices = {"policies": list(POLICIES), "questions": QUESTIONS, "directions": DIRECTIONS, "worlds": WORLDS}
    jobs = request.app.state.jobs.every
    return page(request, "lab.html", 422 if error else 200, form=form, error=error, jobs=jobs, **choices)
