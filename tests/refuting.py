"""Worlds in which what a study assumes is wrong, with every question; and what a report leaves out of its bounds."""

import numpy as np

from roundwise import (
    Above,
    AnyAbove,
    BestArm,
    Binary,
    Bounded,
    Claims,
    Gaussian,
    Linear,
    MinimumBelow,
    Poisson,
    Statements,
    SubGaussian,
    TopK,
    UnknownVariance,
    create_study,
)

ARMS = ("a", "b", "c")
MEANS = np.array([0.5, 0.42, 0.3])
LEVEL = 0.4


def drifting(arm, number, size):
    """A mean that moves from round to round, each arm's in its own way."""
    return float(np.clip(MEANS[arm] + size * np.sin(1.7 * number + 2 * arm), 0.02, 0.98))


WORLDS = {  # what is assumed; what results are: of an arm, so many, in a round
    "sigma too small": (Gaussian(1.0), lambda rng, arm, n, r: rng.normal(MEANS[arm], 3.0, n)),
    "tails too heavy": (SubGaussian(1.0), lambda rng, arm, n, r: rng.standard_t(2, n) + MEANS[arm]),
    "single arms drift": (SubGaussian(1.0), lambda rng, arm, n, r: rng.normal(drifting(arm, r, 2.0), 1.0, n)),
    "rates drift": (Binary(), lambda rng, arm, n, r: (rng.random(n) < drifting(arm, r, 0.3)).astype(float)),
    "values drift": (Bounded(0, 1), lambda rng, arm, n, r: rng.beta(*_beta(drifting(arm, r, 0.15)), n)),
    "overdispersed": (
        Poisson(),
        lambda rng, arm, n, r: rng.poisson(MEANS[arm] * rng.gamma(1.0), n).astype(float),
    ),
    "unequal spreads": (UnknownVariance(), lambda rng, arm, n, r: _outliers(rng, arm, n) + 0.5 * (-1) ** (r + arm)),
}

QUESTIONS = {
    "best arm": BestArm(),
    "best arm, tolerance": BestArm(0.05),
    "top 2": TopK(2),
    "above": Above(LEVEL),
    "above, tolerance": Above(LEVEL, 0.03),
    "any above": AnyAbove(LEVEL),
    "minimum below": MinimumBelow(LEVEL),
    "claims": Claims.against_control(ARMS, "c"),
    "claims, two sides": Claims.against_control(ARMS, "c", sides="two"),
    "claims, ratio": Claims.against_control(ARMS, "c", 1.05, scale="ratio"),
    "claims, odds": Claims.against_control(ARMS, "c", 1.05, scale="odds-ratio"),
    "statements": Statements.against_control(ARMS, "c"),
    "ranking": Statements.ranking(3),
    "linear": Linear(BestArm(), [[1, 0], [0, 1], [0.6, 0.4]]),
}
ONLY = {"claims, odds": ("rates drift",), "linear": ("sigma too small", "tails too heavy", "single arms drift")}
CELLS = [(world, asked) for world in WORLDS for asked in QUESTIONS if world in ONLY.get(asked, WORLDS)]


def _beta(mean):
    return 20 * mean, 20 * (1 - mean)


def _outliers(rng, arm, n):
    return rng.normal(MEANS[arm], (0.1, 1.0, 6.0)[arm], n) + 20.0 * (rng.random(n) < 0.02)


def run(storage, world, asked, seed=1, rounds=4, results=60, delta=0.05):
    """A study that runs in one of these worlds; it stays open."""
    noise, draw = WORLDS[world]
    rng, question = np.random.default_rng(seed), QUESTIONS[asked]
    budget = rounds * results if asked.startswith("claims") else None
    options = {"question": question, "arms": ARMS, "noise": noise, "seed": seed, "round": results, "budget": budget}
    study = create_study("s", storage=storage, delta=delta, **options)
    for number in range(rounds):
        batch = study.ask()
        if batch is None:
            break
        rows = [(arm, value) for arm, n in batch.table for value in draw(rng, ARMS.index(arm), int(n), number)]
        study.tell({"arm": [arm for arm, _ in rows], "outcome": [value for _, value in rows]})
    return study


def left_out(report):
    """Everything in a report that lies outside its own bounds: what, the estimate, and the bounds."""
    found, means = [], {each.name: each.mean for each in report.arm_rows if each.mean is not None}
    best, leads = max(means.values(), default=None), report.answer if isinstance(report.answer, str) else None
    for arm in report.arm_rows:
        found.append((f"mean of {arm.name}", arm.mean, arm.lower, arm.upper))
        found.append((f"difference of {arm.name}", arm.difference, arm.difference_lower, arm.difference_upper))
        found.append((f"lift of {arm.name}", arm.lift, arm.lift_lower, arm.lift_upper))
        if arm.mean is not None:
            found.append((f"{arm.name} behind the best", best - arm.mean, arm.gap_to_best_lower, None))
        if arm.mean is not None and leads is not None and arm.name != leads:
            found.append(
                (
                    f"{arm.name} behind the leader",
                    means[leads] - arm.mean,
                    arm.gap_to_leader_lower,
                    arm.gap_to_leader_upper,
                )
            )
    for claim in report.claim_rows:
        found.append((claim.claim, claim.estimate, claim.lower, claim.upper))
        found.append((f"{claim.claim}, single", claim.estimate, claim.single_lower, claim.single_upper))
    return [each for each in found if each[1] is not None and excludes(*each[1:])]


def excludes(estimate, lower, upper):
    """Whether these bounds leave out the estimate."""
    return (lower is not None and estimate < lower) or (upper is not None and estimate > upper)
