"""Fixed designs against R's rpact 3.3.4 (Debian r-cran-rpact) and against independent integration."""

import math

import numpy as np
import pytest
from scipy import stats

from roundwise import Above, BestArm, Binary, Claims, Gaussian, Normal, Poisson, Problem, Statements, TopK
from roundwise.planning.comparison import run_claims, run_looks
from roundwise.planning.fixed_designs import boundary, dunnett, fixed_design, obrien_fleming
from roundwise.planning.request import PlanRequest


class TestOneComparison:
    # rpact: getSampleSizeRates(pi1, pi2, alpha=, beta=0.1, sided=1, allocationRatioPlanned=)$nFixed
    @pytest.mark.parametrize(
        ("rates", "level", "shares", "rpact"),
        [
            ((0.35, 0.30), 0.05 / 3, None, 4076.12645),
            ((0.036, 0.03), 0.025, None, 37251.6654),
            ((0.54, 0.36), 0.025, (1, 2), 354.808269),  # twice as many in the control
        ],
    )
    def test_rates(self, rates, level, shares, rpact):
        found = fixed_design(Problem(BestArm(), 2, level, Binary()), rates, shares=shares)
        assert found.samples == pytest.approx(rpact, rel=1e-8)

    def test_means(self):
        # getSampleSizeMeans(alternative=0.2, stDev=1, alpha=0.025, beta=0.1, sided=1, normalApproximation=TRUE)$nFixed
        found = fixed_design(Problem(BestArm(), 2, 0.025, Gaussian()), [0.2, 0.0])
        assert found.samples == pytest.approx(1050.74231, rel=1e-8)

    def test_a_level(self):
        """(z sqrt(p0 q0) + z' sqrt(p1 q1))^2/(p1 - p0)^2, by hand."""
        found = fixed_design(Problem(Above(0.3), 2, 0.05, Binary()), [0.36, 0.24], power=0.8)
        z = stats.norm.isf(0.025)
        one = ((z * np.sqrt(0.21) + stats.norm.isf(0.2) * np.sqrt(0.36 * 0.64)) / 0.06) ** 2
        assert found.comparisons == 2
        assert found.samples > 2 * one  # both must be shown together


class TestLooks:
    # getDesignCharacteristics(getDesignGroupSequential(kMax, alpha, beta=0.1, typeOfDesign="OF")):
    # inflationFactor, averageSampleNumber1
    @pytest.mark.parametrize(
        ("looks", "level", "inflation", "average"),
        [(5, 0.025, 1.0264863, 0.75025436), (3, 0.05 / 3, 1.0126654, 0.81034408)],
    )
    def test_obrien_fleming(self, looks, level, inflation, average):
        assert obrien_fleming(looks, level, 0.9) == pytest.approx((inflation, average), rel=1e-7)

    def test_by_simulation(self):
        """The constant and the drift that they rest on, on simulated motions."""
        inflation, average = obrien_fleming(4, 0.05, 0.8)
        drift = np.sqrt(inflation) * (stats.norm.isf(0.05) + stats.norm.isf(0.2))
        steps = np.random.default_rng(3).standard_normal((200_000, 4)) / 2
        null = steps.cumsum(axis=1)
        constant = np.quantile(null.max(axis=1), 0.95)
        moved = null + drift * np.arange(1, 5) / 4
        over = moved >= constant
        assert over.any(axis=1).mean() == pytest.approx(0.8, abs=0.01)
        when = np.where(over.any(axis=1), over.argmax(axis=1) + 1, 4) / 4
        assert inflation * when.mean() == pytest.approx(average, abs=0.01)

    def test_only_where_it_is_standard(self):
        rates = [0.35, 0.3, 0.3]
        assert fixed_design(Problem(BestArm(), 3, 0.05, Binary()), rates, looks=5).sequential is None
        control = fixed_design(Problem(Claims.against_control(3), 3, 0.05, Binary()), [0.3, 0.3, 0.4], looks=5)
        assert control.sequential.mean_samples < control.samples < control.sequential.max_samples


class TestSeveral:
    @pytest.mark.parametrize("others", [2, 3, 5])
    @pytest.mark.parametrize("level", [0.025, 0.05])
    def test_dunnett(self, others, level):
        """Against SciPy's integration of the multivariate normal law; 1/3 comes of a control of twice the size."""
        for rho in (1 / 2, 1 / 3):
            z = dunnett(level, (np.sqrt(rho),) * others)
            cov = np.full((others, others), rho) + (1 - rho) * np.eye(others)
            inside = stats.multivariate_normal.cdf(np.full(others, z), cov=cov, abseps=5e-6, rng=1)
            assert 1 - inside == pytest.approx(level, abs=2e-5)
        assert stats.norm.isf(level) < z < stats.norm.isf(level / others)

    # mvtnorm 1.1-3: uniroot(function(z) pmvnorm(upper=rep(z, 4), corr=S, algorithm=Miwa(128))[1] - 0.975, c(1.9, 3)),
    # S with rho off the diagonal; n = 2 (z + qnorm(0.9))^2/0.4^2 an arm; pnorm(0.4 sqrt(174/2) - z)
    def test_dunnett_as_in_r(self):
        assert dunnett(0.025, (np.sqrt(1 / 2),) * 4) == pytest.approx(2.441774908, rel=1e-7)
        assert dunnett(0.025, (np.sqrt(1 / 3),) * 4) == pytest.approx(2.471088781, rel=1e-7)
        doses = Problem(Claims.against_control(5), 5, 0.025, Gaussian())
        assert fixed_design(doses, [0, 0, 0.2, 0.3, 0.4]).samples == pytest.approx(866.4475019, rel=1e-7)
        whole = fixed_design(doses, [0, 0, 0.2, 0.3, 0.4], power=0.901331671)
        assert whole.samples == pytest.approx(5 * 174, rel=1e-7)

    # rpact 3.3.4 with mnormt 2.1.1, 10 000 simulated trials, d <- getDesignInverseNormal(kMax=1, alpha=0.025, sided=1):
    # getSimulationMultiArmMeans(d, activeArms=4, typeOfShape="userDefined", effectMatrix=matrix(c(0, 0, 0, 0.4), 1),
    #   stDev=1, plannedSubjects=174, intersectionTest="Dunnett", typeOfSelection="all", successCriterion="all",
    #   maxNumberOfIterations=10000, seed=2)$rejectedArmsPerStage; with c(0, 0.2, 0.3, 0.4) and seed=1; and
    # getSimulationMultiArmRates(d, ..., effectMatrix=matrix(c(.34, .47, .465, .537), 1), piControl=.36,
    #   plannedSubjects=120, seed=3). The last value is $rejectAtLeastOne. They go through the closed test.
    @pytest.mark.parametrize(
        ("means", "each", "rates", "rpact"),
        [
            ((0, 0, 0, 0, 0.4), 174, False, (0.0110, 0.0114, 0.0111, 0.9002, 0.9002)),
            ((0, 0, 0.2, 0.3, 0.4), 174, False, (0.0208, 0.3536, 0.6774, 0.9085, 0.9291)),
            ((0.36, 0.34, 0.47, 0.465, 0.537), 120, True, (0.0097, 0.2761, 0.2643, 0.6472, 0.6927)),
        ],
    )
    def test_power_of_dunnett_as_in_rpact(self, means, each, rates, rpact):
        """Our bounds in Dunnett's closed test, on drawn trials, show as often what rpact does."""
        rng, runs = np.random.default_rng(4), 100_000
        if rates:
            found = rng.binomial(each, means, (runs, 5)) / each
            middle = (found[:, 1:] + found[:, :1]) / 2
            spread = np.sqrt(2 * middle * (1 - middle) / each)
        else:
            found, spread = means + rng.standard_normal((runs, 5)) / np.sqrt(each), np.sqrt(2 / each)
        z = (found[:, 1:] - found[:, :1]) / spread
        order = np.argsort(-z, axis=1)
        bounds = [dunnett(0.025, (np.sqrt(1 / 2),) * left) for left in (4, 3, 2, 1)]
        passed = np.logical_and.accumulate(np.take_along_axis(z, order, axis=1) > bounds, axis=1)
        shown = np.zeros_like(passed)
        np.put_along_axis(shown, order, passed, axis=1)
        ours = [*shown.mean(axis=0), shown.any(axis=1).mean()]
        for one, other in zip(ours, rpact, strict=True):
            assert abs(one - other) < 4 * np.sqrt(other * (1 - other) * (1 / 10_000 + 1 / runs))

    def test_the_design_has_the_power_that_rpact_finds(self):
        """174 an arm have 90.02 % of 10 000 trials there for the one dose that works."""
        doses = Problem(Claims.against_control(5), 5, 0.025, Gaussian())
        assert fixed_design(doses, [0, 0, 0, 0, 0.4], power=0.9002).samples == pytest.approx(5 * 174, rel=0.02)

    def test_claims_are_one_by_one_and_statements_all_together(self):
        """A claim that is not true holds nothing up; statements must be settled, whichever way."""
        rates = [0.3, 0.28, 0.4]
        claims = fixed_design(Problem(Claims.against_control(3), 3, 0.05, Binary()), rates)
        both = fixed_design(Problem(Claims.against_control(3, sides="two"), 3, 0.05, Binary()), rates)
        assert claims == both  # at any means only one of a claim and its opposite can be false
        settled = fixed_design(Problem(Statements.against_control(3), 3, 0.05, Binary()), rates)
        assert settled.samples > 10 * claims.samples
        ratio = fixed_design(Problem(Claims.against_control(3, 0, 1.1, scale="ratio"), 3, 0.05, Binary()), rates)
        assert ratio.method == "one look, Bonferroni"
        assert ratio.samples > claims.samples
        odds = Claims.against_control(3, 0, 1.1, scale="odds-ratio")
        assert fixed_design(Problem(odds, 3, 0.05, Binary()), rates) is None

    def test_the_power_of_dunnett(self):
        """With so many results the claim of the largest effect is shown as often as it says."""
        rates = np.array([0.36, 0.34, 0.47, 0.465, 0.537])
        problem = Problem(Claims.against_control(5), 5, 0.025, Binary())
        found = fixed_design(problem, rates, power=0.9)
        each = round(found.samples / 5)
        wins = np.random.default_rng(1).binomial(each, rates, (100_000, 5)) / each
        pooled = (wins[:, 0] + wins[:, 4]) / 2
        z = (wins[:, 4] - wins[:, 0]) / np.sqrt(2 * pooled * (1 - pooled) / each)
        assert (z > found.critical_z).mean() == pytest.approx(0.9, abs=0.01)

    @pytest.mark.parametrize("noise", [Binary(), Gaussian(0.5), Poisson(), Normal()], ids=lambda n: n.name)
    @pytest.mark.parametrize("question", [BestArm(), TopK(2), Above(0.4)], ids=lambda q: q.name)
    def test_all_are_shown_together(self, question, noise):
        """As often as it says, on normal estimates drawn anew."""
        means = np.array([0.6, 0.5, 0.3, 0.2])
        found = fixed_design(Problem(question, 4, 0.05, noise), means, power=0.8, deviation=0.5)
        each = found.samples / 4
        variance = {"binary": means * (1 - means), "poisson": means}.get(noise.name, np.full(4, 0.25))
        estimates = means + np.random.default_rng(2).standard_normal((100_000, 4)) * np.sqrt(variance / each)
        pieces = question.halfspaces(question.answer(means), 4)
        forms = pieces.dense(4)
        null = _null(noise.name, means, forms, pieces.offsets, variance)
        shown = (estimates @ forms.T - pieces.offsets > found.critical_z * np.sqrt(null / each)).all(axis=1)
        assert shown.mean() == pytest.approx(0.8, abs=0.01)

    @pytest.mark.parametrize("question", [BestArm(), TopK(2), Above(0.4)], ids=lambda q: q.name)
    def test_none_for_ties(self, question):
        assert fixed_design(Problem(question, 4, 0.05, Binary()), [0.4, 0.4, 0.4, 0.4]) is None


def _null(name, means, forms, offsets, variance):
    """Variances of the comparisons where they do not hold, written down again."""
    found = []
    for form, offset in zip(forms, offsets, strict=True):
        arms = np.flatnonzero(form)
        rate = abs(offset) if len(arms) == 1 else means[arms].mean()
        one = {"binary": rate * (1 - rate), "poisson": rate}.get(name, 0.25)
        found.append(one * len(arms))
    return np.array(found)


class TestWithTheSameBudget:
    """Textbook designs with the budget of a study, by simulation."""

    @pytest.mark.parametrize(
        ("arms", "budget", "of", "pocock"),
        [
            (2, 3597, (0.903, 0.734), (0.856, 0.616)),
            (3, 7480, (0.889, 0.721), (0.828, 0.609)),
            (4, 10_728, (0.842, 0.670), (0.758, 0.568)),
            (10, 28_021, (0.564, 0.523), (0.417, 0.458)),
        ],
    )
    def test_losers_dropped(self, arms, budget, of, pocock):
        """Power and mean, in fixed designs, as a prototype of its own found (10 000 runs)."""
        fixed = {2: 3426, 3: 7480, 4: 11_920, 10: 43_110}[arms]
        words = {"noise": Gaussian(), "baseline": 0, "leads": (0.1,), "budget": budget, "lead": 0.1}
        request = PlanRequest.declare(question=BestArm(), arms=[f"arm {i}" for i in range(arms)], **words)
        (row,) = request.rows()
        for shape, (power, mean) in ((0.0, of), (0.5, pocock)):
            found, used = run_looks(request, row, budget, shape, 5)
            assert found == pytest.approx(power, abs=4 * math.hypot(0.5 / 4000**0.5, 0.005))
            assert used / fixed == pytest.approx(mean, abs=0.015)

    @pytest.mark.parametrize("looks", [1, 4])
    def test_claims_against_a_control(self, looks):
        """Without effects any claim is shown with probability delta by Dunnett's test, and with looks at most that."""
        names = ["placebo", "low", "high"]
        question = Claims.against_control(names, "placebo")
        words = {"arms": names, "noise": Gaussian(), "budget": 600, "baseline": 0.0, "leads": (0.0,)}
        request = PlanRequest.declare(question=question, **words)
        (row,) = request.rows()
        shown, used = run_claims(request, row, np.ones(3), looks)
        error = shown.any(axis=-1).mean()
        low, high = (0.05, 0.05) if looks == 1 else (0.04, 0.05)  # Dunnett is exact; by looks, the union is smaller
        assert low - 4 * 0.0035 <= error <= high + 4 * 0.0035
        assert used == pytest.approx(600, abs=10)

    def test_pocock(self):
        """Jennison and Turnbull (2000), table 2.1: 5 looks, two-sided 5 %."""
        assert boundary(5, 0.025, 0.5) == pytest.approx([2.413] * 5, abs=5e-4)
