"""PET and what it is compared with, each beside a plain program written from its description, batch by batch.

The programs share nothing with the package: one run, lists and loops, every formula where it is used. Each is a
generator that yields the pulls of its next batch, is sent what came back, and returns the answer. They see the very
rewards that `simulate` drew.
"""

import math

import pytest

from roundwise import PET, Above, BestArm, GaussianArms, MinimumBelow, RoundRobin, SubGaussian, TrackAndStop
from roundwise import simulate as simulated
from roundwise.policies import OptBBAI


class Recorder(GaussianArms):
    """Normal rewards, and a log of the batches that were drawn."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "log", [])

    def pull(self, rng, world, pulls, needs="sums"):
        batch, world = super().pull(rng, world, pulls, needs)
        self.log.append((batch.counts[0].tolist(), batch.totals[0].tolist()))
        return batch, world


def compare(question, means, policy, program, *, seed, delta=0.05, sigma=1.0, off=0):
    """Run the policy by `simulate` and hold each batch against the program; the batches.

    The program may be `off` by so many pulls of an arm; it then goes on with what was pulled.
    """
    world = Recorder(means, sigma)
    (runs,) = simulated(question, world, [policy], runs=1, delta=delta, noise=SubGaussian(sigma), seed=seed)
    log, answer = world.log[-int(runs.batches[0]) :], None  # before it the world itself was tried out
    wanted = next(program)
    for number, (pulls, totals) in enumerate(log, start=1):
        assert max(abs(one - other) for one, other in zip(wanted, pulls, strict=True)) <= off, (number, wanted, pulls)
        try:
            wanted = program.send((pulls, totals))
        except StopIteration as stop:
            answer = stop.value
            assert number == len(log), f"the program stops after {number} batches, the policy after {len(log)}"
    assert answer is not None, f"the policy stops after {len(log)} batches, the program goes on"
    assert answer == question.answer_to_json(runs.answer[0])
    return log


def rounded_up(pulls):
    """Whole pulls, where a rounding error adds none (deviation 11)."""
    return float(max(0, math.ceil(pulls - 1e-6)))


def root(function, low, high):
    """Where an increasing function passes 0, by bisection."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return (low + high) / 2


# ---------------------------------------------------------------- the questions


class PlainBestArm:
    """Lemma A.9 and docs/baselines.md, "The weights"."""

    def answer(self, means):
        return means.index(max(means))

    def evidence(self, counts, means, sigma):
        best = self.answer(means)
        return min(
            (means[best] - means[j]) ** 2 / (2 * sigma**2 * (1 / counts[best] + 1 / counts[j]))
            for j in range(len(means))
            if j != best
        )

    def worst(self, means, radius, sigma):
        """Lemma 3.12: the best arm down by the radius, the others up. n_best = 1/x and n_j = 1/(c_j - x)."""
        best = self.answer(means)
        gaps = {j: means[best] - means[j] - 2 * radius for j in range(len(means)) if j != best}
        if min(gaps.values()) <= 0:
            return math.inf, None
        cost = {j: gap**2 / (2 * sigma**2) for j, gap in gaps.items()}
        x = root(lambda x: sum((x / (c - x)) ** 2 for c in cost.values()) - 1, 0.0, min(cost.values()))
        pulls = [1 / x if j == best else 1 / (cost[j] - x) for j in range(len(means))]
        return sum(pulls), [each / sum(pulls) for each in pulls]


class PlainAbove:
    """Thresholding: T* = sum of 2 sigma^2/(mu_i - tau)^2."""

    def __init__(self, level):
        self.level = level

    def answer(self, means):
        return [i for i, mean in enumerate(means) if mean > self.level]

    def evidence(self, counts, means, sigma):
        return min(n * (mean - self.level) ** 2 / (2 * sigma**2) for n, mean in zip(counts, means, strict=True))

    def worst(self, means, radius, sigma):
        away = [abs(mean - self.level) - radius for mean in means]
        if min(away) <= 0:
            return math.inf, None
        pulls = [2 * sigma**2 / each**2 for each in away]
        return sum(pulls), [each / sum(pulls) for each in pulls]


class PlainMinimum:
    """Is the smallest mean below the level? Yes costs one arm, no costs all of them (docs/paper.md)."""

    def __init__(self, level):
        self.level = level

    def answer(self, means):
        return min(means) < self.level

    def evidence(self, counts, means, sigma):
        if self.answer(means):
            below = (n * max(self.level - m, 0) ** 2 / (2 * sigma**2) for n, m in zip(counts, means, strict=True))
            return sum(below)
        return min(n * (m - self.level) ** 2 / (2 * sigma**2) for n, m in zip(counts, means, strict=True))

    def worst(self, means, radius, sigma):
        if min(means) + radius < self.level:
            least = means.index(min(means))
            return 2 * sigma**2 / (self.level - min(means) - radius) ** 2, [
                float(i == least) for i in range(len(means))
            ]
        if min(means) - radius > self.level:
            pulls = [2 * sigma**2 / (mean - radius - self.level) ** 2 for mean in means]
            return sum(pulls), [each / sum(pulls) for each in pulls]
        return math.inf, None


QUESTIONS = {
    "best arm": (BestArm(), PlainBestArm()),
    "above": (Above(0.0), PlainAbove(0.0)),
    "minimum": (MinimumBelow(0.6), PlainMinimum(0.6)),
}


def threshold(arms, samples, delta):
    """beta(t, delta) of Lemma 3.2; Wbar(x) is the y above 1 with y - ln y = x."""
    x = 2 / arms * math.log(1 / delta) + 4 * math.log(math.log(math.e * samples / arms))
    x += 2 * math.log(math.e * math.pi**2 / 6)
    return arms / 2 * root(lambda y: y - math.log(y) - x, 1.0, 4 * x)


class Ledger:
    """Counts and sums of all results so far."""

    def __init__(self, arms):
        self.counts, self.sums = [0.0] * arms, [0.0] * arms

    def add(self, came):
        for i, (pulls, total) in enumerate(zip(*came, strict=True)):
            self.counts[i] += pulls
            self.sums[i] += total

    @property
    def means(self):
        return [total / count for total, count in zip(self.sums, self.counts, strict=True)]


def may_stop(plain, seen, delta, sigma):
    bar = threshold(len(seen.counts), sum(seen.counts), delta)
    return plain.evidence(seen.counts, seen.means, sigma) > bar


# ---------------------------------------------------------------- the programs


def plain_pet(plain, arms, *, delta=0.05, sigma=1.0, first=1.0, exploration=32.0):
    """Algorithm 1, line by line, with tbar_r as deviation 1 has it."""
    seen, r = Ledger(arms), 0
    while True:
        guess = first * 2.0**r  # T_r
        explored = exploration * first * math.log(2 * math.sqrt(2 * arms) * guess) * 2**r  # 2^r l_(1,r)
        pulls = [max(0.0, math.ceil(explored) - n) for n in seen.counts]
        if any(pulls):
            seen.add((yield pulls))  # line 4
        p = (2 * guess) ** -2
        radius = math.sqrt(2 * sigma**2 / explored * math.log(2 * arms / p))
        worst, weights = plain.worst(seen.means, radius, sigma)  # line 5
        if worst <= guess:  # line 6
            uniform = arms * math.ceil(explored) + arms * (r + 1)
            gamma = 0.0
            for _ in range(200):
                gamma = threshold(arms, uniform + 2 * gamma * guess, delta)
            seen.add((yield [rounded_up(gamma * w * worst) for w in weights]))  # line 7
        if may_stop(plain, seen, delta, sigma):  # line 9
            return plain.answer(seen.means)
        r += 1


def plain_round_robin(plain, arms, *, delta=0.05, sigma=1.0):
    """Section 3.6: uniform, tested at 900 2^r samples, r >= 1."""
    seen, r = Ledger(arms), 1
    while True:
        seen.add((yield [math.ceil(900 * 2**r / arms) - n for n in seen.counts]))
        if may_stop(plain, seen, delta, sigma):
            return plain.answer(seen.means)
        r += 1


def plain_track_and_stop(plain, arms, *, delta=0.05, sigma=1.0, tracking="D", forced=True, first=900):
    """Section 3.6: weights and tests at 900 2^r samples; where the batch ends as docs/baselines.md says."""
    seen, time, weights = Ledger(arms), first, None
    while True:
        if weights is None:
            goal = [time / arms] * arms
        else:
            floor = math.sqrt(time) - arms / 2 if forced else 0.0
            least, before = [max(n, floor) for n in seen.counts], sum(seen.counts)
            if tracking == "C":
                goal = [max(m, n + (time - before) * w) for m, n, w in zip(least, seen.counts, weights, strict=True)]
            elif sum(least) >= time:
                goal = least
            else:

                def beyond(c, least=least, time=time, weights=weights):
                    return time - sum(max(m, time * w - c) for m, w in zip(least, weights, strict=True))

                c = root(beyond, -float(time), float(time))
                goal = [max(m, time * w - c) for m, w in zip(least, weights, strict=True)]
        seen.add((yield [rounded_up(g - n) for g, n in zip(goal, seen.counts, strict=True)]))
        if may_stop(plain, seen, delta, sigma):
            return plain.answer(seen.means)
        _, weights = plain.worst(seen.means, 0.0, sigma)
        time *= 2


def pull_by_pull(plain, arms, *, delta=0.05, sigma=1.0, tracking="D", forced=True, first=900):
    """Garivier and Kaufmann 2016, one pull at a time, with weights that change at 900 2^r samples only."""
    seen, time, weights, owed = Ledger(arms), first, [1 / arms] * arms, [0.0] * arms
    while True:
        counts = list(seen.counts)
        while sum(counts) < time:
            t = sum(counts)
            few = [i for i in range(arms) if counts[i] < math.sqrt(t) - arms / 2] if forced else []
            owed = [each + w for each, w in zip(owed, weights, strict=True)]
            ideal = owed if tracking == "C" else [t * w for w in weights]
            pick = min(few, key=lambda i: counts[i]) if few else max(range(arms), key=lambda i: ideal[i] - counts[i])
            counts[pick] += 1
        seen.add((yield [new - old for new, old in zip(counts, seen.counts, strict=True)]))
        if may_stop(plain, seen, delta, sigma):
            return plain.answer(seen.means)
        _, weights = plain.worst(seen.means, 0.0, sigma)
        time *= 2


def plain_opt_bbai(arms, *, delta, sigma=1.0, alpha=1.05, c=32.0, version=1):
    """The table of docs/baselines.md, stage by stage."""
    plain, seen, everyone = PlainBestArm(), Ledger(arms), set(range(arms))
    goal = math.log(1 / delta)  # L
    seen.add((yield [float(math.ceil(math.sqrt(goal)))] * arms))  # stage I: L_1
    few = max(1.0, math.ceil(goal * math.log(goal) / arms)) if goal > 1 else 1.0  # L_2
    before = None
    while True:  # stage II
        pulls, shares = [few] * arms, [1 / arms] * arms
        if goal > 1:
            eps, leader = 1 / math.log(goal), plain.answer(seen.means)
            moved = [mean - eps if i == leader else mean + eps for i, mean in enumerate(seen.means)]
            cost, weights = plain.worst(moved, 0.0, sigma)
            if weights:
                pulls, shares = [min(rounded_up(alpha * goal * cost * w), few) for w in weights], weights
        seen.add((yield pulls))
        settled = before is not None and all(abs(a - b) <= arms**-0.5 for a, b in zip(shares, before, strict=True))
        if version == 1 or settled:
            break
        before = shares
    if plain.evidence(seen.counts, seen.means, sigma) >= math.log(goal * sum(seen.counts) ** alpha / delta):
        return plain.answer(seen.means)  # stage III

    def level(r):  # delta_r
        return delta / (40 * math.pi**2 * arms * r**2)

    def needed(r, gamma):
        return float(math.ceil(c * sigma**2 / (2.0**-r / 4) ** 2 * math.log(2 / gamma) - 1e-6))

    groups, spent, gammas, doubted, r = {1: everyone}, {0: 0.0}, {}, {}, 1  # S_r, B_r, gamma_r, l_r
    while True:  # stage IV
        inside, each = groups[r], needed(r, level(r))
        counts, totals = yield [each if i in inside else 0.0 for i in range(arms)]
        mean = {i: totals[i] / counts[i] for i in inside}
        groups[r + 1] = {i for i in inside if mean[i] >= max(mean.values()) - 2.0**-r / 4}
        spent[r], gammas[r], doubted[r] = spent[r - 1] + each * len(inside), level(r), 0
        due = [j for j in range(1, r) if spent[r] * gammas[j] * 2 ** doubted[j] > spent[j]]
        if len(groups[r + 1]) == 1:
            return next(iter(groups[r + 1]))
        if due:
            again = [0.0] * arms
            for j in due:
                gammas[j], doubted[j] = gammas[j] ** 2, doubted[j] + 1
                again = [max(n, needed(j, gammas[j])) if i in groups[j] else n for i, n in enumerate(again)]
            counts, totals = yield again
            for j in due:
                mean = {i: totals[i] / counts[i] for i in groups[j]}
                best = max(mean, key=lambda i: mean[i])
                if any(mean[i] > mean[best] - 2.0**-j / 4 / 2 for i in groups[j] - groups[j + 1]):
                    return best
        r += 1


# ---------------------------------------------------------------- the comparisons


# name: question, means, delta, PET's settings; PET tracks if few of many arms matter, or delta is small
PET_CASES = {
    "best arm": ("best arm", [1.0, 0.6, 0.5, 0.0, 0.2], 1e-40, {"exploration": 0.5}),
    "best arm, 100": ("best arm", [1.0, 0.8, *[-2.0] * 98], 0.05, {}),
    "above": ("above", [0.4, -0.7, 0.9], 0.05, {"exploration": 2.0}),
    "above, 60": ("above", [0.2, *[3.0] * 59], 0.05, {}),
    "minimum, yes": ("minimum", [0.2, 0.6, 0.9], 1e-30, {"exploration": 1.0, "first": 3.0}),
    "minimum, no": ("minimum", [0.9, 1.0, 1.2], 1e-30, {"exploration": 2.0}),
}


@pytest.mark.long
@pytest.mark.parametrize("name", PET_CASES)
@pytest.mark.parametrize("sigma", [1.0, 0.4])
def test_pet(name, sigma):
    asked, means, delta, settings = PET_CASES[name]
    question, plain = QUESTIONS[asked]
    policy = PET(exploration=settings.get("exploration", 32.0), guess=settings.get("first", 1.0))
    origin = 0.6 if asked == "minimum" else 0.0
    scaled = [origin + sigma * (each - origin) for each in means]
    uneven = 0
    for seed in range(2 if len(means) > 20 else 12):
        program = plain_pet(plain, len(means), delta=delta, sigma=sigma, **settings)
        log = compare(question, scaled, policy, program, seed=seed, delta=delta, sigma=sigma)
        uneven += any(len(set(pulls)) > 1 for pulls, _ in log)
    assert uneven > 0  # second batches


@pytest.mark.parametrize("name", QUESTIONS)
def test_round_robin(name):
    question, plain = QUESTIONS[name]
    for seed in range(10):
        for means in ([0.5, 0.35, 0.2, -0.3], [0.9, 0.75, 1.2]):
            program = plain_round_robin(plain, len(means), sigma=1.5)
            compare(question, means, RoundRobin(), program, seed=seed, sigma=1.5)


# one arm that hardly matters, so that forced exploration is what keeps it up
FAR = {"best arm": [0.5, 0.46, -30.0], "above": [0.04, 9.0, -9.0], "minimum": [0.56, 9.0, 9.0]}
VARIANTS = [("D", True), ("D", False), ("C", True), ("C", False)]


@pytest.mark.long
@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize(("tracking", "forced"), VARIANTS)
def test_track_and_stop(name, tracking, forced):
    question, plain = QUESTIONS[name]
    for seed in range(3):
        for means in ([0.5, 0.35, 0.1, -1.1, -0.2], [0.9, 0.75, 1.2], FAR[name]):
            program = plain_track_and_stop(plain, len(means), tracking=tracking, forced=forced)
            compare(question, means, TrackAndStop(tracking=tracking, forced=forced), program, seed=seed)


@pytest.mark.long
@pytest.mark.parametrize(("tracking", "forced"), VARIANTS)
def test_track_and_stop_ends_batches_where_single_pulls_would(tracking, forced):
    question, plain = QUESTIONS["best arm"]
    far = [FAR["best arm"]] if (tracking, forced) != ("C", True) else []  # ours adds the forced pulls to the batch
    for means in ([0.5, 0.35, 0.0, -4.1, -0.2], *far):
        program = pull_by_pull(plain, len(means), tracking=tracking, forced=forced)
        compare(question, means, TrackAndStop(tracking=tracking, forced=forced), program, seed=1, off=2)


def test_opt_bbai_rounds():
    for seed in range(6):
        for means in ([1.0, 0.8, 0.75, 0.7], [0.3, 0.25, 0.0]):
            for delta, c in ((0.05, 2.0), (0.05, 32.0), (0.7, 0.5)):
                program = plain_opt_bbai(len(means), delta=delta, c=c, sigma=0.8)
                compare(BestArm(), means, OptBBAI(c=c), program, seed=seed, delta=delta, sigma=0.8)


@pytest.mark.parametrize("alpha", [1.05, 2.0])
def test_opt_bbai_stages(alpha):
    """Small deltas, where stage II depends on what was seen and stage III is near its threshold."""
    lengths = set()
    for seed in range(25):
        for delta in (1e-8, 1e-30):
            program = plain_opt_bbai(3, delta=delta, alpha=alpha)
            log = compare(BestArm(), [2.4, 0.3, 0.0], OptBBAI(alpha=alpha), program, seed=seed, delta=delta)
            lengths.add(len(log))
    assert min(lengths) == 2 < max(lengths)  # stage III stopped it, and did not


def test_the_second_version_of_opt_bbai_repeats_stage_two():
    few = {1: set(), 2: set()}  # batches of a few pulls: stages I and II
    for version, found in few.items():
        policy = OptBBAI(c=8.0, version=version)
        for seed in range(8):
            program = plain_opt_bbai(8, delta=0.05, c=8.0, version=version)
            log = compare(BestArm(), [1.0, *[0.8] * 7], policy, program, seed=seed, delta=0.05)
            found.add(sum(sum(pulls) < 100 for pulls, _ in log))
    assert few[1] == {2}
    assert min(few[2]) == 3 < max(few[2])


@pytest.mark.long
@pytest.mark.parametrize("delta", [0.6, 0.35, 0.2])
def test_opt_bbai_checks(delta):
    """A near tie lasts many rounds; a third arm that round 1 may drop is looked at again, and again."""
    lengths = set()
    for seed in range(8):
        for third in (0.41, 0.45, 0.3):
            program = plain_opt_bbai(3, delta=delta, c=1.0)
            means = [0.5, 0.5 - 1e-5, third]
            lengths.add(len(compare(BestArm(), means, OptBBAI(c=1.0), program, seed=seed, delta=delta)))
    assert max(lengths) > 12
