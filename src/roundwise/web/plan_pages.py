"""The planner: the form of a new study and its forecast, quick while the form is filled in, then with more runs."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from typing import NamedTuple

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from roundwise.deadline import CancelledError, Deadline, OverBudgetError, held
from roundwise.errors import InputError, RoundwiseError
from roundwise.messages import Remedy
from roundwise.planning import StudyPlan
from roundwise.planning.forecast import exact, plural, share, whole
from roundwise.planning.planner import plan_request
from roundwise.planning.render import describe_fixed_design, power_table
from roundwise.planning.tradeoff import policy_words
from roundwise.render.terminal import Table
from roundwise.study.study import create_from_spec
from roundwise.web.forms import EMPTY, QUESTIONS, RESULTS, SPLITS, UNITS, Form
from roundwise.web.rendering import page, texts
from roundwise.web.reports import attach_file
from roundwise.web.routing import Pages, address_of
from roundwise.web.security import MANAGE, VIEW
from roundwise.web.workers import FORECAST, TYPING

FINE = 400  # runs of each row in the final forecast
MOST = 100  # plans in the cache
ARMS = 200  # options, at most, of a forecast on the page


class Forecasts:
    """A cache of plans; a new request of a browser cancels the work on its previous one."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Form, bool], StudyPlan] = OrderedDict()
        self._asked: OrderedDict[str, Deadline] = OrderedDict()
        self._lock = threading.Lock()
        self._working = threading.Semaphore(2)

    def forecast(self, form: Form, who: str, quick: bool) -> StudyPlan:
        """The plan of a form; raises `CancelledError` once the same browser asks for another plan or disconnects."""
        if len(form.names) > ARMS:
            raise InputError(f"There are more than {ARMS} options: a forecast takes minutes.", Remedy("Use {@plan}."))
        wanted = form.request(FINE)
        key, mine = (form, quick), Deadline(FORECAST)
        with self._lock:
            if key in self._kept:
                return self._kept[key]
            before = self._asked.pop(who, None)
            self._asked[who] = mine
            while len(self._asked) > MOST:
                self._asked.popitem(last=False)
        if before is not None:
            before.cancelled.set()
        with mine.applied(), held(self._working):
            found = plan_request(wanted, quick)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return found


router = Pages()
EXAMPLE = Form(
    name="checkout",
    arms="Control\nShort form\nBig button\nGuest checkout",
    round="2 000",
    budget="20 000",
    baseline="30 %",
    days="1",
)


class ResultsBar(NamedTuple):
    """A number of results as a bar."""

    label: str
    filled: float  # of 100
    words: str


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


@router.post("/plan/forecast", VIEW, by=TYPING)
def forecast(request: Request, sent: FormData) -> Response:
    """The forecast, a part of the page: first quick, then again with more runs."""
    given = texts(sent)
    form, quick = Form.of(given | {"policy": ""}), given.get("fine") != "1"
    forecasts: Forecasts = request.app.state.forecasts
    if len(form.names) < 2:
        return page(request, "forecast.html", plan=None, hint="Give at least two options to see what it will take.")
    try:
        found = forecasts.forecast(form, request.app.state.access.key_of(request.headers), quick)
    except CancelledError:
        return Response(status_code=204)
    except OverBudgetError as error:
        return page(request, "forecast.html", plan=None, hint="", error=f"{error} Ask for fewer options.")
    except RoundwiseError as error:
        return page(request, "forecast.html", plan=None, hint="", error=str(error))
    return page(
        request,
        "forecast.html",
        plan=found,
        rows=_forecast_table(found),
        words=found.words,
        alternatives=[each.words for each in found.alternatives],
        power=power_table(found) if found.rows[0].claims else [],
        fixed=describe_fixed_design(found.row),
        bars=_results_bars(found),
        policy=policy_words(found.request.policy),
        quick=quick,
    )


@router.post("/plan/save", VIEW, by=TYPING)
def save(request: Request, sent: FormData) -> Response:
    """The plan as a file: a page, or JSON that `roundwise new --from-plan` reads."""
    given = texts(sent)
    form = Form.of(given | {"policy": ""})
    forecasts: Forecasts = request.app.state.forecasts
    found = forecasts.forecast(form, request.app.state.access.key_of(request.headers), False)
    if given.get("as") == "json":
        return attach_file(found.json(), f"plan of {form.name}", "json")
    return attach_file(found.html(), f"plan of {form.name}", "html")


def _form(request: Request, title: str, form: Form | None = None, error: str = "") -> Response:
    given = Form.of(dict(request.query_params)) if request.query_params else EXAMPLE
    choices = {"questions": QUESTIONS, "results": RESULTS, "splits": SPLITS, "empties": EMPTY, "units": UNITS}
    return page(request, "new.html", 422 if error else 200, title=title, form=form or given, error=error, **choices)


def _results_bars(plan: StudyPlan) -> list[ResultsBar]:
    """The results that the target row takes, beside a fixed design and the budget."""
    row, budget = plan.row, plan.request.budget
    values = {"typically": row.samples.typical, "in 19 of 20 studies": row.samples.p95}
    values |= {} if row.fixed is None else {"a fixed design": row.fixed.samples}
    words = {label: whole(value) for label, value in values.items()}
    if budget is not None:
        values["your budget"], words["your budget"] = budget, exact(budget)
    finite = {label: value for label, value in values.items() if math.isfinite(value)}
    most = max(finite.values(), default=0.0)
    return [
        ResultsBar(label, round(100 * value / most, 1), words[label]) for label, value in finite.items() if most > 0
    ]


def _forecast_table(plan: StudyPlan) -> Table:
    """What the study takes, a row for each scenario."""
    budget, first = plan.request.budget, plan.rows[0]
    ahead = "if the best is ahead by" if first.expected.lead is not None else "if"
    table = [[ahead, "typically", "in 19 of 20 studies"]]
    if budget is not None:
        table[0].append(f"{'a true claim' if first.claims else 'an answer'} within {exact(budget)}")
    for row in plan.rows:
        days = (None, None) if row.days is None else (row.days.typical, row.days.p95)
        typical = _takes(row.samples.typical, row.rounds.typical, days[0])
        cells = [typical, _takes(row.samples.p95, row.rounds.p95, days[1])]
        if not row.answerable:
            cells = [
                other if each == NO_END else each for each, other in zip(cells, ("never decides", ""), strict=True)
            ]
        table.append([row.expected.label, *cells, *([] if row.within_budget is None else [share(row.within_budget)])])
    return table


NO_END = "no end"


def _takes(results: float, rounds: float, days: float | None) -> str:
    """Results, and below them the days, or else the rounds."""
    if not math.isfinite(results):
        return NO_END
    number, unit = (rounds, "round") if days is None else (days, "day")
    return f"{whole(results)}\n{plural(number, unit)}"
