"""A model that the results refute voids the guarantee, and no bound leaves out its own estimate, wherever it stands."""

import csv
import html
import io
import json
import re
from urllib.request import urlopen

import numpy as np
import pytest
from scipy import integrate, stats

from products import thinned
from roundwise import (
    Above,
    AnyAbove,
    BestArm,
    Binary,
    Bounded,
    Claims,
    Gaussian,
    HeteroscedasticGaussian,
    Linear,
    MinimumBelow,
    Normal,
    Poisson,
    Statements,
    SubGaussian,
    TopK,
    create_study,
    load_study,
)
from roundwise.model.batch import Batch
from roundwise.noise import PairedBinary, base
from roundwise.noise.base import BAR, FALSE_ALARM, RefutationState, update_refutation
from roundwise.report.text import arm_table, as_rows
from roundwise.study.audit import list_studies
from serving import served
from test_study_cli import works  # noqa: F401 - a fixture

# worlds in which what a study assumes is wrong, with every question
ARMS = ("a", "b", "c")
MEANS = np.array([0.5, 0.42, 0.3])
LEVEL = 0.4


def drifting(arm, number, size):
    """A mean that moves from round to round, each arm's in its own way."""
    return float(np.clip(MEANS[arm] + size * np.sin(1.7 * number + 2 * arm), 0.02, 0.98))


WORLDS = {  # what is assumed; what results are: of an arm, so many, in a round
    "sigma too small": (Gaussian(1.0), lambda rng, arm, n, r: rng.normal(MEANS[arm], 3.0, n)),
    "tails too heavy": (SubGaussian(1.0), lambda rng, arm, n, r: rng.standard_t(2, n) + MEANS[arm]),
    "single arms drift": (SubGaussian(1.0), lambda rng, arm, n, r: rng.normal(drifting(arm, r, 2.0), 1.0, n)),
    "rates drift": (Binary(), lambda rng, arm, n, r: (rng.random(n) < drifting(arm, r, 0.3)).astype(float)),
    "values drift": (Bounded(0, 1), lambda rng, arm, n, r: rng.beta(*_beta(drifting(arm, r, 0.15)), n)),
    "overdispersed": (
        Poisson(),
        lambda rng, arm, n, r: rng.poisson(MEANS[arm] * rng.gamma(1.0), n).astype(float),
    ),
    "unequal spreads": (Normal(), lambda rng, arm, n, r: _outliers(rng, arm, n) + 0.5 * (-1) ** (r + arm)),
}

QUESTIONS = {
    "best arm": BestArm(),
    "best arm, tolerance": BestArm(0.05),
    "top 2": TopK(2),
    "above": Above(LEVEL),
    "above, tolerance": Above(LEVEL, 0.03),
    "any above": AnyAbove(LEVEL),
    "minimum below": MinimumBelow(LEVEL),
    "claims": Claims.against_control(ARMS, "c"),
    "claims, two sides": Claims.against_control(ARMS, "c", sides="two"),
    "claims, ratio": Claims.against_control(ARMS, "c", 1.05, scale="ratio"),
    "claims, odds": Claims.against_control(ARMS, "c", 1.05, scale="odds-ratio"),
    "statements": Statements.against_control(ARMS, "c"),
    "ranking": Statements.ranking(3),
    "linear": Linear(BestArm(), [[1, 0], [0, 1], [0.6, 0.4]]),
}
ONLY = {"claims, odds": ("rates drift",), "linear": ("sigma too small", "tails too heavy", "single arms drift")}
CELLS = [(world, asked) for world in WORLDS for asked in QUESTIONS if world in ONLY.get(asked, WORLDS)]


def _beta(mean):
    return 20 * mean, 20 * (1 - mean)


def _outliers(rng, arm, n):
    return rng.normal(MEANS[arm], (0.1, 1.0, 6.0)[arm], n) + 20.0 * (rng.random(n) < 0.02)


def run(storage, world, asked, seed=1, rounds=4, results=60, delta=0.05):
    """A study that runs in one of these worlds; it stays open."""
    noise, draw = WORLDS[world]
    rng, question = np.random.default_rng(seed), QUESTIONS[asked]
    budget = rounds * results if asked.startswith("claims") else None
    options = {
        "question": question,
        "arms": ARMS,
        "noise": noise,
        "seed": seed,
        "round_size": results,
        "budget": budget,
    }
    study = create_study("s", storage=storage, delta=delta, **options)
    for number in range(rounds):
        batch = study.ask()
        if batch is None:
            break
        rows = [(arm, value) for arm, n in batch.table for value in draw(rng, ARMS.index(arm), int(n), number)]
        study.tell({"arm": [arm for arm, _ in rows], "outcome": [value for _, value in rows]})
    return study


def left_out(report):
    """Everything in a report that lies outside its own bounds: what, the estimate, and the bounds."""
    found, means = [], {each.name: each.mean for each in report.arm_rows if each.mean is not None}
    best, leads = max(means.values(), default=None), report.answer if isinstance(report.answer, str) else None
    for arm in report.arm_rows:
        found.append((f"mean of {arm.name}", arm.mean, arm.lower, arm.upper))
        found.append((f"difference of {arm.name}", arm.difference, arm.difference_lower, arm.difference_upper))
        found.append((f"lift of {arm.name}", arm.lift, arm.lift_lower, arm.lift_upper))
        if arm.mean is not None:
            found.append((f"{arm.name} behind the best", best - arm.mean, arm.gap_to_best_lower, None))
        if arm.mean is not None and leads is not None and arm.name != leads:
            ends = arm.gap_to_leader_lower, arm.gap_to_leader_upper
            found.append((f"{arm.name} behind the leader", means[leads] - arm.mean, *ends))
    for claim in report.claim_rows:
        found.append((claim.claim, claim.estimate, claim.lower, claim.upper))
        found.append((f"{claim.claim}, single", claim.estimate, claim.single_lower, claim.single_upper))
    return [each for each in found if each[1] is not None and excludes(*each[1:])]


def excludes(estimate, lower, upper):
    """Whether these bounds leave out the estimate."""
    return (lower is not None and estimate < lower) or (upper is not None and estimate > upper)


def batch_of(rows):
    """The sums of the results of every arm."""
    scatter = [((each - each.mean()) ** 2).sum() if len(each) else 0.0 for each in rows]
    return Batch(
        np.array([float(len(each)) for each in rows]), np.array([each.sum() for each in rows]), np.array(scatter)
    )


def kept_after(noise, batches):
    held = RefutationState.none(len(batches[0].counts))
    for batch in batches:
        held = update_refutation(noise, held, batch)
    return held


def refuted(held):
    return held.moving is not None or held.spreading


class TestTheTests:
    """Each is an e-process under the model, whatever the means (Proposition 29)."""

    @pytest.mark.parametrize("mean", [0.003, 0.1, 0.5, 0.97])
    @pytest.mark.parametrize("n", [1, 2, 7, 40])
    def test_a_mean_of_values_in_a_range(self, n, mean):
        ones = np.arange(n + 1)
        chance = stats.binom.pmf(ones, n, mean)
        far = n * base._deviance(Binary(), None, ones / n, np.full(n + 1, mean))
        for tilt, log_factor in zip(base._TILTS, base._CHERNOFF, strict=True):
            assert chance @ np.exp(tilt * far + log_factor) <= 1.0 + 1e-12

    @pytest.mark.parametrize("mean", [0.01, 0.7, 30.0])
    def test_a_mean_of_counts(self, mean):
        events = np.arange(2000)
        chance = stats.poisson.pmf(events, 3 * mean)
        far = 3 * base._deviance(Poisson(), None, events / 3, np.full(2000, mean))
        seen = chance > 0
        for tilt, log_factor in zip(base._TILTS, base._CHERNOFF, strict=True):
            assert np.exp(np.log(chance[seen]) + tilt * far[seen] + log_factor).sum() <= 1.0 + 1e-9

    def test_a_normal_square(self):
        for tilt, log_factor in zip(base._TILTS, base._NORMAL, strict=True):
            found, _ = integrate.quad(lambda z, u=tilt, f=log_factor: np.exp(u * z**2 / 2 + f - z**2 / 2), -90, 90)
            assert found == pytest.approx(np.sqrt(2 * np.pi))

    @pytest.mark.parametrize("n", [2, 5, 30])
    def test_the_mixture_of_t_statistics(self, n):
        """Its mean is 1, and the radius is where it reaches the bar."""

        def mixture(t):
            share = t**2 / (t**2 + n - 1)  # of S^2/n in the squares about the mean
            return (1 + n) ** -0.5 * (1 - share * n / (n + 1)) ** (-n / 2)

        found, _ = integrate.quad(lambda t: mixture(t) * stats.t.pdf(t, n - 1), -np.inf, np.inf)
        assert found == pytest.approx(1.0, abs=1e-6)
        bar = np.log(mixture(2.0))
        radius = base._radius(np.array([float(n)]), np.array([3.0]), float(bar))
        assert radius[0] == pytest.approx(2.0 * np.sqrt(3.0 / (n - 1) / n))

    @pytest.mark.parametrize(
        "noise", [Binary(), Bounded(-1, 3), Poisson(), Gaussian(2.0), HeteroscedasticGaussian((1.0, 2.0))]
    )
    def test_batch_by_batch_or_at_once(self, noise):
        rng = np.random.default_rng(3)
        sizes = ((5, 2), (0, 9), (7, 1), (30, 40))
        batches = [batch_of([rng.integers(0, 2, n).astype(float) for n in each]) for each in sizes]
        held = kept_after(noise, batches)
        counts, totals = (np.array([getattr(each, name) for each in batches]) for name in ("counts", "totals"))
        means, sigmas = totals.sum(0) / counts.sum(0), base._sigmas(noise)
        each = base._deviance(noise, sigmas, totals / np.maximum(counts, 1), np.broadcast_to(means, counts.shape))
        assert held.deviance == pytest.approx((counts * each).sum(0))
        assert held.batches.tolist() == [3, 4]

    def test_arms_on_the_same_items(self):
        """They may depend on each other, so nothing is multiplied: ten arms that agree say no more than one."""
        rng = np.random.default_rng(4)
        rounds = [(rng.random(30) < rate).astype(float) for rate in (0.3, 0.6, 0.3, 0.6, 0.3)]
        same, alone = (kept_after(PairedBinary(), [batch_of([rows] * k) for rows in rounds]) for k in (10, 1))
        assert same.log_between == pytest.approx(alone.log_between)
        assert kept_after(Binary(), [batch_of([rows] * 10) for rows in rounds]).log_between > 5 * alone.log_between > 0


MODELS = {
    "gaussian": (Gaussian(2.0), lambda rng, a, n: rng.normal(a, 2.0, n)),
    "deviations": (HeteroscedasticGaussian((1.0, 2.0, 3.0)), lambda rng, a, n: rng.normal(a, 1.0 + a, n)),
    "sub-gaussian": (SubGaussian(1.0), lambda rng, a, n: rng.choice([-1.0, 1.0], n)),
    "binary": (Binary(), lambda rng, a, n: (rng.random(n) < (0.5, 0.1, 0.01)[a]).astype(float)),
    "bounded": (Bounded(0, 1), lambda rng, a, n: rng.beta(0.3, 0.3 + a, n)),
    "poisson": (Poisson(), lambda rng, a, n: rng.poisson((0.05, 3.0, 200.0)[a], n).astype(float)),
    "unknown variance": (Normal(), lambda rng, a, n: rng.normal(a, 1.0, n)),
}


def false_alarms(model, studies, rounds=12):
    """The studies of a true model that are refuted: what the next round takes depends on what was seen."""
    noise, draw = MODELS[model]
    rng, found = np.random.default_rng(5), 0
    for _ in range(studies):
        held = RefutationState.none(3)
        sizes = rng.integers(2, 40, 3)
        for _ in range(rounds):
            held = update_refutation(noise, held, batch_of([draw(rng, a, n) for a, n in enumerate(sizes)]))
            order = (held.totals / held.counts).argsort()
            sizes = np.array([5, 20, 60])[order] * (rng.random(3) < 0.9)
        found += refuted(held)
    return found


class TestATrueModel:
    @pytest.mark.long
    @pytest.mark.parametrize("model", MODELS)
    def test_is_hardly_ever_refuted(self, model):
        assert false_alarms(model, 50) == 0

    @pytest.mark.slow
    @pytest.mark.parametrize("model", MODELS)
    def test_is_hardly_ever_refuted_in_many_studies(self, model):
        """More than 8 of 2000 have a chance of 2.4e-4 at 1 in 1000."""
        assert false_alarms(model, 2000) <= 8

    def test_would_be_with_a_factor_too_large(self, monkeypatch):
        """The check above can fail: without what a deviance costs, true models are refuted."""
        monkeypatch.setattr(base, "_CHERNOFF", np.zeros(len(base._TILTS)))
        assert false_alarms("binary", 50) > 5

    def test_an_open_ended_level(self):
        assert pytest.approx(np.log(2 / FALSE_ALARM)) == BAR


class TestReports:
    @pytest.mark.long
    @pytest.mark.parametrize(("world", "asked"), thinned(CELLS, 3))
    def test_no_bound_leaves_out_its_estimate(self, tmp_path, world, asked):
        with run(f"sqlite:///{tmp_path}/s.db", world, asked) as study:
            report = study.report()
        assert left_out(report) == []
        void = "refuted" in report.guarantee.codes
        assert not (void and bounded(report))
        for row in json.loads(report.json())["arms"] + list(csv.DictReader(io.StringIO(report.csv("arms")))):
            for what, low, high in (("mean", "lower", "upper"), *(ends(each) for each in ("difference", "lift"))):
                cells = [float(row[each]) if row[each] not in (None, "") else None for each in (what, low, high)]
                assert cells[0] is None or not excludes(*cells)
        head, *rows = as_rows(arm_table(report))
        for row in rows:
            cell = dict(zip(head, row, strict=True))
            printed = re.fullmatch(r"(-?[\d.]+) to (-?[\d.]+)( %)?", cell.get(report.ends, ""))
            if printed:
                mean = float(re.match(r"-?[\d.]+", cell[report.units.wording.mean])[0])
                assert float(printed[1]) <= mean <= float(printed[2])

    @pytest.mark.long
    def test_an_interval_that_had_left_out_its_mean_says_so(self, tmp_path):
        """Chance can do that under a true model, so it is no reason against the guarantee."""
        with run(f"sqlite:///{tmp_path}/s.db", "rates drift", "best arm", seed=0) as study:
            report = study.report()
        widened = [each for each in report.arm_rows if each.widened]
        assert widened
        assert all(each.mean in (each.lower, each.upper) for each in widened)
        assert any(each.code == "widened" for each in report.notes)
        assert " *" in report.text()


def ends(what):
    return what, f"{what}_lower", f"{what}_upper"


def bounded(report):
    """Whether a report has any bound."""
    arms = [
        each
        for arm in report.arm_rows
        for each in (arm.lower, arm.upper, arm.gap_to_best_lower, arm.gap_to_leader_upper)
    ]
    arms += [each for arm in report.arm_rows for each in (arm.difference_lower, arm.difference_upper, arm.lift_lower)]
    claims = [each for row in report.claim_rows for each in (row.lower, row.upper, row.single_lower, row.single_upper)]
    return any(each is not None for each in [*arms, *claims])


SEEN = {  # what each of these worlds is refuted by, with any question
    "sigma too small": "spreading",
    "tails too heavy": "spreading",
    "single arms drift": "moving",
    "rates drift": "moving",
    "overdispersed": "moving",
}


class TestARefutedModel:
    @pytest.mark.long
    @pytest.mark.parametrize("asked", ["best arm", "above", "claims, two sides"])
    @pytest.mark.parametrize("world", SEEN)
    def test_voids_the_guarantee(self, tmp_path, world, asked):
        with run(f"sqlite:///{tmp_path}/s.db", world, asked, 3, rounds=6, results=150, delta=1e-9) as study:
            report = study.report()
        (refuted,) = [each for each in report.guarantee.reasons if each.code == "refuted"]
        assert refuted.fields[SEEN[world]]
        assert not bounded(report)

    @pytest.mark.long
    def test_wherever_the_study_is_shown(self, tmp_path, works, monkeypatch):  # noqa: F811
        openpyxl = pytest.importorskip("openpyxl")
        storage = "sqlite:///roundwise.db"
        with run(storage, "sigma too small", "best arm") as study:
            told, report = study.status(), study.report()
        for each in (told, report):
            assert [reason.code for reason in each.guarantee.reasons] == ["refuted"]
            assert not bounded(each)
        reason = str(report.guarantee)
        stands, danger = f"The guarantee is {reason}.", f"Danger: {re.escape(str(report.dangers[0])[:40])}"
        headline = re.escape(report.headline)
        assert "at least" not in report.headline
        for text in (report.text(), works("status", "s"), works("report", "s"), report.top()):
            assert re.search(rf"{re.escape(stands)}\n{danger}.*{headline}", text, re.DOTALL)
        for page in (report.html(), report._repr_html_(), report.markdown()):
            plain = html.unescape(page)
            assert -1 < plain.index(reason) < plain.index(report.headline.partition(".")[0])
        assert (
            works("report", "s", "--json")["guarantee"]
            == works("status", "s", "--json")["guarantee"]
            == report.guarantee.plain()
        )
        (line,) = list_studies(storage)
        assert line["guarantee"] == report.guarantee.plain()
        assert "(void)" in works("list")
        book = openpyxl.load_workbook(io.BytesIO(report.xlsx()))
        cells = [[cell.value for cell in row] for row in book["summary"].iter_rows()]
        names = [row[0] for row in cells]
        assert names.index("guarantee") < names.index("headline")
        assert ["guarantee", reason] in cells
        arms = [
            dict(zip([c.value for c in book["arms"][1]], [c.value for c in row], strict=True))
            for row in book["arms"].iter_rows(min_row=2)
        ]
        assert [(each["lower"], each["upper"]) for each in arms] == [(None, None)] * 3

    @pytest.mark.long
    def test_on_the_page_and_in_the_api(self, tmp_path):
        storage = f"sqlite:///{tmp_path}/s.db"
        with run(storage, "sigma too small", "best arm") as study:
            report = study.report()
        with served(storage) as address:
            page, listing, stands, api = (
                html.unescape(urlopen(f"{address}{path}", timeout=30).read().decode())
                for path in ("/studies/s", "/", "/studies/s/stands", "/api/v1/studies/s")
            )
        assert str(report.guarantee) in page
        assert "guarantee void" in listing
        assert re.search(r"\d to \d", stands) is None
        assert json.loads(api)["guarantee"] == report.guarantee.plain()
        assert all(each["lower"] is None for each in json.loads(api)["arms"])

    def test_stays_refuted_when_it_is_read_again(self, tmp_path):
        storage = f"sqlite:///{tmp_path}/s.db"
        with run(storage, "rates drift", "above", rounds=6, results=150, delta=1e-9) as study:
            guarantee = study.report().guarantee
        with load_study("s", storage) as study:
            assert study.status().guarantee == study.report().guarantee == guarantee
        assert guarantee.status == "void"

    @pytest.mark.long
    @pytest.mark.parametrize(("question", "void"), [(BestArm(), False), (Above(0.5), True)])
    def test_a_shift_of_all_arms_matters_for_levels_only(self, tmp_path, question, void):
        """The decision compares arms within rounds; the intervals of means do not, and are not shown."""
        options = {"question": question, "arms": ("a", "b"), "noise": Gaussian(1.0), "seed": 1, "round_size": 200}
        rng = np.random.default_rng(2)
        with create_study("s", storage=f"sqlite:///{tmp_path}/s.db", **options) as study:
            for shift in (0.5, 3.5):
                rows = [(arm, rng.normal(shift, 1.0)) for arm, n in study.ask().table for _ in range(int(n))]
                study.tell({"arm": [arm for arm, _ in rows], "outcome": [value for _, value in rows]})
            report = study.report()
        assert ("refuted" if void else "arms_moved") in report.guarantee.codes
        assert [each.lower for each in report.arm_rows] == [None, None]
        assert any(each.code == "moved_together" and not each.fields["intervals"] for each in report.notes) != void


class TestTheHeadline:
    def test_has_the_smallest_bound(self, tmp_path):
        """The runner-up has more results than others, so that its bound need not be the smallest."""
        rng, means = np.random.default_rng(5), dict(zip("abcd", (2.0, 1.6, 1.0, 1.0), strict=True))
        options = {"question": BestArm(), "arms": [*means], "noise": Gaussian(1.0), "seed": 5}
        with create_study("s", storage=f"sqlite:///{tmp_path}/s.db", **options) as study:
            while (batch := study.ask()) is not None:
                rows = [(arm, rng.normal(means[arm])) for arm, n in batch.table for _ in range(int(n))]
                study.tell({"arm": [arm for arm, _ in rows], "outcome": [value for _, value in rows]})
            report = study.report()
        others = {each.name: each.gap_to_best_lower for each in report.arm_rows if each.name != "a"}
        assert min(others, key=others.get) == "c"
        mean, least = report.units.value(report.arm_rows[0].mean, "near"), report.units.gap(others["c"], "down")
        assert report.headline == f"a is best: {mean}, ahead of every other arm by at least {least}"
        assert others["b"] > 2 * others["c"]
