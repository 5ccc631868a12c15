"""Who may do what: tokens and roles, sessions, and the checks that every request passes before anything else.

On the loopback address everybody at this machine may do everything; any other address needs a token. A browser trades
its token for a session cookie; a program sends it as `Authorization: Bearer`. What a request may change is guarded
against other sites (Host, Origin, Sec-Fetch-Site, and a form's own secret).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from anyio import move_on_after
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roundwise.errors import InputError, at_the_shell
from roundwise.web.problems import problem_json

DRAINED = 8  # times the limit: so much of what is too large is let go by
IDLE = 1.0  # seconds to wait for more of it
UNKNOWN = 16 * 2**10  # bytes of a request of somebody whose role is not known, and of all to the pages that need none
FIELDS = 2**20  # bytes of a form without a file: its fields are read one letter at a time
SHORTEST = 16  # letters of a token
EVERYWHERE = ("0.0.0.0", "::")  # addresses that stand for every one of this machine
ROLES = ("look", "hand in", "change")  # each may do what those before it may
COOKIE = "roundwise"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN = ("/static/", "/login", "/shared/", "/health")  # no role is needed to see these
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


def loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def tokens_from(text: str) -> tuple[tuple[str, str], ...]:
    """Roles and tokens from lines or commas: `look=..., hand in=..., change=...`; a role may have several."""
    found: list[tuple[str, str]] = []
    for line in text.replace(",", "\n").splitlines():
        role, separator, token = (each.strip() for each in line.partition("="))
        role = role.replace("-", " ")
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
            raise InputError("One token is given twice. Give each role tokens of its own.")
        found.append((role, token))
    return tuple(found)


def doors_of(host: str, names: Sequence[str], tokens: str) -> Doors:
    """The doors of a server at this address; one that others reach needs tokens."""
    found = tokens_from(tokens)
    if not found and not loopback(host):
        raise InputError(
            f"{host} is reached from other machines, so tokens are needed: put lines such as change=TOKEN into a file "
            "and give --tokens FILE, or set ROUNDWISE_TOKENS. Nothing was started."
        )
    own = {"localhost", "127.0.0.1", "[::1]"} if loopback(host) else set()
    shown = f"[{host}]" if ":" in host else host
    return Doors(found, frozenset({*own, shown.lower(), *(each.lower() for each in names)}), host in EVERYWHERE)


@dataclass
class Doors:
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
        given, found = _digest(token), [-1]
        for role, known in self.tokens:
            found.append(ROLES.index(role) if hmac.compare_digest(_digest(known), given) else -1)
        return None if max(found) < 0 else ROLES[max(found)]

    def answers(self, host: str) -> bool:
        """Whether the server is the one that a Host header names."""
        name = _name(host)
        return name in self.hosts or (self.numbers and _is_number(name))

    def session(self, role: str) -> str:
        """A new session; only its digest is kept."""
        key = secrets.token_urlsafe(32)
        if len(self.sessions) > 10_000:
            self.sessions.pop(next(iter(self.sessions)))
        self.sessions[_digest(key)] = role
        return key

    def forget(self, key: str) -> None:
        """End a session."""
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
        """What a form of this session must send back."""
        return hmac.new(self.secret, key.encode(), hashlib.sha256).hexdigest()

    def key_of(self, headers: Headers) -> str:
        """The session that a browser sent, or an empty text."""
        return cookie(headers, COOKIE)

    def who(self, headers: Headers) -> str | None:
        """The role of a request."""
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
    """ASGI middleware: host, size, origin, role, headers, and in whose words errors are said."""

    def __init__(self, app: ASGIApp, doors: Doors) -> None:
        self.app = app
        self.doors = doors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    sent.setdefault(name, value)
                sent.setdefault("cache-control", "no-store")
            await send(message)

        role = self.doors.who(headers)
        most = self._most(scope["path"], headers, role)
        refusal = self._refusal(scope, headers, role, most)
        if refusal is not None:
            if refusal.status_code == 413 and "expect" not in headers:
                await _drained(receive, most)
            await refusal(scope, receive, guarded)
            return
        scope.setdefault("state", {})["role"] = role
        words = nullcontext() if headers.get("x-roundwise-words") == "python" else at_the_shell()
        with words, self.doors.work(scope["path"]):
            await self.app(scope, receive, guarded)

    def _most(self, path: str, headers: Headers, role: str | None) -> int:
        """How many bytes a request may have."""
        if role is None or path.startswith(OPEN):
            return min(UNKNOWN, self.doors.most)
        form = headers.get("content-type", "").strip().lower().startswith("application/x-www-form-urlencoded")
        return min(FIELDS, self.doors.most) if form else self.doors.most

    def _refusal(self, scope: Scope, headers: Headers, role: str | None, most: int) -> Response | None:
        host, path = headers.get("host", ""), scope["path"]
        if len(headers.getlist("host")) != 1 or not self.doors.answers(host):
            return problem_json(421, "This server does not answer under that name. Start it with --name NAME.")
        if "transfer-encoding" in headers:  # of unknown length; `connections` reads no chunks
            found = problem_json(411, "Say how long the request is (Content-Length); it cannot be sent in chunks.")
            found.headers["connection"] = "close"
            return found
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or len(length) > 15 or int(length) > most:
            return problem_json(413, too_large(most))
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


def too_large(most: int) -> str:
    """What is said of a request that is too large."""
    size = f"{most // 2**20} MB" if most >= 2**20 else f"{most // 2**10} KB"
    return f"The request is larger than {size}. Nothing was changed; send less at once."


async def _drained(receive: Receive, most: int) -> None:
    """Let go by what is too large, within reason: who is cut off while sending never hears why."""
    total = 0
    message: Message
    while total < DRAINED * most:
        message = {}
        with move_on_after(IDLE):
            message = await receive()
        total += len(message.get("body", b""))
        if not message.get("more_body"):  # all of it came, nothing more comes, or nobody is there
            return


def _name(host: str) -> str:
    """The name in a Host header, without its port; empty where it is none."""
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[0-9a-z_.-]+)(:\d{1,5})?", host.lower())
    return "" if found is None else found[1]


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
