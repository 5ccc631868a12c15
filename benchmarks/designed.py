"""Designed studies beside the numbers of their prototype: `python benchmarks/designed.py --runs 1000` (seed 1).

Answered within the budget, mean results in F (the fixed design with equal counts, Bonferroni's correction and a power
of 90 %), and looks; then how often a true null is rejected where that is most likely. The budget will not be extended
(`hope=0`), as in the prototype; errors are those of the default. A cell is marked where its power is three standard
errors below, or its mean 5 % above.
"""

import argparse

import numpy as np

from roundwise import Above, AnyAbove, BernoulliArms, BestArm, Binary, Gaussian, GaussianArms, Problem, simulate
from roundwise.model.problem import advance, begin
from roundwise.policies import Designed

LEAD = 0.1
FIXED = {2: 34.26, 3: 74.8, 4: 119.2, 10: 431.1, 20: 1045.9, "above": 178.3, "any-above": 119.8}  # sigma^2/lead^2
BEST = [  # arms, budget in F, looks; power and mean of the prototype
    (2, 1.05, 5, 0.894, 0.696), (2, 1.2, 5, 0.925, 0.737), (2, 1.05, 3, 0.903, 0.767), (3, 1.0, 5, 0.928, 0.647),
    (4, 0.9, 5, 0.930, 0.600), (10, 0.65, 5, 0.925, 0.466), (10, 0.75, 5, 0.957, 0.485), (20, 0.6, 5, 0.935, 0.404),
]  # fmt: skip
RATES = [  # rates, F, budget in F; power and mean of the prototype, whose first look is dealt for three arms or more
    ((0.35, 0.30), 3006, 1.05, 0.895, 0.692), ((0.12, 0.10), 8385, 1.05, 0.895, 0.698),
    ((0.5, 0.3), 206, 1.1, 0.902, 0.723), ((0.35, 0.3, 0.3), 6564, 1.0, 0.926, 0.674),
    ((0.35, 0.3, 0.3, 0.3), 10460, 0.9, 0.928, 0.611), ((0.35, *(0.3,) * 9), 37829, 0.75, 0.962, 0.479),
]  # fmt: skip
LEVELS = [  # question, means in leads, budget in F; power and mean of the prototype
    (Above(0.0), [1, 1, 1, 1, -1, -1, -1, -1], 0.65, 0.923, 0.533),
    (Above(0.0), [1, -1, 1, -1, 1.5, -1.5, 2, -2], 0.65, 0.997, 0.408),
    (AnyAbove(0.0), [1, *[-1] * 7], 0.6, 0.972, 0.345),
    (AnyAbove(0.0), [-1] * 8, 0.6, 0.932, 0.512),
    (AnyAbove(0.0), [1, *[0] * 7], 0.8, 0.933, 0.459),
]


def show_cell(name, question, env, noise, policy, fixed, runs, power, mean):
    """Print one row of a table."""
    (found,) = simulate(question, env, [policy], runs=runs, noise=noise, seed=1)
    right, used = (found.decided & found.correct).mean(), found.samples / fixed
    error = np.sqrt(right * (1 - right) / runs)
    spread = used.std() / np.sqrt(runs)
    worse = "  worse" if right < power - 3 * max(error, 0.001) or used.mean() > 1.05 * mean + 3 * spread else ""
    print(
        f"| {name} | {power:.3f}, {mean:.3f} F | {right:.3f} ± {error:.3f}, {used.mean():.3f} ± {spread:.3f} F | "
        f"{found.batches.mean():.1f} |{worse}",
        flush=True,
    )


def count_false_rejections(question, env, noise, policy, runs, lost):
    """How often a true null is rejected by the end of the budget."""
    problem, rng = Problem(question, env.arms, 0.05, noise), np.random.default_rng(1)
    trial, state = begin(problem, policy, (runs,)), env.initial_state(rng, runs)
    while trial.plan.pulls.any():
        batch, state = env.pull(rng, state, trial.plan.pulls, noise.needs)
        trial = advance(problem, policy, trial, batch)
    return lost(trial.kept.wealth).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    print("| case | prototype | measured | looks |\n|---|---|---|---|")
    for arms, share, looks, power, mean in BEST:
        fixed, env = FIXED[arms] / LEAD**2, GaussianArms(LEAD * (np.arange(arms) == 0))
        policy = Designed(budget=int(share * fixed), lead=LEAD, looks=looks, hope=0.0)
        show_cell(
            f"best of {arms}, {share} F, {looks} looks", BestArm(), env, Gaussian(1.0), policy, fixed, runs, power, mean
        )
    for rates, fixed, share, power, mean in RATES:
        policy = Designed(budget=int(share * fixed), lead=rates[0] - rates[1], hope=0.0)
        name = f"rates {rates[0]}, {len(rates) - 1} of {rates[1]}, {share} F"
        show_cell(name, BestArm(), BernoulliArms(rates), Binary(), policy, fixed, runs, power, mean)
    for question, means, share, power, mean in LEVELS:
        fixed, env = FIXED[question.name] / LEAD**2, GaussianArms(LEAD * np.array(means))
        policy = Designed(budget=int(share * fixed), lead=LEAD, hope=0.0)
        show_cell(f"{question.name} {means}, {share} F", question, env, Gaussian(1.0), policy, fixed, runs, power, mean)
    print("\n| a true null is rejected (at most 0.05) | measured |\n|---|---|")
    normal, rates = Gaussian(1.0), Binary()
    first, any_side = lambda w: w.lost[..., 0], lambda w: (w.settled & (w.above > w.below)).any(axis=-1)
    for name, question, env, noise, policy, lost in (
        ("2 tied", BestArm(), GaussianArms(np.zeros(2)), normal, Designed(budget=1200, lead=0.17), first),
        ("4 tied", BestArm(), GaussianArms(np.zeros(4)), normal, Designed(budget=2400, lead=0.2), first),
        ("two of 4 tied", BestArm(), GaussianArms([0, 0, -0.2, -0.2]), normal, Designed(budget=2400, lead=0.2), first),
        ("2 rates of 0.3", BestArm(), BernoulliArms([0.3, 0.3]), rates, Designed(budget=1200, lead=0.08), first),
        ("2 rates of 0.05", BestArm(), BernoulliArms([0.05, 0.05]), rates, Designed(budget=400, lead=0.07), first),
        ("8 on the level", Above(0.0), GaussianArms(np.zeros(8)), normal, Designed(budget=2400, lead=0.2), any_side),
        ("any of 8 on the level", AnyAbove(0.0), GaussianArms(np.zeros(8)), normal, Designed(budget=2400, lead=0.2),
         lambda w: w.none_lost),
    ):  # fmt: skip
        found = count_false_rejections(question, env, noise, policy, 4 * runs, lost)
        print(f"| {name} | {found:.4f} ± {np.sqrt(found * (1 - found) / (4 * runs)):.4f} |", flush=True)


if __name__ == "__main__":
    main()
