"""How long others take for work like ours, measured in one run: `python benchmarks/peers.py`.

`best-arm` (package index) is installed into an environment of its own, `.venv/peers`, because it needs an old SciPy.
`rpact` is used where R has it (Debian: `apt install r-cran-rpact`). What cannot be had is skipped, with a sentence.
"""

import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np

from roundwise import BestArm, GaussianArms, TrackAndStop, Wager, simulate
from roundwise.rules import GLR, LogLogHeuristic
from run import SIGMA_1, cpu, header, row

HERE = Path(__file__).parent
MEANS = [1.0, *np.linspace(0.6, 0.9, 9).round(4).tolist()]  # like the paper's: the best at 1, the others below 0.9
DELTA = 0.05

ONE_BY_ONE = """
import contextlib, io, json, sys, time
import numpy as np
from best_arm.bandit import Bandit
from best_arm.environment import BaseEnvironment
means, delta, runs = json.loads(sys.argv[1])
env = BaseEnvironment.from_dict({"env_name": "normal", "state": {"mu": means, "sigma": 1.0}})
found = {}
for label, algorithm, more in (
    ("Track-and-Stop (D)", "track_and_stop", {"tracker_name": "d_tracking", "stopping_name": "chernoff"}),
    ("LUCB", "lucb", {"stopping_name": "lucb"}),
):
    np.random.seed(1)
    begun, samples, wrong = time.process_time(), [], 0
    for _ in range(runs):
        with contextlib.redirect_stdout(io.StringIO()):
            best, counts, *_ = Bandit(
                env_instance=env, algo_name=algorithm, algo_args={"confidence": delta}, **more
            ).run()
        samples.append(int(counts.sum()))
        wrong += int(best) != 0
    found[label] = [(time.process_time() - begun) / runs, float(np.mean(samples)), wrong]
print(json.dumps(found))
"""

TRIALS = """
suppressMessages(library(rpact))
design <- getDesignInverseNormal(kMax = 4, alpha = 0.025, typeOfDesign = "OF")
spent <- system.time(getSimulationMultiArmMeans(
  design = design, activeArms = 4, typeOfShape = "userDefined", effectMatrix = matrix(c(0.1, 0.2, 0.3, 0.5), nrow = 1),
  stDev = 1, plannedSubjects = c(40, 80, 120, 160), intersectionTest = "Bonferroni",
  maxNumberOfIterations = 500, seed = 1))
cat(spent[["user.self"]] + spent[["sys.self"]], as.character(packageVersion("rpact")))
"""


def output(*words):
    """What a command prints, or None if it fails; then the reason is printed."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"\n{words[0]} failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
        return None
    return done.stdout


def peer_python():
    """A Python that has `best-arm`, or None."""
    place = HERE.parent / ".venv" / "peers"
    python = place / "bin" / "python"
    if not python.exists():
        print("Installing best-arm into .venv/peers ...", file=sys.stderr, flush=True)
        venv.create(place, with_pip=True)
    installed = output(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "best-arm==0.1.1")
    return None if installed is None else str(python)


def best_arm(runs=3):
    python = peer_python()
    found = python and output(python, "-c", ONE_BY_ONE, json.dumps([MEANS, DELTA, runs]))
    if not found:
        print("\nbest-arm is not here: skipped")
        return
    header(
        f"Ten arms, the best at 1, the others from 0.6 to 0.9, sigma = 1, delta = {DELTA:g}",
        "program", "a run", "ratio to ours", "mean samples", "batches", "wrong", "its threshold is proved",
    )  # fmt: skip
    ours = {
        "roundwise Track-and-Stop, the same threshold, batches": (TrackAndStop(stopping=GLR(LogLogHeuristic())), "no"),
        "roundwise Track-and-Stop, batches": (TrackAndStop(), "yes"),
        "roundwise Wager": (Wager(), "yes"),
    }
    lines, first = [], None
    for name, (policy, proved) in ours.items():
        number = 10_000
        kept = []

        def work(policy=policy, number=number, kept=kept):
            kept[:] = simulate(BestArm(), GaussianArms(MEANS), [policy], runs=number, delta=DELTA, noise=SIGMA_1)

        each = cpu(work, 3) / number
        first = first or each
        summary = kept[0].summary
        wrong = f"{int((~kept[0].correct).sum())} of {number:,}"
        samples = f"{summary.samples_mean:,.0f}"
        lines.append((name, f"{1e6 * each:.0f} µs", "", samples, f"{summary.batches_mean:.1f}", wrong, proved))
    for label, (seconds, samples, wrong) in json.loads(found).items():
        ratio = f"**{seconds / first:,.0f}**"
        row(f"best-arm {label}", f"{seconds:.1f} s", ratio, f"{samples:,.0f}", "= samples", f"{wrong} of {runs}", "no")
    for line in lines:
        row(*line)


def rpact(runs=20_000):
    found = output("Rscript", "-e", TRIALS) if shutil.which("Rscript") else None
    if not found:
        print("\nrpact is not here (Debian: apt install r-cran-rpact): skipped")
        return
    seconds, version = found.split()
    theirs = float(seconds) / 500
    world = GaussianArms([0.0, 0.1, 0.2, 0.3, 0.5])
    options = {"runs": runs, "delta": DELTA, "noise": SIGMA_1}
    ours = cpu(lambda: simulate(BestArm(), world, [Wager(first_pulls=40)], **options), 3) / runs
    header("A control and four treatments (effects 0.1, 0.2, 0.3, 0.5, sigma = 1)", "program", "a simulated trial")
    row(f"rpact {version}: each against control, at most 4 stages of 40", f"{1e3 * theirs:.1f} ms")
    row("roundwise Wager: the best of the five, first batch of 40 each", f"{1e3 * ours:.3f} ms")
    print(f"\nratio **{theirs / ours:,.0f}** (the questions differ; both are one simulated multi-arm trial)")


if __name__ == "__main__":
    best_arm()
    rpact()
