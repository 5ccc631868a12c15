"""Many runs of policies in a simulated or replayed environment: in lockstep, in blocks.

Runs come in blocks of a fixed size, each with its own random generators, which depend on the seed and the number of
the block only. No arithmetic mixes runs, so blocks may be stacked to be computed faster: the numbers are the same
however many are computed at once, and where.

All policies see the same instances and the same stream of noise, so adding a policy changes nothing for the others.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Floats, Plain, tree_concat, tree_take
from roundwise.contract import check_classes
from roundwise.deadline import check_deadline
from roundwise.errors import InputError
from roundwise.model.batch import Batch
from roundwise.model.problem import Problem, Trial, advance, begin, check_whole_number, final_answer
from roundwise.noise import Noise
from roundwise.policies import Policy
from roundwise.policies.base import Rounds
from roundwise.questions import Question
from roundwise.questions.lower_bounds import lower_bound_at, own_lower_bound
from roundwise.simulation.environments import Environment, check_environment, draw_batch
from roundwise.simulation.summary import Runs

if TYPE_CHECKING:
    from roundwise.simulation.workers import Cluster


Watch = Mapping[str, Callable[[Trial], Array]]

LOT = 160_000  # runs times arms that are computed at once: enough to be fast, few enough for the cache


class RunSettings(NamedTuple):
    """Many runs of one policy; see `simulate`."""

    problem: Problem
    environment: Environment
    name: str
    policy: Policy
    runs: int
    seed: int
    keep_counts: bool = False
    max_samples: float = np.inf
    max_batches: float = np.inf
    watch: Watch | None = None

    @property
    def load(self) -> int:
        """The memory of one run, in arms: with shared items or a tolerance, every pair counts."""
        arms = self.problem.arms
        if self.problem.noise.shares_items:
            return 40 * arms**2
        return max(arms, arms**2 // 4) if self.problem.question.tolerance else arms

    @property
    def number_of_blocks(self) -> int:
        return -(-self.runs // block_size(self.load))

    def limited(self, rounds: Rounds) -> RunSettings:
        """The same with the policy kept within limits; `watch` still sees the plan of the policy itself."""
        watch = {key: partial(_look_within, rounds, look) for key, look in (self.watch or {}).items()}
        return self._replace(policy=rounds, watch=watch)


class RunBlock(NamedTuple):
    """One block of runs, not yet computed."""

    setting: RunSettings
    block: int
    size: int


def check_place(workers: int, cluster: Cluster | None) -> None:
    """Raise an InputError unless it is clear where to compute."""
    if check_whole_number("workers", workers, 1) > 1 and cluster is not None:
        raise InputError("Give either `workers` or `cluster`: a cluster has its own workers.")


def split_into_blocks(setting: RunSettings) -> Iterator[RunBlock]:
    """The blocks that make up these runs, for `compute_blocks`."""
    runs, seed = check_whole_number("runs", setting.runs, 1), check_whole_number("seed", setting.seed, 0)
    setting = setting._replace(runs=runs, seed=seed)
    if not (setting.max_samples > 0 and setting.max_batches > 0):
        raise InputError("`max_samples` and `max_batches` must be positive.")
    if math.isfinite(setting.max_samples):  # runs are cut off there; the policy does not know
        limit = float(math.floor(setting.max_samples))
        setting = setting.limited(Rounds(setting.policy, budget=limit, announced=False))
    setting = setting._replace(max_samples=min(setting.max_samples, 2.0**53))
    size = block_size(setting.load)
    return (RunBlock(setting, i, min(size, runs - i * size)) for i in range(setting.number_of_blocks))


def _look_within(rounds: Rounds, look: Callable[[Trial], Array], trial: Trial) -> Array:
    return look(trial._replace(plan=rounds.own_plan(trial.plan)))


def block_size(load: int) -> int:
    """How many runs share random generators: few enough to be small."""
    return max(1, min(1000, 2_000_000 // load))


def compute_blocks(
    jobs: Iterable[RunBlock], number: int, workers: int, cluster: Cluster | None
) -> Iterator[tuple[int, Runs]]:
    """The runs of each of `number` blocks as they are done, with the block's place in the list."""
    if cluster is None and (workers == 1 or number <= 1):
        yield from enumerate(_compute_here(jobs))
        return
    from roundwise.simulation.workers import done  # slow to import, so only here

    yield from done(_compute_all, jobs, number, workers, cluster)


def _compute_all(jobs: Iterable[RunBlock]) -> list[Runs]:
    return list(_compute_here(jobs))


def _compute_here(jobs: Iterable[RunBlock]) -> Iterator[Runs]:
    """Compute together blocks of the same setting that follow each other, as many at once as are fast."""
    lot: list[RunBlock] = []
    for job in jobs:
        size = sum(each.size for each in lot) + job.size
        if lot and (job.setting is not lot[0].setting or size * job.setting.load > LOT):
            yield from _compute_lot(lot)
            lot = []
        lot.append(job)
    if lot:
        yield from _compute_lot(lot)


def _compute_lot(lot: Sequence[RunBlock]) -> list[Runs]:
    """Blocks of runs in lockstep; a run that is done is dropped."""
    # free a large array, never touched: from then on glibc keeps what is freed for the next array. If it hands memory
    # back to the system each time, page faults take up to a tenth of a simulation.
    np.empty(3_000_000)
    setting = lot[0].setting
    problem, environment, policy = setting.problem, setting.environment, setting.policy
    question = problem.question
    rngs = [
        [np.random.default_rng(np.random.SeedSequence(setting.seed, spawn_key=(job.block, i))) for i in (0, 1)]
        for job in lot
    ]
    states = [environment.initial_state(rng, job.size) for job, (rng, _) in zip(lot, rngs, strict=True)]
    truth = tree_concat([state.means for state in states])
    question.check_means(truth)
    complexity, bound, bound_for = _lower_bounds(problem, environment, truth)
    ends = np.cumsum([job.size for job in lot])
    size = int(ends[-1])
    samples, batches = np.empty(size), np.empty(size)
    decided = np.zeros(size, dtype=np.bool_)
    answer = np.zeros_like(question.answer(truth))
    counts = np.empty((size, problem.arms)) if setting.keep_counts else None
    watched: dict[str, list[Array]] = {key: [] for key in setting.watch or {}}
    ended: list[NDArray[np.intp]] = []

    alive = np.arange(size)
    trial = begin(problem, policy, (size,))
    while alive.size:
        check_deadline()
        pulled = []
        for i, (start, end) in enumerate(pairwise(np.searchsorted(alive, [0, *ends]))):
            if start < end:
                plan = trial.plan._replace(pulls=trial.plan.pulls[start:end])
                batch, states[i] = draw_batch(problem, environment, rngs[i][1], states[i], plan)
                pulled.append(batch)
        before = trial.record.batches
        trial = advance(problem, policy, trial, tree_concat(pulled))
        record = trial.record
        over = (
            trial.done
            | (record.batches == before)  # the data are used up
            | policy.stopping.broken(problem, trial)
            | (record.samples >= setting.max_samples)
            | (record.batches >= setting.max_batches)
        )
        if not over.any():
            continue
        who, last = alive[over], tree_take(trial, np.flatnonzero(over))
        samples[who], batches[who] = last.record.samples, last.record.batches
        decided[who] = last.done
        answer[who] = final_answer(problem, policy, last)
        if counts is not None:
            counts[who] = last.record.counts
        ended.append(who)
        for key, look in (setting.watch or {}).items():
            seen = np.asarray(look(last))
            if seen.shape[:1] != who.shape:
                raise InputError(f"The watch '{key}' must return one value for each run, {len(who)} now.")
            watched[key].append(seen)
        for i, (start, end) in enumerate(pairwise(np.searchsorted(alive, [0, *ends]))):
            states[i] = tree_take(states[i], np.flatnonzero(~over[start:end]))
        rest = np.flatnonzero(~over)
        trial = trial._replace(batch=Batch(record.counts, record.totals))  # small, and not needed any more
        alive, trial = alive[rest], tree_take(trial, rest)
    order = np.argsort(np.concatenate(ended))
    columns: Plain = {
        "samples": samples,
        "batches": batches,
        "decided": decided,
        "answer": answer,
        "correct": decided & policy.stopping.correct(problem, answer, truth),
        "complexity": complexity,
        "lower_bound": bound,
        "counts": counts,
        "true_shown": question.count_true_claims(answer, truth),
    }
    seen_by = {key: np.concatenate(pieces)[order] for key, pieces in watched.items()}
    doubt = policy.stopping.doubt(problem) or environment.doubt or problem.noise.doubt(environment.noise)
    found = []
    for start, end in pairwise([0, *ends]):
        own: Plain = {key: None if column is None else column[start:end] for key, column in columns.items()}
        watched_here = {key: column[start:end] for key, column in seen_by.items()}
        about: Plain = {"policy": setting.name, "problem": problem, "bound_for": bound_for}
        found.append(Runs(**about, **own, watched=watched_here, doubt=None if doubt is None else doubt.caveat))
    return found


def _lower_bounds(problem: Problem, environment: Environment, truth: Floats) -> tuple[Floats, Floats, str | None]:
    """T* and the lower bound on samples in each run, and which rewards that bound is for, if not for these."""
    question, assumed, apart = problem.question, problem.noise.known_sigma, problem.noise.arm_sigmas
    family = environment.noise.family
    if family is not None and (own := own_lower_bound(question, truth, problem.delta, family)) is not None:
        return *own, None
    sigma = environment.sigma if assumed is None else assumed
    try:
        complexity = (question.complexity(truth, sigma=sigma) if apart is None else problem.complexity(truth)).value
    except InputError:  # claims about odds ratios have none
        complexity = np.full(truth.shape[:-1], np.nan)
    least = sigma if apart is None else float(apart.min())  # then it is a bound, too, where several answers are right
    bound = lower_bound_at(question, truth, problem.delta, least, complexity)
    exact = environment.noise.outcome.normal and sigma == environment.sigma
    return complexity, bound, None if exact else f"normal rewards with sigma {sigma:g}"


def simulate(
    question: Question,
    environment: Environment,
    policies: Sequence[Policy] | Mapping[str, Policy],
    *,
    runs: int = 1000,
    delta: float = 0.05,
    noise: Noise | None = None,
    seed: int = 1,
    keep_counts: bool = False,
    max_samples: float = np.inf,
    max_batches: float = np.inf,
    budget: float | None = None,
    lead: float | None = None,
    looks: int | None = None,
    round_size: float | None = None,
    split: Sequence[float] | None = None,
    watch: Watch | None = None,
    workers: int = 1,
    cluster: Cluster | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Runs]:
    """Run every policy many times in an environment whose truth is known.

    All policies see the same instances and the same stream of noise; adding a policy changes nothing for the others.

    Args:
        question: What is asked.
        environment: Where rewards come from.
        policies: The policies, in a list or by name.
        runs: How often each policy is run.
        delta: The error probability that the stopping rules allow.
        noise: What the algorithms assume of the rewards, by default what is true of the environment.
        seed: The seed of the random numbers.
        keep_counts: Whether to keep the results of each arm (`Runs.counts`).
        max_samples: A run that reaches it ends undecided (at most 2^53, beyond which numbers are not exact).
        max_batches: A run that reaches it ends undecided.
        budget: Nothing is asked for beyond it, and plans say how many results are left: claims are bet on towards it.
        lead: The smallest lead that matters, for the policy `Designed`.
        looks: The number of batches that is planned for, for the policies `Designed` and `Wager`.
        round_size: The size of every batch.
        split: The shares of the arms in all results.
        watch: Functions that are called with trials that have just ended, with the policy's own plan in them, and
            return one value for each run.
        workers: How many processes to use; the numbers do not depend on it.
        cluster: Address, scheduler file or client of a dask cluster to use in place of processes.
        progress: Called with the number of runs that were just finished.

    Returns:
        One `Runs` for each policy, in order.

    >>> from roundwise import BestArm, GaussianArms, PET
    >>> (runs,) = simulate(BestArm(), GaussianArms([1.0, 0.0]), [PET()], runs=10)
    >>> runs.correct.all()
    np.True_
    """
    check_place(workers, cluster)
    problem = Problem(question, environment.arms, delta, environment.noise if noise is None else noise)
    if not isinstance(policies, Mapping):
        policies = dict(_with_names(policies))
    check_environment(environment, problem.noise.needs)
    if (outcome := problem.noise.outcome).clip:
        environment = environment.clipped(outcome.low, outcome.high)
    jobs: list[RunBlock] = []
    for name, each in policies.items():
        check_classes(problem, each)
        policy = each.with_design(budget, lead, looks)
        setting = RunSettings(
            problem, environment, name, policy, runs, seed, keep_counts, max_samples, max_batches, watch
        )
        if budget is not None or round_size is not None or split is not None:
            setting = setting.limited(Rounds(policy, budget, round_size, None if split is None else tuple(split)))
        setting.policy.check(problem)
        jobs += split_into_blocks(setting)
    parts: dict[int, Runs] = {}
    for place, part in compute_blocks(jobs, len(jobs), workers, cluster):
        parts[place] = part
        if progress is not None:
            progress(len(part.samples))
    found: dict[str, list[Runs]] = {name: [] for name in policies}
    for place in range(len(jobs)):
        found[parts[place].policy].append(parts[place])
    return [join_runs(each) for each in found.values()]


def join_runs(parts: Sequence[Runs]) -> Runs:
    """Blocks of the same runs, one after the other."""
    together: Plain = {
        name: np.concatenate([vars(part)[name] for part in parts])
        for name, column in vars(parts[0]).items()
        if isinstance(column, np.ndarray)
    }
    watched = {key: np.concatenate([part.watched[key] for part in parts]) for key in parts[0].watched}
    return dataclasses.replace(parts[0], **together, watched=watched)


def _with_names(policies: Sequence[Policy]) -> Iterator[tuple[str, Policy]]:
    """Policies by name; the second of the same name is numbered."""
    seen: dict[str, int] = {}
    for policy in policies:
        seen[policy.name] = seen.get(policy.name, 0) + 1
        yield policy.name if seen[policy.name] == 1 else f"{policy.name} ({seen[policy.name]})", policy
