"""A server of roundwise (`roundwise serve`) as a client speaks to it: requests, tried again where that is safe, and the
server's sentences as the errors that a local study raises. Nothing but Python's own library."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from roundwise._version import __version__
from roundwise.errors import (
    ConflictError,
    DamagedError,
    DataError,
    InputError,
    RoundwiseError,
    StoreError,
    StudyExistsError,
    StudyStateError,
    UnknownStudyError,
)
from roundwise.messages import Remedy, current_surface
from roundwise.store.log import look, user

if TYPE_CHECKING:
    from http.client import HTTPConnection

PREFIX = "/api/v1"
EXAMPLE = "Write http://host:8000, or https://host."
PATIENCE = 10.0  # seconds until a server must be reached,
LONGEST = 300.0  # and until it must have answered
WAITS = (0.2, 0.5, 1.0, 2.0)  # seconds before each time that a request is tried again
AGAIN = "The request was sent again: perhaps it was carried out the first time."
ERRORS: dict[str, type[RoundwiseError]] = {
    each.__name__: each
    for each in (
        InputError,
        DataError,
        StudyExistsError,
        UnknownStudyError,
        StudyStateError,
        DamagedError,
        StoreError,
        ConflictError,
    )
}


def own_doing(error: RoundwiseError) -> bool:
    """Whether an error may come of a request that was carried out, and sent again because its answer was lost."""
    return AGAIN in getattr(error, "__notes__", ())


class Part(NamedTuple):
    """A field of a form, or a file in it."""

    name: str
    content: bytes
    file: str | None = None
    kind: str = "application/octet-stream"


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    kind: str  # of the content
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Server:
    """Where a server is."""

    scheme: str
    host: str
    port: int | None
    root: str  # a path before the API's, where it is behind another server

    @property
    def place(self) -> str:
        """The address, for messages."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{shown}{'' if self.port is None else f':{self.port}'}{self.root}"

    def get(self, path: str, **query: str | int) -> Answer:
        """Read something."""
        return self._asked("GET", f"{path}?{urlencode(query)}" if query else path, None, {})

    def post(self, path: str, body: Any, key: str | None = None, expected: str | None = None) -> Any:
        """Send JSON. The same `key` is never recorded twice; with `expected` the record must still end with it."""
        try:
            content = json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise InputError(f"This cannot be sent ({error}). Give plain numbers that are finite, and texts.") from None
        return self._sent("POST", path, content, "application/json", key, expected)

    def upload(self, path: str, parts: list[Part], key: str | None = None, expected: str | None = None) -> Any:
        """Send files."""
        border = f"roundwise-{os.urandom(16).hex()}"
        kind = f"multipart/form-data; boundary={border}"
        return self._sent("POST", path, _form(parts, border), kind, key, expected)

    def text(self, path: str, content: str) -> Any:
        """Send lines of text."""
        return self._sent("POST", path, content.encode(), "application/jsonl")

    def delete(self, path: str, expected: str) -> None:
        """Take something away that still ends as expected."""
        self._sent("DELETE", path, None, "", None, expected)

    def _sent(
        self,
        method: str,
        path: str,
        content: bytes | None,
        kind: str,
        key: str | None = None,
        expected: str | None = None,
    ) -> Any:
        headers = {} if content is None else {"Content-Type": kind}
        headers |= {} if key is None else {"Idempotency-Key": key}
        headers |= {} if expected is None else {"If-Match": f'"{expected}"'}
        return self.json(self._asked(method, path, content, headers))

    def json(self, answer: Answer) -> Any:
        """What an answer says."""
        try:
            return json.loads(answer.content) if answer.content else None
        except ValueError:
            raise self._stranger(answer) from None

    def _asked(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        """The answer to a request, which is sent again if the connection is lost before it came."""
        from http.client import HTTPException
        from ssl import SSLError

        every = {**_who(), **headers}
        begun = again = False
        for wait in (*WAITS, None):
            connection = self._connection()
            try:
                connection.connect()
                again, begun = begun, True
                return self._answered(connection, method, path, content, every)
            except RoundwiseError as error:
                if again:
                    error.add_note(AGAIN)
                raise
            except (OSError, HTTPException) as error:
                why = getattr(error, "strerror", None) or str(error) or type(error).__name__
                if not begun or isinstance(error, SSLError):
                    raise StoreError(
                        f"{self.place} cannot be reached ({why}). Nothing was changed.",
                        Remedy("Start {@serve}, or correct the address."),
                    ) from None
            finally:
                connection.close()
            if wait is not None:
                time.sleep(wait)
        raise StoreError(
            f"The connection to {self.place} was lost ({why}). All or nothing of this was recorded: when the server is "
            f"back, {look()}"
        )

    def _connection(self) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        kind = HTTPConnection if self.scheme == "http" else HTTPSConnection  # which checks certificates
        return kind(self.host, self.port, timeout=PATIENCE)

    def _answered(
        self,
        connection: HTTPConnection,
        method: str,
        path: str,
        content: bytes | None,
        headers: Mapping[str, str],
    ) -> Answer:
        from http.client import HTTPException

        assert connection.sock is not None
        connection.sock.settimeout(LONGEST)
        refused: OSError | None = None
        try:
            connection.request(method, f"{self.root}{PREFIX}{path}", content, dict(headers))
        except (BrokenPipeError, ConnectionResetError) as error:  # it may have answered before all was sent
            refused = error
        try:
            found = connection.getresponse()
            answer = Answer(found.status, found.headers.get_content_type(), found.read())
        except (OSError, HTTPException):
            if refused is None or content is None or len(content) < 1 << 20:
                raise
            raise InputError(
                f"{self.place} stopped reading after less than {len(content) / 2**20:.0f} MB: it takes less at once. "
                "Nothing was changed; send the results in several files."
            ) from None
        if 200 <= answer.status < 300:
            return answer
        raise self._error(answer)

    def _error(self, answer: Answer) -> RoundwiseError:
        """The error that a server's sentence stands for."""
        try:
            found = json.loads(answer.content)
            detail, name = str(found["detail"]), str(found.get("error", ""))
        except (ValueError, KeyError, TypeError, AttributeError):
            return self._stranger(answer)
        if answer.status in (401, 403):
            hint = "Set ROUNDWISE_TOKEN, or ROUNDWISE_TOKEN_FILE, to one that may do this."
            return InputError(f"{self.place}: {detail} {hint}")
        return ERRORS.get(name, StoreError if answer.status >= 500 else InputError)(detail)

    def _stranger(self, answer: Answer) -> StoreError:
        return StoreError(
            f"{self.place} answers, but not as a server of roundwise does (status {answer.status}, {answer.kind}). "
            "Correct the address, or look what stands between."
        )


def server_at(url: str) -> Server:
    """The server at a storage URL; one with a token in it is refused, and not repeated."""
    try:
        found = urlsplit(url)
        host, port = found.hostname, found.port
    except ValueError:
        host, port = None, None
    if host is None or found.query or found.fragment:
        raise InputError(f"The storage URL names no server. {EXAMPLE}")
    if found.username is not None or found.password is not None:
        raise InputError(
            "The storage URL has a user or a token in it, where others see it. Set ROUNDWISE_TOKEN to the token, or "
            f"ROUNDWISE_TOKEN_FILE to a file that holds it. {EXAMPLE}"
        )
    return Server(found.scheme, host, port, found.path.rstrip("/").removesuffix(PREFIX))


def token() -> str | None:
    """The token of this process: ROUNDWISE_TOKEN, or what is in the file ROUNDWISE_TOKEN_FILE."""
    given, file = os.environ.get("ROUNDWISE_TOKEN"), os.environ.get("ROUNDWISE_TOKEN_FILE")
    if not given and file:
        try:
            given = Path(file).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            raise InputError(f"The file of the token, {file}, cannot be read. Correct ROUNDWISE_TOKEN_FILE.") from None
    given = (given or "").strip()
    if given and not (given.isascii() and given.isprintable()):
        raise InputError("The token has letters that no token has. Give it as the server's administrator wrote it.")
    return given or None


def segment(name: str) -> str:
    """A name as one segment of a path; dots alone would be taken for a folder.

    >>> segment("a/b ü"), segment("..")
    ('a%2Fb%20%C3%BC', '~..')
    """
    return quote(name, safe="") if name.strip(".") and not name.startswith("~") else "~" + quote(name, safe="")


def _who() -> dict[str, str]:
    """Who asks, and in whose words an error is to be said."""
    mine = token()
    return {
        "User-Agent": f"roundwise/{__version__}",
        "X-Roundwise-User": quote(user(), safe=""),
        "X-Roundwise-Surface": current_surface().value,
        **({} if mine is None else {"Authorization": f"Bearer {mine}"}),
    }


def _form(parts: list[Part], border: str) -> bytes:
    lines: list[bytes] = []
    for each in parts:
        about = f'Content-Disposition: form-data; name="{each.name}"'
        if each.file is not None:
            # percent signs for quotes and line ends, as browsers send a name
            safe = each.file.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
            about += f'; filename="{safe}"\r\nContent-Type: {each.kind}'
        lines += [f"--{border}\r\n{about}\r\n\r\n".encode(), each.content, b"\r\n"]
    return b"".join([*lines, f"--{border}--\r\n".encode()])
