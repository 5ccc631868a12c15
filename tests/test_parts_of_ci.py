"""The lists of long tests and of large products name tests that are there."""

import ast
from pathlib import Path

import pytest

from conftest import LONG, PRODUCTS

HERE = Path(__file__).parent


def functions(path):
    """The names of a file's tests, with those of their classes."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            yield from (f"{path.name}::{node.name}::{each.name}" for each in node.body if hasattr(each, "name"))
        elif hasattr(node, "name"):
            yield f"{path.name}::{node.name}"


@pytest.mark.parametrize("names", [LONG, PRODUCTS], ids=["long", "products"])
def test_they_are_there(names):
    there = {name for path in HERE.glob("test_*.py") for name in functions(path)}
    assert set(names) - there == set()
