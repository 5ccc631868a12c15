"""Large products of cases: CI runs an even part of them, `make slow` all."""

import pytest


def diagonals(first, second, every):
    """All pairs, of which CI runs those on every n-th diagonal: each value meets some of the others."""
    return [
        pytest.param(one, other, id=f"{_named(one)}-{_named(other)}", marks=_marks(i + j, every))
        for i, one in enumerate(first)
        for j, other in enumerate(second)
    ]


def thinned(cases, every):
    """All cases, of which CI runs every n-th; a dictionary names them."""
    names = list(cases) if isinstance(cases, dict) else None
    values = cases.values() if isinstance(cases, dict) else cases
    return [pytest.param(*case, id=names and names[i], marks=_marks(i, every)) for i, case in enumerate(values)]


def _named(case):
    return str(getattr(case, "label", None) or getattr(case, "name", None) or case)


def _marks(place, every):
    return () if place % every == 0 else (pytest.mark.slow,)
