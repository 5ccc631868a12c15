"""Storage URLs: what people write, and how it is said back to them without the password."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from roundwise.errors import InputError

EXAMPLES = (
    "Write sqlite:///roundwise.db (a file here), sqlite:////data/roundwise.db (a full path), "
    "postgresql://user:password@host/database, or http://host:8000 (a server of roundwise)."
)


@dataclass(frozen=True)
class Address:
    """Where a store is."""

    url: URL = field(repr=False)
    place: str  # for messages: the file, or the URL without password and options
    file: Path | None  # of SQLite
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def censored(self, text: str) -> str:
        """A driver's message without the passwords of this address."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def parsed(text: str) -> Address:
    """The address that a storage URL means."""
    scheme = text.partition("://")[0]
    try:
        url = make_url(quoted(text))
    except (ArgumentError, ValueError):  # the text may hold a password: only a path without scheme is repeated
        shown = f"'{text}'" if "@" not in text and ":" not in text else f"The given text ({len(text)} characters)"
        raise InputError(f"{shown} is not a storage URL. {EXAMPLES}") from None
    if scheme in ("sqlite", "sqlite+pysqlite"):
        return _sqlite(url)
    if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        return _postgresql(url)
    raise InputError(f"The storage URL begins with '{scheme}://', which roundwise does not know. {EXAMPLES}")


HOST = re.compile(r"(\[[^\]@]*\]|[^:/?@\[\]]*)(:\d*)?(/[^?@]*)?(\?.*)?")


def quoted(text: str) -> str:
    """A URL whose password may hold @ as it is: it ends at the last one before something that can be a host.

    >>> quoted("postgresql://user:p@ss/w@host/db"), quoted("postgresql://user:pw@host/db?sslpassword=a@b")
    ('postgresql://user:p%40ss/w@host/db', 'postgresql://user:pw@host/db?sslpassword=a@b')
    """
    scheme, found, rest = text.partition("://")
    user, colon, behind = rest.partition(":")
    before = behind.partition("?")[0]
    inside = before if "@" in before else behind  # a question mark may be in the password, or begin the options
    if not found or not colon or "@" in user or inside.count("@") < 2:
        return text
    for i in reversed([i for i, letter in enumerate(inside) if letter == "@"]):
        if HOST.fullmatch(behind[i + 1 :]):
            return f"{scheme}://{user}:{behind[:i].replace('@', '%40')}{behind[i:]}"
    return text


def _sqlite(url: URL) -> Address:
    name = url.database
    if not name or name == ":memory:" or url.query or url.host:
        found = url.render_as_string(hide_password=True)
        raise InputError(f"The storage URL '{found}' names no file, and a study must outlive its process. {EXAMPLES}")
    file = Path(os.path.realpath(name))  # whatever links lead to it, its log has one name
    return Address(URL.create("sqlite", database=str(file)), name, file)


def _postgresql(url: URL) -> Address:
    secrets = (url.password, url.query.get("password"), url.query.get("sslpassword"))
    place = URL.create("postgresql", url.username, None, url.host, url.port, url.database)
    return Address(
        url.set(drivername="postgresql+psycopg"),
        place.render_as_string(),
        None,
        tuple(str(each) for each in secrets if each),
    )
