"""The scripts in examples/ run, and print what the comment at their end says.

When the output changes, `python tests/test_examples.py` writes what they print now; then read them.
"""

import contextlib
import io
import runpy
import textwrap
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
MARK = "\n# It prints:\n#\n"


def run(script):
    """What it prints, as a comment."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        runpy.run_path(str(script), run_name="__main__")
    lines = [textwrap.fill(line, 112, subsequent_indent="    ") for line in out.getvalue().splitlines()]
    return textwrap.indent("\n".join(lines) + "\n", "#     ")


@pytest.mark.long
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_it_prints_what_it_says(script):
    _, shown = script.read_text().split(MARK)
    assert run(script) == shown


def test_the_table_lists_every_example():
    table = (EXAMPLES[0].parent / "README.md").read_text()
    assert all(f"]({script.name})" in table for script in EXAMPLES)


if __name__ == "__main__":
    for each in EXAMPLES:
        code, _, _ = each.read_text().partition(MARK)
        each.write_text(code + MARK + run(each))
