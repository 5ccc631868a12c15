"""What docs/why-the-guarantee-holds.md says of metrics, measured: `python benchmarks/metrics.py PART --runs 1000`.

Ratios and covariates run through the reader and the fold of a live study, without its storage. The seed is 27.
"""

import argparse
import time

import numpy as np

from roundwise import (
    BestArm,
    Claims,
    Columns,
    ConditionalPower,
    EqualVariances,
    Gaussian,
    GaussianArms,
    LargeSample,
    Normal,
    Poisson,
    Reading,
    SubGaussian,
    Wager,
    simulate,
)
from roundwise.calibration.skewed import SKEWED_LAWS, SkewedArms
from roundwise.ingest import read_results, row_checks
from roundwise.ingest.ratios import ratio_sums
from roundwise.ingest.row_checks import (
    FIRST,
    Moments,
    Repetition,
    RowChecks,
    RowStatistics,
    contradicted_assumptions,
    levels_of_checks,
)
from roundwise.policies import Rounds
from roundwise.study.fold import Round, fold_round, start_summary, start_trial
from roundwise.study.spec import StudySpec

ARMS = ["a", "b"]


def users(rng, n, rates, means):
    """Clicks and views of n users an arm: a user has a number of views and a rate of clicks of its own. (2, n) each"""
    views = rng.poisson(rng.gamma(2.0, np.array(means)[:, None] / 2, (2, n)))
    clicks = rng.binomial(views, rng.beta(1.0, 1 / np.array(rates)[:, None] - 1, (2, n)))
    return clicks.astype(float), views.astype(float)


def claim_ratio(rng, rounds, n, rates, means):
    """Whether a study of these rates ends with the claim that b beats a."""
    spec = StudySpec.declare(
        question=Claims.against_control(ARMS, 0),
        arms=ARMS,
        noise=LargeSample(),
        columns=Columns(outcome="clicks", denominator="views", id="user"),
        budget=2 * n * rounds,
        round_size=2 * n,
        seed=1,
    )
    trial, summary = start_trial(spec), start_summary(spec)
    for number in range(1, rounds + 1):
        x, y = users(rng, n, rates, means)
        ids = [f"{number} {k}" for k in range(2 * n)]
        rows = {"user": ids, "arm": np.repeat(ARMS, n).tolist(), "clicks": x.ravel(), "views": y.ravel()}
        known = ratio_sums(summary.ratios, ARMS)
        reading = {"columns": spec.columns, "reading": Reading(id_result="sum"), "ratio": known}
        file = read_results(rows, ARMS, spec.noise, parts=12, whole=True, seed=1, file=number, **reading)
        asked = Round(number, np.full(2, float(n)), (file,), arms=tuple(ARMS), design=spec.design)
        trial, summary, _ = fold_round(spec, trial, summary, asked)
        if trial.done:
            break
    return bool(spec.policy.stopping.claims(spec.problem, trial, ARMS)[0].shown)


def measure_ratios(runs):
    """False claims of equal ratios, and power, in 12 rounds of 400 users an arm."""
    cases = [((0.1, 0.1), means) for means in ((6, 6), (9, 5), (12, 3), (3, 12))]
    for rates, means in (*cases, ((0.1, 0.105), (6, 6))):
        rng = np.random.default_rng(27)
        shown = sum(claim_ratio(rng, 12, 400, rates, means) for _ in range(runs))
        print(f"rates {rates}, views {means}: claimed in {shown} of {runs} = {shown / runs:.4f}", flush=True)


# --- row checks


DOUBLING = (20, 20, 40, 80, 160, 320)
TRUE_LAWS = {  # rows of a study of two arms, and the noise model that is true of them
    "normal, sigma known": (lambda rng, size: rng.standard_normal(size), Gaussian(1.0)),
    "normal": (lambda rng, size: 7 + 3 * rng.standard_normal(size), Normal()),
    "normal, one deviation": (lambda rng, size: rng.standard_normal(size), EqualVariances()),
    "normal, rounded to one deviation": (lambda rng, size: rng.standard_normal(size).round(), Normal()),
    "uniform, sub-Gaussian": (lambda rng, size: rng.uniform(-1, 1, size), SubGaussian(1.0)),
    **{
        f"Poisson {mean:g}": (lambda rng, size, mean=mean: rng.poisson(mean, size).astype(float), Poisson())
        for mean in (0.05, 0.4, 2.1, 5.0, 440.0)
    },
}


def statistics_of(rows):
    """What is kept of the rows of many arms. (arms, n)"""
    n = np.full(len(rows), float(rows.shape[1]))
    off = rows - rows.mean(axis=1, keepdims=True)
    second, third, fourth = ((off**k).sum(axis=1) for k in (2, 3, 4))
    moments = Moments.none(len(rows))._replace(counts=n, means=rows.mean(axis=1), groups=np.ones(len(rows)))
    moments = moments._replace(second=second, third=third, fourth=fourth)
    first = rows[:, :FIRST]
    often = (first[:, :, None] == first[:, None, :]).sum(axis=-1)
    value = np.take_along_axis(first, often.argmax(axis=1)[:, None], axis=1)
    hits = (rows[:, FIRST:] == value).sum(axis=1).astype(float)
    return RowStatistics(moments, Repetition(first, value[:, 0], n - FIRST, hits))


def first_findings(noise, batches, arms=2):
    """For each check and each study of so many arms, the rows of an arm after which it found something."""
    known, found, shape = RowStatistics.none(len(batches[0])), {}, (-1, arms)
    for rows in batches:
        new = statistics_of(rows)
        before, moments = known.moments.counts, known.moments.plus(new.moments, own_means=True)
        first = not before.any()
        known = RowStatistics(moments, (Repetition.none(len(rows)) if first else known.repetition).plus(new.repetition))
        by_study = [Moments(*(each.reshape(shape) for each in some)) for some in (new.moments, moments)]
        tests = row_checks._tests(noise, known)
        number = row_checks._number_of_tests(noise, arms)
        levels = levels_of_checks(before, moments.counts, number)
        joint = levels_of_checks(before.reshape(shape).sum(axis=-1), moments.counts.reshape(shape).sum(axis=-1), number)
        hits = {}
        for check, test in tests.items():
            if check == "deviations":  # which compares the arms of a study with each other
                studies = [Moments(*each) for each in zip(*by_study[1], strict=True)]
                chances = np.concatenate([row_checks.deviations_test(each).chances for each in studies])
            else:
                chances = test().chances
            hits[check] = (chances < levels).reshape(shape).any(axis=1)
        for check, test in row_checks.joint_tests(noise, *by_study).items():
            hits[f"joint {check}"] = test.chances < joint
        for check, hit in hits.items():
            when = found.setdefault(check, np.full(len(hit), np.inf))
            found[check] = np.where(hit & np.isinf(when), moments.counts[::arms], when)
    return found


def measure_checks(runs):
    """Studies of two arms of a true model with a finding, of up to 640 rows an arm; 1 in 1000 is allowed."""
    for law, (draw, noise) in TRUE_LAWS.items():
        rng, found = np.random.default_rng(27), {}
        for start in range(0, runs, 2000):
            size = 2 * min(2000, runs - start)
            for check, when in first_findings(noise, [draw(rng, (size, n)) for n in DOUBLING]).items():
                found.setdefault(check, []).append(np.isfinite(when))
        every = {check: np.concatenate(each) for check, each in found.items()}
        each = ", ".join(f"{check} {int(any_.sum())}" for check, any_ in every.items())
        print(f"{law}: {int(np.logical_or.reduce(list(every.values())).sum())} of {runs} ({each})", flush=True)


def measure_kept(runs):
    """Studies of skewed laws that no check has contradicted after 40, 80, 160 and 320 rows an arm: these are kept."""
    for law, pair in SKEWED_LAWS.items():
        rng = np.random.default_rng(27)
        batches = [np.stack([draw(rng, n) for _ in range(runs) for draw in pair]) for n in DOUBLING[:5]]
        shares = []
        for noise in (Normal(), EqualVariances()):
            when = np.minimum.reduce(list(first_findings(noise, batches).values()))
            shares.append(" / ".join(f"{(when > rows).mean():.3f}" for rows in (40, 80, 160, 320)))
        print(f"{law}: normal {shares[0]}; one deviation {shares[1]}", flush=True)


# --- times under the normal model


def with_outliers(rng, n):
    """Log-normal times of which 5 % are half as long again."""
    times = rng.lognormal(-(0.05**2) / 2, 0.05, n)
    times[rng.random(n) < 0.05] *= 1.5
    return times / 1.025


def log_normal(sigma):
    return lambda rng, n: rng.lognormal(-(sigma**2) / 2, sigma, n)


TIMES = {
    **{f"log-normal {a:g} : {b:g}": (a, b) for a, b in ((0.05, 0.05), (0.1, 0.1), (0.3, 0.3), (0.3, 0.1), (0.5, 0.1))},
    "outliers in both": (with_outliers, with_outliers),
    "outliers in the first": (with_outliers, 0.05),
    "outliers in the second": (0.05, with_outliers),
    "t with 3 degrees : gamma": SKEWED_LAWS["t with 3 degrees : gamma"],
}


def wrong_and_kept(rng, pair, seed, rounds=15):
    """Whether a study in rounds of 20 ends with the wrong arm, and whether it does so without a finding."""
    spec = StudySpec.declare(question=BestArm(), arms=ARMS, noise=Normal(), round_size=20, seed=seed)
    trial, summary, checks = start_trial(spec), start_summary(spec), RowChecks.none(2)
    for number in range(1, rounds + 1):
        pulls = trial.plan.pulls.astype(int)
        rows = np.concatenate([law(rng, n) * mean for law, n, mean in zip(pair, pulls, (1.0001, 1.0), strict=True)])
        parts = spec.noise.most_parts if number > 1 else spec.limited_policy.first(spec.problem, ()).parts
        table = {"arm": np.repeat(ARMS, pulls).tolist(), "outcome": rows}
        file = read_results(table, ARMS, spec.noise, parts=parts, seed=seed, file=number)
        checks = checks.plus(spec.noise, [file], ARMS, ARMS)
        asked = Round(number, trial.plan.pulls, (file,), arms=tuple(ARMS), design=spec.design)
        trial, summary, _ = fold_round(spec, trial, summary, asked)
        if trial.done:
            break
    wrong = trial.done and int(spec.policy.stopping.answer(spec.problem, trial)) == 1
    return wrong, wrong and not contradicted_assumptions(checks)


def measure_times(runs):
    """Wrong answers of `Normal` about two arms that differ by 0.01 %, and those without a finding."""
    for name, pair in TIMES.items():
        laws = tuple(log_normal(each) if isinstance(each, float) else each for each in pair)
        shares = []
        for lower in (False, True):
            world = SkewedArms(laws, np.array([0.9999 if lower else 1.0001, 1.0]))
            for policy in (Rounds(Wager(), None, 20, None), Wager()):
                words = {"runs": runs, "noise": Normal(), "seed": 27, "max_batches": 15, "max_samples": 3000}
                (found,) = simulate(BestArm(lower_is_better=lower), world, [policy], **words)
                shares.append(f"{(found.decided & ~found.correct).mean():.3f}")
        rng = np.random.default_rng(27)
        live = np.sum([wrong_and_kept(rng, laws, 1 + run) for run in range(runs // 2)], axis=0)
        print(f"{name}: {' / '.join(shares)}; live {live[0]} wrong, {live[1]} kept, of {runs // 2}", flush=True)


# --- own variances and covariates


def measure_variances(runs):
    """Mean results of Wager with own variances over those with one, where all deviations are 1."""
    for means in ([1.0, 0.0], [0.5, 0.0], [0.1, 0.0], [0.3, *[0.0] * 9]):
        samples = []
        for noise in (EqualVariances(), Normal()):
            world = GaussianArms(np.array(means), 1.0)
            (found,) = simulate(BestArm(), world, [Wager()], runs=runs, noise=noise, seed=27)
            samples.append(found.samples)
        same, own = (each.mean() for each in samples)
        error = np.hypot(*(each.std() / each.mean() for each in samples)) / np.sqrt(runs)
        print(f"{len(means)} arms, gap {abs(means[0] - means[1]):g}: {same:.0f} and {own:.0f} results, "
              f"ratio {own / same:.3f} +- {error:.3f}", flush=True)  # fmt: skip


def measure_power(runs):
    """How often the claim that an arm beats the control is shown, for an effect of 2.8 standard errors in 10 rounds."""
    for rows in ((100, 100), (20, 20), (10, 10), (5, 5), (16, 4), (8, 2)):
        shown, effect = [], 2.8 * np.sqrt(sum(1 / n for n in rows) / 10)
        for noise in (EqualVariances(), Normal()):
            words = {"budget": 10 * sum(rows), "round_size": sum(rows), "split": rows}
            world, policies = GaussianArms(np.array([0.0, effect]), 1.0), [ConditionalPower()]
            (found,) = simulate(Claims.against_control(2, 0), world, policies, runs=runs, noise=noise, seed=27, **words)
            shown.append(found.true_shown.mean())
        print(f"{rows[0]} and {rows[1]} rows a round: one variance {shown[0]:.4f}, own {shown[1]:.4f}", flush=True)


def results_with_covariate(rng, noise, gap, adjusted, size, rounds=100, rho=0.7):
    """Results until a study of two arms in rounds of this size is decided, adjusted by its earlier rounds or not."""
    spec = StudySpec.declare(question=BestArm(), arms=ARMS, noise=noise, round_size=size, split="equal", seed=1)
    trial, summary = start_trial(spec), start_summary(spec)
    for number in range(1, rounds + 1):
        which = np.tile([0, 1], size // 2)
        x = rng.standard_normal(size)
        y = rho * x + np.sqrt(1 - rho**2) * rng.standard_normal(size) + gap * which
        rows = {"user": np.arange(size), "arm": [ARMS[i] for i in which], "outcome": y, "before": x}
        words = {"columns": Columns(id="user", covariate="before"), "adjustment": summary.covariate.adjustment}
        parts = spec.noise.most_parts if number > 1 else spec.limited_policy.first(spec.problem, ()).parts
        file = read_results(rows, ARMS, noise, parts=parts, seed=1, file=number, **(words if adjusted else {}))
        asked = Round(number, np.full(2, size / 2), (file,), arms=tuple(ARMS), design=spec.design)
        trial, summary, _ = fold_round(spec, trial, summary, asked)
        if trial.done:
            break
    return number * size


def measure_covariates(runs):
    """Results that a covariate of correlation 0.7 saves; the first round is not adjusted."""
    large = LargeSample(min_rows=200)
    for noise, gap, size in ((Normal(), 0.1, 200), (Normal(), 0.3, 200), (Normal(), 0.3, 50), (large, 0.1, 200)):
        mean = []
        for adjusted in (False, True):
            rng = np.random.default_rng(27)
            mean.append(np.mean([results_with_covariate(rng, noise, gap, adjusted, size) for _ in range(runs)]))
        saved = 100 * (1 - mean[1] / mean[0])
        print(
            f"{noise.name}, gap {gap}, rounds of {size}: {mean[0]:.0f} and {mean[1]:.0f}, {saved:.0f} % saved",
            flush=True,
        )


PARTS = {
    "ratios": measure_ratios,
    "checks": measure_checks,
    "kept": measure_kept,
    "times": measure_times,
    "variances": measure_variances,
    "power": measure_power,
    "covariates": measure_covariates,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--runs", type=int, default=1000)
    given = parser.parse_args()
    start = time.process_time()
    PARTS[given.part](given.runs)
    print(f"{time.process_time() - start:.0f} s of CPU")
