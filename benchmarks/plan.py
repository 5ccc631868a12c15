"""How long a plan takes, whether it comes true, and the three worked cases of docs/planning.md.

python benchmarks/plan.py                                        # seconds of CPU: to the first numbers, and in all
python benchmarks/plan.py --docs                                 # write the tables of the three cases into the page
python benchmarks/plan.py --studies limits --number 1000         # a thousand studies by script against the forecast
python benchmarks/plan.py --replan binary --number 400           # how often the rest stays within the 19-in-20

Studies are those of tests/test_plan_calibration.py (limits, missing, claims, rows), the i-th with the seed (7, i). With
`--keep FILE` their ends are appended to a file, and all of it is compared: `--first 250` goes on from there.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shlex
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from roundwise import BestArm, Binary, Claims, Gaussian, Normal, StudyPlan, plan

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "planning.md"
sys.path.append(str(ROOT / "tests"))


def speed() -> None:
    """Three plans as users ask for them."""
    names = [f"dose {i}" for i in range(9)]
    cases = {
        "10 arms, 4 rows, 2000 runs, 0/1": (BestArm(), {"arms": 10, "noise": Binary(), "baseline": 0.3}),
        "10 arms, 4 rows, 2000 runs, normal": (BestArm(), {"arms": 10, "noise": Gaussian(), "baseline": 0.0}),
        "control and 8 doses, budget 1200": (
            Claims.against_control(names, names[0]),
            {"arms": names, "noise": Binary(), "baseline": 0.36, "budget": 1200},
        ),
    }
    plan(BestArm(), arms=2, noise=Binary(), baseline=0.3, leads="20%", runs=40)  # imports
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
        baseline=options.get("--baseline"),
        means=options.get("--means"),
        leads=options.get("--leads"),
        delta=options.get("--delta", 0.05),
        split=options.get("--split"),
        round_size=int(options["--round-size"]) if "--round-size" in options else None,
        budget=int(options["--budget"]) if "--budget" in options else None,
        missing=options.get("--missing", 0.0),
        sample_cost=options.get("--sample-cost"),
        round_cost=options.get("--round-cost", 0.0),
        round_days=options.get("--round-days"),
        runs=int(options.get("--runs", 2000)),
    )


def tables(found: StudyPlan) -> str:
    """What the page shows of a plan."""
    from roundwise.planning.render import front_table, power_table, row_table

    def markdown(table: list[list[str]]) -> str:
        rows = [f"| {' | '.join(row)} |" for row in table]
        return "\n".join([rows[0], "|" + " --- |" * len(table[0]), *rows[1:]])

    shown = [markdown(row_table(found))]
    if found.rows[0].claims:
        shown.append(markdown(power_table(found)))
    if len(found.front) > 1:
        shown.append(markdown(front_table(found)))
    return "\n\n".join(shown)


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


def studies(name: str, first: int, number: int, keep: Path | None) -> None:
    """So many studies by script, against the forecast of 4000 runs."""
    import scripted_studies as scripted
    from roundwise.planning.forecast import simulate_ahead
    from test_plan_calibration import FORECASTS

    question, words = FORECASTS[name]
    found = plan(question, runs=2000, **words)
    wish, means = found.request, found.rows[0].expected.means
    with tempfile.TemporaryDirectory() as folder:
        ends = scripted.studies(Path(folder), wish, means, number, first)
    if keep is not None:
        with keep.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(end) + "\n" for end in ends)
        ends = [json.loads(line) for line in keep.read_text(encoding="utf-8").splitlines()]
    real = np.array(ends)
    said = simulate_ahead(wish.problem, wish.acting, wish.world(means), runs=4000, seed=5)
    claims = bool(found.rows[0].claims)
    chances = said.shown if claims else said.decided[:, None]
    pairs = [(f"chance {j + 1}", chances[:, j], real[:, 3 + j if claims else 0]) for j in range(chances.shape[1])]
    pairs += [("results", said.samples, real[:, 1]), ("rounds", said.rounds, real[:, 2])]
    print(f"{name}: {len(real)} studies, {found.recommended.words if found.recommended else wish.policy.name}")
    for what, forecast, came in pairs:
        apart = np.mean(forecast) - np.mean(came)
        error = math.hypot(np.std(forecast) / math.sqrt(len(forecast)), np.std(came) / math.sqrt(len(came)))
        both = f"forecast {np.mean(forecast):.4g}, studies {np.mean(came):.4g}"
        print(f"  {what}: {both}, {apart / error:+.1f} errors apart")


def from_here(name: str, number: int) -> None:
    """On truths that the planner does not know: the rest of a study against its 19-in-20."""
    from test_plan_calibration import covered

    noise = {each.name: each for each in (Binary(), Gaussian(), Normal())}[name]
    within, chances, last = covered(noise, number, 200)
    print(f"{name}: {within} of {len(chances)} within")
    print(f"  the next was the last: said of {chances.sum():.0f}, came true in {last.sum()}")


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("--docs", action="store_true")
    words.add_argument("--studies")
    words.add_argument("--replan")
    words.add_argument("--first", type=int, default=0)
    words.add_argument("--number", type=int, default=1000)
    words.add_argument("--keep", type=Path)
    asked = words.parse_args()
    if asked.studies:
        studies(asked.studies, asked.first, asked.number, asked.keep)
    elif asked.replan:
        from_here(asked.replan, asked.number)
    else:
        write() if asked.docs else speed()
