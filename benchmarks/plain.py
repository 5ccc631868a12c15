"""The paper's algorithms for best arm, one run at a time in plain Python: what a script would do, to compare with.

Nothing of roundwise is used, so the mean samples that `run.py` prints beside ours are an independent check too.
"""

import functools
import math
import random


def paper_instance(rng, arms=10):
    """The best arm at 1, the others uniform in [0.6, 0.9]."""
    return [1.0] + [rng.uniform(0.6, 0.9) for _ in range(arms - 1)]


def round_robin(rng, means, delta, first=1800):
    """Samples until the evidence is enough."""
    arms, r = len(means), 0
    counts, totals = [0] * arms, [0.0] * arms
    while True:
        pull(rng, means, counts, totals, [math.ceil(first * 2**r / arms - n) for n in counts])
        if enough(counts, totals, delta):
            return sum(counts)
        r += 1


def track_and_stop(rng, means, delta, first=900):
    """D-tracking with forced exploration, in batches."""
    arms, r = len(means), 0
    counts, totals = [0] * arms, [0.0] * arms
    pull(rng, means, counts, totals, [math.ceil(first / arms)] * arms)
    while not enough(counts, totals, delta):
        r += 1
        time = first * 2**r
        _, weights = complexity(gaps_of([s / n for s, n in zip(totals, counts, strict=True)]))
        floor = math.sqrt(time) - arms / 2
        least = [max(n, floor) for n in counts]
        goal = filled(least, [time * w for w in weights], time)
        pull(rng, means, counts, totals, [math.ceil(g - n - 1e-6) for g, n in zip(goal, counts, strict=True)])
    return sum(counts)


def pet(rng, means, delta):
    """Algorithm 1 of the paper, T_0 = 1."""
    arms, r = len(means), 0
    counts, totals = [0] * arms, [0.0] * arms
    while True:
        guess, each = 2.0**r, explored(r, arms)
        pull(rng, means, counts, totals, [max(math.ceil(each) - n, 0) for n in counts])
        radius = math.sqrt(2 * math.log(2 * arms * (2 * guess) ** 2) / each)
        gaps = [gap - 2 * radius for gap in gaps_of([s / n for s, n in zip(totals, counts, strict=True)])]
        if sorted(gaps)[1] > 0:
            worst, weights = complexity(gaps)
            if worst <= guess:
                amount = sufficient(r, arms, delta) * worst
                pull(rng, means, counts, totals, [math.ceil(amount * w - 1e-6) for w in weights])
        if enough(counts, totals, delta):
            return sum(counts)
        r += 1


def pull(rng, means, counts, totals, pulls):
    for i, n in enumerate(pulls):
        if n > 0:
            counts[i] += n
            totals[i] += n * means[i] + math.sqrt(n) * rng.gauss(0.0, 1.0)


def gaps_of(means):
    best = max(means)
    return [best - mean for mean in means]


def enough(counts, totals, delta):
    """Whether the likelihood ratio exceeds the threshold of Lemma 3.2."""
    means = [s / n for s, n in zip(totals, counts, strict=True)]
    best = max(range(len(means)), key=means.__getitem__)
    evidence = min(
        (means[best] - means[i]) ** 2 / (2 * (1 / counts[best] + 1 / counts[i])) for i in range(len(means)) if i != best
    )
    return evidence > beta(sum(counts), len(means), delta)


def beta(samples, arms, delta):
    x = 2 / arms * math.log(1 / delta) + 4 * math.log(1 + math.log(samples / arms))
    x += 2 * math.log(math.e * math.pi**2 / 6)
    y = x + math.log(x) + 0.5
    for _ in range(6):
        y = y * (x - 1 + math.log(y)) / (y - 1)
    return arms / 2 * y


def complexity(gaps):
    """T* and w* by bisection on the pulls of the best arm."""
    best = min(range(len(gaps)), key=gaps.__getitem__)
    costs = [gap**2 / 2 for i, gap in enumerate(gaps) if i != best]
    low, high = 1 / min(costs), (1 + math.sqrt(len(costs))) / min(costs)
    for _ in range(50):
        y = (low + high) / 2
        if sum(1 / (c * y - 1) ** 2 for c in costs) > 1:
            low = y
        else:
            high = y
    pulls = [high / (c * high - 1) for c in costs]
    pulls.insert(best, high)
    return sum(pulls), [n / sum(pulls) for n in pulls]


def filled(lower, wanted, amount):
    """max(lower, wanted - c) that adds up to the amount."""
    if sum(lower) >= amount:
        return lower
    low, high = min(w - n for w, n in zip(wanted, lower, strict=True)) - amount, max(wanted)
    for _ in range(60):
        c = (low + high) / 2
        if sum(max(n, w - c) for w, n in zip(wanted, lower, strict=True)) > amount:
            low = c
        else:
            high = c
    return [max(n, w - high) for w, n in zip(wanted, lower, strict=True)]


def explored(r, arms):
    return 32 * 2.0**r * math.log(2 * math.sqrt(2 * arms) * 2.0**r)


@functools.cache
def sufficient(r, arms, delta):
    """gamma_r = beta(all pulls up to the end of phase r)."""
    gamma, before = 1.0, 0.0
    while gamma > before * (1 + 1e-12):
        before = gamma
        gamma = beta(arms * (math.ceil(explored(r, arms)) + r + 1) + 2 * gamma * 2.0**r, arms, delta)
    return gamma


def samples(algorithm, runs, delta=0.05, seed=1):
    """The samples of each run on the paper's random instances."""
    rng = random.Random(seed)
    return [algorithm(rng, paper_instance(rng), delta) for _ in range(runs)]
