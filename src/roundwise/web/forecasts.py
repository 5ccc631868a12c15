"""Forecasts as one types: the first numbers at once, then finer ones; what is out of date is given up."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from roundwise.errors import InputError, said
from roundwise.planning import StudyPlan, plan
from roundwise.web.forms import Form

FINE = 400  # runs of each row, once nobody types any more
MOST = 100  # plans that are kept
ARMS = 200  # options up to which a forecast is made while one waits


class OutOfDateError(Exception):
    """Somebody has typed on: nobody waits for this forecast any more."""


class Forecasts:
    """Plans by what was asked, and the last question of each browser."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Form, bool], StudyPlan] = OrderedDict()
        self._asked: OrderedDict[str, object] = OrderedDict()
        self._lock = threading.Lock()
        self._working = threading.Semaphore(2)

    def made(self, form: Form, who: str, quick: bool) -> StudyPlan:
        """The plan of a form; an `OutOfDateError` once the same browser has asked for another."""
        words = form.plan()
        if len(words["arms"]) > ARMS:
            use = said("`plan`", "`roundwise plan`")
            raise InputError(f"There are more than {ARMS} options: a forecast takes minutes. Use {use}.")
        key, mine = (form, quick), object()
        with self._lock:
            if key in self._kept:
                return self._kept[key]
            self._asked[who] = mine
            self._asked.move_to_end(who)
            while len(self._asked) > MOST:
                self._asked.popitem(last=False)

        def still_wanted(*_: Any) -> None:
            if self._asked.get(who) is not mine:
                raise OutOfDateError

        with self._working:
            still_wanted()
            found = plan(words.pop("question"), **words, runs=FINE, quick=quick, progress=still_wanted)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return found
