"""Which part of Wager saves what: its rule under other policies, Wager without each of its parts, and oracles."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np

from roundwise import GLR, BestArm, GaussianArms, RoundRobin, TrackAndStop, Wager, simulate
from roundwise.policies import TopTwo, wager
from roundwise.questions.best_arm import solve_star
from roundwise.rules.eprocess import cells, engine
from roundwise.rules.eprocess.engine import RequiredPulls
from roundwise.rules.eprocess.rule import EProcessRule
from roundwise.simulation import environments
from roundwise.thresholds import KaufmannKoolenPairwise
from run import PAPER, SIGMA_1, row
from wager_cases import HELD_OUT, INSTANCES
from wager_tables import cell, header

SHOWN = {
    "paper (10)": (BestArm(), PAPER),
    "equal gaps (10)": INSTANCES["equal gaps 0.3 (10)"],
    "close rival (10)": INSTANCES["one close rival (10)"],
    "best of 20": HELD_OUT["best of 20, normal means (sd 0.3)"],
    "gap 0.1 (2)": INSTANCES["gap 0.1 (2)"],
}
BETTING = EProcessRule()
POLICIES = {
    "Wager": Wager(),
    "Top-Two (200 at a time), betting rule": TopTwo(batch=200, stopping=BETTING),
    "Track-and-Stop, betting rule": TrackAndStop(stopping=BETTING),
    "Round Robin, betting rule": RoundRobin(stopping=BETTING),
    "Top-Two (200 at a time), pairwise threshold": TopTwo(batch=200, stopping=GLR(KaufmannKoolenPairwise())),
    "Track-and-Stop, pairwise threshold": TrackAndStop(stopping=GLR(KaufmannKoolenPairwise())),
    "Round Robin, pairwise threshold": RoundRobin(stopping=GLR(KaufmannKoolenPairwise())),
}


@dataclass(frozen=True)
class Changed(Wager):
    """Wager whose plans are changed."""

    change: Callable = lambda plan, samples: plan

    def first(self, problem, runs):
        return self.change(super().first(problem, runs), None)

    def next(self, problem, trial):
        return self.change(super().next(problem, trial), trial.record.samples)


def in_parts(number):
    return Changed(change=lambda plan, samples: plan if samples is None else plan._replace(parts=number))


def doubled(plan, samples):
    """A batch as large as all before it, split as Wager splits it."""
    if samples is None:
        return plan
    scale = samples / np.maximum(plan.pulls.sum(axis=-1), 1.0)
    return plan._replace(pulls=np.ceil(plan.pulls * scale[..., None]))


def changed(module, **constants):
    return Wager(), [(module, constants)]


ABLATIONS = {
    "Wager": (Wager(), []),
    "later batches as one part": (in_parts(1), []),
    "6 parts": (in_parts(6), []),
    "24 parts": (in_parts(24), []),
    "one partition of the first batch": changed(environments, FIRST_PARTITIONS=1),
    "X = 1.5, less bold": (Changed(change=lambda plan, _: plan._replace(jump=-1)), []),
    "X = 12, bolder": (Changed(change=lambda plan, _: plan._replace(jump=1)), []),
    "a log-uniform prior of drifts, X = 4": changed(engine, ALONE=0),
    "no gate in the first batch": changed(cells, LIKELY=-np.inf),
    "no gate of crowds": changed(cells, WARY=np.inf),
    "pooled means, shifts not removed": (Wager(stopping=EProcessRule(shifts=False)), []),
    "all arms alike": changed(wager, UNIFORM=1.0),
    "no uniform share": changed(wager, UNIFORM=0.0),
    "no floor": changed(wager, FLOOR=0.0),
    "no more while the leader is unsure": changed(wager, UNSURE=0.0, CROWDED=0.0),
    "two arms: no limit of their own": changed(wager, TWO=0.0),
    "batches as large as all before": (Changed(change=doubled), []),
    "all that is needed at once (at most 6 N)": changed(wager, WIDTH=1e9),
}


def rules(seed, runs=500):
    """The betting rule and other thresholds, under several policies."""
    header("policy and rule", *SHOWN)
    texts = {name: [] for name in POLICIES}
    for question, world in SHOWN.values():
        found = simulate(question, world, POLICIES, runs=runs, noise=SIGMA_1, seed=seed, max_batches=300)
        for name, each in zip(POLICIES, found, strict=True):
            texts[name].append(cell(each))
    for name, each in texts.items():
        row(name, *each)


def ablation(seed, runs=2000):
    """Wager with one thing changed at a time."""
    header("Wager, but", *SHOWN)
    for name, (policy, patches) in ABLATIONS.items():
        with ExitStack() as stack:
            for module, constants in patches:
                stack.enter_context(patch.multiple(module, **constants))
            texts = [
                cell(simulate(question, world, [policy], runs=runs, noise=SIGMA_1, seed=seed, max_batches=300)[0])
                for question, world in SHOWN.values()
            ]
        row(name, *texts)


# --- oracles: what is left to learn


def known_order(truth):
    """`BestArm.merits` with which the true means say who leads and who follows; estimates size everything else."""
    truth = np.asarray(truth)
    return lambda _, values: np.broadcast_to(truth if values.ndim < 3 else truth[:, None], values.shape)


def known_gaps(truth):
    """`BestArmEProcess.required_pulls` with the true gaps in place of their estimates."""
    truth = np.asarray(truth)

    def required_pulls(self, problem, state):
        leads = np.broadcast_to(np.arange(truth.size) == truth.argmax(), state.wealth.rejected.shape)
        open_ = ~state.wealth.rejected & ~leads
        need = np.maximum(problem.goal - state.wealth.gains, 1e-9)
        costs = np.where(open_, (truth.max() - truth) ** 2 / (2 * need), np.inf)
        return RequiredPulls(solve_star(costs, leads), open_ | leads)

    return required_pulls


def oracles(seed, runs=2000):
    """What it would cost if the leader, or the gaps that batches are planned with, were known."""
    drawn = PAPER.initial_state(np.random.default_rng(seed), 4).means
    worlds = {f"paper, draw {i + 1}": tuple(each) for i, each in enumerate(drawn.tolist())}
    worlds |= {name: tuple(np.asarray(SHOWN[name][1].means).tolist()) for name in list(SHOWN)[1:]}
    header("known", *worlds)
    for name in ("nothing", "leader", "gaps", "leader and gaps"):
        texts = []
        for truth in worlds.values():
            merits = known_order(truth) if "leader" in name else BestArm.merits
            pulls = known_gaps(truth) if "gaps" in name else cells.BestArmEProcess.required_pulls
            with (
                np.errstate(all="ignore"),
                patch.object(BestArm, "merits", merits),
                patch.object(cells.BestArmEProcess, "required_pulls", pulls),
            ):
                (found,) = simulate(BestArm(), GaussianArms(truth), [Wager()], runs=runs, noise=SIGMA_1, seed=seed)
            texts.append(cell(found))
        row(name, *texts)


def tables(seed):
    rules(seed)
    ablation(seed)
    oracles(seed)
