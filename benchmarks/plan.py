"""How long a plan takes, and the three worked cases of docs/planning.md.

python benchmarks/plan.py            # seconds of CPU: to the first numbers, and in all
python benchmarks/plan.py --docs     # write the tables of the three cases into docs/planning.md
"""

from __future__ import annotations

import re
import shlex
import sys
import time
from functools import partial
from pathlib import Path

from roundwise import BestArm, Binary, Claims, Gaussian, StudyPlan, plan

PAGE = Path(__file__).parents[1] / "docs" / "planning.md"


def speed() -> None:
    """Three plans as users ask for them."""
    names = [f"dose {i}" for i in range(9)]
    cases = {
        "10 arms, 4 rows, 2000 runs, 0/1": (BestArm(), {"arms": 10, "noise": Binary(), "around": 0.3}),
        "10 arms, 4 rows, 2000 runs, normal": (BestArm(), {"arms": 10, "noise": Gaussian(), "around": 0.0}),
        "control and 8 doses, budget 1200": (
            Claims.against_control(names, names[0]),
            {"arms": names, "noise": Binary(), "around": 0.36, "budget": 1200},
        ),
    }
    plan(BestArm(), arms=2, noise=Binary(), around=0.3, leads="20%", runs=40)  # imports
    for what, (question, words) in cases.items():
        marks = [time.process_time()]
        found = plan(question, progress=partial(_mark, marks), **words)
        _mark(marks)
        runs = ", ".join(str(row.runs) for row in found.rows)
        print(f"{what}: first numbers {marks[1] - marks[0]:.2f} s, all {marks[-1] - marks[0]:.2f} s (runs {runs})")


def _mark(marks: list[float], *_: object) -> None:
    marks.append(time.process_time())


def case(text: str) -> StudyPlan:
    """The plan that a command line of the page asks for."""
    words = [word for word in shlex.split(text) if word != "--binary"]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    arms = options["--arms"].split(",")
    claims = options["--question"] == "claims"
    return plan(
        Claims.against_control(arms, options["--control"]) if claims else BestArm(),
        arms=arms,
        noise=Binary(),
        name=words[2],
        around=options.get("--around"),
        means=options.get("--means"),
        leads=options.get("--leads"),
        delta=options.get("--delta", 0.05),
        split=options.get("--split"),
        round=int(options["--round"]) if "--round" in options else None,
        budget=int(options["--budget"]) if "--budget" in options else None,
        missing=options.get("--missing", 0.0),
        sample_cost=options.get("--sample-cost"),
        batch_cost=options.get("--batch-cost", 0.0),
        batch_days=options.get("--batch-days"),
        runs=int(options.get("--runs", 2000)),
    )


def tables(found: StudyPlan) -> str:
    """What the page shows of a plan."""
    from roundwise.planning.page import front_table, power_table, row_table

    def markdown(table: list[list[str]]) -> str:
        rows = [f"| {' | '.join(row)} |" for row in table]
        return "\n".join([rows[0], "|" + " --- |" * len(table[0]), *rows[1:]])

    shown = [markdown(row_table(found))]
    if found.rows[0].claims:
        shown.append(markdown(power_table(found)))
    if len(found.front) > 1:
        shown.append(markdown(front_table(found)))
    return "\n\n".join(shown).replace("> ", "")


def write() -> None:
    """The tables of the page, anew."""
    page = PAGE.read_text(encoding="utf-8")
    for command in re.findall(r"^\$ (roundwise plan .*)$", page, flags=re.MULTILINE):
        name = shlex.split(command)[2]
        mark = f"<!-- plan: {name} -->"
        if mark in page and "--leads" not in command:
            before, after = page.split(mark)
            rest = re.sub(r"\A\s*(?:\|[^\n]*\n+)*", "", after)  # the old tables
            page = f"{before}{mark}\n\n{tables(case(command))}\n\n{rest}"
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    write() if "--docs" in sys.argv else speed()
