"""Warnings of unequal missingness and unequal splits: against SciPy's tests and exact enumeration, and their level."""

import numpy as np
import pytest
from scipy import stats

from roundwise.study.diagnostics import chi_squared_tail, missing_p_value, split_p_value


def test_the_tail_of_chi_squared():
    for freedom in (1, 2, 3, 4, 9, 50, 99, 1000, 2901):
        for square in (1e-9, 0.3, 1.0, 0.5 * freedom, float(freedom), 1.5 * freedom, 3.0 * freedom + 20):
            known = stats.chi2.sf(square, freedom)
            assert chi_squared_tail(freedom, square) == pytest.approx(known, rel=1e-9, abs=1e-290)
        assert (chi_squared_tail(freedom, 0.0), chi_squared_tail(freedom, np.inf)) == (1.0, 0.0)
        assert np.isnan(chi_squared_tail(freedom, np.nan))


@pytest.mark.parametrize(
    ("counts", "missing"), [([90, 95, 70], [10, 5, 30]), ([400, 380], [20, 40]), ([50, 50, 50, 50], [9, 8, 7, 6])]
)
def test_missing_is_the_chi_squared_test_where_many_are_missing(counts, missing):
    found = missing_p_value(np.array(counts, float), np.array(missing, float))
    known = stats.chi2_contingency(np.array([counts, missing]), correction=False).pvalue
    assert found == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize(("counts", "missing"), [([30, 26], [0, 4]), ([12, 15], [3, 0]), ([29, 28], [1, 2])])
def test_missing_is_exact_where_few_are(counts, missing):
    """Two arms: the two-sided chance by enumeration of the hypergeometric law, ordered by the same distance."""
    n, m = counts[0] + missing[0], counts[1] + missing[1]
    lost = sum(missing)
    law = stats.hypergeom(n + m, n, lost)
    middle = lost * n / (n + m)
    exact = sum(law.pmf(k) for k in range(lost + 1) if abs(k - middle) >= abs(missing[0] - middle) - 1e-9)
    found = missing_p_value(np.array(counts, float), np.array(missing, float))
    assert found == pytest.approx(exact, abs=5 * np.sqrt(exact * (1 - exact) / 9999) + 2e-4)


def test_split_is_the_chi_squared_test():
    found = split_p_value(np.array([2.0, 1.0, 1.0]), np.array([480.0, 260.0, 270.0]))
    known = stats.chisquare([480, 260, 270], 1010 * np.array([0.5, 0.25, 0.25])).pvalue
    assert found == pytest.approx(known, rel=1e-9)
    few = split_p_value(np.array([1.0, 1.0]), np.array([1.0, 7.0]))
    assert few == pytest.approx(stats.binomtest(1, 8).pvalue, abs=0.015)


def test_they_warn_as_rarely_as_they_say():
    rng = np.random.default_rng(1)
    for chance in (0.02, 0.3):
        missing = rng.binomial(60, chance, (400, 3)).astype(float)
        wrong = sum(missing_p_value(60 - each, each) < 0.01 for each in missing)
        assert wrong <= stats.binom.isf(1e-4, 400, 0.012)
    splits = rng.multinomial(200, [0.5, 0.25, 0.25], 1500).astype(float)
    wrong = sum(split_p_value(np.array([2.0, 1, 1]), each) < 0.01 for each in splits)
    assert wrong <= stats.binom.isf(1e-4, 1500, 0.012)


def test_nothing_to_compare():
    assert missing_p_value(np.array([5.0, 0.0]), np.array([3.0, 0.0])) == 1
    assert missing_p_value(np.array([5.0, 5.0]), np.zeros(2)) == 1
    assert missing_p_value(np.zeros(2), np.array([3.0, 2.0])) == 1
    assert split_p_value(np.array([1.0, 1.0]), np.zeros(2)) == 1
    assert split_p_value(np.array([1.0, 0.0]), np.array([3.0, 1.0])) == 0
