"""The lab: an instance, policies, runs; how far they are; what came out."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import NamedTuple

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from roundwise.errors import RoundwiseError
from roundwise.policies import POLICIES
from roundwise.simulation.summary import Summary
from roundwise.studies.report.files import csv_text
from roundwise.studies.report.text import Table
from roundwise.studies.words import count
from roundwise.web.files import attached
from roundwise.web.forms import QUESTIONS, whole
from roundwise.web.jobs import Job, Jobs
from roundwise.web.lab import WORLDS, Found, LabForm, paper_job
from roundwise.web.lab_charts import boxes, front
from roundwise.web.rendering import page, texts
from roundwise.web.roles import HAND_IN, LOOK
from roundwise.web.routes import Pages
from roundwise.web.said import on_the_page

router = Pages()


class Part(NamedTuple):
    """What is shown of the policies on one instance."""

    title: str
    truth: str
    table: Table
    samples: str  # charts, as SVG
    batches: str
    front: str
    bound: str
    doubts: list[str]


@router.get("/lab", LOOK)
def lab(request: Request) -> Response:
    """The form of the lab, and what was run."""
    return _form(request, LabForm())


@router.post("/lab", HAND_IN)
def start(request: Request, sent: FormData) -> Response:
    """Run policies on an instance."""
    known = {each.name for each in fields(LabForm)} - {"policies"}
    given = {key: value for key, value in texts(sent).items() if key in known}
    chosen = tuple(str(each) for each in sent.getlist("policies"))
    form = LabForm(**given, policies=chosen)
    try:
        key = _jobs(request).start(form.job())
    except RoundwiseError as error:
        return _form(request, form, on_the_page(str(error)))
    return RedirectResponse(f"/lab/{key}", status_code=303)


@router.post("/lab/paper", HAND_IN)
def start_paper(request: Request, sent: FormData) -> Response:
    """Run the paper's experiments."""
    try:
        key = _jobs(request).start(paper_job(whole("Runs", texts(sent).get("runs", ""))))
    except RoundwiseError as error:
        return _form(request, LabForm(), on_the_page(str(error)))
    return RedirectResponse(f"/lab/{key}", status_code=303)


@router.get("/lab/{key}", LOOK)
def job(request: Request, key: str) -> Response:
    """A job: how far it is, or what came out."""
    found = replace(_job(request, key))  # as it is now: it may end while the page is made
    part = "job_state.html" if request.headers.get("hx-request") else "job.html"
    shown = _parts(found.result) if found.result is not None else []
    claims = found.result.claims if found.result is not None else []
    return page(request, part, job=found, parts=shown, claims=claims)


@router.post("/lab/{key}/cancel", HAND_IN)
def cancel(request: Request, key: str, sent: FormData) -> Response:
    """Give a job up."""
    _job(request, key).unwanted.set()
    return RedirectResponse(f"/lab/{key}", status_code=303)


@router.get("/lab/{key}/runs.csv", LOOK)
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
    return attached(csv_text(heads, rows), "runs", "csv")


def _jobs(request: Request) -> Jobs[Found]:
    found: Jobs[Found] = request.app.state.jobs
    return found


def _job(request: Request, key: str) -> Job[Found]:
    found = _jobs(request).get(key)
    if found is None:
        raise HTTPException(404, "These runs are not here any more. Start them again.")
    return found


def _form(request: Request, form: LabForm, error: str = "") -> Response:
    given = {"policies": list(POLICIES), "questions": QUESTIONS, "worlds": WORLDS, "jobs": _jobs(request).every}
    return page(request, "lab.html", 422 if error else 200, form=form, error=error, **given)


def _parts(found: Found) -> list[Part]:
    return [
        Part(
            each.title,
            each.truth,
            _table(each.summaries),
            boxes(each.runs, "samples"),
            boxes(each.runs, "batches"),
            front(each.summaries) if len(each.summaries) > 1 else "",
            _bound(each.summaries[0]),
            [f"{one.policy}: {one.doubt}." for one in each.summaries if one.doubt],
        )
        for each in found.compared
    ]


def _table(summaries: list[Summary]) -> Table:
    undecided = any(each.undecided for each in summaries)
    head = ["policy", "samples", "± se", "batches", "errors", "at most (95 %)", *(["undecided"] if undecided else [])]
    rows = [
        [
            each.policy + (" *" if each.doubt else ""),
            count(each.samples_mean),
            count(each.samples_se),
            f"{each.batches_mean:.1f}",
            f"{100 * each.error:.3g} %",
            f"{100 * each.error_upper_95:.3g} %",
            *([f"{100 * each.undecided:.3g} %"] if undecided else []),
        ]
        for each in summaries
    ]
    return [head, *rows]


def _bound(summary: Summary) -> str:
    if summary.true_shown_mean is not None or summary.lower_bound != summary.lower_bound:
        return ""
    return f"No method with such an error can need fewer than {count(summary.lower_bound)} samples on average."
