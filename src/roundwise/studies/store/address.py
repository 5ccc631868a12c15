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


HOST = re.compile(  # and what may follow it: a port, a database, options
    r"(\[[^\]@]*\]|[^:/?@\[\]]*)(:\d*)?(/[^?@]*)?(\?(\w+=[^&]*(&\w+=[^&]*)*)?)?"
)


def quoted(text: str) -> str:
    """A URL whose password may hold @, / and ? as they are: it ends at the first @ before something that can be a host.

    >>> quoted("postgresql://user:p@ss/w@host/db"), quoted("postgresql://user:pw@host/db?sslpassword=a@b")
    ('postgresql://user:p%40ss%2Fw@host/db', 'postgresql://user:pw@host/db?sslpassword=a@b')
    >>> quoted("postgresql://user:p@ss/w?rd@host/db")
    'postgresql://user:p%40ss%2Fw%3Frd@host/db'
    """
    scheme, found, rest = text.partition("://")
    user, colon, behind = rest.partition(":")
    if not found or not colon or "@" in user or "/" in user:
        return text
    for i in (i for i, letter in enumerate(behind) if letter == "@"):
        if HOST.fullmatch(behind[i + 1 :]):
            password = behind[:i]
            for letter in "@/?":
                password = password.replace(letter, f"%{ord(letter):02X}")
            return f"{scheme}://{user}:{password}{behind[i:]}"
    return text


def _sqlite(url: URL) -> Address:
    name = url.database
    if not name or name == ":memory:" or url.query or url.host or "\0" in name:
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
