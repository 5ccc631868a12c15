"""Who may do what: tokens and roles, sessions, and the checks that every request passes before anything else.

On the loopback address everybody at this machine may do everything; any other address needs a token. A browser trades
its token for a session cookie; a program sends it as `Authorization: Bearer`. What a request may change is guarded
against other sites (Host, Origin, Sec-Fetch-Site, and a form's own secret).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roundwise.errors import InputError
from roundwise.web.problems import problem

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


def tokens_from(text: str) -> dict[str, str]:
    """Tokens by role from lines or commas: `look=..., hand in=..., change=...`."""
    found: dict[str, str] = {}
    for line in text.replace(",", "\n").splitlines():
        role, separator, token = (each.strip() for each in line.partition("="))
        if not role or role.startswith("#"):
            continue
        if not separator or role not in ROLES:
            raise InputError(f"A token is given as ROLE=TOKEN with a role of {', '.join(ROLES)}; one line is not.")
        if len(token) < 16:
            raise InputError(f"The token of the role '{role}' is too short: give at least 16 letters.")
        found[role] = token
    return found


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
    return Doors(found, frozenset({*own, shown.lower(), *(each.lower() for each in names)}))


@dataclass
class Doors:
    """Who may come in: tokens by role (none: everybody at this machine), and the sessions of browsers."""

    tokens: Mapping[str, str]
    hosts: frozenset[str]  # names under which the server is reached
    most: int = 32 * 2**20  # bytes of a request
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    sessions: dict[str, str] = field(default_factory=dict, repr=False)  # digest of a session -> role

    def role_of(self, token: str) -> str | None:
        """The highest role that a token opens; every token is compared, in the same time whatever it is."""
        found = None
        for role in ROLES:
            known = self.tokens.get(role)
            if known is not None and hmac.compare_digest(known.encode(), token.encode()):
                found = role
        return found

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

    def form_secret(self, key: str) -> str:
        """What a form of this session must send back."""
        return hmac.new(self.secret, key.encode(), hashlib.sha256).hexdigest()

    def key_of(self, headers: Headers) -> str:
        """The session that a browser sent, or an empty text."""
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return ""
        return morsel.value if morsel is not None else ""

    def who(self, headers: Headers) -> str | None:
        """The role of a request."""
        bearer = headers.get("authorization", "")
        if bearer.lower().startswith("bearer "):
            return self.role_of(bearer[7:].strip())
        if not self.tokens:
            return ROLES[-1]
        key = self.key_of(headers)
        return self.sessions.get(_digest(key)) if key else None


class Guard:
    """ASGI middleware: host, size, origin, role, headers."""

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

        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, guarded)
            return
        scope.setdefault("state", {})["role"] = self.doors.who(headers)
        await self.app(scope, _limited(receive, self.doors.most), guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if _name(host) not in self.doors.hosts:
            return problem(421, "This server does not answer under that name. Start it with --host NAME.")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self.doors.most:
            return problem(413, f"The request is larger than {self.doors.most // 2**20} MB. Send less at once.")
        if scope["method"] not in SAFE:
            origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
            if site not in ("same-origin", "none") or (origin is not None and origin.partition("://")[2] != host):
                return problem(403, "The request comes from another site, and was refused. Open the page itself.")
        path = scope["path"]
        if self.doors.who(headers) is None and not path.startswith(OPEN):
            if path.startswith("/api/"):
                return problem(401, "Send a token: `Authorization: Bearer TOKEN`.")
            return RedirectResponse("/login", status_code=303)
        return None


def _limited(receive: Receive, most: int) -> Receive:
    """What is received, cut off where more comes than was announced."""
    total = 0

    async def counted() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > most:
            return {"type": "http.disconnect"}
        return message

    return counted


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
