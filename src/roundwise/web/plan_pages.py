"""A new study: a short form, and beside it what it will take, as one types: first numbers at once, then finer ones."""

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
from roundwise.planning.forecast import Quantiles
from roundwise.planning.planner import plan_request
from roundwise.planning.quantities import exact, share, whole
from roundwise.planning.render import fixed_words, power_table
from roundwise.planning.rows import PlanRow
from roundwise.planning.tradeoff import policy_words
from roundwise.report.claim_table import Table
from roundwise.study.api import create_from_spec
from roundwise.web.forms import QUESTIONS, RESULTS, SPLITS, Form
from roundwise.web.rendering import page, texts
from roundwise.web.reports import attach_file
from roundwise.web.routing import Pages, address_of
from roundwise.web.security import MANAGE, VIEW
from roundwise.web.workers import FORECAST, TYPING

FINE = 400  # runs of each row, once nobody types any more
MOST = 100  # plans that are kept
ARMS = 200  # options up to which a forecast is made while one waits


class Forecasts:
    """Plans by what was asked, and the work on the last question of each browser."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Form, bool], StudyPlan] = OrderedDict()
        self._asked: OrderedDict[str, Deadline] = OrderedDict()
        self._lock = threading.Lock()
        self._working = threading.Semaphore(2)

    def made(self, form: Form, who: str, quick: bool) -> StudyPlan:
        """The plan of a form; a `CancelledError` once the same browser has asked for another, or has left."""
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
    """Results that are needed, as a bar."""

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
    """A new study, or the form again with what is wrong."""
    form = Form.of(texts(sent))
    try:
        create_from_spec(form.name.strip(), form.spec(), request.app.state.storage).close()
    except RoundwiseError as error:
        return _form(request, "New study", form, str(error))
    return RedirectResponse(address_of(form.name.strip()), status_code=303)


@router.post("/plan/forecast", VIEW, by=TYPING)
def forecast(request: Request, sent: FormData) -> Response:
    """What it will take: a part of the page; first in a hurry, then again with more runs."""
    given = texts(sent)
    form, quick = Form.of(given | {"policy": ""}), given.get("fine") != "1"
    forecasts: Forecasts = request.app.state.forecasts
    if len(form.names) < 2:
        return page(request, "forecast.html", plan=None, hint="Give at least two options to see what it will take.")
    try:
        found = forecasts.made(form, request.app.state.access.key_of(request.headers), quick)
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
        rows=rows_of(found),
        words=found.words,
        alternatives=[each.words for each in found.alternatives],
        power=power_table(found) if found.rows[0].claims else [],
        fixed="" if found.row.fixed is None else fixed_words(found.row),
        bars=compared(found),
        policy=policy_words(found.request.policy),
        quick=quick,
    )


@router.post("/plan/save", VIEW, by=TYPING)
def save(request: Request, sent: FormData) -> Response:
    """The plan as a file to keep: a page, or JSON that `roundwise new --from-plan` reads."""
    given = texts(sent)
    form = Form.of(given | {"policy": ""})
    forecasts: Forecasts = request.app.state.forecasts
    found = forecasts.made(form, request.app.state.access.key_of(request.headers), False)
    if given.get("as") == "json":
        return attach_file(found.json(), f"plan of {form.name}", "json")
    return attach_file(found.html(), f"plan of {form.name}", "html")


def _form(request: Request, title: str, form: Form | None = None, error: str = "") -> Response:
    given = Form.of(dict(request.query_params)) if request.query_params else EXAMPLE
    choices = {"questions": QUESTIONS, "results": RESULTS, "splits": SPLITS}
    return page(request, "new.html", 422 if error else 200, title=title, form=form or given, error=error, **choices)


def compared(plan: StudyPlan) -> list[ResultsBar]:
    """What the row that matters takes, beside a fixed design and what no method can stay below."""
    row = plan.row
    values = [("typically", row.samples.typical), ("in 19 of 20 studies", row.samples.p95)]
    values += [] if row.fixed is None else [("a fixed design", row.fixed.samples)]
    most = max([value for _, value in values if math.isfinite(value)] + [plan.request.budget or 0.0])
    said = {label: whole(value) for label, value in values}
    if plan.request.budget is not None:
        values, said = (
            [*values, ("your budget", plan.request.budget)],
            said | {"your budget": exact(plan.request.budget)},
        )
    return [
        ResultsBar(label, round(100 * value / most, 1), said[label])
        for label, value in values
        if math.isfinite(value) and most > 0
    ]


def rows_of(plan: StudyPlan) -> Table:
    """What it takes, a line for everything that is expected."""
    budget, first = plan.request.budget, plan.rows[0]
    what = "a true claim" if first.claims else "an answer"
    ahead = "if the best is ahead by" if first.expected.lead is not None else "if"
    head = [
        ahead,
        "typically",
        "in 19 of 20 studies",
        *([] if budget is None else [f"{what} within {exact(budget)}"]),
    ]
    rows = []
    for row in plan.rows:
        within = [] if row.within_budget is None else [share(row.within_budget)]
        rows.append([row.expected.label, _takes(row, "typical"), _takes(row, "p95"), *within])
    return [head, *rows]


def _takes(row: PlanRow, which: str) -> str:
    """Results, and below them rounds, or the days that these take."""

    def of(spread: Quantiles) -> float:
        return float(getattr(spread, which))

    results, rounds = of(row.samples), of(row.batches)
    if not math.isfinite(results):
        return "never decides" if not row.answerable and which == "typical" else "" if not row.answerable else "no end"
    days = None if row.days is None else of(row.days)
    below = f"{whole(rounds)} round{'' if rounds == 1 else 's'}"
    if days is not None:
        below = f"{whole(days)} day{'' if days == 1 else 's'}"
    return f"{whole(results)}\n{below}"
