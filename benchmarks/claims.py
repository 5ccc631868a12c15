"""What claims show, beside Bonferroni, Holm, Dunnett, group-sequential and MAMS designs: `python benchmarks/claims.py`.

`--errors` measures how often anything false is shown, at the borders of the nulls, `--open` how many results are needed
without a budget; `--runs` is how many runs of each. The numbers of docs/against-a-control.md are from `--runs 20000`
(seed 1). The other tests see the same kind of patients in a fixed split, and one look sees them once, at the end; z
tests of rates are not exact.
"""

import argparse
from dataclasses import dataclass

import numpy as np

import classical
from roundwise import BernoulliArms, Claims, ConditionalPower, GaussianArms, SubGaussian, simulate
from roundwise.rules.eprocess.claims import ClosedTestingRule

ACR20 = (0.36, 0.34, 0.47, 0.465, 0.537)  # responders: placebo, four doses
MIGRAINE = (0.098, 0.125, 0.114, 0.254, 0.19, 0.215, 0.237, 0.362)  # free of pain: placebo, seven doses
NORMAL = (0.0, 0.0, 0.1, 0.2, 0.3, 0.5)
GUIDES = (0.0,) + (0.0,) * 45 + (0.5,) * 5
ONES = (1.0,) * 7

CELLS = {  # means, world, delta, budget, size of a round, split, looks of the group-sequential tests
    "ACR20, 600 patients": (ACR20, BernoulliArms, 0.025, 600, 65, (2, 1, 1, 1, 1), 5),
    "ACR20, 1200 patients": (ACR20, BernoulliArms, 0.025, 1200, 65, (2, 1, 1, 1, 1), 5),
    "migraine, 1200, equal split": (MIGRAINE, BernoulliArms, 0.025, 1200, 120, (1, *ONES), 5),
    "migraine, 1200, control sqrt 7": (MIGRAINE, BernoulliArms, 0.025, 1200, 120, (7**0.5, *ONES), 5),
    "normal, 1000": (NORMAL, GaussianArms, 0.025, 1000, 100, (5**0.5, 1, 1, 1, 1, 1), 5),
    "normal, 3000": (NORMAL, GaussianArms, 0.025, 3000, 300, (5**0.5, 1, 1, 1, 1, 1), 5),
    "50 guides, 3000, 5 looks": (GUIDES, GaussianArms, 0.05, 3000, 600, (50**0.5, *(1,) * 50), 5),
    "50 guides, 3120, 5 looks": (GUIDES, GaussianArms, 0.05, 3120, 624, (74, *(11,) * 50), 5),  # whole numbers a look
}
ERRORS = {  # means, world, delta, budget, size of a round, split (None: its own)
    "normal, 5 nulls, fixed split": ((0.0,) * 6, GaussianArms, 0.05, 600, 60, (5**0.5, 1, 1, 1, 1, 1)),
    "normal, 5 nulls": ((0.0,) * 6, GaussianArms, 0.05, 600, 60, None),
    "normal, 3 nulls and two 0.3": ((0, 0, 0, 0, 0.3, 0.3), GaussianArms, 0.05, 600, 60, None),
    "normal, 1 null and four 0.5": ((0, 0, 0.5, 0.5, 0.5, 0.5), GaussianArms, 0.05, 600, 60, None),
    "normal, 1 null and four 1.0": ((0, 0, 1, 1, 1, 1), GaussianArms, 0.05, 600, 60, None),
    "0/1, 4 nulls at 0.36, fixed split": ((0.36,) * 5, BernoulliArms, 0.025, 600, 65, (2, 1, 1, 1, 1)),
    "0/1, 4 nulls at 0.36": ((0.36,) * 5, BernoulliArms, 0.025, 600, 65, None),
    "0/1, 4 nulls at 0.10": ((0.1,) * 5, BernoulliArms, 0.025, 600, 65, None),
    "0/1, 3 nulls and 0.537": ((0.36, 0.36, 0.36, 0.36, 0.537), BernoulliArms, 0.025, 600, 65, None),
    "0/1, 1 null and three 0.6": ((0.36, 0.36, 0.6, 0.6, 0.6), BernoulliArms, 0.025, 600, 65, None),
}


def claims(cell, runs, own=False, noise=None, eta=0.2):
    """True claims shown in each run, whether anything false was, and after how many results it ended."""
    means, world, delta, budget, size, split = cell[:6]
    question = Claims.against_control(len(means), 0)
    (found,) = simulate(
        question, world(list(means)), [ConditionalPower(eta=eta)], runs=runs, delta=delta, noise=noise,
        budget=budget, round_size=size, split=None if own else split,
    )  # fmt: skip
    return found


def looks_of(cell, runs, rng):
    """Scores of the classical tests at every look, on patients of their own in the same split. (looks, runs, J)"""
    means, world, _, budget, _, split, looks = cell
    shares = np.array(split) / sum(split)
    counts = np.stack([whole_numbers(shares * budget * k / looks) for k in range(1, looks + 1)])
    steps = np.diff(counts, axis=0, prepend=0.0)
    each = np.array(means)
    if world is BernoulliArms:
        sums = rng.binomial(steps[:, None].astype(int), each, (looks, runs, len(means))).cumsum(axis=0)
        return classical.rate_scores(sums, counts[:, None]), shares
    sums = (steps[:, None] * each + np.sqrt(steps[:, None]) * rng.standard_normal((looks, runs, len(means)))).cumsum(0)
    return classical.mean_scores(sums, counts[:, None]), shares


def whole_numbers(shares):
    """Rounded so that they add up to the same: the largest rests upwards."""
    found = np.floor(shares + 1e-9)
    rest = np.argsort(found - shares, kind="stable")[: round(shares.sum() - found.sum())]
    found[rest] += 1
    return found


def open_ended(runs):
    """Results until all true claims are shown, without a budget; with futility, until every claim is settled."""
    effects = (0.0, 0.1, 0.2, 0.3, 0.5)
    with_null = (0.0, *effects)
    for name, means, futility in (
        ("effects .1 .2 .3 .5", effects, None),
        ("effects 0 .1 .2 .3 .5", with_null, None),
        ("effects 0 .1 .2 .3 .5, futility .15", with_null, 0.15),
        ("four nulls and .3, futility .15", (0.0,) * 5 + (0.3,), 0.15),
    ):
        question = Claims.against_control(len(means), 0, futility=futility)
        policy = Until(tuple(mean > 0 for mean in means[1:])) if futility is None else ConditionalPower()
        (found,) = simulate(
            question, GaussianArms(list(means)), [policy], runs=runs, delta=0.025, max_samples=1_000_000
        )
        error = found.samples.std() / np.sqrt(runs)
        print(f"{name:38s} {found.samples.mean():7.0f} ± {error:.0f}, {found.batches.mean():.1f} batches", flush=True)


@dataclass(frozen=True)
class AllTrue(ClosedTestingRule):
    """Claims that end when those are shown that are true, which nobody knows but a simulation."""

    true: tuple[bool, ...] = ()

    def stops(self, problem, trial):
        """When these are shown."""
        return trial.kept.shown[..., np.array(self.true)].all(axis=-1)


@dataclass(frozen=True)
class Until(ConditionalPower):
    """Conditional power with that rule."""

    true: tuple[bool, ...] = ()

    def __init__(self, true):
        super().__init__()
        object.__setattr__(self, "true", true)

    @property
    def stopping(self):
        """That rule."""
        return AllTrue(true=self.true)


def others(cell, runs):
    """True claims shown and errors of each of the classical tests."""
    means, _, delta = cell[:3]
    scores, shares = looks_of(cell, runs, np.random.default_rng(1))
    loadings = tuple(np.sqrt(shares[1:] / (shares[1:] + shares[0])).round(12))
    end = scores[-1]
    tests = {
        "Bonferroni, one look": classical.bonferroni(end, delta),
        "Holm, one look": classical.holm(end, delta),
        "Dunnett, one look": classical.dunnett(end, delta, loadings),
        "Dunnett step-down, one look": classical.dunnett_step_down(end, delta, loadings),
        "O'Brien-Fleming, Holm": classical.sequential_holm(scores, delta, 0.5),
        "Pocock, Holm": classical.sequential_holm(scores, delta, 0.0),
    }
    for name, power in (("O'Brien-Fleming", 0.5), ("Pocock", 0.0)):
        found, used = classical.mams(scores, delta, shares, power)
        tests[f"MAMS, {name}, {used.mean():.2f} of all patients"] = found
    true = np.array(means)[1:] > means[0]
    return {name: ((found & true).sum(-1), (found & ~true).any(-1)) for name, found in tests.items()}


def line(name, shown, wrong):
    """One line of the table."""
    error = shown.std() / np.sqrt(len(shown))
    print(f"  {name:42s} {shown.mean():6.3f} ± {error:.3f}   anything false {wrong.mean():.4f}", flush=True)


def main():
    """Print the table, or the errors."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--open", action="store_true")
    parser.add_argument("--only", default="")
    words = parser.parse_args()
    if words.open:
        open_ended(words.runs)
        return
    if words.errors:
        for name, cell in ERRORS.items():
            if words.only in name:
                found = claims(cell, words.runs)
                rate, delta = (~found.correct).mean(), cell[2]
                error = np.sqrt(delta * (1 - delta) / words.runs)
                print(f"{name:36s} {rate:.4f} of at most {delta:g} (± {error:.4f})", flush=True)
        return
    for name, cell in CELLS.items():
        if words.only not in name:
            continue
        print(f"{name}: true claims shown, of {sum(mean > cell[0][0] for mean in cell[0][1:])}")
        for own in (False, True):
            found = claims(cell, words.runs, own)
            line("claims, own split" if own else "claims, this split", found.true_shown, ~found.correct)
        if cell[1] is GaussianArms:
            found = claims(cell, words.runs, noise=SubGaussian(1.0))
            line("claims, this split, sub-Gaussian", found.true_shown, ~found.correct)
        for test, (shown, wrong) in others(cell, words.runs).items():
            line(test, shown, wrong)


if __name__ == "__main__":
    main()
