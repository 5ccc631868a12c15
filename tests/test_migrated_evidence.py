"""What is carried over when arms join and leave is never more than what was won against the truth.

Beside the ledger one supermartingale is followed for every truth there may be; arms that join and leave do not touch
it, and nothing that the ledger holds against the truth may exceed it (docs/why-the-guarantee-holds.md, Propositions 18,
22 and 23).
"""

from itertools import permutations, product

import numpy as np
import pytest

from roundwise import Above, BestArm, Binary, Gaussian
from roundwise.model.problem import Problem
from roundwise.rules.eprocess.rule import eprocess_for

DELTA = 0.05
LOW, BETWEEN, HIGH = -1, 0, 1
EVER = 6  # arms that there are at some time, of which the first three are there at first
SCRIPTS = ["a", "d", "ad", "da", "add", "dad", "addad", "dada", "aaddd", "adadad", "aaddda"]  # add and drop
NOISES = {"own items": Gaussian(1.0), "shared items": Binary().with_items()}
EXACT = 1e-9


def walk(question, noise, script, seed):
    """A ledger through a script with bets between: after each step its letter, what was won, the arms and their gains.

    What bets pay is not made of results: it is anything that they could pay, often a lot, on both sides of an arm.
    """
    rng = np.random.default_rng(seed)
    arms, ever, told = [0, 1, 2], 3, np.zeros(EVER, dtype=bool)
    problem = Problem(question, 3, DELTA, noise)
    won = eprocess_for(problem).start(problem, ())
    for letter in f"..{'.'.join(script)}..":
        gains = np.zeros((2, EVER))
        if letter == "a":
            won, arms, ever = eprocess_for(problem).with_arm(won), [*arms, ever], ever + 1
        elif letter == "d":
            place = int(rng.integers(len(arms)))
            won = eprocess_for(problem).without(problem, won, place)
            arms = [*arms[:place], *arms[place + 1 :]]
        else:
            some = np.array(arms)[rng.random(len(arms)) < 0.7]
            gains[:, some] = rng.normal(rng.choice([-1.5, 0.0, 1.5]), rng.choice([0.3, 2.0]), (2, some.size))
            told[some] = True
        problem = Problem(question, len(arms), DELTA, noise)
        won = won if letter in "ad" else bet(problem, won, gains[:, arms])
        yield letter, problem, won, arms, gains, told[arms]


def bet(problem, won, gains):
    """What was won after bets that paid this; what is settled is not bet on."""
    if isinstance(problem.question, BestArm):
        gained = won.gains + np.where(won.rejected, 0.0, gains[0])
        return won._replace(gains=gained, rejected=won.rejected | (gained >= problem.goal))
    gains[:, won.settled] = 0.0
    won = won._replace(above=won.above + gains[0], below=won.below + gains[1])
    return won._replace(settled=eprocess_for(problem).decided(problem, won))


def evidence_for(problem, won, above):
    """log of the evidence that each arm is above, or below, if nothing were settled yet."""
    nothing = won._replace(settled=np.zeros_like(won.settled))
    return eprocess_for(problem).evidence(problem, nothing, np.full(problem.arms, above))


def sides(tolerance):
    """On which side each arm may lie: all truths there may be. (T, EVER)"""
    return np.array(list(product((LOW, BETWEEN, HIGH) if tolerance else (LOW, HIGH), repeat=EVER)))


@pytest.mark.long
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_sides_of_a_level_by_products(tolerance, script):
    """The truth has the product of what was won against the true sides of all arms there ever were."""
    truths = sides(tolerance)
    for seed in range(40):
        against = np.zeros(len(truths))
        before = None
        for letter, problem, won, arms, gains, told in walk(Above(0.5, tolerance), NOISES["own items"], script, seed):
            if letter == ".":
                settled = np.zeros(EVER, dtype=bool) if before is None else before
                gains[:, settled] = 0.0
                against += np.where(truths == LOW, gains[0], np.where(truths == HIGH, gains[1], 0.0)).sum(axis=-1)
            before = np.isin(np.arange(EVER), np.array(arms)[won.settled])
            for above in (True, False):
                evidence = evidence_for(problem, won, above)
                assert (evidence[~told] <= EXACT).all()
                wrong = truths[:, arms] == (LOW if above else HIGH)
                assert (np.where(wrong, evidence, -np.inf).max(axis=-1) <= against + EXACT).all()


@pytest.mark.long
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_sides_of_a_level_by_means_over_arms(tolerance, script):
    """The mean over the true nulls in the question never exceeds what it would have been without any change."""
    truths = sides(tolerance)
    for seed in range(40):
        against, ever = np.zeros(len(truths)), np.zeros(len(truths))
        before = np.zeros(len(truths))
        for letter, problem, won, arms, _, told in walk(Above(0.5, tolerance), NOISES["shared items"], script, seed):
            here = truths[:, arms]
            null = np.where(here == LOW, won.above, np.where(here == HIGH, won.below, -np.inf))
            number = np.count_nonzero(here != BETWEEN, axis=-1)
            now = np.where(number > 0, np.logaddexp.reduce(null, axis=-1) - np.log(np.maximum(number, 1)), -np.inf)
            if letter == ".":
                against += np.where(number > 0, now - before, 0.0)
                ever = np.maximum(ever, against)
            before = np.where(number > 0, now, 0.0)
            right = ever < problem.goal - EXACT
            assert (now[right] <= against[right] + EXACT).all()
            side = np.where(won.above > won.below, HIGH, LOW)
            assert not (won.settled & (here == -side))[right].any()
            for above in (True, False):
                assert (evidence_for(problem, won, above)[~told] <= EXACT).all()


@pytest.mark.long
@pytest.mark.parametrize("script", SCRIPTS)
def test_the_best_arm(script):
    """Of every order of the arms: what was won against the best one in the question, whichever that was at the time."""
    truths = np.array(list(permutations(range(EVER))))
    for seed in range(40):
        against, ever = np.zeros(len(truths)), np.zeros(len(truths))
        before = np.zeros(EVER, dtype=bool)
        for letter, problem, won, arms, gains, told in walk(BestArm(), NOISES["own items"], script, seed):
            best = truths[:, arms].argmax(axis=-1)
            if letter == ".":
                against += np.where(before, 0.0, gains[0])[np.array(arms)[best]]
                ever = np.maximum(ever, against)
            before = np.isin(np.arange(EVER), np.array(arms)[won.rejected])
            right = ever < problem.goal - EXACT
            assert (won.gains[best] <= against + EXACT)[right].all()
            assert not won.rejected[best][right].any()
            assert (won.gains[~told] <= EXACT).all()
            assert not won.rejected[~told].any()
