"""Who may do what and under which name: tokens, roles, sessions, shared links, and the checks of every request.

On the loopback address every user of this machine may do everything; any other address needs a token. A browser trades
its token for a session cookie; a program sends it as `Authorization: Bearer`. Requests that change something are
protected against other sites (Host, Origin, Sec-Fetch-Site, and a secret in each form).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast
from urllib.parse import quote, unquote

from anyio import move_on_after
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roundwise.errors import InputError
from roundwise.messages import Surface, rendering_for
from roundwise.store import open_store
from roundwise.store.log import current_user, written_by
from roundwise.store.remote import segment
from roundwise.study import Study, load_study
from roundwise.web.problems import problem_json

if TYPE_CHECKING:
    from roundwise.store.database import Store

DRAINED = 8  # times the limit: bytes of a body that is too large which are read and dropped
IDLE = 1.0  # seconds to wait for more of it
UNKNOWN = 16 * 2**10  # bytes of a request without a role, and of any request to a page that needs none
FIELDS = 2**20  # bytes of a form without a file: its fields are read one letter at a time
SHORTEST = 16  # letters of a token
KEY_LENGTH = 200  # letters of an idempotency key
NAME_LENGTH = 60  # letters of a person's name
EVERYWHERE = ("0.0.0.0", "::")  # addresses that stand for every address of this machine
ROLES = VIEW, UPLOAD, MANAGE = ("view", "upload", "manage")  # each includes those before it
COOKIE, NAME_COOKIE = "roundwise", "roundwise-name"
NAME_HEADER = "x-roundwise-user"  # for programs
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN = ("/static/", "/login", "/shared/", "/health")  # these need no role
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    number = _parse_ip(host)
    return host == "localhost" or (number is not None and number.is_loopback)


def _parse_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def parse_tokens(text: str) -> tuple[tuple[str, str], ...]:
    """Read roles and tokens, one `ROLE=TOKEN` a line or between commas; a role may have several tokens."""
    found: list[tuple[str, str]] = []
    for line in text.replace(",", "\n").splitlines():
        role, separator, token = (each.strip() for each in line.partition("="))
        if not role or role.startswith("#"):
            continue
        if not separator or role not in ROLES:
            raise InputError(f"A token is given as ROLE=TOKEN with a role of {', '.join(ROLES)}; one line is not.")
        if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
            raise InputError(
                f"A token of the role '{role}' is too short or has odd letters: give at least {SHORTEST} letters and "
                "digits, such as `python -c 'import secrets; print(secrets.token_urlsafe())'` draws."
            )
        if token in (each for _, each in found):
            raise InputError("One token is given twice. Give each role its own tokens.")
        found.append((role, token))
    return tuple(found)


def build_access(host: str, names: Sequence[str], tokens: str) -> AccessControl:
    """The access of a server at this address; one that others reach needs tokens."""
    found = parse_tokens(tokens)
    if not found and not is_loopback(host):
        raise InputError(
            f"{host} is reached from other machines, so tokens are needed: put lines such as manage=TOKEN into a file "
            "and give --tokens FILE, or set ROUNDWISE_TOKENS. Nothing was started."
        )
    own = {"localhost", "127.0.0.1", "[::1]"} if is_loopback(host) else set()
    shown = f"[{host}]" if ":" in host else host
    return AccessControl(found, frozenset({*own, shown.lower(), *(each.lower() for each in names)}), host in EVERYWHERE)


@dataclass
class AccessControl:
    """Who may come in: tokens and their roles (none: everybody at this machine), and the sessions of browsers."""

    tokens: tuple[tuple[str, str], ...] = field(repr=False)  # roles and tokens
    hosts: frozenset[str]  # names under which the server is reached
    numbers: bool = False  # whether it is also reached under any number: no name that somebody else gives leads to one
    most: int = 32 * 2**20  # bytes of a request
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    sessions: dict[str, str] = field(default_factory=dict, repr=False)  # digest of a session -> role
    busy: int = 0  # requests that are being answered, but for those that listen to what changes
    answered: float = field(default_factory=time.monotonic)  # when the last was answered

    def role_of(self, token: str) -> str | None:
        """The highest role that a token opens; every token is compared, in the same time whatever it is."""
        given = _digest(token)
        found = [role for role, known in self.tokens if hmac.compare_digest(_digest(known), given)]
        return max(found, key=ROLES.index, default=None)

    def answers(self, host: str) -> bool:
        """Whether a Host header names this server."""
        found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[0-9a-z_.-]+)(:\d{1,5})?", host.lower())
        return found is not None and (found[1] in self.hosts or (self.numbers and _parse_ip(found[1]) is not None))

    def session(self, role: str) -> str:
        """A new session; only its digest is kept."""
        key = secrets.token_urlsafe(32)
        if len(self.sessions) > 10_000:
            self.sessions.pop(next(iter(self.sessions)))
        self.sessions[_digest(key)] = role
        return key

    def forget(self, key: str) -> None:
        self.sessions.pop(_digest(key), None)

    @contextmanager
    def work(self, path: str) -> Iterator[None]:
        """While a request is answered."""
        counts = not path.endswith("/events")
        self.busy += counts
        try:
            yield
        finally:
            self.busy -= counts
            self.answered = time.monotonic()

    def quiet(self) -> float:
        """For how many seconds there has been nothing to answer."""
        return 0.0 if self.busy else time.monotonic() - self.answered

    def form_secret(self, key: str) -> str:
        """The CSRF token of this session's forms."""
        return hmac.new(self.secret, key.encode(), hashlib.sha256).hexdigest()

    def key_of(self, headers: Headers) -> str:
        """The session that a browser sent, or an empty text."""
        return cookie(headers, COOKIE)

    def who(self, headers: Headers) -> str | None:
        if not self.tokens:
            return ROLES[-1]
        bearer = headers.get("authorization", "")
        if bearer.lower().startswith("bearer "):
            return self.role_of(bearer[7:].strip())
        key = self.key_of(headers)
        return self.sessions.get(_digest(key)) if key else None


def cookie(headers: Headers, name: str) -> str:
    """The value of a cookie, or an empty text. `http.cookies` takes quadratic time in several versions of Python."""
    for each in headers.get("cookie", "").split(";"):
        key, _, value = each.partition("=")
        if key.strip() == name:
            return value.strip().strip('"')
    return ""


# every codec of Python would do, also those that take quadratic time
OTHER_CHARSET = re.compile(r"charset(?!=(\"?)utf-?8\1\s*(;|$))", re.IGNORECASE)


class Guard:
    """ASGI middleware: host, size, origin, role, headers, under whose name things are recorded, in which words.

    A path is split before it is decoded, so that a slash in a name does not separate segments: every segment is
    decoded, and then only its per cent signs and slashes are written as %25 and %2F.
    """

    def __init__(self, app: ASGIApp, access: AccessControl) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if b"%" in (raw := scope.get("raw_path") or b""):
            parts = [unquote(each.decode("ascii", "replace")) for each in raw.partition(b"?")[0].split(b"/")]
            scope = {**scope, "path": "/".join(each.replace("%", "%25").replace("/", "%2F") for each in parts)}

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    sent.setdefault(name, value)
                sent.setdefault("cache-control", "no-store")
            await send(message)

        role = self.access.who(headers)
        most = self._most(scope["path"], headers, role)
        refusal = self._refusal(scope, headers, role, most)
        if refusal is not None:
            if refusal.status_code == 413 and "expect" not in headers:
                await _drained(receive, most)
            await refusal(scope, receive, guarded)
            return
        scope.setdefault("state", {})["role"] = role
        asked = headers.get("x-roundwise-surface") if scope["path"].startswith("/api/") else Surface.PAGE
        surface = Surface(asked) if asked in set(Surface) else Surface.API
        author = written_by(author_of(headers, self.access, role))
        with rendering_for(surface), author, self.access.work(scope["path"]):
            await self.app(scope, receive, guarded)

    def _most(self, path: str, headers: Headers, role: str | None) -> int:
        """How many bytes a request may have."""
        if role is None or path.startswith(OPEN):
            return min(UNKNOWN, self.access.most)
        form = headers.get("content-type", "").strip().lower().startswith("application/x-www-form-urlencoded")
        return min(FIELDS, self.access.most) if form else self.access.most

    def _refusal(self, scope: Scope, headers: Headers, role: str | None, most: int) -> Response | None:
        host, path = headers.get("host", ""), scope["path"]
        if len(headers.getlist("host")) != 1 or not self.access.answers(host):
            return problem_json(421, "This server does not answer under that name. Start it with --name NAME.")
        if "transfer-encoding" in headers:  # of unknown length; `connections` reads no chunks
            found = problem_json(411, "Say how long the request is (Content-Length); it cannot be sent in chunks.")
            found.headers["connection"] = "close"
            return found
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or len(length) > 15 or int(length) > most:
            size = f"{most // 2**20} MB" if most >= 2**20 else f"{most // 2**10} KB"
            return problem_json(413, f"The request is larger than {size}. Nothing was changed; send less at once.")
        if OTHER_CHARSET.search(headers.get("content-type", "")):
            return problem_json(415, "Send text as UTF-8, and name no other charset. Nothing was changed.")
        if self._from_elsewhere(scope, headers, host):
            return problem_json(403, "The request comes from another site, and was refused. Open the page itself.")
        if role is None and not path.startswith(OPEN):
            if path.startswith("/api/"):
                found = problem_json(401, "Send a token: `Authorization: Bearer TOKEN`.")
                found.headers["www-authenticate"] = "Bearer"
                return found
            return RedirectResponse("/login", status_code=303)
        return None

    def _from_elsewhere(self, scope: Scope, headers: Headers, host: str) -> bool:
        """Whether another site made a browser send this: a change, or anything that is no page."""
        if scope["method"] in SAFE and not scope["path"].startswith("/api/"):
            return False
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        return site not in ("same-origin", "none") or (origin is not None and origin.partition("://")[2] != host)


async def _drained(receive: Receive, most: int) -> None:
    """Let go by what is too large, within reason: who is cut off while sending never hears why."""
    total = 0
    message: Message
    while total < DRAINED * most:
        message = {}
        with move_on_after(IDLE):
            message = await receive()
        total += len(message.get("body", b""))
        if not message.get("more_body"):  # complete, closed, or disconnected
            return


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def check_role(request: Request, role: str | None) -> None:
    """Refuse a request whose role does not include this one."""
    mine = request.state.role
    if role is not None and (mine is None or ROLES.index(mine) < ROLES.index(role)):
        raise HTTPException(403, f"This needs a token that may {role}; yours may {mine or 'do nothing'}.")


def study_of(request: Request, name: str) -> Study:
    """Load a study; it honors the idempotency key and the If-Match header of the request."""
    key, match = request.headers.get("idempotency-key"), request.headers.get("if-match", "*").strip()
    if key is not None and not (1 <= len(key) <= KEY_LENGTH and key.isprintable()):
        raise InputError(
            f"The idempotency key must have 1 to {KEY_LENGTH} printable letters. Draw one for each request."
        )
    study = load_study(name, request.app.state.storage)
    study.key, study.expected = key, None if match == "*" else match.removeprefix("W/").strip('"')
    return study


def clean_name(name: str) -> str:
    """A person's name as it may stand in a record.

    >>> clean_name("  Ada\\n<b>  ")
    'Ada <b>'
    """
    printable = "".join(letter if letter.isprintable() else " " for letter in name)
    return " ".join(printable.split())[:NAME_LENGTH]


def given_name(headers: Headers) -> str:
    """The name that came with a request, or an empty text."""
    return clean_name(unquote(headers.get(NAME_HEADER, "") or cookie(headers, NAME_COOKIE)))


def name_cookie(name: str) -> str:
    """A name as the value of a cookie."""
    return quote(clean_name(name), safe="")


def author_of(headers: Headers, access: AccessControl, role: str | None) -> str:
    """The author in the record: the name, which is not proven, and the role of the token where there are tokens."""
    name = given_name(headers)
    if not access.tokens:
        return name or current_user()
    return f"{name} ({role})" if name else f"token to {role}"


# Links with which anyone reads the report of one study. Each has a random secret in the store, so that all servers of
# a store know it and a new study of the same name has none. It is not part of the record, which may be given to others.


def link_store(study: Study) -> Store:
    """The store that holds the link of a study; no server serves the studies of another one."""
    return cast("Store", study.store)


def link_of(study: Study) -> str:
    """The address of the link to a study, or an empty text."""
    secret = link_store(study).link(study.name)
    return "" if secret is None else f"/shared/{segment(study.name)}/{secret}"


def linked_study(request: Request, name: str, secret: str) -> Study:
    """The study of a link; a wrong secret and an unknown study look the same."""
    storage = request.app.state.storage
    with open_store(storage, create=False) as store:
        known = cast("Store", store).link(name)
    if known is None or not hmac.compare_digest(secret.encode(), known.encode()):
        raise HTTPException(404, "This link does not open anything: it is wrong, or it was withdrawn.")
    return load_study(name, storage)
