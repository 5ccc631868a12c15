"""The page of a study, what is loaded into it later, its report and its record."""

from __future__ import annotations

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from roundwise.arrays import Plain
from roundwise.messages import day
from roundwise.render.svg import escape
from roundwise.report.export import render_csv
from roundwise.report.model import list_events
from roundwise.store.remote import segment
from roundwise.study import Study
from roundwise.web.rendering import ENVIRONMENT, page, respond, texts
from roundwise.web.reports import FORMATS, attach_file, reports_of
from roundwise.web.routing import Pages, address_of
from roundwise.web.security import UPLOAD, VIEW, link_of, link_store, linked_study, study_of
from roundwise.web.views import StudyView, next_round
from roundwise.web.workers import SLOW

router = Pages()


@router.get("/studies/{name}", VIEW)
def study(request: Request, name: str) -> Response:
    """A study."""
    with study_of(request, name) as found:

        def render(basics: Plain) -> str:
            report, bounded = reports_of(request).best_available(found)

            def text() -> str:
                view = StudyView(found.state, report, bounded)
                given = {"view": view, "study": name, "at": address_of(name), "digest": report.digest}
                return ENVIRONMENT.get_template("study.html").render(basics | given)

            return reports_of(request).page(str(report.digest), (bounded, basics["role"], basics["me"]), text)

        return respond(request, render)


@router.get("/studies/{name}/stands", VIEW, by=SLOW)
def stands(request: Request, name: str) -> Response:
    """Where it stands, with intervals: a part of the page."""
    with study_of(request, name) as found:
        view = _view(request, found, forecast=False)
    return page(request, "stands.html", view=view, study=name, at=address_of(name))


@router.get("/studies/{name}/forecast", VIEW, by=SLOW)
def forecast(request: Request, name: str) -> Response:
    """What it will still take: a part of the page."""
    with study_of(request, name) as found:
        line = reports_of(request).forecast(found)
    return HTMLResponse(escape(line) or "no forecast yet")


@router.post("/studies/{name}/ask", UPLOAD)
def ask(request: Request, name: str, sent: FormData) -> Response:
    """Begin the next round."""
    with study_of(request, name) as found:
        found.ask()
    return RedirectResponse(address_of(name), status_code=303)


@router.get("/studies/{name}/next.csv", VIEW)
def next_csv(request: Request, name: str) -> Response:
    """The next round as a table."""
    with study_of(request, name) as found:
        round_ = next_round(found.state)
    if round_ is None:
        raise HTTPException(404, "Nothing more is asked for in this study.")
    text = render_csv(("arm", "share", "results", "remaining"), [tuple(each) for each in round_.rows])
    return attach_file(text, f"{name} round {round_.number}", "csv")


@router.get("/studies/{name}/report", VIEW, by=SLOW)
def report(request: Request, name: str) -> Response:
    """The report, its summary first."""
    with study_of(request, name) as found:
        view = _view(request, found)
        link = link_of(found)
    forms = {form: f"{address_of(name)}/report.{form}" for form in FORMATS}
    return page(
        request, "report.html", view=view, study=name, at=address_of(name), link=link, forms=forms, shared=False
    )


@router.post("/studies/{name}/link", UPLOAD)
def share(request: Request, name: str, sent: FormData) -> Response:
    """Make a link to the report, unless there is one; or withdraw it."""
    with study_of(request, name) as found:
        if texts(sent).get("what") == "withdraw":
            link_store(found).withdraw_link(name)
        else:
            link_store(found).make_link(name)
    return RedirectResponse(f"{address_of(name)}/report#share-title", status_code=303)


@router.get("/studies/{name}/report.{form}", VIEW, by=SLOW)
def report_file(request: Request, name: str, form: str) -> Response:
    """The report as a file."""
    return _report_file(request, name, form)


@router.get("/studies/{name}/record", VIEW)
def record(request: Request, name: str) -> Response:
    """Every entry of the record."""
    with study_of(request, name) as found:
        events = list_events(found.entries())
    rows = [(each, day(each.at)) for each in reversed(events)]
    return page(request, "record.html", rows=rows, study=name, at=address_of(name))


@router.get("/studies/{name}/verify", VIEW, by=SLOW)
def verify(request: Request, name: str) -> Response:
    """Everything computed again: a part of the page of the record."""
    with study_of(request, name) as found:
        audit = reports_of(request).audit(found)
    return page(request, "verified.html", audit=audit, study=name, at=address_of(name))


@router.get("/shared/{name}/{key}", by=SLOW)
def shared(request: Request, name: str, key: str) -> Response:
    """The report for holders of the link, who can only read it."""
    with linked_study(request, name, key) as found:
        view = _view(request, found)
    forms = {form: f"/shared/{segment(name)}/{segment(key)}/report.{form}" for form in FORMATS}
    return page(request, "report.html", view=view, study=name, at="", link="", forms=forms, shared=True)


@router.get("/shared/{name}/{key}/report.{form}", by=SLOW)
def shared_file(request: Request, name: str, key: str, form: str) -> Response:
    """The report of a link as a file."""
    linked_study(request, name, key).close()
    return _report_file(request, name, form)


def _view(request: Request, study: Study, forecast: bool = True) -> StudyView:
    reports = reports_of(request)

    def make() -> StudyView:
        report = reports.with_forecast(study) if forecast else reports.whole(study)
        return StudyView(study.state, report, True)

    return reports.compute_once(study, ("view", forecast), make)


def _report_file(request: Request, name: str, form: str) -> Response:
    if form not in FORMATS:
        raise HTTPException(404, f"A report is written as {', '.join(FORMATS)}.")
    with study_of(request, name) as found:
        content = reports_of(request).file(found, form, forecast=True)
    return attach_file(content, name, form)
