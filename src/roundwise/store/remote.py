"""Studies behind a server (`roundwise serve`): read completely, so that clients can check them; changed through its
API. Requests are retried where that is safe, and the server's messages become the exceptions of a local study. Only the
standard library is used.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import quote, urlencode, urlsplit

from roundwise import errors
from roundwise._version import __version__
from roundwise.arrays import Facts
from roundwise.errors import DamagedError, InputError, RoundwiseError, StoreError, StudyExistsError, UnknownStudyError
from roundwise.messages import Remedy, current_surface
from roundwise.store.log import (
    Entry,
    Head,
    Listing,
    check_chain,
    current_user,
    format_time,
    log_lines,
    parse_log,
    parse_time,
    retry_advice,
)

if TYPE_CHECKING:
    from http.client import HTTPConnection

PREFIX = "/api/v1"
EXAMPLE = "Write http://host:8000, or https://host."
PATIENCE = 10.0  # seconds until a server must be reached,
LONGEST = 300.0  # and until it must have answered
WAITS = (0.2, 0.5, 1.0, 2.0)  # seconds before each time that a request is tried again
AGAIN = "The request was sent again: perhaps it was carried out the first time."


def segment(name: str) -> str:
    """A name as one segment of a path; dots alone would be taken for a folder.

    >>> segment("a/b ü"), segment("..")
    ('a%2Fb%20%C3%BC', '~..')
    """
    return quote(name, safe="") if name.strip(".") and not name.startswith("~") else "~" + quote(name, safe="")


class MultipartField(NamedTuple):
    """A field of a form, or a file in it."""

    name: str
    content: bytes
    file: str | None = None
    kind: str = "application/octet-stream"

    def encode(self) -> bytes:
        about = f'Content-Disposition: form-data; name="{self.name}"'
        if self.file is not None:
            # percent signs for quotes and line ends, as browsers send a name
            safe = self.file.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
            about += f'; filename="{safe}"\r\nContent-Type: {self.kind}'
        return f"{about}\r\n\r\n".encode() + self.content


@dataclass(frozen=True)
class Answer:
    """The answer of a server."""

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

    @classmethod
    def at(cls, url: str) -> Server:
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
                "The storage URL has a user or a token in it, where others see it. Set ROUNDWISE_TOKEN to the token, "
                f"or ROUNDWISE_TOKEN_FILE to a file that holds it. {EXAMPLE}"
            )
        return cls(found.scheme, host, port, found.path.rstrip("/").removesuffix(PREFIX))

    @property
    def place(self) -> str:
        """The address, for messages."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{shown}{'' if self.port is None else f':{self.port}'}{self.root}"

    def get(self, path: str, **query: str | int) -> Answer:
        return self._request("GET", f"{path}?{urlencode(query)}" if query else path)

    def get_json(self, path: str) -> Any:
        return self._json(self.get(path))

    def post(self, path: str, body: Any, key: str | None = None, expected: str | None = None) -> Any:
        """Send JSON. The same `key` is never recorded twice; with `expected` the record must still end with it."""
        try:
            content = json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise InputError(f"This cannot be sent ({error}). Give plain numbers that are finite, and texts.") from None
        return self._json(self._request("POST", path, content, "application/json", key, expected))

    def upload(
        self, path: str, parts: list[MultipartField], key: str | None = None, expected: str | None = None
    ) -> Any:
        border = f"roundwise-{os.urandom(16).hex()}"
        form = b"".join(b"--%b\r\n%b\r\n" % (border.encode(), part.encode()) for part in parts)
        content, kind = form + f"--{border}--\r\n".encode(), f"multipart/form-data; boundary={border}"
        return self._json(self._request("POST", path, content, kind, key, expected))

    def text(self, path: str, content: str) -> None:
        self._request("POST", path, content.encode(), "application/jsonl")

    def delete(self, path: str, expected: str) -> None:
        """Remove something that still ends as expected."""
        self._request("DELETE", path, expected=expected)

    def _json(self, answer: Answer) -> Any:
        try:
            return json.loads(answer.content) if answer.content else None
        except ValueError:
            raise self._stranger(answer) from None

    def _request(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        kind: str = "",
        key: str | None = None,
        expected: str | None = None,
    ) -> Answer:
        """The answer to a request, which is sent again if the connection is lost before it came."""
        from http.client import HTTPConnection, HTTPException, HTTPSConnection
        from ssl import SSLError

        mine = _read_token()
        headers = {
            "User-Agent": f"roundwise/{__version__}",
            "X-Roundwise-User": quote(current_user(), safe=""),
            "X-Roundwise-Surface": current_surface().value,
            "Authorization": None if mine is None else f"Bearer {mine}",
            "Content-Type": None if content is None else kind,
            "Idempotency-Key": key,
            "If-Match": None if expected is None else f'"{expected}"',
        }
        sent = {name: value for name, value in headers.items() if value is not None}
        begun = again = False
        for wait in (*WAITS, None):
            # HTTPSConnection checks certificates
            connection = (HTTPConnection if self.scheme == "http" else HTTPSConnection)(
                self.host, self.port, timeout=PATIENCE
            )
            try:
                connection.connect()
                again, begun = begun, True
                answer = self._exchange(connection, method, path, content, sent)
                if not 200 <= answer.status < 300:
                    raise self._error(answer)
                return answer
            except RoundwiseError as error:
                if again:
                    error.add_note(AGAIN)
                raise
            except (OSError, HTTPException) as error:
                why = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
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
            f"back, {retry_advice()}"
        )

    def _exchange(
        self, connection: HTTPConnection, method: str, path: str, content: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        from http.client import HTTPException

        assert connection.sock is not None
        connection.sock.settimeout(LONGEST)
        refused = False
        try:
            connection.request(method, f"{self.root}{PREFIX}{path}", content, dict(headers))
        except (BrokenPipeError, ConnectionResetError):  # it may have answered before all was sent
            refused = True
        try:
            found = connection.getresponse()
            return Answer(found.status, found.headers.get_content_type(), found.read())
        except (OSError, HTTPException):
            if not refused or content is None or len(content) < 1 << 20:
                raise
            raise InputError(
                f"{self.place} stopped reading after less than {len(content) / 2**20:.0f} MB: it takes less at once. "
                "Nothing was changed; send the results in several files."
            ) from None

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
        kind = vars(errors).get(name)
        if isinstance(kind, type) and issubclass(kind, RoundwiseError):
            return kind(detail)
        return (StoreError if answer.status >= 500 else InputError)(detail)

    def _stranger(self, answer: Answer) -> StoreError:
        return StoreError(
            f"{self.place} answers, but not as a server of roundwise does (status {answer.status}, {answer.kind}). "
            "Correct the address, or check the proxies in between."
        )


def _read_token() -> str | None:
    """The token of this process: ROUNDWISE_TOKEN, or what is in the file ROUNDWISE_TOKEN_FILE."""
    given, file = os.environ.get("ROUNDWISE_TOKEN"), os.environ.get("ROUNDWISE_TOKEN_FILE")
    if not given and file:
        try:
            given = Path(file).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            raise InputError(f"The file of the token, {file}, cannot be read. Correct ROUNDWISE_TOKEN_FILE.") from None
    given = (given or "").strip()
    if given and not (given.isascii() and given.isprintable()):
        raise InputError("The token has characters that tokens cannot have. Give it exactly as it was issued.")
    return given or None


def _was_sent_again(error: RoundwiseError) -> bool:
    """Whether an error may come of a request that was carried out, and sent again because its answer was lost."""
    return AGAIN in getattr(error, "__notes__", ())


@dataclass(frozen=True)
class RemoteStore:
    """The studies of a server; its methods are those of `database.Store`."""

    server: Server

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is kept open."""

    def pinned(self) -> AbstractContextManager[None]:
        return nullcontext()

    def create(self, name: str, payload: Facts, kind: str = "created", overview: Facts | None = None) -> Entry:
        chosen = bool(payload.get("seed_given"))  # otherwise the server draws the seed
        body = {key: value for key, value in payload.items() if key != ("seed_given" if chosen else "seed")}
        try:
            self.server.post("/studies", body | {"name": name})
        except StudyExistsError as error:
            seed = {} if chosen else {"seed": payload["seed"]}
            known = {key: value for key, value in self.recent(name)[0].payload.items() if key != "same_list"}
            if not _was_sent_again(error) or {**known, **seed} != dict(payload):
                raise
        return self.recent(name)[0]

    def put(self, entries: Sequence[Entry], overview: Facts | None = None) -> Listing:
        last = entries[-1]
        try:
            self.server.text("/records", "".join(log_lines(entries)))
        except StudyExistsError as error:
            if not _was_sent_again(error) or self.head(last.study).digest != last.digest:
                raise
        return Listing(last.study, entries[0].at, last.at, len(entries), dict(overview or {}))

    def append(
        self, name: str, new: Sequence[tuple[str, Facts]], expected: int, overview: Facts | None = None
    ) -> list[Entry]:
        """Refused: what is recorded is worked out by the server."""
        raise InputError(f"{self.server.place} takes no entries. Nothing was changed; use `load_study` and its verbs.")

    def remove(self, name: str, expected: int) -> None:
        digest = self.read(name, expected - 1)[0].digest
        try:
            self.server.delete(f"/studies/{segment(name)}", digest)
        except UnknownStudyError as error:
            if not _was_sent_again(error):
                raise

    def read(self, name: str, after: int = -1) -> list[Entry]:
        entries = self._lines(name, after=after)
        _check(entries)
        return entries

    def recent(self, name: str) -> list[Entry]:
        entries = self._lines(name, recent="true")
        whole = [entry.seq for entry in entries[:2]] == [0, 1]
        for part in [entries] if whole else [entries[:1], entries[1:]]:
            _check(part)
        return entries

    def head(self, name: str) -> Head:
        found = self.server.get_json(f"/studies/{segment(name)}/head")
        return Head(int(found["entries"]), str(found["digest"]), parse_time(found["changed"]), int(found["checkpoint"]))

    def find(self, name: str, key: str) -> list[Entry]:
        return self._lines(name, key=key)

    def studies(self) -> list[Listing]:
        found = []
        for each in self.server.get_json("/studies"):
            name, created, changed, entries = (each.pop(key) for key in ("name", "created", "changed", "entries"))
            found.append(Listing(str(name), parse_time(created), parse_time(changed), int(entries), each))
        return found

    def ends(self) -> dict[str, tuple[int, str]]:
        return {each.name: (each.entries, format_time(each.changed)) for each in self.studies()}

    def _lines(self, name: str, **query: str | int) -> list[Entry]:
        answer = self.server.get(f"/studies/{segment(name)}/record", **query)
        study, entries = parse_log(self.server.place, answer.content.decode().removesuffix("\n").split("\n"))
        if study != name:
            raise DamagedError(f"{self.server.place} sent the record of another study than '{name}'.")
        return entries


def _check(entries: Sequence[Entry]) -> None:
    """Raise `DamagedError` where entries do not follow each other; the server has checked the first."""
    if entries and entries[0].seq > 0:
        check_chain(entries[1:], Head(entries[0].seq + 1, entries[0].digest))
    else:
        check_chain(entries)
