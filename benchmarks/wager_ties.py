"""Ties within a tolerance: Wager beside Elimination and beside itself without pairs (`benchmarks/wager.py --ties`).

The constants were chosen on other numbers of arms and tolerances (5, 20, 100 and 200 arms, 0.3 and 0.1) and seeds.
"""

from dataclasses import dataclass

import numpy as np

from roundwise import BestArm, GaussianArms, Statements, TopK, Wager, simulate
from roundwise.policies import Elimination
from roundwise.rules.eprocess.candidates import CandidateEProcess
from roundwise.rules.eprocess.rule import EProcessRule
from run import SIGMA_1, row
from wager_tables import header


@dataclass(frozen=True)
class WithoutPairs(EProcessRule):
    """The betting rule with candidates alone."""

    def eprocess(self, problem):
        return CandidateEProcess(shifts=True)


SETTINGS = ((1000, 4), (500, 4), (200, 2), (100, 2), (30, 2))  # of Elimination: first pulls, growth
MEANS = {
    "equal": lambda arms, k: np.zeros(arms),
    "N(0, 0.05)": lambda arms, k: lambda rng, runs: rng.normal(0, 0.05, (runs, arms)),
    "linear, 1 to 0": lambda arms, k: np.linspace(1, 0, arms),
    "N(0, 0.5)": lambda arms, k: lambda rng, runs: rng.normal(0, 0.5, (runs, arms)),
    "k arms at 1": lambda arms, k: np.repeat([1.0, 0.0], [k, arms - k]),
    "k arms at 0.5": lambda arms, k: np.repeat([0.5, 0.0], [k, arms - k]),
}
ASKED = ((1, 8, 0.25), (1, 40, 0.25), (1, 150, 0.25), (2, 8, 0.25), (4, 30, 0.25), (1, 12, 0.12), (3, 15, 0.12))


def ask(k, tolerance):
    return BestArm(tolerance=tolerance) if k == 1 else TopK(k, tolerance=tolerance)


def statements(seed, runs=400, few=20):
    """Statements against a control and rankings, with and without comparisons: mean samples / mean batches."""
    header("question", "means", "without comparisons", "Wager")
    for arms in (4, 8, 15):
        for name, means in (("all on the level", np.zeros(arms)), ("-0.5 to 0.5", np.linspace(-0.5, 0.5, arms))):
            compare(
                f"which of {arms - 1} beat a control",
                name,
                Statements.against_control(arms, 0, tolerance=0.3),
                means,
                seed,
                runs,
                few,
            )
    compare("ranking of 5", "equal", Statements.ranking(5, tolerance=0.3), np.zeros(5), seed, runs, few)


def compare(asked, name, question, means, seed, runs, few):
    """One row: where means tie, few runs without comparisons."""
    world, alone = GaussianArms(means), Wager(stopping=WithoutPairs())
    (ours,) = simulate(question, world, [Wager()], runs=runs, noise=SIGMA_1, seed=seed)
    number = few if np.ptp(means) == 0 else runs
    (before,) = simulate(question, world, [alone], runs=number, noise=SIGMA_1, seed=seed, max_samples=3e6)
    cells = [f"{each.samples.mean():.0f} / {each.batches.mean():.1f}" for each in (before, ours)]
    row(asked, name, cells[0], f"**{cells[1]}**")


def beside_elimination(seed, runs=400, few=20):
    """Mean samples / mean batches."""
    header("question", "means", "without pairs", "Elimination, its best setting", "Wager", "over the better")
    for k, arms, tolerance in ASKED:
        for name, means in MEANS.items():
            question, world = ask(k, tolerance), GaussianArms(means(arms, k))
            number = runs if arms < 100 else runs // 4
            rivals = {f"{first} x {growth}": Elimination(first, growth) for first, growth in SETTINGS}
            found = simulate(question, world, rivals, runs=number, noise=SIGMA_1, seed=seed)
            best = min(found, key=lambda each: each.samples.mean())
            (ours,) = simulate(question, world, [Wager()], runs=number, noise=SIGMA_1, seed=seed)
            alone = Wager(stopping=WithoutPairs())
            number = few if name in ("equal", "N(0, 0.05)") else number  # where it collapses
            (before,) = simulate(question, world, [alone], runs=number, noise=SIGMA_1, seed=seed, max_samples=3e6)
            ratio = ours.samples.mean() / min(best.samples.mean(), before.samples.mean())
            row(
                f"{'best' if k == 1 else f'top-{k}'} of {arms}, {tolerance:g}",
                name,
                f"{before.samples.mean():.0f} / {before.batches.mean():.1f}",
                f"{best.samples.mean():.0f} / {best.batches.mean():.1f} ({best.policy})",
                f"**{ours.samples.mean():.0f} / {ours.batches.mean():.1f}**",
                f"{ratio:.2f}",
            )
