"""Estimates without the shifts of whole batches: checked against plain least squares over means and shifts."""

import numpy as np
import pytest

from roundwise.arrays import take
from roundwise.estimates import FEW, MeansOfArms, Past, ShiftsOfBatches, known_from
from roundwise.questions.base import Halfspaces, pairs
from roundwise.state import Batch

RUNS = 3
SIZES = [
    (2, 3),
    (4, FEW),
    (4, FEW + 1),
    (4, 60),
    (30, FEW + 5),
    (30, 31),
]  # arms and batches, on both sides of a switch


def seen(arms, batches, seed=0):
    """Batches with shifts of five standard deviations; the last arm joins late, some arms miss some batches."""
    rng = np.random.default_rng(seed)
    past = Past.none((RUNS, arms))
    for r in range(batches):
        n = rng.integers(0, 20, (RUNS, arms)).astype(float)
        n[:, -1] *= r > 0
        n[:, 0] += 1  # so that every batch has a link to the others
        noise = rng.standard_normal((RUNS, arms)) * np.sqrt(n)
        past = past.plus(Batch(n, n * (np.arange(arms) + 5 * rng.standard_normal((RUNS, 1))) + noise))
    return past


def least_squares(past, run, form):
    """Estimate and variance of a form from one weighted regression on indicators of arm and batch."""
    rows, right, weights = [], [], []
    arms, batches = past.counts.shape[-1], len(past.history)
    for r, (counts, totals) in enumerate(past.history):
        for j in np.flatnonzero(counts[run]):
            rows.append(np.concatenate([np.eye(arms)[j], np.eye(batches)[r]]))
            right.append(totals[run, j] / counts[run, j])
            weights.append(np.sqrt(counts[run, j]))
    weight = np.array(weights)
    design = np.array(rows) * weight[:, None]
    inverse = np.linalg.pinv(design.T @ design)  # means and shifts are known up to a constant only
    u = np.concatenate([form, np.zeros(batches)])
    return u @ inverse @ design.T @ (np.array(right) * weight), u @ inverse @ u


@pytest.mark.parametrize(("arms", "batches"), SIZES)
def test_forms_are_those_of_least_squares(arms, batches):
    past = seen(arms, batches)
    known = known_from(past, np.ones(RUNS), shifts=True)
    assert isinstance(known.fit, MeansOfArms if batches > max(FEW, arms) else ShiftsOfBatches)
    first = np.ones((RUNS, arms), dtype=np.intp)
    differences = known.forecast(pairs(first, None, 0.25))
    for run in range(RUNS):
        for j in (0, arms - 1):
            if j != 1:
                value, variance = least_squares(past, run, np.eye(arms)[1] - np.eye(arms)[j])
                np.testing.assert_allclose(differences.value[run, j], value - 0.25, rtol=1e-6)
                np.testing.assert_allclose(differences.leverage[run, j], variance, rtol=1e-6)
    whole = np.broadcast_to(np.arange(arms), (RUNS, 1, arms))
    factors = np.linspace(-1, 1, arms)
    general = known.forecast(Halfspaces(whole, np.broadcast_to(factors, whole.shape), np.zeros((RUNS, 1)), False))
    value, variance = least_squares(past, 0, factors)
    np.testing.assert_allclose([general.value[0, 0], general.leverage[0, 0]], [value, variance], rtol=1e-6)


@pytest.mark.parametrize(("arms", "batches"), SIZES)
def test_an_arm_without_results_is_not_known(arms, batches):
    past = seen(arms, batches)
    hidden = Past.none((RUNS, arms + 1))
    for counts, totals in past.history:
        hidden = hidden.plus(Batch(*(np.append(each, np.zeros((RUNS, 1)), axis=-1) for each in (counts, totals))))
    known = known_from(hidden, np.ones(RUNS), shifts=True)
    forecast = known.forecast(pairs(np.zeros((RUNS, arms + 1), dtype=np.intp), None))
    assert (forecast.leverage[:, -1] == np.inf).all()
    assert np.isfinite(forecast.value).all()
    alone = known_from(past, np.ones(RUNS), shifts=True).forecast(pairs(np.zeros((RUNS, arms), dtype=np.intp), None))
    np.testing.assert_allclose(forecast.leverage[:, 1:-1], alone.leverage[:, 1:], rtol=1e-9)


@pytest.mark.parametrize(("arms", "batches"), SIZES)
def test_one_run_or_many_the_same_bits(arms, batches):
    past = seen(arms, batches)
    pieces = pairs(np.zeros((RUNS, arms), dtype=np.intp), None)
    many = known_from(past, np.ones(RUNS), shifts=True).forecast(pieces)
    for run in range(RUNS):
        index = np.array([run])
        one = known_from(take(past, index), np.ones(1), shifts=True).forecast(
            pieces._replace(arms=pieces.arms[index], offsets=pieces.offsets[index])
        )
        np.testing.assert_array_equal(one.value[0], many.value[run])
        np.testing.assert_array_equal(one.leverage[0], many.leverage[run])
