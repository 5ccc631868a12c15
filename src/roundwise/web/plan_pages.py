"""The planner: the form of a new study and its forecast, quick while the form is filled in, then with more runs."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import replace

import numpy as np
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from roundwise.deadline import CancelledError, Deadline, OverBudgetError, held
from roundwise.errors import InputError, RoundwiseError
from roundwise.messages import Remedy, number
from roundwise.planning import StudyPlan
from roundwise.planning.forecast import plural, share, whole
from roundwise.planning.planner import plan_request
from roundwise.planning.render import HEADS, describe_fixed_design, plan_parts
from roundwise.planning.tradeoff import policy_words
from roundwise.report.text import Table
from roundwise.study.study import create_from_spec
from roundwise.web.forms import MENUS, METRICS, Form, MetricFields
from roundwise.web.rendering import page, texts
from roundwise.web.reports import attach_file
from roundwise.web.routing import Pages, address_of
from roundwise.web.security import MANAGE, VIEW
from roundwise.web.uploads import on_disk
from roundwise.web.workers import FORECAST, TYPING

FINE = 400  # runs of each row in the final forecast
MOST = 100  # plans in the cache
ARMS = 200  # at most, of a forecast on the page
EXAMPLE = Form(
    name="checkout",
    arms="Control\nShort form\nBig button\nGuest checkout",
    baseline="10 %",
    lead="2 points",
    per_day="4 000",
    budget="28 000",
)
router = Pages()


class Forecasts:
    """A cache of plans; a new request of a browser cancels the work on its previous one."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Form, bool], StudyPlan] = OrderedDict()
        self._asked: OrderedDict[str, Deadline] = OrderedDict()
        self._lock = threading.Lock()
        self._working = threading.Semaphore(2)

    def forecast(self, form: Form, who: str, quick: bool) -> StudyPlan:
        """The plan of a form; raises `CancelledError` once the same browser asks for another plan or disconnects.

        Where finer numbers take longer than a forecast may, the first ones stand.
        """
        if len(form.names) > ARMS:
            raise InputError(f"There are more than {ARMS} arms: a forecast takes minutes.", Remedy("Use {@plan}."))
        wanted = form.request(FINE)
        key, mine = (form, quick), Deadline(FORECAST)
        with self._lock:
            if key in self._kept:
                return self._kept[key]
            if (before := self._asked.pop(who, None)) is not None:
                before.cancelled.set()
            self._asked[who] = mine
            while len(self._asked) > MOST:
                self._asked.popitem(last=False)
        try:
            with mine.applied(), held(self._working):
                found = plan_request(wanted, quick)
        except OverBudgetError:
            if quick or not mine.over:
                raise
            found = self.forecast(form, who, quick=True)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return found


@router.get("/plan", VIEW)
def plan_page(request: Request) -> Response:
    """The planner."""
    return _form(request, "Plan a study")


@router.get("/new", MANAGE)
def new(request: Request) -> Response:
    """The form of a new study."""
    return _form(request, "New study")


@router.post("/new", MANAGE)
def created(request: Request, sent: FormData) -> Response:
    """Create a study, or show the form again with the error."""
    form = Form.of(texts(sent))
    try:
        create_from_spec(form.name.strip(), form.spec(), request.app.state.storage).close()
    except RoundwiseError as error:
        return _form(request, "New study", form, str(error))
    return RedirectResponse(address_of(form.name.strip()), status_code=303)


@router.post("/plan/pilot", VIEW, by=TYPING)
def pilot(request: Request, sent: FormData) -> Response:
    """The form with what a file of past results says of those to come. Nothing is kept of the file."""
    form, file, note = Form.of(texts(sent)), sent.get("past"), ""
    try:
        if not (isinstance(file, UploadFile) and file.filename):
            raise InputError("Choose a file of past results.")
        with on_disk("", [file]) as (source,):
            form, note = form.from_past(source)
    except RoundwiseError as error:
        return _form(request, "Plan a study", form, str(error))
    return _form(request, "Plan a study", form, note=note)


def _form(request: Request, title: str, form: Form | None = None, error: str = "", note: str = "") -> Response:
    given = Form.of(dict(request.query_params)) if request.query_params else EXAMPLE
    shown = form or given
    metrics = [*shown.metrics, *[MetricFields()] * (METRICS - len(shown.metrics))]
    status = 422 if error else 200
    return page(request, "new.html", status, title=title, form=shown, metrics=metrics, error=error, note=note, **MENUS)


@router.post("/plan/forecast", VIEW, by=TYPING)
def forecast(request: Request, sent: FormData) -> Response:
    """The forecast, a part of the page: first quick, then again with more runs."""
    quick = texts(sent).get("fine") != "1"
    form = Form.of(texts(sent))
    if len(form.names) < 2:
        return page(request, "forecast.html", hint="Give at least two arms to see what it will take.")
    try:
        found = _plan(request, form.alone if form.metrics else form, quick)
    except CancelledError:
        return Response(status_code=204)
    except OverBudgetError as error:
        return page(request, "forecast.html", error=f"{error} Ask for fewer arms.")
    except RoundwiseError as error:
        return page(request, "forecast.html", error=str(error))
    parts, (bars_title, bars) = plan_parts(found), _draw_bars(found)
    return page(
        request,
        "forecast.html",
        plan=found,
        rows=_forecast_table(found),
        **{name: parts[name] for name in ("power", "designs", "designs_title")},
        fixed="" if found.compared else describe_fixed_design(found.row),
        policy=policy_words(found.request.policy, found.request),
        planned=form.fingerprint,
        bars_title=bars_title,
        bars=bars,
        quick=quick,
        metrics=1 + len(form.metrics),
    )


@router.post("/plan/save", VIEW, by=TYPING)
def save(request: Request, sent: FormData) -> Response:
    """The plan as a file: a page, or JSON that `roundwise new --from-plan` reads."""
    found, as_json = _plan(request, Form.of(texts(sent)), quick=False), texts(sent).get("as") == "json"
    return attach_file(
        found.json() if as_json else found.html(), f"plan of {found.request.name}", "json" if as_json else "html"
    )


def _plan(request: Request, form: Form, quick: bool) -> StudyPlan:
    forecasts: Forecasts = request.app.state.forecasts
    form = replace(form, policy="", planned="")  # it recommends one
    return forecasts.forecast(form, request.app.state.access.key_of(request.headers), quick)


def _draw_bars(plan: StudyPlan) -> tuple[str, list[tuple[str, str, float]]]:
    """This study and textbook designs: the power of each with the budget, else the results; bars in per cent."""
    row, fixed = plan.row, plan.row.fixed
    if plan.compared:
        what = "A true claim" if row.claims else "An answer"
        return f"{what} within {number(plan.request.budget or 0)}, for {row.expected.given}", [
            (each.name, f"{share(each.power)}, with {whole(each.mean_samples)} results on average", 100 * each.power)
            for each in reversed(plan.compared)
        ]
    if fixed is None or plan.request.budget is not None or not math.isfinite(row.samples.p95):
        return "", []
    typical, late = row.samples.typical, row.samples.p95
    found = [
        ("roundwise", f"typically {whole(typical)}", typical),
        ("roundwise, 19 of 20 studies", f"at most {whole(late)}", late),
        (f"fixed design, {fixed.method}", f"{whole(fixed.samples)}, power {share(fixed.power)}", fixed.samples),
    ]
    most = max(results for *_, results in found)
    bars = [(name, words, 100 * results / most) for name, words, results in found]
    return f"Results, for {row.expected.given}", bars


def _forecast_table(plan: StudyPlan) -> Table:
    """The forecast, one row per scenario: results, and below them days or rounds."""
    budget, first, costs = plan.request.budget, plan.rows[0], plan.request.costs

    def describe(results: float, rounds: float, ends: bool) -> str:
        if not math.isfinite(results):
            return "no end" if ends else "never decides"
        days = float(costs.days_of(np.array(results), np.array(rounds)))
        return f"{whole(results)}\n{plural(days, 'day') if costs.timed else plural(rounds, 'round')}"

    usual = "typically" if budget is None else "on average"
    table = [[HEADS[first.expected.measure] if first.expected.lead is not None else "if", usual, "in 19 of 20 studies"]]
    if budget is not None:
        table[0].insert(1, f"{'a true claim' if first.claims else 'an answer'} within {number(budget)}")
    for row in plan.rows:
        numbers = (row.samples.typical, row.rounds.typical) if budget is None else (row.mean_samples, row.mean_rounds)
        cells = [describe(*numbers, row.ends), describe(row.samples.p95, row.rounds.p95, row.ends)]
        table.append(
            [row.expected.both_leads, *([] if row.within_budget is None else [share(row.within_budget)]), *cells]
        )
    return table
