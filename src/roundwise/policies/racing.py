"""Batched elimination: accept and reject arms in rounds until the best k are found.

With bounds that hold (L_i <= mu_i <= U_i, or only L_a - U_b <= mu_a - mu_b for a of the best k and b not), no arm is
placed wrongly: were an arm accepted that is not among the best k, then one of those that are, and are still in the
race, would have a U below its L; likewise for rejected arms. Where rewards are scaled, it is to sigma = 1/2 (those in
[0, 1]). Where numbers are recalled or read in other authors' code, the proofs for these very numbers are in
docs/baselines.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, one_hot, quiet, total, tree_where, zeros
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, Declaration, Problem, Record, Trial
from roundwise.policies.base import (
    Policy,
    RankingPolicy,
    apportion_pulls,
    batch_merits,
    checked,
    everywhere,
    filled,
    oriented,
    ranking,
    undeclared,
    whole,
)
from roundwise.questions import Question
from roundwise.questions.base import Answer, largest_mask
from roundwise.rules import Declared, StoppingRule
from roundwise.solvers.design import ROUGH, fit_least_squares, orthonormal_basis, solve_design


class RaceState(NamedTuple):
    """Where a race stands."""

    round: Floats  # r, from 1
    place: Floats  # (K): 1 accepted, 0 still in the race, -1 rejected

    @property
    def racing(self) -> Bools:
        """The arms still in. (K)"""
        return np.asarray(self.place == 0)


def start_race(problem: Problem, runs: tuple[int, ...]) -> RaceState:
    """Everyone is in, in the first round."""
    return RaceState(np.ones(runs), zeros((*runs, problem.arms)))


def place_arms(problem: Problem, race: RaceState, lower: Floats, upper: Floats) -> RaceState:
    """Accept whose L exceeds the (k'+1)-th largest U, reject whose U is below the k'-th largest L, k' places left."""
    racing = race.racing
    places = ranking(problem).number_sought - (race.place > 0).sum(axis=-1)
    rival = ranked(np.where(racing, upper, -np.inf), places)
    last = ranked(np.where(racing, lower, -np.inf), places - 1)
    accepted = racing & (lower > rival[..., None])
    rejected = racing & ~accepted & (upper < last[..., None])
    return race._replace(place=race.place + accepted - rejected)


def ranked(values: Floats, rank: NDArray[np.intp]) -> Floats:
    """The value of this rank, 0 for the largest; infinity before the first and minus infinity after the last."""
    ordered = -np.sort(-values, axis=-1)
    inside = np.clip(rank, 0, values.shape[-1] - 1)
    found = np.take_along_axis(ordered, inside[..., None], axis=-1)[..., 0]
    return np.asarray(np.where(rank < 0, np.inf, np.where(rank >= values.shape[-1], -np.inf, found)))


def declare_accepted(problem: Problem, race: RaceState) -> Declaration:
    """The accepted arms, once they are all."""
    accepted, sought = race.place > 0, ranking(problem)
    return Declaration(np.asarray(accepted.sum(axis=-1) == sought.number_sought), sought.answer_from_set(accepted))


class RacingPolicy(RankingPolicy[RaceState]):
    """Rounds in which every arm still in the race is brought to the same number of pulls."""

    @abstractmethod
    def pulls(self, problem: Problem, r: Floats) -> Floats:
        """Pulls of each arm up to the end of round r."""

    @abstractmethod
    def reach(self, problem: Problem, r: Floats) -> Floats:
        """How much the difference of two means may deviate in round r."""

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[RaceState]:
        pulls = everywhere(runs, problem.arms, float(self.pulls(problem, np.array(1.0))))
        asked, race = np.ones(runs, dtype=np.bool_), start_race(problem, runs)
        return BatchPlan(pulls, asked, race, declared=undeclared(problem, runs))

    def next(self, problem: Problem, trial: Trial[RaceState]) -> BatchPlan[RaceState]:
        """Accept and reject; pull the arms that are left up to the number of the next round."""
        race, means = trial.plan.memory, oriented(problem, trial.record).means
        reach = self.reach(problem, race.round)
        after = place_arms(problem, race, means - reach[..., None] / 2, means + reach[..., None] / 2)
        declared = self._declare(problem, means, reach, after)
        after = after._replace(round=race.round + 1)
        goal = self.pulls(problem, after.round)[..., None]
        pulls = np.where(after.racing, np.maximum(goal - trial.record.counts, 1.0), 0.0)
        return BatchPlan(pulls, trial.plan.may_stop, after, declared=declared)

    def _declare(self, problem: Problem, means: Floats, reach: Floats, race: RaceState) -> Declaration:
        return declare_accepted(problem, race)


@dataclass(frozen=True)
class Elimination(RacingPolicy):
    """Best arm (also within a tolerance) or top-k by rounds of elimination, with a short proof.

    In round r every arm still in has n_r pulls in all, and x_r = 2 sigma sqrt(ln(M r (r+1) / delta) / n_r), M the
    number of pairs of a wanted and an unwanted arm (K - 1 for best arm). The difference of two means of n_r pulls
    deviates by more than x_r, to one side, with probability at most exp(-n_r x_r^2 / (4 sigma^2)) = delta /
    (M r (r+1)); added up over pairs and rounds that is delta.

    Args:
        first_pulls: n_1, pulls of each arm at the end of the first round.
        growth: By how much n_r grows from round to round.
        stopping: The stopping rule, by default that of its proof.

    >>> from roundwise.questions import BestArm
    >>> Elimination().first(Problem(BestArm(), arms=10), runs=()).pulls.sum()
    np.float64(5000.0)
    """

    first_pulls: float = 500.0
    growth: float = 4.0
    stopping: StoppingRule = field(default=Declared(proof="docs/baselines.md, elimination"))
    name = "elimination"
    tolerant = True

    def __post_init__(self) -> None:
        check_growing(self.first_pulls, self.growth)

    def pulls(self, problem: Problem, r: Floats) -> Floats:
        """n_r."""
        return np.asarray(np.ceil(self.first_pulls * self.growth ** (r - 1)))

    def reach(self, problem: Problem, r: Floats) -> Floats:
        """x_r."""
        places = ranking(problem).number_sought
        pairs = places * (problem.arms - places)
        level = np.log(pairs * r * (r + 1) / problem.delta)
        return np.asarray(2 * problem.sigma * np.sqrt(level / self.pulls(problem, r)))

    @quiet
    def _declare(self, problem: Problem, means: Floats, reach: Floats, race: RaceState) -> Declaration:
        """The accepted arms, or the leaders if by the same bounds no arm left is better by more than the tolerance."""
        found = declare_accepted(problem, race)
        if not problem.question.tolerance:
            return found
        left, accepted, sought = np.where(race.racing, means, -np.inf), race.place > 0, ranking(problem)
        places = sought.number_sought - accepted.sum(axis=-1)
        ahead = ranked(left, places - 1) - ranked(left, places)
        near = np.asarray(~found.made & (ahead > reach - problem.question.tolerance))
        mine = sought.answer_from_set(accepted | (race.racing & largest_mask(left, places)))
        return Declaration(found.made | near, tree_where(near, mine, found.answer))


@dataclass(frozen=True)
class Hillel(RacingPolicy):
    """Best arm: in round r every arm left has (2/e_r^2) ln(4 K r^2 / delta) pulls in all, e_r = 2^-r.

    An arm e_r behind the best leaves. It ends when one arm is left, or with a tolerance when e_r is at most half of it.
    After Hillel, Karnin, Koren, Lempel and Somekh 2013, "Distributed exploration in multi-armed bandits", for players
    that meet in every round: here there is one, and meetings are batches. Its end is recalled.

    Args:
        stopping: The stopping rule, by default that of its proof.

    >>> from roundwise.questions import BestArm
    >>> float(Hillel().pulls(Problem(BestArm(), arms=10), np.array(1.0)))  # 8 ln(800) = 53.5
    54.0
    """

    stopping: StoppingRule = field(
        default=Declared(proof="Hillel et al. 2013, NeurIPS; for these constants docs/baselines.md, hillel")
    )
    name = "hillel"
    sets = False
    tolerant = True

    def pulls(self, problem: Problem, r: Floats) -> Floats:
        return whole(2 * 4.0**r * np.log(4 * problem.arms * r**2 / problem.delta) + math.ulp(1.0))

    def reach(self, problem: Problem, r: Floats) -> Floats:
        """e_r, in the units of the rewards."""
        return np.asarray(2 * problem.sigma * 2.0**-r)

    def _declare(self, problem: Problem, means: Floats, reach: Floats, race: RaceState) -> Declaration:
        found = declare_accepted(problem, race)
        near = ~found.made & (reach <= problem.question.tolerance / 2)
        best = np.where(race.place >= 0, means, -np.inf).argmax(axis=-1)
        return Declaration(found.made | near, np.where(near, best, found.answer))


@dataclass(frozen=True)
class Karpov(RacingPolicy):
    """Top-k: in round r every arm left has (8/e_r^2) ln(4 K r^2 / delta) pulls in all, e_r = 2^-r.

    An arm more than e_r above the (k+1)-th mean is accepted, one more than e_r below the k-th is rejected. After
    Karpov, Zhang and Zhou 2020, "Collaborative top distribution identifications with limited interaction", for agents
    in rounds: here there is one. (The code read lowers k by all accepted arms in every round again: we do not.)

    Args:
        stopping: The stopping rule, by default that of its proof.

    >>> from roundwise.questions import TopK
    >>> float(Karpov().pulls(Problem(TopK(2), arms=10), np.array(1.0)))  # 32 ln(800) = 213.9
    214.0
    """

    stopping: StoppingRule = field(
        default=Declared(proof="Karpov, Zhang and Zhou 2020, FOCS; for these constants docs/baselines.md, karpov")
    )
    name = "karpov"

    def pulls(self, problem: Problem, r: Floats) -> Floats:
        return whole(np.asarray(8 * 4.0**r * np.log(4 * problem.arms * r**2 / problem.delta)))

    reach = Hillel.reach


@dataclass(frozen=True)
class BatchRacing(RankingPolicy[RaceState]):
    """Top-k or best arm in batches of equal size, which go to the arms left that have fewest pulls.

    A batch may lack a few pulls where arms are alike and their number does not divide it. After Jun, Jamieson, Nowak
    and Zhu 2016, "Top arm identification in multi-armed bandits with batch arm pulls", with numbers read in two
    programs and general sigma by scaling to rewards in [0, 1].

    Args:
        batch: b, the pulls of a batch.
        most: The most pulls of one arm in a batch.
        stopping: The stopping rule, by default that of its proof.

    >>> from roundwise.questions import TopK
    >>> BatchRacing(batch=100).first(Problem(TopK(2), arms=10), runs=()).pulls.tolist()[:2]
    [10.0, 10.0]
    """

    batch: float = 1000.0
    most: float | None = None
    stopping: StoppingRule = field(
        default=Declared(proof="Jun et al. 2016, AISTATS; for sub-Gaussian rewards docs/baselines.md")
    )
    name = "batch-racing"

    def __post_init__(self) -> None:
        checked(1 <= self.batch <= 2**53, f"`batch` is {self.batch:g}, but must be at least 1.")
        checked(self.most is None or self.most >= 1, f"`most` is {self.most}, but must be at least 1.")

    def check(self, problem: Problem) -> None:
        super().check(problem)
        few = f"`batch` is {self.batch:g}, but {problem.arms} arms need at least {problem.arms} pulls a batch."
        checked(self.batch >= problem.arms, few)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[RaceState]:
        race = start_race(problem, runs)
        pulls = self._share(race, np.zeros_like(race.place), None)
        return BatchPlan(pulls, np.ones(runs, dtype=np.bool_), race, declared=undeclared(problem, runs))

    def next(self, problem: Problem, trial: Trial[RaceState]) -> BatchPlan[RaceState]:
        race, record = trial.plan.memory, oriented(problem, trial.record)
        means, radius = record.means, self.radius(problem, record.counts)
        after = place_arms(problem, race, means - radius, means + radius)._replace(round=race.round + 1)
        pulls = self._share(after, record.counts, record)
        return BatchPlan(pulls, trial.plan.may_stop, after, declared=declare_accepted(problem, after))

    def radius(self, problem: Problem, counts: Floats) -> Floats:
        """D(t, w) = 4 sigma sqrt(ln(log2(2t) / w) / t), w = sqrt(delta / (6 K))."""
        share = math.sqrt(problem.delta / (6 * problem.arms))
        pulls = np.maximum(counts, 1.0)
        return np.asarray(4 * problem.sigma * np.sqrt(np.log(np.log2(2 * pulls) / share) / pulls))

    def _share(self, race: RaceState, counts: Floats, record: Record | None) -> Floats:
        """Pulls with which those left become as equal as they can, within the limits."""
        have = np.where(race.racing, counts, 0.0)
        equal = np.where(race.racing, have.max(axis=-1, keepdims=True) + self.batch, -(2.0**60))  # the others get none
        goal = filled(have, equal, have.sum(axis=-1) + math.floor(self.batch))
        more = np.where(race.racing, np.ceil(goal - have - 1e-9), 0.0)
        pulls = apportion_pulls(more, math.floor(self.batch), 0.0, so_far=record)
        return pulls if self.most is None else np.minimum(pulls, math.floor(self.most))


class RoundsLeft(NamedTuple):
    """How many rounds are to go, and the arms still in."""

    rounds: Floats  # r
    inside: Bools  # (K)


@dataclass(frozen=True)
class Agarwal(RankingPolicy[RoundsLeft]):
    """Best arm or top-k in exactly `rounds` batches, if the k-th mean leads the next by `gap` or more.

    With r rounds to go, every arm left is pulled so often that only |S| / ilog^(r-1)(|S|/k) arms can pass for one of
    the best k by chance, and all others leave. After Agarwal, Agarwal, Assadi and Khanna 2017, "Learning with limited
    rounds of adaptivity", recalled; the constants are those with which the proof works out (docs/baselines.md).

    Args:
        gap: Delta, the smallest lead, in the units of the rewards.
        rounds: How many batches.
        stopping: The stopping rule, by default that of its proof.

    >>> from roundwise.questions import BestArm
    >>> Agarwal(gap=0.1, rounds=2).sizes(Problem(BestArm(), arms=1000))
    [1000, 145]
    """

    gap: float = 0.1
    rounds: int = 2
    stopping: StoppingRule = field(default=Declared())  # replaced: the proof depends on the gap
    name = "agarwal"

    def __post_init__(self) -> None:
        checked(0 < self.gap < math.inf, f"`gap` is {self.gap:g}, but must be a positive number.")
        checked(1 <= self.rounds <= 20, f"`rounds` is {self.rounds:g}, but must be from 1 to 20.")
        if self.stopping == Declared():
            rule = Declared(
                proof="Agarwal et al. 2017, COLT; for these constants docs/baselines.md, agarwal",
                condition=f"the arms looked for lead all others by {self.gap:g} or more",
            )
            object.__setattr__(self, "stopping", rule)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[RoundsLeft]:
        pulls = everywhere(runs, problem.arms, self.pulls(problem, self.rounds))
        memory = RoundsLeft(np.full(runs, float(self.rounds)), np.ones(pulls.shape, dtype=np.bool_))
        return BatchPlan(pulls, np.ones(runs, dtype=np.bool_), memory, declared=undeclared(problem, runs))

    def next(self, problem: Problem, trial: Trial[RoundsLeft]) -> BatchPlan[RoundsLeft]:
        """Keep the arms with the largest means of this round; fresh pulls of them in the next."""
        rounds, inside = trial.plan.memory
        means = np.where(inside, batch_merits(problem, trial.batch), -np.inf)
        kept, pulls = np.zeros_like(inside), np.zeros(means.shape)
        sizes = [*self.sizes(problem), ranking(problem).number_sought]
        for r in range(1, self.rounds + 1):
            now = (rounds == r)[..., None]
            if now.any():
                kept |= now & largest_mask(means, sizes[self.rounds - r + 1])
                pulls += np.where(now & kept, self.pulls(problem, max(r - 1, 1)), 0.0)
        kept = np.where((rounds < 1)[..., None], inside, kept)
        declared = Declaration(np.asarray(rounds <= 1), ranking(problem).answer_from_set(kept))
        return BatchPlan(pulls, trial.plan.may_stop, RoundsLeft(rounds - 1, kept), declared=declared)

    def sizes(self, problem: Problem) -> list[int]:
        """How many arms are in at the beginning of each round."""
        sizes, k = [problem.arms], ranking(problem).number_sought
        for r in range(self.rounds, 1, -1):
            most = k + math.floor(sizes[-1] / repeated_log(sizes[-1] / k, r - 1))
            sizes.append(min(sizes[-1], most))
        return sizes

    def pulls(self, problem: Problem, r: int) -> float:
        """Pulls of each arm left, with r rounds to go: (2/gap^2) (ilog^(r)(|S|/k) + ln(8 k / delta_r))."""
        k = ranking(problem).number_sought
        size = self.sizes(problem)[self.rounds - r]
        level = problem.delta * 2.0 ** -(self.rounds - r)
        need = repeated_log(size / k, r) + math.log(8 * k / level)
        return float(math.ceil(2 * (2 * problem.sigma / self.gap) ** 2 * need))


def repeated_log(value: float, times: int) -> float:
    """ilog^(r): the logarithm taken r times, never below 1."""
    for _ in range(times):
        value = max(math.log(value), 1.0)
    return value


MOST_ROUNDS = 60  # of Jin2019: the pulls of an arm grow with every round, so no run gets that far


class Sieve(NamedTuple):
    """Where the algorithm stands."""

    round: Floats  # r, from 1
    again: Bools  # whether the plan pulls the chosen arm again
    inside: Bools  # (K), S_r
    means: Floats  # (K), of the first batch of the round
    size: Floats  # beta_r
    chosen: Floats  # the arm chosen in this round
    best: Floats  # the best of the arms chosen so far, -1 before the first
    value: Floats  # and its mean, when it was pulled again


@dataclass(frozen=True)
class Jin2019(RankingPolicy[Sieve]):
    """Best arm within a tolerance eps, in two batches a round: all arms left, then one of the best of them again.

    The others must beat the arm that was pulled again to stay. After Jin, Shi, Xiao and Chen 2019, "Efficient pure
    exploration in adaptive round model", read in other authors' code, whose constants are tuned (a factor of 65 less
    than here); the original's exact version for top-k was not at hand.

    Args:
        c: The constant of Q = c / eps^2.
        seed: Draws which of the best arms is pulled again; choose it without looking at the data.
        stopping: The stopping rule, by default that of its proof.
    """

    c: float = 8.0
    seed: int = 1
    stopping: StoppingRule = field(
        default=Declared(
            proof="Jin, Shi, Xiao and Chen 2019, NeurIPS",
            condition="the constants of jin-2019 are those of its proof (they are read in other authors' code)",
        )
    )
    name = "jin-2019"
    sets = False
    tolerant = True

    def __post_init__(self) -> None:
        checked(0 < self.c < math.inf, f"`c` is {self.c:g}, but must be a positive number.")

    def check(self, problem: Problem) -> None:
        super().check(problem)
        needed = f"The policy '{self.name}' needs a tolerance: ask for best-arm with one."
        checked(problem.question.tolerance > 0, needed)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[Sieve]:
        none, nobody = np.zeros((*runs, problem.arms)), np.full(runs, -1.0)
        everyone, never = np.ones(none.shape, dtype=np.bool_), np.zeros(runs, dtype=np.bool_)
        memory = Sieve(np.ones(runs), never, everyone, none, np.ones(runs), nobody, nobody, np.full(runs, -np.inf))
        pulls = everywhere(runs, problem.arms, float(self.pulls(problem, np.array(1.0), np.array(1.0))))
        return BatchPlan(pulls, ~never, memory, declared=Declaration(never, np.zeros(runs, dtype=np.intp)))

    def next(self, problem: Problem, trial: Trial[Sieve]) -> BatchPlan[Sieve]:
        """The second batch of the round, or the first of the next one."""
        now, arms = trial.plan.memory, np.arange(problem.arms)
        means = batch_merits(problem, trial.batch)
        # after the first batch: choose
        arm = self._choose(problem, now, np.where(now.inside, means, -np.inf))
        first = now._replace(again=np.ones_like(now.again), means=means, chosen=arm)
        # after the second: arms that beat the chosen one stay
        value = np.where(arms == now.chosen[..., None], means, 0.0).sum(axis=-1)
        inside = now.inside & (now.means >= (value + 0.75 * problem.question.tolerance)[..., None])
        better = value > now.value
        second = now._replace(
            round=now.round + 1,
            again=np.zeros_like(now.again),
            inside=inside,
            size=now.size * now.inside.sum(axis=-1) / np.maximum(inside.sum(axis=-1), 1),
            best=np.where(better, now.chosen, now.best),
            value=np.where(better, value, now.value),
        )
        memory = tree_where(now.again, second, first)
        each = self.pulls(problem, memory.round, memory.size)[..., None]
        done = np.asarray(~memory.inside.any(axis=-1))
        who = np.where(memory.again[..., None], arms == memory.chosen[..., None], memory.inside)
        pulls = np.where(done[..., None], 0.0, who * each)
        declared = Declaration(done, np.maximum(memory.best, 0.0).astype(np.intp))
        return BatchPlan(pulls, trial.plan.may_stop, memory, declared=declared)

    def pulls(self, problem: Problem, r: Floats, size: Floats) -> Floats:
        """Q_r = beta_r Q ln(1/delta_r), delta_r = delta / 2^(r+1)."""
        scale = self.c * (2 * problem.sigma / problem.question.tolerance) ** 2
        return np.ceil(size * scale * (math.log(1 / problem.delta) + (r + 1) * math.log(2)))

    def _choose(self, problem: Problem, now: Sieve, means: Floats) -> Floats:
        """One of the top delta_r^beta_r |S_r| / 2 (rounded up), as the seed says."""
        level = math.log(problem.delta) - (now.round + 1) * math.log(2)
        number = np.maximum(np.ceil(np.exp(now.size * level) * now.inside.sum(axis=-1) / 2), 1.0)
        draws = np.random.default_rng(self.seed).random(MOST_ROUNDS)
        rank = np.floor(number * draws[np.minimum(now.round, MOST_ROUNDS).astype(np.intp) - 1]).astype(np.intp)
        order = np.argsort(-means, axis=-1, kind="stable")
        return np.asarray(np.take_along_axis(order, rank[..., None], axis=-1)[..., 0], dtype=np.float64)


class RageState(NamedTuple):
    """Where it stands."""

    round: Floats  # r, from 1
    open: Bools  # (K), arms that may still be the best; or whose side is open
    above: Bools  # (K), of the others: on which side


@dataclass(frozen=True)
class Rage(Policy[RageState]):
    """Best arm or above a level, of arms with features; arms without features have the unit vectors.

    In every round the batch is spread so that the directions that matter are known best: from the leader to every arm
    left (best arm), or of every arm whose side is open (above a level). Estimates are from the batch alone, by least
    squares; an arm leaves when its estimate is off by more than a bound that holds for all rounds (docs/linear.md).
    After RAGE of Fiez, Jain, Jamieson and Ratliff, NeurIPS 2019; the constants are ours: rounds grow by a factor, so
    that no scale of the gaps need be known.

    Args:
        first_pulls: Pulls of the first batch for each dimension of the features.
        growth: By how much batches grow from round to round.
        stopping: The stopping rule, by default that of its proof.
    """

    first_pulls: float = 100.0
    growth: float = 3.0
    stopping: StoppingRule = field(default=Declared(proof="docs/linear.md, a batched elimination"))
    name = "rage"
    needs_sigma = True

    def __post_init__(self) -> None:
        check_growing(self.first_pulls, self.growth)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        name = _asked(problem).name
        fits = name in ("best-arm", "above")
        checked(fits, f"The policy '{self.name}' answers 'best-arm' and 'above' only, not '{name}'.")

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[RageState]:
        everyone = np.ones((*runs, problem.arms), dtype=np.bool_)
        return self._plan(problem, RageState(np.ones(runs), everyone, ~everyone), None, undeclared(problem, runs))

    @quiet
    def next(self, problem: Problem, trial: Trial[RageState]) -> BatchPlan[RageState]:
        """Drop the arms that are settled; the next batch is for the others."""
        now = trial.plan.memory
        fitted, deviation = _estimate(problem, trial.batch, now.open)
        level, near = _asked(problem).level, problem.question.tolerance
        reach = self.reach(problem, now.round)[..., None] * deviation
        if level is not None:
            level *= problem.question.sign
            sure = now.open & (np.abs(fitted - level) > reach - near)
            after = RageState(now.round + 1, now.open & ~sure, np.where(sure, fitted > level, now.above))
            done = np.asarray(~after.open.any(axis=-1))
            return self._plan(problem, after, None, Declaration(done, after.above))
        leader: Answer = np.where(now.open, fitted, -np.inf).argmax(axis=-1)
        ahead = np.take_along_axis(fitted, leader[..., None], axis=-1) - fitted
        mine = one_hot(leader, problem.arms)
        left = now.open & (mine | ~(ahead > reach))
        done = (left.sum(axis=-1) == 1) | (~left | mine | (ahead > reach - near)).all(axis=-1)
        after = RageState(now.round + 1, left, now.above)
        return self._plan(problem, after, leader, Declaration(np.asarray(done), leader))

    def reach(self, problem: Problem, r: Floats) -> Floats:
        """x_r over the standard deviation of an estimate in units of sigma: sigma sqrt(2 ln(M r (r+1)/delta))."""
        ways = problem.arms - 1 if _asked(problem).level is None else problem.arms
        return np.asarray(problem.sigma * np.sqrt(2 * np.log(ways * r * (r + 1) / problem.delta)))

    @quiet
    def _plan(
        self, problem: Problem, now: RageState, leader: NDArray[np.intp] | None, declared: Declaration
    ) -> BatchPlan[RageState]:
        """The batch that makes the largest variance of an open direction least."""
        features, dimension = problem.question.features, problem.arms
        if features is None:
            pulls = _spread_over_arms(problem, now.open, leader)
        else:
            basis = orthonormal_basis(features)
            dimension = basis.shape[-1]
            pulls = _design(problem, basis, now.open, leader)
        amount = total(pulls)[..., None]
        share = np.where(amount > 0, pulls / np.maximum(amount, 1e-300), 1.0 / problem.arms)
        size = self.first_pulls * dimension * self.growth ** (now.round - 1)
        return BatchPlan(whole(size[..., None] * share), np.ones(size.shape, dtype=np.bool_), now, declared=declared)


def _asked(problem: Problem) -> Question:
    """What is asked, whatever arms it is asked of."""
    return problem.question.without_features()


def _estimate(problem: Problem, batch: Batch, open_: Bools) -> tuple[Floats, Floats]:
    """From a batch alone: means, and deviations over sigma, of each mean or (best arm) of the leader's less it."""
    shape, features = batch.counts.shape, problem.question.features
    means, counts = batch_merits(problem, batch), problem.weighed(batch.counts)
    compares = _asked(problem).level is None
    if features is None:
        spread = 1 / counts
        leader = np.where(open_, means, -np.inf).argmax(axis=-1)[..., None]
        return means, np.sqrt(spread + np.take_along_axis(spread, leader, axis=-1) if compares else spread)
    rows = orthonormal_basis(features)
    theta, inverse = fit_least_squares(rows, counts.reshape(-1, problem.arms), means.reshape(-1, problem.arms))
    fitted = (theta[:, None, :] @ rows.T).reshape(shape)
    leader = np.where(open_, fitted, -np.inf).argmax(axis=-1).reshape(-1)
    directions = rows[leader][:, None, :] - rows if compares else np.broadcast_to(rows, (len(theta), *rows.shape))
    return fitted, np.sqrt(total((directions @ inverse) * directions)).reshape(shape)


def _design(problem: Problem, basis: Floats, open_: Bools, leader: NDArray[np.intp] | None) -> Floats:
    """The least pulls that know all open directions equally well, with features. (K)"""
    flat = open_.reshape(-1, problem.arms)
    directions = np.broadcast_to(basis, (len(flat), *basis.shape))
    if leader is not None:
        directions = basis[leader.reshape(-1)][:, None, :] - basis
        flat = flat & ~one_hot(leader.reshape(-1), problem.arms)
    live = flat & (total(directions * directions) > 1e-20)
    scaled = basis * np.sqrt(problem.weighed(np.ones(problem.arms)))[:, None]
    return solve_design(scaled, directions, np.where(live, 1.0, np.inf), ROUGH)[1].reshape(open_.shape)


def _spread_over_arms(problem: Problem, open_: Bools, leader: NDArray[np.intp] | None) -> Floats:
    """The same without features: in proportion to sigma_i^2; the leader has sigma_l sqrt(sum of the others'). (K)"""
    squares = np.where(open_, 1 / problem.weighed(np.ones(problem.arms)), 0.0)
    if leader is None:
        return squares
    mine = one_hot(leader, problem.arms)
    others = total(np.where(mine, 0.0, squares))[..., None]
    return np.where(mine, np.sqrt(squares * others), squares)


def check_growing(first_pulls: float, growth: float) -> None:
    """Raise an InputError unless batches grow from at least one pull on."""
    checked(1 <= first_pulls <= 2**53, f"`first_pulls` is {first_pulls:g}, but must be at least 1.")
    checked(1 < growth < 1e6, f"`growth` is {growth:g}, but must be above 1 (below 1e6).")
