"""Places in nested JSON, and names that are parts of a text.

`response.body.score` is a member of a member, `choices.0.text` one of a list; `results.*.score` is one row for each
member of `results`. `custom_id:{item}|{arm}` takes a text apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from roundwise.errors import InputError
from roundwise.formats.messages import quoted, refusal

STAR = "*"
LONGEST = 200  # letters of a path


class Absent:
    """What `follow` finds where there is nothing."""


def follow(node: Any, path: str) -> Any:
    """Return what is at a path of names and numbers; `Absent` where nothing is. Names may have dots in them.

    >>> follow({"response": {"choices": [{"text": "yes"}], "a.b": 1}}, "response.choices.0.text")
    'yes'
    >>> follow({"response": {"choices": [], "a.b": 1}}, "response.a.b")
    1
    """
    while len(path) <= LONGEST:
        if isinstance(node, dict) and path in node:
            return node[path]
        if isinstance(node, list) and path.isdecimal() and len(path) < 10:
            return node[int(path)] if int(path) < len(node) else Absent
        cut = -1
        name = None
        while (cut := path.find(".", cut + 1)) >= 0:
            if isinstance(node, list | dict) and _has(node, path[:cut]):
                name = path[:cut]
                break
        if name is None:
            return Absent
        node, path = node[int(name)] if isinstance(node, list) else node[name], path[cut + 1 :]
    return Absent


def _has(node: list[Any] | dict[str, Any], name: str) -> bool:
    if isinstance(node, dict):
        return name in node
    return name.isdecimal() and len(name) < 10 and int(name) < len(node)


def is_starred(path: str) -> bool:
    """Whether a path has one row for each member of a list."""
    return STAR in path.split(".")


def nested_rows(name: str, document: Any, paths: Sequence[str]) -> list[dict[str, object]]:
    """Return the cells at each path, one row for each member of the innermost starred list.

    Args:
        name: Of the file.
        document: What was read.
        paths: With stars where lists are; one with fewer stars has the same value in several rows.

    Raises:
        DataError: If there is no such list, or the paths go through different ones.
    """
    split = {path: _pieces(path) for path in paths}
    lists = max((pieces[:-1] for pieces in split.values()), key=len)
    for path, pieces in split.items():
        if pieces[:-1] != lists[: len(pieces) - 1]:
            raise refusal(name, f"{quoted(path)} goes through another list than the other columns.", "Give one list.")
    rows = []
    for trail in _trails(document, lists):
        cells = {path: follow(trail[len(pieces) - 1], pieces[-1]) for path, pieces in split.items()}
        rows.append({path: None if cell is Absent else cell for path, cell in cells.items()})
    if not rows:
        first = ".".join(each for piece in lists for each in (piece, STAR) if each)
        known = f" Found {', '.join(map(quoted, list(document)[:8]))}." if isinstance(document, dict) else ""
        raise refusal(name, f"there is no list at {quoted(first)}.{known}", "Correct the path.")
    return rows


def _pieces(path: str) -> list[str]:
    """The path between its stars: of `a.*.b.*.c` a, b and c."""
    found: list[list[str]] = [[]]
    for part in path.split("."):
        if part == STAR:
            found.append([])
        else:
            found[-1].append(part)
    return [".".join(parts) for parts in found]


def _trails(node: Any, lists: Sequence[str]) -> Iterator[list[Any]]:
    if not lists:
        yield [node]
        return
    inner = follow(node, lists[0]) if lists[0] else node
    members = list(inner.values()) if isinstance(inner, dict) else inner if isinstance(inner, list) else []
    for member in members:
        for trail in _trails(member, lists[1:]):
            yield [node, *trail]


class Pattern(NamedTuple):
    """A text that holds the names of an arm and an item.

    >>> Pattern.parse("custom_id:{item}|{arm}").names("q17|small")
    {'item': 'q17', 'arm': 'small'}
    """

    path: str  # where the text is
    texts: tuple[str, ...]  # before, between and after the names
    roles: tuple[str, ...]  # "arm", "item", or empty for what is left out

    @classmethod
    def parse(cls, text: str) -> Pattern | None:
        """Read a path with a pattern behind a colon; None if there is no pattern."""
        path, colon, pattern = text.partition(":")
        if not colon or "{" not in pattern:
            return None
        pattern = pattern[1:-1] if len(pattern) > 1 and pattern[0] == pattern[-1] == '"' else pattern
        parts = re.split(r"\{(arm|item|)\}", pattern)
        texts, roles = tuple(parts[::2]), tuple(parts[1::2])
        if sorted(filter(None, roles)) not in (["arm"], ["arm", "item"]) or not all(texts[1:-1]):
            raise InputError(
                f"The pattern {quoted(pattern)} needs {{arm}} once, {{item}} at most once, and text between them: for "
                "example custom_id:{item}|{arm}."
            )
        return cls(path.strip(), texts, roles)

    def names(self, text: object) -> dict[str, str] | None:
        """The arm and the item in a text; None if it does not match as a whole.

        Each takes as little as possible, and the last one the rest.
        """
        first, *between, last = self.texts
        if not isinstance(text, str) or not text.startswith(first) or not text.endswith(last):
            return None
        rest, found = text[len(first) : len(text) - len(last)], []
        for separator in between:
            at = rest.find(separator, 1)
            if at < 0:
                return None
            found.append(rest[:at])
            rest = rest[at + len(separator) :]
        if not rest or len(text) < len(first) + len(last):
            return None
        return {role: name for role, name in zip(self.roles, [*found, rest], strict=True) if role}
