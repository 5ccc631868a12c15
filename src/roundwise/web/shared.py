"""Links that let whoever has them read one report, and nothing else."""

from __future__ import annotations

import hashlib
import hmac

from starlette.exceptions import HTTPException
from starlette.requests import Request

from roundwise.studies import Study, load_study
from roundwise.web.security import Doors


def key_for(doors: Doors, name: str) -> str:
    """The key of a link: of the name and the tokens, so that it lasts until they change (or the server ends)."""
    known = "\n".join(sorted(f"{role}={token}" for role, token in doors.tokens))
    secret = hashlib.sha256(known.encode()).digest() if known else doors.secret
    return hmac.new(secret, f"share {name}".encode(), hashlib.sha256).hexdigest()[:40]


def study_for(request: Request, name: str, key: str) -> Study:
    """The study of a link; a wrong key and a study that is not there look the same."""
    doors: Doors = request.app.state.doors
    if not hmac.compare_digest(key.encode(), key_for(doors, name).encode()):
        raise HTTPException(404, "This link does not open anything: it is wrong, or it was withdrawn.")
    return load_study(name, request.app.state.storage)
