"""Designed studies beside the numbers of their prototype: `python benchmarks/designed.py --runs 4000` (seed 1).

Answered within the budget, mean results in F (the fixed design with equal counts, Bonferroni's correction and a power
of 90 %), and looks; then, in five times as many runs, how often a true null is rejected where that is most likely,
with plans that stay and with plans that change, at random or because of results. The budget will not be extended
(`extension_value=0`), as in the prototype; errors are those of the default. A cell is marked where its power is three
standard errors below that of the prototype, or its mean three standard errors above.

`--sparing` cuts the last look to what would settle the planned lead with 95 %, as the rows of the prototype with
fewer results did; the policy takes all that is left, because the lead may be smaller.

`--live N` runs live studies beside their plan, and says how often forecasts on the way come true; `--speed` how much
longer simulations take than those of Wager.
"""

import argparse
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from roundwise import (
    Above,
    AnyAbove,
    BernoulliArms,
    BestArm,
    Binary,
    Gaussian,
    GaussianArms,
    Problem,
    TopK,
    create_study,
    plan,
    simulate,
)
from roundwise.arrays import tree_take
from roundwise.environments import PoissonArms, Replay
from roundwise.model.problem import advance, begin
from roundwise.noise import Bounded, Poisson, SubGaussian
from roundwise.planning.forecast import replan
from roundwise.policies import Designed, Wager
from roundwise.policies.designed import LOOKS
from roundwise.simulation.environments import draw_batch

LEAD = 0.1
FIXED = {  # sigma^2/lead^2
    2: 34.26,
    3: 74.8,
    4: 119.2,
    10: 431.1,
    20: 1045.9,
    "above": 178.3,
    "any-above": 119.8,
    "top-k": 556.4,
}  # sigma^2/lead^2
BEST = [  # arms, budget in F, looks; power, mean and runs of the prototype
    (2, 1.05, 3, 0.903, 0.767, 10_000), (2, 1.2, 3, 0.931, 0.816, 10_000),
    (2, 1.05, 5, 0.894, 0.696, 10_000), (2, 1.2, 5, 0.925, 0.737, 10_000),
    (3, 0.9, 3, 0.906, 0.691, 10_000), (3, 1.0, 3, 0.934, 0.735, 10_000),
    (3, 0.9, 5, 0.904, 0.638, 10_000), (3, 1.0, 5, 0.936, 0.673, 10_000),
    (4, 0.8, 3, 0.896, 0.661, 10_000), (4, 1.0, 3, 0.957, 0.727, 10_000),
    (4, 0.85, 5, 0.914, 0.589, 10_000), (4, 0.9, 5, 0.930, 0.600, 10_000),
    (10, 0.65, 3, 0.899, 0.577, 10_000), (10, 0.8, 3, 0.969, 0.648, 10_000),
    (10, 0.65, 5, 0.925, 0.466, 10_000), (10, 0.75, 5, 0.957, 0.485, 10_000),
    (20, 0.6, 5, 0.935, 0.404, 10_000), (20, 0.7, 5, 0.965, 0.416, 10_000),
]  # fmt: skip
RATES = [  # rates, F, budget in F; power, mean, runs of the prototype, which partitions its first look of three or more
    ((0.35, 0.30), 3006, 1.05, 0.895, 0.692, 10_000),
    ((0.12, 0.10), 8385, 1.05, 0.895, 0.698, 10_000), ((0.12, 0.10), 8385, 1.2, 0.926, 0.732, 6000),
    ((0.5, 0.3), 206, 1.1, 0.902, 0.723, 10_000), ((0.35, 0.3, 0.3), 6564, 1.0, 0.926, 0.674, 4000),
    ((0.35, 0.3, 0.3, 0.3), 10460, 0.9, 0.928, 0.611, 4000), ((0.35, *(0.3,) * 9), 37829, 0.75, 0.962, 0.479, 1200),
]  # fmt: skip
OTHERS = [  # question, means in leads, budget in F; power, mean and runs of the prototype
    (Above(0.0), [1, 1, 1, 1, -1, -1, -1, -1], 0.65, 0.923, 0.533, 4000),
    (Above(0.0), [1, 1, 1, 1, -1, -1, -1, -1], 0.8, 0.988, 0.549, 4000),
    (Above(0.0), [1, -1, 1, -1, 1.5, -1.5, 2, -2], 0.65, 0.997, 0.408, 4000),
    (AnyAbove(0.0), [1, *[-1] * 7], 0.6, 0.972, 0.345, 4000),
    (AnyAbove(0.0), [-1] * 8, 0.6, 0.932, 0.512, 4000),
    (AnyAbove(0.0), [1, *[0] * 7], 0.8, 0.933, 0.459, 4000),
    (TopK(3), [1, 1, 1, *[0] * 7], 0.8, 0.889, 0.598, 4000),
    (TopK(3), [1, 1, 1, *[0] * 7], 0.9, 0.938, 0.616, 4000),
]


def show_cell(name, question, env, noise, policy, fixed, runs, prototype):
    """Print one row of a table."""
    power, mean, theirs = prototype
    (found,) = simulate(question, env, [policy], runs=runs, noise=noise, seed=1, max_batches=policy.looks or LOOKS)
    right, used = (found.decided & found.correct).mean(), found.samples / fixed
    error, spread = np.sqrt(right * (1 - right) / runs), used.std() / np.sqrt(runs)
    low = right < power - 3 * np.sqrt(power * (1 - power) * (1 / runs + 1 / theirs))
    high = used.mean() > mean + 3 * spread * np.sqrt(1 + runs / theirs)
    worse = f"  worse: {' and '.join(['answered'] * bool(low) + ['mean'] * bool(high))}" if low or high else ""
    print(
        f"| {name} | {power:.3f}, {mean:.3f} F | {right:.3f} ± {error:.3f}, {used.mean():.3f} ± {spread:.3f} F | "
        f"{found.batches.mean():.1f} |{worse}",
        flush=True,
    )


def stay(trial, policy, rng):
    """The plan as it was made."""
    yield np.arange(len(trial.done)), policy


def change_at_random(trial, policy, rng):
    """Lead, looks and budget are drawn anew before every look."""
    left = max(policy.budget - float(trial.record.samples.min()), 10.0 * trial.plan.pulls.shape[-1])
    budget = int(trial.record.samples.max() + left * rng.uniform(0.5, 1.5))
    lead, looks, extension_value = (
        policy.lead * rng.choice([0.5, 0.8, 1.25, 2.0]),
        int(rng.integers(1, 9)),
        rng.choice([0.0, 0.3]),
    )
    yield (
        np.arange(len(trial.done)),
        Designed(budget=budget, lead=float(lead), looks=looks, extension_value=float(extension_value)),
    )


def change_by_results(trial, policy, rng):
    """Where little is left of some level: all of the budget in one look, at a bold lead; elsewhere patience."""
    gains = trial.kept.wealth.gains
    bold = gains.min(axis=-1) < 0.0
    used, looks = float(trial.record.samples.max()), int(trial.record.batches.max())
    for group, design in (
        (bold, {"budget": int(used + 150 * gains.shape[-1]), "lead": 2 * policy.lead, "looks": looks + 1}),
        (~bold, {"budget": int(used + 600 * gains.shape[-1]), "lead": 0.7 * policy.lead, "looks": looks + 5}),
    ):
        yield np.flatnonzero(group), Designed(**design)


def count_false_rejections(question, env, noise, policy, runs, lost, change=stay, chunk=500, most=8):
    """How often a true null is rejected, by the end of the budget or within `most` looks if plans change."""
    problem, rng, found = Problem(question, env.arms, 0.05, noise), np.random.default_rng(1), 0

    def follow(trial, state, policy, looks):
        nonlocal found
        for group, design in change(trial, policy, rng) if looks else stay(trial, policy, rng):
            one, world = tree_take((trial, state), group)
            if change is not stay and looks and group.size:
                one = one._replace(plan=design.next(problem, one))
            if not group.size or looks == most or not one.plan.pulls.any():
                found += int(lost(one.kept.wealth).sum())
                continue
            batch, world = draw_batch(problem, env, rng, world, one.plan)  # in parts, where they are bet on
            follow(advance(problem, design, one, batch), world, policy, looks + 1)

    for _ in range(runs // chunk):
        follow(begin(problem, policy, (chunk,)), env.initial_state(rng, chunk), policy, 0)
    return found / (runs // chunk * chunk)


class Sparing(Designed):
    """With a last look that takes no more than what would settle the planned lead."""

    def next(self, problem, trial):
        plan = super().next(problem, trial)
        lead = np.full(trial.done.shape, self.lead)
        with np.errstate(all="ignore"):
            need = self.stopping.eprocess(problem).settle(problem, trial.kept, lead).pulls.sum(axis=-1)
        share = np.minimum(need / np.maximum(plan.pulls.sum(axis=-1), 1.0), 1.0)
        return plan._replace(pulls=np.where(plan.last[..., None], np.ceil(plan.pulls * share[..., None]), plan.pulls))


def show_power(runs, design=Designed):
    """Print the tables of power and mean results."""
    print("| case | prototype | measured | looks |\n|---|---|---|---|")
    for arms, share, looks, *prototype in BEST:
        fixed, env = FIXED[arms] / LEAD**2, GaussianArms(LEAD * (np.arange(arms) == 0))
        policy = design(budget=int(share * fixed), lead=LEAD, looks=looks, extension_value=0.0)
        show_cell(
            f"best of {arms}, {share} F, {looks} looks", BestArm(), env, Gaussian(1.0), policy, fixed, runs, prototype
        )
    for rates, fixed, share, *prototype in RATES:
        policy = design(budget=int(share * fixed), lead=rates[0] - rates[1], extension_value=0.0)
        name = f"rates {rates[0]}, {len(rates) - 1} of {rates[1]}, {share} F"
        show_cell(name, BestArm(), BernoulliArms(rates), Binary(), policy, fixed, runs, prototype)
    for question, means, share, *prototype in OTHERS:
        fixed, env = FIXED[question.name] / LEAD**2, GaussianArms(LEAD * np.array(means))
        policy = design(budget=int(share * fixed), lead=LEAD, extension_value=0.0)
        show_cell(f"{question.name} {means}, {share} F", question, env, Gaussian(1.0), policy, fixed, runs, prototype)


def show_errors(runs):
    """Print how often a true null is rejected."""
    normal, best, level = Gaussian(1.0), BestArm(), -0.2

    graded = Replay(("a", "b", "c"), [0, 0.5, 1], [[1, 0, 1], [0, 1, 0], [1, 2, 1]])

    def tied(arms, low=0):
        return GaussianArms(np.concatenate([np.zeros(arms - low), np.full(low, level)]))

    def budget(each, lead, arms):
        return Designed(budget=each * arms, lead=lead)

    def first(wealth):
        return wealth.rejected[..., 0]

    def settled_above(wealth):
        return (wealth.settled & (wealth.above > wealth.below)).any(axis=-1)

    def first_above(wealth):
        return wealth.settled[..., 0] & (wealth.above > wealth.below)[..., 0]

    print("\n| a true null is rejected (at most 0.05) | measured |\n|---|---|")
    for name, question, env, noise, policy, lost, change in (
        *((f"{k} tied", best, tied(k), normal, budget(600, 0.2, k), first, stay) for k in (2, 3, 4, 10)),
        *((f"best two of {k} tied", best, tied(k, k - 2), normal, budget(600, 0.2, k), first, stay)
          for k in (3, 4, 10)),
        *((f"{k} tied, changes at random", best, tied(k), normal, budget(600, 0.2, k), first, change_at_random)
          for k in (2, 3, 10)),
        *((f"{k} tied, changes by results", best, tied(k), normal, budget(600, 0.2, k), first, change_by_results)
          for k in (2, 3, 4)),
        *((f"2 rates of {rate}", best, BernoulliArms([rate] * 2), Binary(), Designed(budget=size, lead=lead), first,
           stay) for rate, size, lead in ((0.3, 1200, 0.08), (0.1, 1200, 0.05), (0.05, 400, 0.07), (0.5, 206, 0.2))),
        ("4 rates of 0.3", best, BernoulliArms([0.3] * 4), Binary(), Designed(budget=2400, lead=0.1), first, stay),
        ("best two of 4 rates tied", best, BernoulliArms([0.3, 0.3, 0.2, 0.2]), Binary(),
         Designed(budget=2400, lead=0.1), first, stay),
        *((f"2 rates of 0.3, {words}", best, BernoulliArms([0.3] * 2), Binary(), Designed(budget=1200, lead=0.08),
           first, change) for words, change in (("changes at random", change_at_random),
                                                ("changes by results", change_by_results))),
        *((f"{k} tied, sub-Gaussian", best, tied(k), SubGaussian(1.0), budget(600, 0.2, k), first, stay)
          for k in (2, 4)),
        ("3 tied, values in [0, 1] of different spread", best, graded, Bounded(0.0, 1.0), budget(200, 0.2, 3), first,
         stay),
        ("6 rates of 0.3, partitioned look", best, BernoulliArms([0.3] * 6), Binary(), budget(350, 0.15, 6), first,
         stay),
        ("above: 3 counts on the level", Above(2.0), PoissonArms([2.0] * 3), Poisson(), budget(300, 0.5, 3),
         settled_above, stay),
        ("above: 8 on the level, any settled above", Above(0.0), tied(8), normal, budget(300, 0.2, 8), settled_above,
         stay),
        ("above: one of 8 on the level", Above(0.0), tied(8, 7), normal, budget(300, 0.2, 8), first_above, stay),
        ("any above: 8 on the level, says yes", AnyAbove(0.0), tied(8), normal, budget(300, 0.2, 8),
         lambda w: w.none_rejected, stay),
        ("any above: one of 8 on the level, says no", AnyAbove(0.0), tied(8, 7), normal, budget(300, 0.2, 8),
         lambda w: w.arms_rejected[..., 0], stay),
        ("top 3 of 10: all tied", TopK(3), tied(10), normal, budget(600, 0.2, 10), first, stay),
        ("top 3 of 10: tied at the cut", TopK(3), GaussianArms([0.2, 0.2, 0, 0, *[level] * 6]), normal,
         budget(600, 0.2, 10), first, stay),
    ):  # fmt: skip
        found = count_false_rejections(question, env, noise, policy, runs, lost, change)
        print(f"| {name} | {found:.4f} ± {np.sqrt(found * (1 - found) / runs):.4f} |", flush=True)


def live_studies(number, words, rates_of, question=None):
    """Live studies of 0/1 results, asked and told round by round: the state after each round."""
    question = BestArm() if question is None else question
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        for each in range(number):
            where, rates, states = f"sqlite:///{folder}/{each}.db", rates_of(rng), []
            with create_study("s", question=question, storage=where, seed=1, **words) as study:
                while (asked := study.ask()) is not None:
                    n = asked.pulls.astype(int)
                    won = rng.binomial(n, rates)
                    study.tell({"arm": asked.arms, "count": n.tolist(), "successes": won.tolist()}, new=True)
                    states.append(study.state)
                yield states  # which may read the record
            Path(f"{folder}/{each}.db").unlink()


LIVE = {"arms": ["a", "b", "c"], "noise": Binary(), "budget": 6564, "lead": 0.05}


def show_live(studies):
    """Print what live studies come to beside the plan of them, and how often forecasts on the way come true."""
    print("\n| rates 0.35, 0.3, 0.3; at most 6564 results | answered | mean results | rounds |\n|---|---|---|---|")
    row = plan(BestArm(), baseline=0.3, leads=[0.05], runs=4000, **LIVE).row
    ends = []
    for *_, last in live_studies(studies, LIVE, lambda rng: [0.35, 0.3, 0.3]):
        right = last.decided is not None and last.decided["answer"] == 0
        ends.append((right, last.record.samples, last.number))
    means, errors = np.mean(ends, axis=0), np.std(ends, axis=0) / np.sqrt(studies)
    shown = [f"{mean:.4g} ± {error:.2g}" for mean, error in zip(means, errors, strict=True)]
    print(f"| plan | {row.within_budget:.3f} | {row.mean_samples:.0f} | {row.mean_rounds:.2f} |")
    print(f"| {studies} live studies | {' | '.join(shown)} |", flush=True)


FORECASTS = [(BestArm(), 3, 6564), (TopK(2), 4, 8500), (Above(0.3), 4, 3200), (AnyAbove(0.3), 4, 2000)]


def show_forecasts(studies, question, arms, budget):
    """Print how often there is an answer, by the chance that was forecast after a round; leads of 0 to 2 times 0.05."""
    print(f"\n| forecast ({question.name}) | number | mean forecast | answered |\n|---|---|---|---|")
    found, patterns = [], question.lead_patterns(arms)

    def rates_of(rng):
        apart = rng.choice([0.0, 0.5, 0.75, 1.0, 1.5, 2.0]) * LIVE["lead"]
        return 0.3 + apart * (rng.choice([-1, 1], arms) if patterns is None else rng.choice(patterns))

    words = LIVE | {"arms": list("abcd"[:arms]), "budget": budget}
    for states in live_studies(studies, words, rates_of, question):
        on_the_way = [each for each in states if each.decided is None and each.over is None]
        answered = states[-1].decided is not None
        found += [(replan(each, runs=200).within_budget, answered) for each in on_the_way]
    chances, came = np.array(found).T
    for low, high in pairwise((0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 1.01)):
        here = (chances >= low) & (chances < high)
        if not here.any():
            continue
        share = came[here].mean()
        error = np.sqrt(share * (1 - share) / here.sum())
        print(
            f"| {low:g} to {min(high, 1):g} | {here.sum()} | {chances[here].mean():.3f} | {share:.3f} ± {error:.3f} |"
        )


def show_speed(runs):
    """Print the CPU time of simulations of designed studies and of Wager, in turn in one process: the least of 3."""
    print("\n| 1 000 runs, CPU s | designed | Wager | ratio |\n|---|---|---|---|")
    for arms, share in ((2, 1.05), (3, 1.0), (4, 0.9), (10, 0.65)):
        leads, fixed = np.arange(arms) == 0, FIXED[arms]
        for world, noise, lead, size in (
            (GaussianArms(LEAD * leads), Gaussian(1.0), LEAD, fixed / LEAD**2),
            (BernoulliArms(0.3 + 0.05 * leads), Binary(), 0.05, 0.22 * fixed / 0.05**2),
        ):
            policies, taken = (Designed(budget=int(share * size), lead=lead), Wager()), {}
            for _ in range(4):  # the first fills tables
                for policy in policies:
                    begun = time.process_time()
                    simulate(BestArm(), world, [policy], runs=runs, noise=noise, seed=1)
                    taken.setdefault(policy.name, []).append((time.process_time() - begun) * 1000 / runs)
            own, wager = (min(each[1:]) for each in taken.values())
            print(f"| {arms} arms, {noise.name} | {own:.3f} | {wager:.3f} | {own / wager:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--sparing", action="store_true", help="a smaller last look, and no errors")
    parser.add_argument("--live", type=int, default=0, help="number of live studies, in place of the tables")
    parser.add_argument("--speed", action="store_true", help="CPU time beside Wager, in place of the tables")
    given = parser.parse_args()
    if given.speed:
        show_speed(given.runs)
        return
    if given.live:
        show_live(given.live)
        for case in FORECASTS:
            show_forecasts(given.live, *case)
        return
    if given.sparing:
        show_power(given.runs, Sparing)
        return
    show_power(given.runs)
    show_errors(5 * given.runs)


if __name__ == "__main__":
    main()
