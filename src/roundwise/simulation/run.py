"""Many runs of policies in a fake or replayed world: in lockstep, in blocks.

Runs come in blocks of a fixed size, each with random generators of its own that depend on the seed and the number of
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

from roundwise.arrays import Array, Plain, tree_concat, tree_take
from roundwise.contract import check_classes
from roundwise.errors import InputError
from roundwise.model.batch import Batch, Trial
from roundwise.model.problem import Problem, check_whole_number
from roundwise.model.trial import advance, begin, cannot_stop, final_answer
from roundwise.noise import Noise
from roundwise.policies import Policy
from roundwise.policies.rounds import Rounds
from roundwise.questions import Question
from roundwise.questions.lower_bounds import lower_bound_at, own_lower_bound
from roundwise.simulation.environments import Environment, check_environment, draw_batch, mismatch
from roundwise.simulation.summary import Runs

if TYPE_CHECKING:
    from roundwise.simulation.workers import Cluster


Watch = Mapping[str, Callable[[Trial], Array]]

LOT = 160_000  # runs times arms that are computed at once: enough to be fast, few enough for the cache


class RunSettings(NamedTuple):
    """What the blocks of the same runs share."""

    problem: Problem
    environment: Environment
    name: str
    policy: Policy
    seed: int
    keep_counts: bool
    limits: tuple[float, float]  # of samples and batches
    watch: Watch


class RunBlock(NamedTuple):
    """One block of runs, not yet computed."""

    setting: RunSettings
    block: int
    size: int


def check_place(workers: int, cluster: Cluster | None) -> None:
    """Raise an InputError unless it is clear where to compute."""
    if check_whole_number("workers", workers, 1) > 1 and cluster is not None:
        raise InputError("Give either `workers` or `cluster`: a cluster has workers of its own.")


def blocks(
    problem: Problem,
    environment: Environment,
    name: str,
    policy: Policy,
    *,
    runs: int,
    seed: int,
    keep_counts: bool = False,
    max_samples: float = np.inf,
    max_batches: float = np.inf,
    watch: Watch | None = None,
) -> Iterator[RunBlock]:
    """The blocks that make up these runs, not yet computed: `computed` does that, wherever it is told to."""
    runs, seed = check_whole_number("runs", runs, 1), check_whole_number("seed", seed, 0)
    if not (max_samples > 0 and max_batches > 0):
        raise InputError("`max_samples` and `max_batches` must be positive.")
    limits = (min(max_samples, 2.0**53), max_batches)
    watch = watch or {}
    if math.isfinite(max_samples):  # it is cut off there, and is not told
        policy, watch = _within(Rounds(policy, budget=float(math.floor(max_samples)), told=False), watch)
    size = block_size(load(problem))
    setting = RunSettings(problem, environment, name, policy, seed, keep_counts, limits, watch)
    number = number_of_blocks(problem, runs)
    return (RunBlock(setting, block, min(size, runs - block * size)) for block in range(number))


def _within(rounds: Rounds, watch: Watch) -> tuple[Rounds, Watch]:
    """A policy within limits, and the watch of it: what is watched sees the plan of the policy itself."""
    return rounds, {key: partial(_look_within, rounds, look) for key, look in watch.items()}


def _look_within(rounds: Rounds, look: Callable[[Trial], Array], trial: Trial) -> Array:
    return look(trial._replace(plan=rounds.own_plan(trial.plan)))


def number_of_blocks(problem: Problem, runs: int) -> int:
    """How many blocks these runs are computed in."""
    return -(-runs // block_size(load(problem)))


def load(problem: Problem) -> int:
    """What one run takes, in arms: where they share items, every two of them count."""
    return problem.arms if not problem.noise.shares_items else 40 * problem.arms**2


def block_size(load: int) -> int:
    """How many runs share random generators: few enough to be small."""
    return max(1, min(1000, 2_000_000 // load))


def computed(
    jobs: Iterable[RunBlock], number: int, workers: int, cluster: Cluster | None
) -> Iterator[tuple[int, Runs]]:
    """The blocks of these jobs as they are done, each with the place of its job: here, or wherever there is help."""
    if cluster is None and (workers == 1 or number <= 1):
        yield from enumerate(part for lot in _lots(jobs) for part in _together(lot))
        return
    from roundwise.simulation.workers import done  # slow to import, so only here

    yield from done(_all, jobs, number, workers, cluster)


def _all(jobs: Iterable[RunBlock]) -> list[Runs]:
    return [part for lot in _lots(jobs) for part in _together(lot)]


def _lots(jobs: Iterable[RunBlock]) -> Iterator[list[RunBlock]]:
    """Blocks of the same setting that follow each other, as many as are fast to compute at once."""
    lot: list[RunBlock] = []
    for job in jobs:
        size = sum(each.size for each in lot) + job.size
        if lot and (job.setting is not lot[0].setting or size * load(job.setting.problem) > LOT):
            yield lot
            lot = []
        lot.append(job)
    if lot:
        yield lot


def _together(lot: Sequence[RunBlock]) -> list[Runs]:
    """Blocks of runs in lockstep; a run that is done is dropped."""
    _keep_memory()
    problem, environment, name, policy, seed, keep_counts, limits, watch = lot[0].setting
    rngs = [
        [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(job.block, stream))) for stream in (0, 1)]
        for job in lot
    ]
    worlds = [environment.initial_state(rng, job.size) for job, (rng, _) in zip(lot, rngs, strict=True)]
    truth = tree_concat([world.means for world in worlds])
    assumed = problem.noise.known_sigma
    sigma = environment.sigma if assumed is None else assumed
    question = problem.question
    question.check_means(truth)
    apart = problem.noise.arm_sigmas
    try:
        complexity = (question.complexity(truth, sigma=sigma) if apart is None else problem.complexity(truth)).value
    except InputError:  # claims about odds ratios have none
        complexity = np.full(truth.shape[:-1], np.nan)
    least = sigma if apart is None else float(apart.min())  # then it is a bound, too, where several answers are right
    bound = lower_bound_at(problem.question, truth, problem.delta, least, complexity)
    exact = environment.noise.outcome.normal and sigma == environment.sigma
    family = environment.noise.family
    if family is not None and (own := own_lower_bound(question, truth, problem.delta, family)) is not None:
        (complexity, bound), exact = own, True
    ends = np.cumsum([job.size for job in lot])
    size = int(ends[-1])
    samples, batches = np.empty(size), np.empty(size)
    decided = np.zeros(size, dtype=np.bool_)
    answer = np.zeros_like(problem.question.answer(truth))
    counts = np.empty((size, problem.arms)) if keep_counts else None
    watched: dict[str, list[Array]] = {key: [] for key in watch}
    ended: list[NDArray[np.intp]] = []

    alive = np.arange(size)
    trial = begin(problem, policy, (size,))
    while alive.size:
        pulled = []
        for i, (start, end) in enumerate(pairwise(np.searchsorted(alive, [0, *ends]))):
            if start < end:
                plan = trial.plan._replace(pulls=trial.plan.pulls[start:end])
                batch, worlds[i] = draw_batch(problem, environment, rngs[i][1], worlds[i], plan)
                pulled.append(batch)
        batch = tree_concat(pulled)
        before = trial.record.batches
        trial = advance(problem, policy, trial, batch)
        record = trial.record
        used_up = record.batches == before
        over = (
            trial.done
            | used_up
            | cannot_stop(problem, policy, trial)
            | (record.samples >= limits[0])
            | (record.batches >= limits[1])
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
        for key, look in watch.items():
            watched[key].append(_looked(key, look(last), len(who)))
        for i, (start, end) in enumerate(pairwise(np.searchsorted(alive, [0, *ends]))):
            worlds[i] = tree_take(worlds[i], np.flatnonzero(~over[start:end]))
        rest = np.flatnonzero(~over)
        trial = trial._replace(batch=Batch(record.counts, record.totals))  # it has had its use; these are taken anyway
        alive, trial = alive[rest], tree_take(trial, rest)
    seen = {key: np.concatenate(pieces)[np.argsort(np.concatenate(ended))] for key, pieces in watched.items()}
    correct = decided & problem.question.correct(answer, truth)
    shown = question.count_true_claims(answer, truth)
    doubt = policy.stopping.doubt(problem) or mismatch(problem.noise, environment)
    bound_for = None if exact else f"normal rewards with sigma {sigma:g}"
    return [
        Runs(
            policy=name,
            problem=problem,
            samples=samples[start:end],
            batches=batches[start:end],
            decided=decided[start:end],
            answer=answer[start:end],
            correct=correct[start:end],
            complexity=complexity[start:end],
            lower_bound=bound[start:end],
            counts=None if counts is None else counts[start:end],
            watched={key: column[start:end] for key, column in seen.items()},
            doubt=None if doubt is None else doubt.caveat,
            bound_for=bound_for,
            true_shown=None if shown is None else shown[start:end],
        )
        for start, end in pairwise([0, *ends])
    ]


def _keep_memory() -> None:
    """Free a large array: from then on glibc keeps what is freed for the next array.

    Otherwise it may hand it back to the system each time, and page faults take up to a tenth of a simulation.
    """
    np.empty(3_000_000)  # 24 MB, never touched


def _looked(key: str, seen: object, runs: int) -> Array:
    values = np.asarray(seen)
    if values.shape[:1] != (runs,):
        raise InputError(f"The watch '{key}' must return one value for each run, {runs} now.")
    return values


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
    round: float | None = None,
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
        round: The size of every batch.
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
    named = policies if isinstance(policies, Mapping) else dict(_labelled(policies))
    check_environment(environment, problem.noise.needs)
    for policy in named.values():
        check_classes(problem, policy)
    watched: dict[str, tuple[Policy, Watch]] = {name: (policy, watch or {}) for name, policy in named.items()}
    if budget is not None or round is not None or split is not None:
        shares = None if split is None else tuple(split)
        watched = {name: _within(Rounds(policy, budget, round, shares), watch or {}) for name, policy in named.items()}
    for policy, _ in watched.values():
        policy.check(problem)
    jobs = [
        job
        for name, (policy, look) in watched.items()
        for job in blocks(
            problem,
            environment,
            name,
            policy,
            runs=runs,
            seed=seed,
            keep_counts=keep_counts,
            max_samples=max_samples,
            max_batches=max_batches,
            watch=look,
        )
    ]
    parts: dict[int, Runs] = {}
    for place, part in computed(jobs, len(jobs), workers, cluster):
        parts[place] = part
        if progress is not None:
            progress(len(part.samples))
    found: dict[str, list[Runs]] = {name: [] for name in named}
    for place in range(len(jobs)):
        found[parts[place].policy].append(parts[place])
    return [joined_runs(each) for each in found.values()]


def joined_runs(parts: list[Runs]) -> Runs:
    """Blocks of the same runs, one after the other."""
    first = parts[0]
    names = [each.name for each in dataclasses.fields(first) if isinstance(getattr(first, each.name), np.ndarray)]
    together: Plain = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    watched = {key: np.concatenate([part.watched[key] for part in parts]) for key in first.watched}
    return dataclasses.replace(first, **together, watched=watched)


def _labelled(policies: Sequence[Policy]) -> Iterator[tuple[str, Policy]]:
    seen: dict[str, int] = {}
    for policy in policies:
        seen[policy.name] = seen.get(policy.name, 0) + 1
        yield policy.name if seen[policy.name] == 1 else f"{policy.name} ({seen[policy.name]})", policy
