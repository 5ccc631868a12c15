"""The page of a study, what is loaded into it later, its report and its record."""

from __future__ import annotations

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from roundwise.arrays import Plain
from roundwise.report.export import csv_text
from roundwise.report.model import events_of
from roundwise.report.wording import day
from roundwise.study import Study
from roundwise.web.auth import HAND_IN, LOOK, study_of
from roundwise.web.links import link_of, make_link, study_for, withdraw_link
from roundwise.web.names import segment
from roundwise.web.rendering import ENVIRONMENT, page, shown, texts
from roundwise.web.reports import KINDS, attached, kept
from roundwise.web.routes import Pages
from roundwise.web.views import StudyView, next_of
from roundwise.web.workers import SLOW

router = Pages()


def address(name: str) -> str:
    """Where the page of a study is."""
    return f"/studies/{segment(name)}"


@router.get("/studies/{name}", LOOK)
def study(request: Request, name: str) -> Response:
    """A study."""
    with study_of(request, name) as found:

        def made(basics: Plain) -> str:
            report, bounded = kept(request).best(found)

            def text() -> str:
                view = StudyView(found.state, report, bounded)
                given = {"view": view, "study": name, "at": address(name), "digest": report.digest}
                return ENVIRONMENT.get_template("study.html").render(basics | given)

            return kept(request).page(str(report.digest), (bounded, basics["role"], basics["me"]), text)

        return shown(request, made)


@router.get("/studies/{name}/stands", LOOK, by=SLOW)
def stands(request: Request, name: str) -> Response:
    """Where it stands, with bounds: a part of the page."""
    with study_of(request, name) as found:
        view = _view(request, found, ahead=False)
    return page(request, "stands.html", view=view, study=name, at=address(name))


@router.get("/studies/{name}/forecast", LOOK, by=SLOW)
def forecast(request: Request, name: str) -> Response:
    """What it will still take: a part of the page."""
    with study_of(request, name) as found:
        line = kept(request).forecast(found)
    return page(request, "line.html", line=line)


@router.post("/studies/{name}/ask", HAND_IN)
def ask(request: Request, name: str, sent: FormData) -> Response:
    """Begin the next round."""
    with study_of(request, name) as found:
        found.ask()
    return RedirectResponse(address(name), status_code=303)


@router.get("/studies/{name}/next.csv", LOOK)
def next_csv(request: Request, name: str) -> Response:
    """The next round as a table."""
    with study_of(request, name) as found:
        round_ = next_of(found.state)
    if round_ is None:
        raise HTTPException(404, "Nothing more is asked for in this study.")
    text = csv_text(("arm", "share", "results", "still_to_come"), [tuple(each) for each in round_.rows])
    return attached(text, f"{name} round {round_.number}", "csv")


@router.get("/studies/{name}/report", LOOK, by=SLOW)
def report(request: Request, name: str) -> Response:
    """The report: the half page for the boss first."""
    with study_of(request, name) as found:
        view = _view(request, found)
        link = link_of(found)
    forms = {form: f"{address(name)}/report.{form}" for form in KINDS}
    return page(request, "report.html", view=view, study=name, at=address(name), link=link, forms=forms, shared=False)


@router.post("/studies/{name}/link", HAND_IN)
def share(request: Request, name: str, sent: FormData) -> Response:
    """Make a link to the report, unless there is one; or withdraw it."""
    with study_of(request, name) as found:
        if texts(sent).get("what") == "withdraw":
            withdraw_link(found)
        else:
            make_link(found)
    return RedirectResponse(f"{address(name)}/report#share-title", status_code=303)


@router.get("/studies/{name}/report.{form}", LOOK, by=SLOW)
def report_file(request: Request, name: str, form: str) -> Response:
    """The report as a file."""
    return _written(request, name, form)


@router.get("/studies/{name}/record", LOOK)
def record(request: Request, name: str) -> Response:
    """Every entry of the record."""
    with study_of(request, name) as found:
        events = events_of(found.entries())
    rows = [(each, day(each.at)) for each in reversed(events)]
    return page(request, "record.html", rows=rows, study=name, at=address(name))


@router.get("/studies/{name}/verify", LOOK, by=SLOW)
def verify(request: Request, name: str) -> Response:
    """Everything computed again: a part of the page of the record."""
    with study_of(request, name) as found:
        audit = kept(request).audit(found)
    return page(request, "verified.html", audit=audit, study=name, at=address(name))


@router.get("/shared/{name}/{key}", by=SLOW)
def shared(request: Request, name: str, key: str) -> Response:
    """The report, for whoever has the link: it can only be read."""
    with study_for(request, name, key) as found:
        view = _view(request, found)
    forms = {form: f"/shared/{segment(name)}/{segment(key)}/report.{form}" for form in KINDS}
    return page(request, "report.html", view=view, study=name, at="", link="", forms=forms, shared=True)


@router.get("/shared/{name}/{key}/report.{form}", by=SLOW)
def shared_file(request: Request, name: str, key: str, form: str) -> Response:
    """The same as a file."""
    study_for(request, name, key).close()
    return _written(request, name, form)


def _view(request: Request, study: Study, ahead: bool = True) -> StudyView:
    """What pages show of a study, with bounds, and with what is still to come where that is said, too."""

    def made() -> StudyView:
        report = kept(request).ahead(study) if ahead else kept(request).whole(study)
        return StudyView(study.state, report, True)

    return kept(request).shared(study, ("view", ahead), made)


def _written(request: Request, name: str, form: str) -> Response:
    if form not in KINDS:
        raise HTTPException(404, f"A report is written as {', '.join(KINDS)}.")
    with study_of(request, name) as found:
        content = kept(request).file(found, form, ahead=True)
    return attached(content, name, form)
