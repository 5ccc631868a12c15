"""Links with which anyone can read the report of one study: each has a random secret, kept with the study.

It lies in the store, so that all servers of a store know it, and goes with the study: one of the same name that comes
later has no link until somebody makes one. It is no part of the record, which others may be given.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request

from roundwise.store import open_store
from roundwise.study import Study, load_study
from roundwise.web.names import segment

if TYPE_CHECKING:
    from roundwise.store.database import Store


def link_of(study: Study) -> str:
    """The address of the link to a study, or an empty text where there is none."""
    secret = _store(study).link(study.name)
    return "" if secret is None else f"/shared/{segment(study.name)}/{secret}"


def make_link(study: Study) -> None:
    """Make a link to a study, unless there is one."""
    _store(study).make_link(study.name)


def withdraw_link(study: Study) -> None:
    """Let the link open nothing from here on."""
    _store(study).withdraw_link(study.name)


def study_for(request: Request, name: str, secret: str) -> Study:
    """The study of a link; a wrong secret and a study that is not there look the same."""
    storage = request.app.state.storage
    with open_store(storage, create=False) as store:
        known = cast("Store", store).link(name)
    if known is None or not hmac.compare_digest(secret.encode(), known.encode()):
        raise HTTPException(404, "This link does not open anything: it is wrong, or it was withdrawn.")
    return load_study(name, storage)


def _store(study: Study) -> Store:
    return cast("Store", study.store)  # no server serves the studies of another one
