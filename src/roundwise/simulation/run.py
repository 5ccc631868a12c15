"""Many runs of policies in a fake or replayed world.

All policies see the same instances and the same stream of noise, so adding a policy changes nothing for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from roundwise.noise import Noise
from roundwise.policies import Policy
from roundwise.policies.rounds import in_rounds
from roundwise.problem import Problem
from roundwise.questions import Question
from roundwise.simulation.environments import Environment
from roundwise.simulation.lockstep import Watch, blocks, check_place, computed
from roundwise.simulation.summary import Runs, joined_runs

if TYPE_CHECKING:
    from roundwise.simulation.workers import Cluster


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
    """Run every policy `runs` times; one `Runs` for each, in order.

    `noise` is what the algorithms assume of the rewards, by default what is true of the environment. A run that reaches
    `max_samples` (at most 2^53, beyond which numbers are not exact) or `max_batches`, or whose data is used up, ends
    undecided. With a `budget` nothing is asked for beyond it, and plans say how many results are left: claims are bet
    on towards it. A `round` is the size of every batch, a `split` the shares of the arms in it. `workers` is how many
    processes to use, `cluster` the address, the scheduler file or a client of a dask cluster to use instead; the
    numbers stay the same. `progress` is called with the number of runs done.

    >>> from roundwise import BestArm, GaussianArms, PET
    >>> (runs,) = simulate(BestArm(), GaussianArms([1.0, 0.0]), [PET()], runs=10)
    >>> runs.correct.all()
    np.True_
    """
    check_place(workers, cluster)
    problem = Problem(question, environment.arms, delta, environment.noise if noise is None else noise)
    named = policies if isinstance(policies, Mapping) else dict(_labelled(policies))
    named = {name: in_rounds(policy, budget, round, split) for name, policy in named.items()}
    for policy in named.values():
        policy.check(problem)
    jobs = [
        job
        for name, policy in named.items()
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
            watch=watch,
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


def _labelled(policies: Sequence[Policy]) -> Iterator[tuple[str, Policy]]:
    seen: dict[str, int] = {}
    for policy in policies:
        seen[policy.name] = seen.get(policy.name, 0) + 1
        yield policy.name if seen[policy.name] == 1 else f"{policy.name} ({seen[policy.name]})", policy
