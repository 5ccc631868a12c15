"""What docs/why-the-guarantee-holds.md says of metrics, measured: `python benchmarks/metrics.py PART --runs 1000`.

Every part has a fixed seed and runs through the reader and the fold of a live study, without its storage.
"""

import argparse
import time

import numpy as np

from roundwise import Claims, Columns, LargeSample, Reading
from roundwise.ingest import read_results
from roundwise.ingest.ratios import ratio_sums
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
        round=2 * n,
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


PARTS = {"ratios": measure_ratios}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--runs", type=int, default=1000)
    given = parser.parse_args()
    start = time.process_time()
    PARTS[given.part](given.runs)
    print(f"{time.process_time() - start:.0f} s of CPU")
