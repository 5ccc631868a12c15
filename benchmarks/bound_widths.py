"""Widths of bounds of claims by their three constructions (docs/ablation.md): bets with one drift towards the budget,
bets aimed at the end of the bound, and the grid that goes on after the first rounds. Two claims, deviation 1.

    python benchmarks/bound_widths.py
"""

import math
import time

import numpy as np

from roundwise import Claims, Problem
from roundwise.model.batch import Batch
from roundwise.model.estimates import Past
from roundwise.model.problem import BatchPlan
from roundwise.noise import Gaussian
from roundwise.rules.eprocess import claim_bounds
from roundwise.rules.eprocess.bounds import excess_over, find_end, locate_forms
from roundwise.rules.eprocess.claims import ClosedTestingRule

MEANS = np.array([0.0, 0.1, 0.3])
PROBLEM = Problem(Claims.against_control(3, 0), 3, 0.05, Gaussian())
FORMS = claim_bounds._both_sides(PROBLEM.question)
BARS = np.full(4, PROBLEM.goal + math.log(2))


def draw(rng, rounds, pulls):
    """Rounds of this many results of each arm."""
    rows = rng.normal(MEANS[:, None], 1.0, (rounds, 3, pulls))
    centred = rows - rows.mean(axis=-1, keepdims=True)
    return [Batch(np.full(3, float(pulls)), *both) for both in zip(rows.sum(-1), (centred**2).sum(-1), strict=True)]


def width(batches, wealth):
    """From the estimate to the end, on average over both sides of both claims."""
    past = Past.none((3,))
    for batch in batches:
        past = past.plus(batch)
    place = locate_forms(PROBLEM, past, FORMS)
    return float((place[0] - find_end(excess_over(wealth, BARS), *place)).mean())


def towards_budget(batches, rounds):
    steps = []
    for r, batch in enumerate(batches):
        none = np.zeros(2)
        steps.append(claim_bounds.ClaimStep(*batch[:3], np.asarray(1 / (rounds - r)), BARS[:2], none, none > 0))
    return width(batches, claim_bounds._wealth_towards_budget(PROBLEM, steps, FORMS, BARS, 0))


def aimed(batches):
    return width(batches, claim_bounds.bets_of(PROBLEM, batches, ()).wealth_against(FORMS, BARS))


def on_a_grid(batches):
    rule, plan = ClosedTestingRule(), BatchPlan(batches[0].counts, np.asarray(True))
    kept = rule.start(PROBLEM, ())
    for batch in batches:
        kept = rule.fold(PROBLEM, kept, plan, batch)
    single = claim_bounds._lower_bounds(PROBLEM, kept, PROBLEM.noise.budget_bet)[1]
    return float((locate_forms(PROBLEM, kept.past, FORMS)[0] - single).mean())


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    for used in (1, 2, 5, 10, 20):
        found = [(aimed(each), towards_budget(each, 20)) for each in (draw(rng, used, 100) for _ in range(20))]
        one, other = np.mean(found, axis=0)
        print(f"round {used} of 20: aimed {one:.4f}, one drift {other:.4f}, aimed over one drift {one / other:.2f}")
    for rounds in (24, 100, 400):
        batches = [draw(rng, rounds, 60) for _ in range(5)]
        start = time.process_time()
        every = np.mean([aimed(each) for each in batches])
        spent = (time.process_time() - start) / 5
        grid = np.mean([on_a_grid(each) for each in batches])
        print(
            f"{rounds} rounds: grid over all rounds again {grid / every:.2f}, which take {1000 * spent:.0f} ms a report"
        )
