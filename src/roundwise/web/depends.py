"""What the functions of the API depend on: a role, and the name of a study in its address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from pydantic import AfterValidator

from roundwise.web.names import decoded
from roundwise.web.roles import check
from roundwise.web.security import ROLES

Name = Annotated[str, AfterValidator(decoded)]  # of a study


def allowed(role: str) -> Callable[[Request], Awaitable[None]]:
    """A dependency: the request must have this role at least."""

    async def checked(request: Request) -> None:
        check(request, role)

    return checked


LOOK, HAND_IN, CHANGE = (Depends(allowed(role)) for role in ROLES)
