"""Estimates without the shifts of whole batches: checked against plain least squares over means and shifts."""

import numpy as np
import pytest

from roundwise.arrays import tree_take
from roundwise.model.batch import Batch
from roundwise.model.estimates import FEW, ArmMeanFit, BatchShiftFit, Past, estimate_from
from roundwise.solvers.halfspaces import Halfspaces, pairs

RUNS = 3
SIZES = [
    (2, 3),
    (4, FEW),
    (4, FEW + 1),
    (4, 60),
    (30, FEW + 5),
    (30, 31),
]  # arms and batches, on both sides of a switch


def drawn(arms, batches, seed=0):
    """Batches with shifts of five standard deviations; the last arm joins late, some arms miss some batches."""
    rng = np.random.default_rng(seed)
    found = []
    for r in range(batches):
        n = rng.integers(0, 20, (RUNS, arms)).astype(float)
        n[:, -1] *= r > 0
        n[:, 0] += 1  # so that every batch has a link to the others
        noise = rng.standard_normal((RUNS, arms)) * np.sqrt(n)
        found.append(Batch(n, n * (np.arange(arms) + 5 * rng.standard_normal((RUNS, 1))) + noise))
    return found


def seen(every):
    past = Past.none(every[0].counts.shape)
    for batch in every:
        past = past.plus(batch)
    return past


def least_squares(every, run, form):
    """Estimate and variance of a form from one weighted regression on indicators of arm and batch."""
    rows, right, weights = [], [], []
    arms, batches = every[0].counts.shape[-1], len(every)
    for r, (counts, totals, *_) in enumerate(every):
        for j in np.flatnonzero(counts[run]):
            rows.append(np.concatenate([np.eye(arms)[j], np.eye(batches)[r]]))
            right.append(totals[run, j] / counts[run, j])
            weights.append(np.sqrt(counts[run, j]))
    weight = np.array(weights)
    design = np.array(rows) * weight[:, None]
    inverse = np.linalg.pinv(design.T @ design)  # means and shifts are known up to a constant only
    u = np.concatenate([form, np.zeros(batches)])
    return u @ inverse @ design.T @ (np.array(right) * weight), u @ inverse @ u


@pytest.mark.long
@pytest.mark.parametrize(("arms", "batches"), SIZES)
def test_forms_are_those_of_least_squares(arms, batches):
    every = drawn(arms, batches)
    known = estimate_from(seen(every), np.ones(RUNS), shifts=True)
    assert isinstance(known.fit, ArmMeanFit if batches > max(FEW, arms) else BatchShiftFit)
    first = np.ones((RUNS, arms), dtype=np.intp)
    differences = known.forecast(pairs(first, np.arange(first.shape[-1]), 0.25))
    for run in range(RUNS):
        for j in (0, arms - 1):
            if j != 1:
                value, variance = least_squares(every, run, np.eye(arms)[1] - np.eye(arms)[j])
                np.testing.assert_allclose(differences.value[run, j], value - 0.25, rtol=1e-6)
                np.testing.assert_allclose(differences.leverage[run, j], variance, rtol=1e-6)
    whole = np.broadcast_to(np.arange(arms), (RUNS, 1, arms))
    factors = np.linspace(-1, 1, arms)
    general = known.forecast(Halfspaces(whole, np.broadcast_to(factors, whole.shape), np.zeros((RUNS, 1)), False))
    value, variance = least_squares(every, 0, factors)
    np.testing.assert_allclose([general.value[0, 0], general.leverage[0, 0]], [value, variance], rtol=1e-6)


@pytest.mark.parametrize(("arms", "batches"), SIZES)
def test_an_arm_without_results_is_not_known(arms, batches):
    every = drawn(arms, batches)
    past, none = seen(every), np.zeros((RUNS, 1))
    hidden = [Batch(np.append(counts, none, axis=-1), np.append(totals, none, axis=-1)) for counts, totals, *_ in every]
    known = estimate_from(seen(hidden), np.ones(RUNS), shifts=True)
    forecast = known.forecast(pairs(np.zeros((RUNS, arms + 1), dtype=np.intp), np.arange(arms + 1)))
    assert (forecast.leverage[:, -1] == np.inf).all()
    assert np.isfinite(forecast.value).all()
    alone = estimate_from(past, np.ones(RUNS), shifts=True).forecast(
        pairs(np.zeros((RUNS, arms), dtype=np.intp), np.arange(arms))
    )
    np.testing.assert_allclose(forecast.leverage[:, 1:-1], alone.leverage[:, 1:], rtol=1e-9)


@pytest.mark.parametrize(("arms", "batches"), SIZES)
def test_one_run_or_many_the_same_bits(arms, batches):
    past = seen(drawn(arms, batches))
    pieces = pairs(np.zeros((RUNS, arms), dtype=np.intp), np.arange(arms))
    many = estimate_from(past, np.ones(RUNS), shifts=True).forecast(pieces)
    for run in range(RUNS):
        index = np.array([run])
        one = estimate_from(tree_take(past, index), np.ones(1), shifts=True).forecast(
            pieces._replace(arms=pieces.arms[index], offsets=pieces.offsets[index])
        )
        np.testing.assert_array_equal(one.value[0], many.value[run])
        np.testing.assert_array_equal(one.leverage[0], many.leverage[run])


@pytest.mark.parametrize("arms", [2, 20])
def test_what_is_kept_of_many_batches_stays_bounded(arms):
    every = drawn(arms, 90)
    past, sizes = Past.none((RUNS, arms)), []
    for batch in every:
        past = past.plus(batch)
        sizes.append(len(past.history))
    assert max(sizes) == max(FEW, arms)
    assert (sizes[-1], past.batches) == (1, 90)
    np.testing.assert_array_equal(past.first[:, -1] > 0, True)
    np.testing.assert_array_equal(past.first[:, 0], every[0].counts[:, 0])


@pytest.mark.parametrize(("arms", "batches"), [(2, 3), (4, FEW + 3)])
def test_parts_of_a_batch_are_one_batch(arms, batches):
    every = drawn(arms, batches)
    whole, parts = seen(every), Past.none((RUNS, arms))
    for counts, totals, *_ in every:
        half = np.floor(counts / 2)
        parts = parts.plus(Batch(half, totals / 4)).plus(Batch(counts - half, totals * 3 / 4), same_batch=True)
    assert parts.batches == batches
    one, other = (estimate_from(each, np.ones(RUNS), True) for each in (parts, whole))
    np.testing.assert_allclose(one.means, other.means, rtol=1e-9, atol=1e-12)


def test_a_very_uneven_past_keeps_its_digits():
    """A batch of a million among many of ten: differences are still those of least squares."""
    every = [Batch(batch.counts * 1e5, batch.totals * 1e5) if r == 3 else batch for r, batch in enumerate(drawn(4, 40))]
    found = estimate_from(seen(every), np.ones(RUNS), True).forecast(
        pairs(np.ones((RUNS, 4), dtype=np.intp), np.arange(4))
    )
    value, variance = least_squares(every, 0, np.array([-1.0, 1.0, 0.0, 0.0]))
    np.testing.assert_allclose([found.value[0, 0], found.leverage[0, 0]], [value, variance], rtol=1e-6)
