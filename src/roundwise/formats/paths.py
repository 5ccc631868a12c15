"""Places in nested JSON.

`response.body.score` is a member of a member, `choices.0.text` or `choices[0].text` one of a list; `results.*.score` or
`results[*].score` is one row for each member of `results`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from roundwise.errors import refusal
from roundwise.messages import quoted

STAR = "*"
LONGEST = 200  # letters of a path


class Absent:
    """What `follow` finds where there is nothing."""


def plain_path(path: str) -> str:
    """The path with dots in place of brackets.

    >>> plain_path("runs[*].choices[0].text")
    'runs.*.choices.0.text'
    """
    return re.sub(r"\[(\d{1,9}|\*)\]", r".\1", path)


def follow(node: Any, path: str) -> Any:
    """Return what is at a path; `Absent` where nothing is. Names may have dots and brackets in them.

    >>> follow({"response": {"choices": [{"text": "yes"}], "a.b": 1}}, "response.choices.0.text")
    'yes'
    >>> follow({"response": {"choices": [], "a.b": 1}}, "response.a.b")
    1
    """
    if isinstance(node, dict) and path in node:
        return node[path]
    path = plain_path(path)
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
    return STAR in plain_path(path).split(".")


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
    rows, lacking = [], dict.fromkeys(paths)
    for trail in _trails(document, lists):
        cells = {path: follow(trail[len(pieces) - 1], pieces[-1]) for path, pieces in split.items()}
        lacking = {path: trail[len(split[path]) - 1] for path in lacking if cells[path] is Absent}
        rows.append({path: None if cell is Absent else cell for path, cell in cells.items()})
    if not rows:
        first = ".".join(each for piece in lists for each in (piece, STAR) if each)
        known = f" Found {', '.join(map(quoted, list(document)[:8]))}." if isinstance(document, dict) else ""
        raise refusal(name, f"there is no list at {quoted(first)}.{known}", "Correct the path.")
    for path, node in lacking.items():
        known = f", only {', '.join(map(quoted, list(node)[:8]))}" if isinstance(node, dict) and node else ""
        raise refusal(name, f"no row has {quoted(path)}{known}.", "Correct the path.")
    return rows


def _pieces(path: str) -> list[str]:
    """The path between its stars: of `a.*.b.*.c` a, b and c."""
    found: list[list[str]] = [[]]
    for part in plain_path(path).split("."):
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
