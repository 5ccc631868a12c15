"""Which columns a table has, and so which of the three forms it takes."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from typing import NamedTuple

from roundwise.errors import DataError
from roundwise.studies.results.told import Form

ACCEPTED = (
    "Give the columns arm,outcome (one row a result), arm,count,total (sums; also squares, the sum of squared values) "
    "or arm,count,successes (0/1 outcomes)."
)
_NAMES = {
    "arm": (),
    "outcome": ("value", "reward", "result"),
    "count": ("n",),
    "total": ("sum",),
    "successes": (),
    "squares": (),
}


class Layout(NamedTuple):
    """Where the columns of a form are."""

    form: Form
    titles: tuple[str, ...]  # as the user wrote them, the arm first
    places: tuple[int, ...]
    unused: tuple[str, ...]


def problem(where: str, found: str, remedy: str) -> DataError:
    """What was found and where; what to do."""
    return DataError(f"{where}: {found}\n  {remedy}")


def layout(where: str, header: Sequence[str], arms: Collection[str] = (), hint: str = "") -> Layout:
    """The form of a table with this header."""
    titles = [title.strip() for title in header]
    places = _places(where, titles)
    has = places.keys()
    complete: list[tuple[Form, tuple[str, ...]]] = []
    if {"arm", "outcome"} <= has:
        complete.append(("rows", ("arm", "outcome")))
    if {"arm", "count", "total"} <= has:
        complete.append(("sums", ("arm", "count", "total", *(("squares",) if "squares" in has else ()))))
    if {"arm", "count", "successes"} <= has:
        complete.append(("successes", ("arm", "count", "successes")))
    if not complete:
        raise _wrong(where, titles, has, arms, hint)
    form, names = complete[0]
    used = tuple(places[name] for name in names)
    if len(complete) > 1 or (form == "rows" and "count" in has):
        mixed = [titles[places[n]] for n in ("outcome", "count", "total", "successes") if n in has]
        raise problem(
            where,
            f"the columns {_listed(mixed)} can be read in more than one way.",
            f"Remove or rename those that do not belong. {ACCEPTED}",
        )
    unused = tuple(title for i, title in enumerate(titles) if title and i not in used)
    return Layout(form, tuple(titles[i] for i in used), used, unused)


def recognised(header: Sequence[str]) -> int:
    """How many of these names are known."""
    known = {name for name, others in _NAMES.items() for name in (name, *others)}
    return len({title.strip().casefold() for title in header} & known)


def _places(where: str, titles: list[str]) -> dict[str, int]:
    """Where each known column is: under its own name, or else under another that means the same."""
    folded = [title.casefold() for title in titles]
    places: dict[str, int] = {}
    for name, others in _NAMES.items():
        at = [i for i, title in enumerate(folded) if title == name]
        at = at or [i for i, title in enumerate(folded) if title in others]
        if len(at) > 1:
            raise problem(
                where,
                f"the columns {_listed([titles[i] for i in at])} all mean '{name}'.",
                f"Keep one of them, called '{name}'.",
            )
        if at:
            places[name] = at[0]
    return places


def _wrong(where: str, titles: list[str], has: Collection[str], arms: Collection[str], hint: str) -> DataError:
    found = [title for title in titles if title]
    if "arm" not in has:
        missing = "arm"
    else:
        missing = "count" if {"total", "successes"} & set(has) else "total" if "count" in has else "outcome"
    said = f"found {_listed(found)}, but no column '{missing}'." if found else "the header is empty."
    if found and found[0] in arms:
        return problem(where, said, f"The first line must be the header. {ACCEPTED}")
    near = difflib.get_close_matches(missing, [title.casefold() for title in found], n=1, cutoff=0.6)
    if near:
        said += f" Did you mean '{missing}' by '{next(t for t in found if t.casefold() == near[0])}'?"
    return problem(where, said, f"{hint}{ACCEPTED}")


def _listed(names: Sequence[str]) -> str:
    shown = [f"'{name if len(name) <= 40 else name[:39] + '…'}'" for name in names[:8]]
    return ", ".join(shown) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
