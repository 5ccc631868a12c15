"""Forecasts: many simulated runs of one study, from its start or its present state to its end.

Budget, round size and split are honored because the policy is the one of the study (`policies.base.Rounds`). A
running study is forecast in worlds that its data allow; a status and a report show one line of that.

The data allow draws around the estimates. Arms come from one normal law of unknown mean and deviation (a hierarchy), so
estimates of arms with few results are drawn towards the others, and the luckiest of many does not look like a leader.
Rates are drawn on the scale of log odds, counts on that of logarithms. A prior: nothing but forecasts rests on it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, Plain, tree_map, tree_take, zeros
from roundwise.deadline import check_deadline
from roundwise.errors import InputError, RoundwiseError
from roundwise.messages import number, option
from roundwise.model.batch import Batch, join_parts
from roundwise.model.problem import Problem, Trial, advance, begin, final_answer
from roundwise.noise import Noise
from roundwise.noise.base import Scale
from roundwise.planning.request import Costs, PlanRequest, build_ladder
from roundwise.planning.scenarios import (
    ExchangeableItems,
    ExchangeableList,
    IncompleteResults,
    RestOfList,
    SeveralMetrics,
    runs_of_list,
)
from roundwise.policies import Policy
from roundwise.policies.base import as_rounds, round_of
from roundwise.policies.designed import LOOKS
from roundwise.questions import Question
from roundwise.simulation.environments import Environment, Generator, Now, draw_batch, world_of
from roundwise.study.fold import fold_round, redesign
from roundwise.study.guarantee import find_waiting_arm
from roundwise.study.spec import StudySpec
from roundwise.study.state import State

if TYPE_CHECKING:
    from roundwise.report import Report
    from roundwise.study import Study

MOST_ROUNDS = 400  # a run that is not over by then counts as endless,
MOST_RESULTS = 1e12  # and so does one with this many results
PARTITIONS = ((80, 4, 16), (16, 1, 4))  # of the first round, and of later ones: divided by arms, at least, at most
MOST_PARTITIONED = 1e8  # results of an arm in a round
WORLDS = 400  # draws of means between two limits
SMALL = 0.3  # prior scale of differences between arms, in deviations of a result
AHEAD = np.linspace(0.0, 4.0, 41)  # how far apart arms may be, in leads that a study is designed for,
USUAL_LEAD = 1.5  # and the prior scale of that


class Detail(NamedTuple):
    """How rounds of limited size are followed where there is no budget."""

    exact: int = 40  # this many one by one;
    coarse: float = 0.05  # then several together, at most this share of the results so far


FINE, ROUGH = Detail(), Detail(8, 0.2)


def partitions_for(problem: Problem, first: bool, most: float = 0.0) -> int | None:
    """How many random partitions the first round, or a later one, gets: a study draws 2048 and 256.

    A bet wins the average over partitions, which grows with their number; a few show most of it. With many arms the
    first round is a small share of all results, so fewer do (docs/measured.md, "Forecasts"). Items are drawn
    one by one, and partitioned as simulations do it; `most` results of an arm may be too many to partition.
    """
    if problem.noise.shares_items or most > MOST_PARTITIONED:
        return None
    divided, fewest, usual = PARTITIONS[0 if first else 1]
    return int(np.clip(divided // problem.arms, fewest, usual))


class Ends(NamedTuple):
    """How each of many runs ended."""

    counts: Floats  # (runs, K), asked for from here on; infinite where no end was seen
    rounds: Floats  # (runs), from here on
    decided: Bools  # (runs), there is an answer; of claims, all true ones were shown
    correct: Bools  # (runs), nothing false was shown
    shown: Bools  # (runs, J), claims that were shown; those about further metrics come last
    true: Bools  # (runs, J), claims that are true
    truth: Floats  # (runs, K)
    steps: int  # of the longest run: what it took to compute

    @property
    def samples(self) -> Floats:
        """Results asked for from here on. (runs)"""
        return np.asarray(self.counts.sum(axis=-1))

    @property
    def until_decided(self) -> Ends:
        """The same, but without an end where there was no answer."""
        counts = np.where(self.decided[:, None], self.counts, np.inf)
        return self._replace(counts=counts, rounds=np.where(self.decided, self.rounds, np.inf))

    def answered(self, spec: StudySpec) -> float:
        """The share of runs with an answer; of claims, with a true one that was shown."""
        if not spec.question.separate_claims:
            return float(self.decided.mean())
        claims = len(spec.question.claim_texts(spec.arms))  # of the main metric
        return float((self.shown & self.true)[:, :claims].any(axis=-1).mean())

    def row(self, first: int, step: int) -> Ends:
        """The runs first, first + step, ...: one row of several that were run together."""
        longest = float(self.rounds[first::step].max())
        return Ends._make([*(column[first::step] for column in self[:-1]), int(min(self.steps, longest))])


def join_ends(parts: Sequence[Ends]) -> Ends:
    """Several sets of runs of the same study."""
    *columns, steps = zip(*parts, strict=True)
    return Ends._make([*map(np.concatenate, columns), max(steps)])


def no_end(arms: int, claims: int) -> Ends:
    """One run that never ends."""
    found = _open_ends(zeros((1, arms)), np.zeros((1, claims), dtype=np.bool_))
    return found._replace(correct=np.ones(1, dtype=np.bool_), steps=1)


def _open_ends(truth: Floats, true: Bools) -> Ends:
    runs = len(truth)
    no, shown = np.zeros(runs, dtype=np.bool_), np.zeros_like(true)
    return Ends(np.full(truth.shape, np.inf), np.full(runs, np.inf), no, no.copy(), shown, true, truth, steps=0)


def simulate_ahead(
    problem: Problem,
    policy: Policy,
    environment: Environment,
    *,
    runs: int,
    seed: int,
    block: int = 0,
    start: Trial | None = None,
    told: Batch | None = None,
    most_rounds: int = MOST_ROUNDS,
    detail: Detail = FINE,
) -> Ends:
    """Simulate runs from the start of a study, or from where it stands, to their end.

    A study that stands somewhere is one run, the trial `start`, and what was `told` of its outstanding round. The
    question of claims ends with the budget; without one, when all true claims have been shown, or with the list.
    """
    rngs = [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block, stream))) for stream in (0, 1)]
    trial = begin(problem, policy, (runs,)) if start is None else _repeat_trial(policy, start, runs)
    world, question, rounds_policy = environment.initial_state(rngs[0], runs), problem.question, as_rounds(policy)
    claims = question.separate_claims
    true = _true_claims(problem, world)  # (runs, J)
    ends = _open_ends(world.means, true)
    most = most_in_a_round(policy) if rounds_policy.budget is None else None
    alive, asked, rounds, steps = np.arange(runs), zeros((runs, problem.arms)), np.zeros(runs), 0
    while alive.size:
        check_deadline()
        endless = (trial.record.samples >= MOST_RESULTS) | (steps >= most_rounds)
        over = trial.plan.pulls.sum(axis=-1) == 0  # nothing is left to ask for
        if policy.stopping.exact_batches:  # it needs every batch just as planned
            over = over | round_of(trial.plan).cut
        if steps:
            over = over | trial.done | policy.stopping.broken(problem, trial) | endless
            if claims and rounds_policy.budget is None and not policy.stopping.always_ends:
                over |= np.asarray((_shown_claims(problem, policy, trial) | ~true[alive]).all(axis=-1))
        if over.any():
            who, rest = np.flatnonzero(over), np.flatnonzero(~over)
            _write_ends(ends, problem, policy, alive[who], tree_take(trial, who))
            seen = ends.decided[alive[who]] | ~endless[who]
            ends.counts[alive[who]] = np.where(seen[:, None], asked[who], np.inf)
            ends.rounds[alive[who]] = np.where(seen, rounds[who], np.inf)
            trial = trial._replace(batch=Batch(trial.record.counts, trial.record.totals))
            alive, trial, world, asked, rounds = alive[rest], *tree_take((trial, world, asked, rounds), rest)
            if not alive.size:
                break
        pulls = trial.plan.pulls
        number = pulls.sum(axis=-1)
        asked, rounds = asked + pulls, rounds + (number > 0 if most is None else np.ceil(number / most))
        if told is None or steps:
            looks = trial.plan.looks if problem.noise.looks_in_parts else None  # in parts, the first is like the others
            first = start is None and steps == 0 and (looks is None or bool(np.isinf(looks).any()))
            partitions = partitions_for(problem, first, float(pulls.max()))
            batch, world = draw_batch(problem, environment, rngs[1], world, trial.plan, partitions)
        else:
            batch, world = _complete_round(problem, environment, rngs[1], world, pulls, told)
        trial = advance(problem, _coarser(policy, trial, most, detail), trial, batch)
        steps += 1
    return ends._replace(steps=steps)


def simulate_request(
    request: PlanRequest,
    means: Sequence[float] | Sequence[Sequence[float]],
    runs: int,
    *,
    block: int = 0,
    most_rounds: int = MOST_ROUNDS,
    detail: Detail = FINE,
) -> Ends:
    """Simulate runs of a planned study if these were the means."""
    return simulate_ahead(
        request.problem,
        request.acting,
        request.world(means),
        runs=runs,
        seed=request.seed,
        block=block,
        most_rounds=most_rounds,
        detail=detail,
    )


def _true_claims(problem: Problem, world: Any) -> Bools:
    """Which claims are true, those about further metrics last; none where there are no claims to show. (runs, J)"""
    question = problem.question
    if not question.separate_claims:
        return np.zeros((len(world.means), len(question.claim_texts([""] * problem.arms))), dtype=np.bool_)
    others = zip(problem.metrics, world.others, strict=True) if problem.metrics else ()
    every = [question.answer(world.means), *(each.question.answer(now.means) for each, now in others)]
    return np.concatenate(every, axis=-1)


def _shown_claims(problem: Problem, policy: Policy, trial: Trial) -> Bools:
    """Which claims are shown, in the same order. (runs, J)"""
    found = [np.asarray(final_answer(problem, policy, trial))]
    if problem.metrics:
        own = (trial._replace(kept=each) for each in trial.kept.metrics)
        found += [np.asarray(final_answer(each, policy, now)) for each, now in zip(problem.metrics, own, strict=True)]
    return np.concatenate(found, axis=-1)


def _write_ends(ends: Ends, problem: Problem, policy: Policy, who: NDArray[np.intp], trial: Trial) -> None:
    if problem.question.separate_claims:
        shown, true = _shown_claims(problem, policy, trial), ends.true[who]
        ends.shown[who], ends.decided[who] = shown, (shown | ~true).all(axis=-1)
        ends.correct[who] = ~(shown & ~true).any(axis=-1)
        return
    answer = np.asarray(final_answer(problem, policy, trial))
    right = policy.stopping.correct(problem, answer, ends.truth[who])
    ends.decided[who], ends.correct[who] = trial.done, ~trial.done | right
    if ends.shown.shape[-1]:
        ends.shown[who] = trial.done[:, None] & answer


def _repeat_trial(policy: Policy, trial: Trial, runs: int) -> Trial:
    trial = trial._replace(kept=policy.stopping.without_history(trial.kept))
    found: Trial = tree_map(lambda array: np.repeat(np.asarray(array)[None], runs, axis=0), trial)
    return found


def _complete_round(
    problem: Problem, environment: Environment[Now], rng: np.random.Generator, world: Now, pulls: Floats, told: Batch
) -> tuple[Batch, Now]:
    """An outstanding round: its rest, with the results so far."""
    before = tree_map(lambda array: np.repeat(array[None], len(pulls), axis=0), told._replace(parts=None))
    rest = np.maximum(pulls - before.counts, 0.0)
    batch, world = environment.pull(rng, world, rest, problem.noise.needs)
    if before.table is None or batch.table is None:
        before, batch = before._replace(table=None), batch._replace(table=None)
    return join_parts([before, batch])._replace(parts=None), world


def planned_looks(spec: StudySpec) -> int:
    """How many rounds a study is planned for that announces them; more than were said where their size is limited."""
    if spec.round_size is not None and spec.budget is not None:
        return math.ceil(spec.budget / spec.round_size)
    if not spec.policy.plans_budget:
        return spec.policy.looks or 1
    looks, most = spec.policy.looks or LOOKS, most_in_a_round(spec.acting)
    return looks if most is None or spec.budget is None else max(looks, math.ceil(spec.budget / most))


def starts_small(spec: StudySpec) -> bool:
    """Whether the study begins as without a budget, in small rounds, and their number was not said."""
    looks = spec.acting.first(spec.problem, ()).looks
    return spec.policy.looks is None and looks is not None and bool(np.isinf(looks))


def most_in_a_round(policy: Policy) -> float | None:
    """The largest number of results in a round, if there is one."""
    rounds = as_rounds(policy)
    return rounds.policy.max_batch if rounds.size is None else rounds.size


def _coarser(policy: Policy, trial: Trial, most: float | None, detail: Detail) -> Policy:
    """The policy with several rounds taken together, once there were many of at most `most` results.

    A forecast of hundreds of rounds would take as many steps; taken together it is a few per cent too large.
    """
    if most is None:
        return policy
    samples = float(trial.record.samples.min())
    at_once = math.floor(detail.coarse * samples / most)
    if samples < detail.exact * most or at_once < 2:
        return policy
    rounds = as_rounds(policy)
    if rounds.round_size is not None:
        return dataclasses.replace(rounds, round_size=at_once * most)
    inner: Policy = dataclasses.replace(rounds.policy, max_batch=at_once * most)  # type: ignore[type-var]
    return inner if rounds.policy is policy else dataclasses.replace(rounds, policy=inner)


# --- what the runs take, in numbers


@dataclass(frozen=True, kw_only=True)
class ResultsSoFar:
    """The results so far, arm by arm."""

    counts: Floats  # (K)
    totals: Floats  # (K)
    scatter: Floats | None = None  # (K), sum of squares about the means of rounds
    freedom: Floats | None = None  # (K)
    skewness: Floats | None = None  # (K), where cubes are known

    @property
    def deviation(self) -> float | None:
        """Of one result, if squares are known."""
        if self.scatter is None or self.freedom is None or self.freedom.sum() <= 0:
            return None
        return float(np.sqrt(self.scatter.sum() / self.freedom.sum()))


class LeadPrior(NamedTuple):
    """The prior of a study designed for a lead: its arms in one of these patterns, g leads apart.

    g has a half-normal prior.
    """

    lead: float
    level: float | None  # about which the patterns are; None: about a mean that is not known
    patterns: Floats | None  # (P, K), as likely each; None: every arm is on either side of the level

    @classmethod
    def of(cls, question: Question, arms: int, lead: float | None) -> LeadPrior | None:
        """That of a question with this lead, if there is one."""
        patterns = question.lead_patterns(arms)
        if lead is None or (patterns is None and question.level is None):
            return None
        return cls(lead, question.level, patterns)

    def log_weights(self, estimate: Floats, variance: Floats) -> Floats:
        """log of the prior times the likelihood of each pattern and g. (P, g)"""
        weights, gaps = 1 / variance, self.lead * AHEAD
        middle = np.average(estimate, weights=weights) if self.level is None else self.level
        away = estimate - middle
        fit = -0.5 * (np.log(variance) + weights * away**2).sum()
        if self.level is None:
            fit -= 0.5 * np.log(weights.sum())
        own = -0.5 * (AHEAD / USUAL_LEAD) ** 2
        found = fit + own - np.logaddexp.reduce(own)
        if self.patterns is None:  # the mean over both signs of each arm
            both = np.logaddexp(away * weights * gaps[:, None], -away * weights * gaps[:, None]) - np.log(2.0)
            return np.asarray(found - 0.5 * weights.sum() * gaps**2 + both.sum(axis=-1))[None]
        apart = self.patterns
        if self.level is None:  # the mean follows the pattern
            apart = apart - (apart @ weights / weights.sum())[:, None]
        across, square = apart @ (weights * away), apart**2 @ weights
        found = found + across[:, None] * gaps - 0.5 * square[:, None] * gaps**2
        return np.asarray(found - np.log(len(apart)))

    def draw(self, rng: Generator, which: NDArray[np.intp], estimate: Floats, variance: Floats) -> Floats:
        """How far each arm is from the middle, for these entries of the weights. (K)->(runs, K)"""
        pattern, g = np.divmod(which, len(AHEAD))
        gaps = (self.lead * AHEAD[g])[:, None]
        if self.patterns is not None:
            return gaps * self.patterns[pattern]
        assert self.level is not None
        chance = 1 / (1 + np.exp(np.clip(-2 * gaps * (estimate - self.level) / variance, -700, 700)))
        return np.where(rng.random(chance.shape) < chance, gaps, -gaps)


def allowed_world(noise: Noise, data: ResultsSoFar, seed: int, prior: LeadPrior | None = None) -> Environment:
    """A world whose means are drawn anew in each run from what these data allow.

    Args:
        noise: The noise model.
        data: The results so far.
        seed: Seed of the draws, where those are made beforehand.
        prior: What the study is designed for.
    """
    if not (data.counts > 0).any():
        raise InputError("There are no results yet. Plan it as a new study, with expected means.")
    estimate, variance, of, back, unit = _estimates(noise, data)

    if prior is not None and prior.level in noise.mean_range:  # at the end of the range no arm is on either side
        prior = None
    if prior is not None:  # on the scale of the estimates
        level = None if prior.level is None else of(prior.level)
        middle = np.asarray([np.average(estimate, weights=1 / variance) if level is None else level])
        step = 1e-4 * unit
        lead = prior.lead * 2 * step / float((back(middle + step) - back(middle - step))[0])
        prior = prior._replace(lead=lead, level=level)

    def means(rng: Generator, runs: int) -> Floats:
        return back(draw_means(rng, runs, estimate, variance, SMALL * unit, prior))

    if noise.family is not None:
        return world_of(noise, means)
    if noise.outcome.limited:
        rows = means(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(99,))), WORLDS)
        return world_of(noise, rows, data.deviation)
    skewness = 0.0 if data.skewness is None or not noise.estimates_variance else data.skewness
    return world_of(noise, means, _deviation(noise, data), skewness)


def draw_means(
    rng: Generator, runs: int, estimate: Floats, variance: Floats, effects: float, prior: LeadPrior | None = None
) -> Floats:
    """Means from the posterior of the hierarchy, on a grid of deviations between arms. (K)->(runs, K)

    For a deviation t between arms the estimates are independent normal with variances v_i + t^2 about one mean, which
    has a flat prior, or is the level; t has a half-Cauchy prior of scale `effects`, or of what is usual for the lead.
    With a prior of a lead, this has probability 1/2, and else the arms are in one of its patterns.
    """
    level = None if prior is None else prior.level
    if prior is not None and level is not None:
        effects = USUAL_LEAD * prior.lead
    grid = effects * np.concatenate([[0.0], np.geomspace(0.02, 50.0, 80)])
    log_prior = np.log(np.gradient(grid)) - np.log1p((grid / effects) ** 2)
    spread = variance + grid[:, None] ** 2  # (grid, K)
    weights = 1 / spread
    centre = (weights * estimate).sum(axis=-1) / weights.sum(axis=-1) if level is None else np.full(grid.shape, level)
    fit = -0.5 * (np.log(spread) + (estimate - centre[:, None]) ** 2 / spread).sum(axis=-1)
    if level is None:
        fit -= 0.5 * np.log(weights.sum(axis=-1))
    log_weight = fit + log_prior - np.logaddexp.reduce(log_prior)
    if prior is not None:
        log_weight = np.concatenate([log_weight, prior.log_weights(estimate, variance).reshape(-1)])
    chances = np.exp(log_weight - log_weight.max())
    which = rng.choice(len(chances), size=runs, p=chances / chances.sum())
    lucky, own = rng.standard_normal(runs), rng.standard_normal((runs, len(estimate)))
    ahead, between = zeros(own.shape), np.where(which < len(grid), grid[np.minimum(which, len(grid) - 1)], 0.0)[:, None]
    if prior is not None:
        in_pattern = which >= len(grid)
        ahead[in_pattern] = prior.draw(rng, which[in_pattern] - len(grid), estimate, variance)
    weights, apart = 1 / (variance + between**2), estimate - ahead
    if level is None:
        middle = (weights * apart).sum(axis=-1) / weights.sum(axis=-1) + lucky / np.sqrt(weights.sum(axis=-1))
    else:
        middle = np.full(runs, level)
    pull = variance * weights  # towards the others
    mean = (1 - pull) * apart + pull * middle[:, None] + ahead
    return np.asarray(mean + np.sqrt((1 - pull) * variance) * own)


def _estimates(noise: Noise, data: ResultsSoFar) -> Scale:
    """Estimates on the scale of the noise model, or as they are, within their limits."""
    counts, totals = data.counts, data.totals
    own = noise.scale(counts, totals)
    if own is not None:
        return own
    sigma, (low, high) = _deviation(noise, data), noise.mean_range
    estimate = np.where(counts > 0, totals / np.maximum(counts, 1.0), totals.sum() / counts.sum())
    return Scale(estimate, sigma**2 / np.maximum(counts, 1e-3), float, lambda drawn: np.clip(drawn, low, high), sigma)


def _deviation(noise: Noise, data: ResultsSoFar) -> float:
    if noise.outcome.limited:
        low, high = noise.mean_range
        return data.deviation or 0.25 * (high - low)
    sigma = data.deviation if noise.largest_deviation is None else noise.largest_deviation
    if sigma is None or sigma <= 0:
        raise InputError(
            "The standard deviation of the results is not known yet. Record rows, or sums with their squares."
        )
    return sigma


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """A number that varies: half of the runs need no more than is typical, 19 of 20 no more than p95."""

    typical: float
    p95: float


def quantile(values: Floats, levels: Sequence[float]) -> list[float]:
    """The smallest values that at least these shares of the runs do not exceed."""
    places = np.ceil(np.asarray(levels) * len(values) - 1e-9).astype(np.intp) - 1
    return np.sort(values)[np.maximum(places, 0)].tolist()


def quantiles(values: Floats) -> Quantiles:
    """The median and the 95 % quantile."""
    typical, p95 = quantile(values, (0.5, 0.95))
    return Quantiles(typical=typical, p95=p95)


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Results, rounds, days and cost of many runs; days and cost where they are known."""

    samples: Quantiles
    rounds: Quantiles
    days: Quantiles | None
    cost: Quantiles | None
    mean_samples: float
    mean_rounds: float
    mean_cost: float | None


def summarize(ends: Ends, costs: Costs) -> Plain:
    """The fields of a `Forecast`."""
    cost = costs.of(ends.counts, ends.rounds) if costs.known else None
    return {
        "samples": quantiles(ends.samples),
        "rounds": quantiles(ends.rounds),
        "days": quantiles(costs.days_of(ends.samples, ends.rounds)) if costs.timed else None,
        "cost": None if cost is None else quantiles(cost),
        "mean_samples": float(ends.samples.mean()),
        "mean_rounds": float(ends.rounds.mean()),
        "mean_cost": None if cost is None else float(cost.mean()),
    }


def whole(value: float) -> str:
    """A large number to two digits, as a forecast deserves: 180 000.

    >>> whole(177_816.0).replace(chr(160), " "), whole(96.0), whole(math.inf)
    ('180 000', '96', 'never')
    """
    if math.isinf(value) or math.isnan(value):
        return "never"
    digits = 1 if value == 0 else math.floor(math.log10(abs(value))) + 1
    return number(round(value) if digits <= 2 else round(value, 2 - digits))


def share(value: float) -> str:
    """A probability in per cent; near 0 and 1 to a tenth.

    >>> share(0.954), share(0.0012), share(0.0)
    ('95 %', '0.1 %', '0 %')
    """
    percent = 100 * value
    text = f"{percent:.1f}" if 0 < percent < 1 or 99 < percent < 100 else f"{percent:.0f}"
    return f"{text.removesuffix('.0')} %"


def plural(number: float, what: str) -> str:
    """A rounded number of things: 3 rounds.

    >>> plural(1.0, "round"), plural(1.2, "day"), plural(12.0, "day")
    ('1 round', '1 day', '12 days')
    """
    said = whole(number)
    return f"{said} {what}{'' if said == '1' else 's'}"


# --- a running study, from where it stands

RUNS = 500  # of a forecast from here
LINE_RUNS = 150  # of the one line of a status
LINE_WORK = 5000  # runs times arms of that line
MANY_ARMS = 500
LONG = 60  # rounds that are followed
EXTENSION = 1.5  # times a budget that is used up: what more results would bring
BETWEEN = (0.2, 0.8)  # "about 1 to 3 more rounds"
MOST_MISSING = 0.9
NOTHING = Quantiles(typical=0.0, p95=0.0)


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """The forecast of a running study."""

    study: str
    results: int  # counted so far
    rounds: int  # so far
    budget: int | None
    ended: str | None  # why nothing more is asked for
    runs: int = 0
    samples: Quantiles = NOTHING  # still to be asked for
    more_rounds: Quantiles = NOTHING
    between: tuple[float, float] = (0.0, 0.0)  # rounds that three of five studies lie between
    next_is_last: float = 0.0  # chance that nothing more is asked for after the next round
    within_budget: float | None = None  # chance of an answer with what is left; of claims, of a true one
    claims: tuple[tuple[str, float], ...] = ()  # each, and the chance that it is shown in the end
    slowest: tuple[str, float] | None = None  # of several metrics, and the chance that a true claim of it is shown
    missing: float = 0.0  # share of results missing so far, expected to stay
    days: Quantiles | None = None
    cost: Quantiles | None = None
    list_results_left: int | None = None  # results that a list still has
    extension: tuple[int, float] | None = None  # where a budget is used up: another, and the chance of an answer in it
    waits: tuple[str, float] | None = None  # an arm about which nothing is concluded yet, and the results that it needs

    def plain(self) -> Plain:
        """The outlook as JSON."""
        found = dataclasses.asdict(self)
        low, high = found.pop("between")
        found["more_rounds"] |= {"low": low, "high": high}
        found["claims"] = [{"claim": claim, "power": power} for claim, power in self.claims]
        for name, keys in (
            ("extension", ("budget", "power")),
            ("slowest", ("metric", "power")),
            ("waits", ("arm", "results")),
        ):
            found[name] = None if found[name] is None else dict(zip(keys, found[name], strict=True))
        return found | {"words": self.words}

    @property
    def line(self) -> str:
        """One line, for a status: "about 1 to 3 more rounds"."""
        if self.extension is not None:
            budget, chance = self.extension
            if chance < 0.005:
                why = "the last round staked almost all evidence"
                if self.waits is not None:
                    arm, rows = self.waits
                    why = f"nothing is concluded about {arm} before it has about {whole(rows)} results"
                return f"a budget of {number(budget)} would hardly bring an answer, because {why}"
            more = f"with a budget of {number(budget)} in place of {number(self.budget or 0)}"
            return f"{more} there would be an answer with probability {share(chance)}"
        if self.ended is not None:
            return f"no more results are needed: {self.ended}"
        low, high = self.between
        if math.isinf(low):
            return "no end in sight"
        if math.isinf(high):
            said = f"about {whole(low)} more rounds, or many more"
        else:
            most = f" to {whole(high)}" if high > low else ""
            said = f"about {whole(low)}{most} more round{'' if high == 1 else 's'}"
        if self.list_results_left is not None and math.isfinite(self.samples.typical):
            left = number(self.list_results_left)
            said += f" with {whole(self.samples.typical)} of the {left} results that are left of the list"
        if self.within_budget is not None and self.within_budget < 0.995:
            what = "a true claim is shown" if self.claims else "there is an answer"
            said += f"; {what} within the budget with probability {share(self.within_budget)}"
        return said

    @property
    def words(self) -> str:
        """A few sentences."""
        if self.ended is not None:
            return f"'{self.study}': {self.line}."
        rounds = f"{number(self.rounds)} round{'' if self.rounds == 1 else 's'}"
        said = f"'{self.study}' has {number(self.results)} results in {rounds}."
        said += f" {self.line[:1].upper()}{self.line[1:]}."
        if math.isfinite(self.samples.typical):
            amounts = {"results": self.samples, "days": self.days, "cost": self.cost}
            each = [f"{name} {_spread(amount)}" for name, amount in amounts.items() if amount is not None]
            said += f" Still to come: {'; '.join(each)}."
            if self.missing >= 0.005:
                said += f" As before, {share(self.missing)} of the results are assumed to be missing."
        else:
            said += " In more than half of the simulations no answer is in sight."
        return f"{said} The next round is the last with probability {share(self.next_is_last)}."

    def text(self) -> str:
        """The outlook for a terminal."""
        verb, what = ("ask", "to do next") if self.ended is None else ("report", "it shows")
        lines = [self.words]
        if self.claims and self.ended is None:
            lines += [
                "Probability of being shown in the end:",
                *(f"  {claim}: {share(power)}" for claim, power in self.claims),
            ]
        if self.slowest is not None and self.ended is None and self.slowest[1] < 0.995:
            metric, chance = self.slowest
            lines.append(
                f"Slowest metric: {metric}, of which a true claim is shown in {share(chance)}. Metrics are taken to be "
                "independent of each other."
            )
        drawn = "means are drawn from a posterior given the data"
        if self.list_results_left is not None:
            drawn = "the items left are taken to be like those seen"
        lines.append(f"This is a forecast: {drawn}. The decision does not depend on it.")
        return "\n".join([*lines, f"Next: {option(verb, study=self.study)} says what {what}."])


def _spread(amount: Quantiles) -> str:
    typical, nearly = whole(amount.typical), whole(amount.p95)
    if math.isinf(amount.p95):
        return f"typically {typical}, without end in more than one of 20"
    return f"typically {typical}, " + ("hardly ever more" if typical == nearly else f"{nearly} in 19 of 20")


def replan(state: State, *, runs: int = RUNS, seed: int = 1, costs: Costs | None = None) -> Outlook:
    """Forecast the rest of a running study, with means drawn from the posterior. The missing share is expected to stay
    as it is.

    Args:
        state: The state of the study: `study.state`.
        runs: Number of simulated studies.
        seed: Seed of the simulations.
        costs: The price of results and rounds, and the days they take.
    """
    several, listed = bool(state.spec.metrics), state.spec.list
    settings, record = state.spec if several or listed is not None else state.spec.alone, state.trial.record
    if state.closed is not None:
        ended: str | None = f"it was closed ({state.closed})"
    else:
        ended = "it is decided" if state.decided is not None or bool(state.trial.done) else state.over
    found = Outlook(
        study=state.name, results=int(record.samples), rounds=int(record.batches), budget=settings.budget, ended=ended
    )
    trial, told = state.trial, None
    if ended is not None:
        undecided = state.decided is None and state.closed is None and not bool(trial.done)
        towards_it = settings.policy.stopping.uses_budget and not settings.question.separate_claims
        if not undecided or settings.budget is None or not towards_it:
            return found
        larger = math.ceil(EXTENSION * settings.budget)
        settings, trial = redesign(settings, trial, settings.design | {"budget": larger})
    over = [each for each in state.rounds if each.counted]
    asked = sum(float(each.pulls.sum()) for each in over)
    missing = min(sum(each.missing for each in over) / asked, MOST_MISSING) if asked else 0.0
    if ended is None and state.open_round is not None and state.open_round.files and not several:
        told = state.open_round.batch
    prior = LeadPrior.of(settings.question, len(settings.arms), settings.lead)
    if listed is not None:  # missing results are asked for again
        if told is not None and state.open_round is not None:
            trial, told = fold_round(settings, trial, state.summary, state.open_round)[0], None
        rows, missing = trial.kept.results, 0.0
        world: Environment = RestOfList(settings.noise, rows, len(listed))
        runs = runs_of_list(len(listed), len(settings.arms), runs)
        left = len(listed) * len(settings.arms) - int(np.sum(~np.isnan(rows)))
        found = dataclasses.replace(found, list_results_left=left)
    else:
        world = allowed_world(settings.noise, _collect_data(state, told), seed, prior)
    if several:
        parts = [state.of_metric(m) for m in range(len(settings.metrics))]
        worlds = [
            allowed_world(each.spec.noise, _collect_data(each, None), seed + 1 + m) for m, each in enumerate(parts)
        ]
        world = SeveralMetrics(world, tuple(worlds), tuple(each.spec.noise.needs for each in parts))
    ends = simulate_ahead(
        settings.problem,
        settings.acting,
        IncompleteResults(world, missing) if missing else world,
        runs=runs,
        seed=seed,
        start=trial,
        told=told,
        most_rounds=LONG if settings.budget is None else MOST_ROUNDS,
    )
    if ended is not None:
        waiting = find_waiting_arm(state)
        waits = None if waiting is None else (settings.arms[waiting[0]], float(waiting[1][waiting[0]]))
        extension = (int(settings.budget or 0), ends.answered(settings))
        return dataclasses.replace(found, runs=runs, extension=extension, waits=waits)
    low, high = quantile(ends.rounds, BETWEEN)
    claims, slowest = _name_claims(settings), None
    if several:
        chances = _chances_of_metrics(settings, ends)
        slowest = min(chances.items(), key=lambda each: each[1], default=None)
    return dataclasses.replace(
        found,
        runs=runs,
        samples=quantiles(ends.samples),
        more_rounds=quantiles(ends.rounds),
        between=(low, high),
        next_is_last=float((ends.rounds == 1).mean()),
        within_budget=None if settings.budget is None else ends.answered(settings),
        claims=tuple(zip(claims, ends.shown.mean(axis=0).tolist(), strict=True)) if claims else (),
        slowest=slowest,
        missing=missing,
        days=None if costs is None or not costs.timed else quantiles(costs.days_of(ends.samples, ends.rounds)),
        cost=None if costs is None or not costs.known else quantiles(costs.of(ends.counts, ends.rounds)),
    )


def _name_claims(settings: StudySpec) -> tuple[str, ...]:
    """The claims in words, those about further metrics last; none where the question is another."""
    if not settings.question.separate_claims:
        return ()
    others = zip(settings.metrics, settings.by_metric, strict=True)
    further = (f"{each.name}: {text}" for each, own in others for text in own.question.claim_texts(own.arms))
    return (*settings.question.claim_texts(settings.arms), *further)


def _chances_of_metrics(settings: StudySpec, ends: Ends) -> dict[str, float]:
    """The chance that a true claim of each metric is shown, of runs that have one; metrics without any are left out."""
    names, found, start = ["the main metric", *(each.name for each in settings.metrics)], {}, 0
    for name, own in zip(names, (settings, *settings.by_metric), strict=True):
        stop = start + len(own.question.claim_texts(own.arms))
        shown, true = ends.shown[:, start:stop], ends.true[:, start:stop]
        some = np.asarray(true.any(axis=-1))
        if some.any():
            found[name] = float((shown & true)[some].any(axis=-1).mean())
        start = stop
    return found


def _collect_data(state: State, told: Batch | None) -> ResultsSoFar:
    """All results, including those of the outstanding round; squares where the stopping rule keeps them."""
    record, past = state.trial.record, state.spec.policy.stopping.past(state.trial.kept)
    scatter, freedom = (None, None) if past is None or not past.freedom.any() else (past.scatter, past.freedom)
    skewness = None if past is None or past.cubes is None else np.nan_to_num(past.skewness, posinf=0.0)
    counts, totals = record.counts, record.totals
    if told is not None:
        counts, totals = counts + told.counts, totals + told.totals
        if told.scatter is not None:
            within = np.maximum(told.counts - 1.0, 0.0)
            scatter, freedom = (told.scatter, within) if scatter is None else (scatter + told.scatter, freedom + within)
    return ResultsSoFar(counts=counts, totals=totals, scatter=scatter, freedom=freedom, skewness=skewness)


def outlook_line(state: State) -> str | None:
    """One line for a status; None without data, or with too many arms to be quick."""
    arms = len(state.spec.arms)
    if arms > MANY_ARMS:
        return None
    try:
        found = replan(state, runs=min(LINE_RUNS, max(LINE_WORK // arms, 20)))
    except InputError:
        return None
    return None if found.ended is not None and found.extension is None else found.line


def report_ahead(study: Study) -> Report:
    """The report of a study, with its forecast in one line."""
    return dataclasses.replace(study.report(), forecast=outlook_line(study.state))


def first_line(settings: StudySpec, *, runs: int = LINE_RUNS) -> str | None:
    """One line for a study without results: the forecast with a lead that is not small."""
    if settings.metrics:
        return None
    settings = settings if settings.list is not None else settings.alone
    question, noise = settings.question, settings.noise
    low, high = noise.mean_range
    if noise.outcome.clip or noise.outcome.counts or (settings.lead is not None and noise.estimates_variance):
        return None  # the forecast of a lead in units of the results needs a mean or a deviation that was not declared
    unit = "standard deviations of a result" if noise.estimates_variance else settings.unit or ""
    middle = 0.5 * (low + high) if math.isfinite(low) and math.isfinite(high) else 1.0 if math.isfinite(low) else 0.0
    try:
        baseline = middle if question.level is None else question.level
        rows = build_ladder(
            question, settings.arms, noise, baseline, None if settings.lead is None else [settings.lead], unit=unit
        )
        row = rows[-2] if settings.lead is None else rows[0]
        guessed = question.level is None and math.isfinite(low) and math.isfinite(high)
        condition = row.condition + (f" around {settings.problem.wording.value(baseline)}" if guessed else "")
        means = np.asarray(row.means)
        if not np.isfinite(question.complexity(means).value):
            return None
        world = world_of(noise, means)
        if settings.list is not None:
            world = ExchangeableList(ExchangeableItems(noise, means[None]), len(settings.list))
            runs = runs_of_list(len(settings.list), len(settings.arms), runs)
    except RoundwiseError:
        return None
    ends = simulate_ahead(settings.problem, settings.acting, world, runs=runs, seed=1, most_rounds=LONG)
    answered = ends.answered(settings)
    if settings.budget is not None and (question.separate_claims or answered < 0.5):
        what = "a true claim is shown" if question.separate_claims else "there is an answer within the budget"
        return f"if {condition}, {what} with probability {share(answered)}"
    typical = quantiles(ends.samples).typical
    return takes_line(condition, typical, quantiles(ends.rounds).typical) if math.isfinite(typical) else None


def takes_line(condition: str, results: float, rounds: float) -> str:
    """The forecast in a scenario: "if the lead is 2 points, about 900 results in 3 rounds"."""
    if not math.isfinite(results):
        return f"if {condition}, no end in sight"
    return f"if {condition}, about {whole(results)} results in {plural(rounds, 'round')}"
