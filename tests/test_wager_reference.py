"""Wager for the best arm as a plain program, written from "Definition" in docs/wager.md alone, beside `simulate`.

One run, normal results, lists and loops. The program shares no code with the package: it computes the table of bet
sizes from the formulas of that page, too. It sees the very parts that `simulate` drew, and must plan the same batches,
have the same evidence after each, stop after the same one and give the same answer.
"""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr, ndtri

from roundwise import BestArm, GaussianArms, SubGaussian, Wager, simulate

SEED = 20260


class Recorder(GaussianArms):
    """Normal rewards, and a log of the batches that were drawn, in parts."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "log", [])

    def pull_parts(self, rng, state, pulls, parts, partitions, needs="sums"):
        batch, state = super().pull_parts(rng, state, pulls, parts, partitions, needs)
        self.log.append((batch.counts[0], batch.totals[0], batch.parts.counts[0], batch.parts.totals[0]))
        return batch, state


# --- how much to bet


@cache
def coarse_table(X):
    """lambda and pi at the coarse nodes, in whole numbers of their units."""
    least, density = (0.3, lambda u: u**-0.5) if X == 3 else (0.2, lambda u: 1 / u)
    edges = 4 * np.sinh(np.linspace(math.asinh(least / 4), math.asinh(44 / 4), 21))
    cells = list(itertools.pairwise(edges))
    prior = np.array([quad(density, *cell)[0] for cell in cells])
    u = np.array([quad(lambda x: x * density(x), *cell)[0] for cell in cells]) / prior
    z, L, root = np.meshgrid(np.arange(-3, 10.1, 0.5), np.arange(-8, 5.1, 0.5), np.arange(0, 5.1, 0.25), indexing="ij")
    r = 2.0 ** np.floor(L) * (1 + L - np.floor(L))
    need = np.maximum(root, 0.1) ** 2
    right = [p * np.exp(d * z - d * d / 2) for p, d in zip(prior, u, strict=True)]
    wrong = [p * np.exp(-d * z - d * d / 2) for p, d in zip(prior, u, strict=True)]
    w = [0.98 * each / (sum(right) + sum(wrong)) for each in right]
    w, q = [1 - sum(w), *w], [0 * r, *(np.minimum(d * np.sqrt(r), 4) for d in u)]

    def c(y):
        return (1 - np.exp(need) * ndtr(-y)) / sum(wk * ndtr(y - qk) for wk, qk in zip(w, q, strict=True))

    def mixture(y):
        return sum(wk * np.exp(qk * y - qk * qk / 2) for wk, qk in zip(w, q, strict=True))

    def density(y):
        return np.exp(-y * y / 2) / math.sqrt(2 * math.pi)

    low = -ndtri(np.exp(-need))
    high = np.minimum.reduce(
        [(need - np.log(np.maximum(wk, 1e-300))) / qk + qk / 2 for wk, qk in zip(w[1:], q[1:], strict=True)]
    )
    for _ in range(60):
        y = (low + high) / 2
        short = X * c(y) * mixture(y) < np.exp(need)
        low, high = np.where(short, y, low), np.where(short, high, y)
    terms = list(zip(w, q, strict=True))
    lam = np.exp(need) * density(y) + c(y) * sum(wk * (qk * ndtr(y - qk) - density(y - qk)) for wk, qk in terms)
    gam = np.exp(need) * y * density(y)
    gam += c(y) * sum(wk * (qk * qk * ndtr(y - qk) - (y + qk) * density(y - qk)) for wk, qk in terms)
    pi = np.where(gam > lam**2, lam**2 / np.where(gam > lam**2, gam, 1), 1)
    return np.rint(np.maximum(lam, 0) * 2**12), np.minimum(np.rint(pi * 2**16), 65535)


@cache
def slope_and_stake(i, j, k, X):
    """At the node z = -3 + i/8, log2 of the ratio = -8 + j/4, root of the need = k/16: linear between coarse nodes."""
    lam = pi = 0.0
    for a, x in ((i // 4, 1 - i % 4 / 4), (i // 4 + 1, i % 4 / 4)):
        for b, y in ((j // 2, 1 - j % 2 / 2), (j // 2 + 1, j % 2 / 2)):
            for c, w in ((k // 4, 1 - k % 4 / 4), (k // 4 + 1, k % 4 / 4)):
                if x * y * w:
                    found = (each[a, b, c] for each in coarse_table(X))
                    lam, pi = (old + x * y * w * new for old, new in zip((lam, pi), found, strict=True))
    lam, pi = lam / 2**12, min(max(pi / 2**16, 0.001), 0.999)
    return float(np.float32(lam / pi)), float(np.float32(pi))


def nearest(x, last):
    return int(min(max(math.floor(x + 0.5), 0), last))


def log_factor(z, past_over_part, kappa, need, score, X):
    """log of what a bet on one part wins; `score` is what the part says, in standard errors of the part."""
    r = past_over_part / kappa
    exponent = math.floor(math.log2(r))
    L = exponent + r / 2.0**exponent - 1
    at = nearest(8 * (z + 3), 104), nearest(4 * (L + 8), 52), max(nearest(16 * math.sqrt(need), 80), 1)
    slope, stake = slope_and_stake(*at, X)
    q = min(slope * math.sqrt(kappa) * min(math.sqrt(r * 2**8), 1), 30)
    return math.log1p(stake * math.expm1(min(q * (score - q / 2), 600)))


def log_phi(z):
    return float(log_ndtr(math.floor(512 * min(max(z, -8), 8) + 0.5) / 512))


# --- the program


def top_two(looks):
    order = sorted(range(len(looks)), key=lambda i: -looks[i])
    return order[0], order[1]


class Estimate:
    """Least squares over the means and the shifts of all batches but the first."""

    def __init__(self, batches):
        n, t = (np.array(each, dtype=float) for each in zip(*batches, strict=True))
        self.N, T = n.sum(axis=0), t.sum(axis=0)
        self.batches, p = len(n), T / self.N
        self.S = n[1:] / self.N
        weight = n[1:].sum(axis=1)
        self.C = np.linalg.inv(np.diag(weight + 1e-9 * (1 + weight)) - self.S @ n[1:].T)
        self.mu = p - (self.C @ (t[1:] - n[1:] * p).sum(axis=1)) @ self.S

    def V(self, i, j):
        s = self.S[:, i] - self.S[:, j]
        return 1 / self.N[i] + 1 / self.N[j] + s @ self.C @ s

    def signal(self, sigma):
        K = len(self.mu)
        noise = sigma**2 * (1 / self.N).mean()
        return min(max(1 - noise * (K - 1) / ((self.mu - self.mu.mean()) ** 2).sum(), 0), 1)


def evidence_after(wealth, lost, known, leader, counts, totals, sigma, goal, X):
    """The log wealth after the parts of one partition; `known` is None in the first batch."""
    wealth, (K, P) = list(wealth), counts.shape
    N, mu = (np.zeros(K), np.zeros(K)) if known is None else (known.N, known.mu)
    wary = known is not None and K > 10 and known.signal(sigma) >= 0.5
    for p in range(P):
        c, t, kappa = counts[:, :p].sum(axis=1), totals[:, :p].sum(axis=1), 1 - ((P - p - 1) / (P - p)) ** 2
        if known is None and p == 0:
            continue
        so_far = N + c
        f, y = c / so_far, t / so_far - c / so_far * mu
        weight = (N * f).sum()
        m = mu + y - (f * (N * y).sum() / weight if weight else 0)
        own, follower = top_two(m - np.where(lost, sigma / np.sqrt(np.maximum(N, 1)), 0))
        rivals = [follower if i == own else own for i in range(K)]
        v, z = [], []
        for i, a in enumerate(rivals):
            v.append(1 / so_far[i] + 1 / so_far[a] + ((f[i] - f[a]) ** 2 / weight if weight else 0))
            other = follower if i == own else i
            if known is not None and known.batches > 1 and other != leader:
                more = known.V(leader, other) - 1 / N[leader] - 1 / N[other]
                v[i] += (N[other] / so_far[other]) ** 2 * max(more, 0)
            z.append((m[a] - m[i]) / (sigma * math.sqrt(v[i])))
        right = sum(log_phi(z[i]) for i in range(K) if i != own and not lost[i])
        if known is None and right < math.log(0.5):
            continue
        for i, a in enumerate(rivals):
            k_i, k_a = counts[i, p], counts[a, p]
            if lost[i] or wealth[i] >= goal or not (k_i and k_a):
                continue
            if wary and z[i] < 2.5 and right < math.log(0.35):
                continue
            d = 1 / k_i + 1 / k_a
            score = (totals[a, p] / k_a - totals[i, p] / k_i) / (sigma * math.sqrt(d))
            wealth[i] += log_factor(z[i], v[i] / d, kappa, goal - wealth[i], score, X)
    return wealth


def settling_pulls(costs, leader):
    """min sum n subject to 1/n_leader + 1/n_i <= costs[i]."""

    def others(n):
        return {i: 1 / (cost - 1 / n) for i, cost in costs.items()}

    low, high = (1 + 1e-15) / min(costs.values()), 1e18
    for _ in range(300):
        n = math.sqrt(low * high)
        low, high = (n, high) if sum((each / n) ** 2 for each in others(n).values()) > 1 else (low, n)
    return {leader: high, **others(high)}


def ceil(x):
    return float(max(0, math.ceil(x - 1e-6)))


def wager(K, sigma, delta, first_pulls=30, price=None):
    """Yields the pulls of the next batch; is sent what came back; returns the answer and the evidence."""
    goal, wealth, lost, batches, known, leader = math.log(1 / delta), [0.0] * K, [False] * K, [], None, 0
    each = None if price is None else price / K
    bold = 3 if each is None or each >= 20 else 1.5
    pulls = [float(math.ceil(max(first_pulls, each or 0)))] * K
    while True:
        n, t, counts, totals = yield pulls
        X = 12 if known is None and each is not None and each >= 250 else bold
        sides = [
            evidence_after(wealth, lost, known, leader, counts[0], each_totals, sigma, goal, X)
            for each_totals in totals
        ]
        wealth = [float(np.logaddexp.reduce(each)) - math.log(len(each)) for each in zip(*sides, strict=True)]
        lost = [before or now >= goal for before, now in zip(lost, wealth, strict=True)]
        if sum(lost) >= K - 1:
            return lost.index(False), wealth
        batches.append((n, t))
        known = Estimate(batches)
        N = known.N.sum()
        leader, _ = top_two(known.mu - np.where(lost, sigma / np.sqrt(known.N), 0))
        g = [known.mu[leader] - known.mu[i] for i in range(K)]
        e = [sigma * math.sqrt(known.V(leader, i)) if i != leader else 0 for i in range(K)]
        log_chance = sum(log_phi(g[i] / e[i]) for i in range(K) if i != leader)
        still = [i for i in range(K) if not lost[i] and i != leader]
        want = settling_pulls({i: max(g[i], e[i]) ** 2 / (2 * sigma**2 * (goal - wealth[i])) for i in still}, leader)
        total = sum(want.values())
        lam = price or max(120 * math.sqrt(K), N / 5)
        growth = min(max(3 * math.sqrt(lam / N), 0.25), 6)
        least = min(max(0.1, 2 * (1 - math.exp(log_chance))), growth)
        if price is None:
            cap = 6
            if K > 100 and len(batches) > 1:
                cap = 6 * min(max(total**2 / sum(x * x for x in want.values()) / 25, 1), 4)
            crowd = 0.4 * math.sqrt(min(K, 100)) * -log_chance * known.signal(sigma) ** 4
            least = max(least, min(crowd, cap))
        two = 8 * (1 - math.exp(log_chance)) if K == 2 and price is None else 0
        size = min(max((1 + growth) / 3 * total, least * N), max(growth, least, two) * N)
        due = 0.05 * min(1, math.sqrt(10 / K)) * (N + size) / K
        pulls = []
        for i in range(K):
            share = 0.7 * want[i] / total + 0.3 / len(want) if i in want else 0
            floor = 2 * due - known.N[i] if known.N[i] < due else 0
            pulls.append(max(ceil(size * share), ceil(floor)))


CASES = {
    "two arms": ([0.3, 0.0], {}),
    "two hard arms": ([0.05, 0.0], {}),
    "two arms, far apart": ([0.9, 0.0], {}),
    "five": ([1.0, 0.9, 0.8, 0.5, 0.0], {}),
    "five near the top": ([0.2, 0.17, 0.15, 0.15, 0.1], {}),
    "ten": (np.linspace(1.0, 0.1, 10).tolist(), {}),
    "thirty": (np.linspace(1.0, 0.0, 30).tolist(), {}),
    "ten, cheap batches": (np.linspace(1.0, 0.1, 10).tolist(), {"price": 150}),
    "ten, dear batches": (np.linspace(1.0, 0.1, 10).tolist(), {"price": 4000}),
    "three, first batch large": ([0.5, 0.3, 0.3], {"first_pulls": 200}),
    "ten near each other, a price": (np.linspace(0.3, 0.1, 10).tolist(), {"price": 600}),
    "150, a crowd": ([1.0, *[0.9] * 149], {}),
    "120": (np.linspace(1.0, 0.0, 120).tolist(), {}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("sigma", "delta"), [(1.0, 0.05), (2.5, 0.001)])
def test_simulate_decides_as_the_definition_says(case, sigma, delta):
    means, settings = CASES[case]
    policy = Wager(first_pulls=settings.get("first_pulls", 30), batch_price=settings.get("price"))
    world = Recorder([sigma * each for each in means], sigma)
    look = {"wealth": lambda trial: trial.kept.wealth.gains}
    (runs,) = simulate(BestArm(), world, [policy], runs=1, delta=delta, noise=SubGaussian(sigma), seed=SEED, watch=look)
    log, program = world.log[-int(runs.batches[0]) :], wager(len(means), sigma, delta, **settings)
    wanted = next(program)
    for number, batch in enumerate(log, start=1):
        assert wanted == batch[0].tolist(), f"batch {number} of {len(log)}"
        try:
            wanted = program.send(batch)
        except StopIteration as stop:
            answer, wealth = stop.value
            break
    assert (number, answer) == (len(log), runs.answer[0])
    np.testing.assert_allclose(wealth, runs.watched["wealth"][0], rtol=1e-6, atol=1e-6)
