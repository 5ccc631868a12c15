"""The algorithms of the related work, each against a plain program of its own on the same rewards, and its numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from roundwise import GLR, AnyAbove, BestArm, Binary, GaussianArms, InputError, Problem, SubGaussian, TopK, simulate
from roundwise.environments import RandomGaps
from roundwise.model.batch import Batch
from roundwise.model.problem import advance, begin, final_answer
from roundwise.policies import (
    LUCB,
    POLICIES,
    Agarwal,
    BatchRacing,
    ClassicTrackAndStop,
    Elimination,
    Hillel,
    Jin2019,
    Karpov,
    StickyTrackAndStop,
    TopTwo,
)
from roundwise.policies.racing import repeated_log
from roundwise.solvers.halfspaces import BinaryFamily
from roundwise.thresholds import KaufmannKoolenPairwise, KaufmannKoolenSum

LONG = 60_000


class Walks:
    """The sums of the first n rewards of each arm, drawn once, so that two programs see the same rewards."""

    def __init__(self, means, sigma, seed):
        rng = np.random.default_rng(seed)
        self.arms = len(means)
        self.sums = np.concatenate(
            [
                np.zeros((self.arms, 1)),
                (means[:, None] + sigma * rng.standard_normal((self.arms, LONG))).cumsum(axis=1),
            ],
            axis=1,
        )

    def mean(self, arm, end, start=0):
        return (self.sums[arm, end] - self.sums[arm, start]) / (end - start)


def played(problem, policy, walks):
    """The policy as it runs: samples, batches, the answer."""
    trial = begin(problem, policy)
    while not trial.done:
        before = trial.record.counts.astype(int)
        after = before + trial.plan.pulls.astype(int)
        arms = np.arange(walks.arms)
        totals = walks.sums[arms, after] - walks.sums[arms, before]
        trial = advance(problem, policy, trial, Batch(trial.plan.pulls, totals))
    found = final_answer(problem, policy, trial)
    answer = set(np.flatnonzero(found).tolist()) if found.ndim else {int(found)}
    return int(trial.record.samples), int(trial.record.batches), answer


# ---------------------------------------------------------------- plain programs


def racing(arms, k, pulls, reach, walks):
    """Rounds in which all who are left have pulls(r) rewards, and the gap that decides is reach(r)."""
    left, accepted, counts, r = list(range(arms)), set(), [0] * arms, 0
    while len(accepted) < k:
        r += 1
        for i in left:
            counts[i] = pulls(r)
        mean = {i: walks.mean(i, counts[i]) for i in left}
        order = sorted(left, key=lambda i: -mean[i])
        places = k - len(accepted)
        following = mean[order[places]] if places < len(order) else -math.inf
        last = mean[order[places - 1]]
        new = {i for i in left if mean[i] > following + reach(r)}
        gone = {i for i in left if i not in new and mean[i] < last - reach(r)}
        accepted |= new
        left = [i for i in left if i not in new | gone]
    return sum(counts), r, accepted


def plain_hillel(arms, k, delta, sigma, walks):
    return racing(
        arms,
        1,
        lambda r: math.ceil(2 / 4.0**-r * math.log(4 * arms * r * r / delta)),
        lambda r: 2 * sigma * 2.0**-r,
        walks,
    )


def plain_karpov(arms, k, delta, sigma, walks):
    return racing(
        arms,
        k,
        lambda r: math.ceil(8 / 4.0**-r * math.log(4 * arms * r * r / delta)),
        lambda r: 2 * sigma * 2.0**-r,
        walks,
    )


def plain_elimination(arms, k, delta, sigma, walks):
    def reach(r):
        return math.sqrt(4 * sigma**2 * math.log(k * (arms - k) * r * (r + 1) / delta) / (20 * 3 ** (r - 1)))

    return racing(arms, k, lambda r: 20 * 3 ** (r - 1), reach, walks)


def plain_batch_racing(arms, k, delta, sigma, walks, size=60):
    w = math.sqrt(delta / (6 * arms))
    left, accepted, counts, batches = list(range(arms)), set(), [0] * arms, 0
    while len(accepted) < k:
        batches += 1
        before = list(counts)
        if len({counts[i] for i in left}) == 1:  # all alike: all get the same
            for i in left:
                counts[i] += size // len(left)
        else:
            for _ in range(size):
                fewest = min(counts[i] for i in left)
                first = [i for i in left if counts[i] == fewest]
                counts[max(first, key=lambda i: walks.sums[i, before[i]])] += 1
        mean = {i: walks.mean(i, counts[i]) for i in left}
        radius = {i: 2 * sigma * math.sqrt(4 * math.log(math.log2(2 * counts[i]) / w) / counts[i]) for i in left}
        places = k - len(accepted)
        uppers = sorted((mean[i] + radius[i] for i in left), reverse=True)
        lowers = sorted((mean[i] - radius[i] for i in left), reverse=True)
        following = uppers[places] if places < len(left) else -math.inf
        new = {i for i in left if mean[i] - radius[i] > following}
        gone = {i for i in left if i not in new and mean[i] + radius[i] < lowers[places - 1]}
        accepted |= new
        left = [i for i in left if i not in new | gone]
    return sum(counts), batches, accepted


def plain_agarwal(arms, k, delta, sigma, walks, gap=0.5, rounds=3):
    left, used, level, samples = list(range(arms)), [0] * arms, delta, 0
    for r in range(rounds, 0, -1):
        x = len(left) / k
        logs = [x]
        for _ in range(r):
            logs.append(max(math.log(logs[-1]), 1.0))
        pulls = math.ceil(8 * sigma**2 / gap**2 * (logs[r] + math.log(8 * k / level)))
        mean = {i: walks.mean(i, used[i] + pulls, used[i]) for i in left}
        for i in left:
            used[i] += pulls
        samples += pulls * len(left)
        keep = k if r == 1 else min(len(left), k + math.floor(len(left) / logs[r - 1]))
        left = sorted(left, key=lambda i: -mean[i])[:keep]
        level /= 2
    return samples, rounds, set(left)


def plain_lucb(arms, k, delta, sigma, walks, size=20):
    counts = [max(1, size // arms)] * arms
    batches = 1
    while True:
        t = sum(counts)
        mean = [walks.mean(i, counts[i]) for i in range(arms)]
        radius = [2 * sigma * math.sqrt(math.log(5 / 4 * arms * t**4 / delta) / (2 * n)) for n in counts]
        order = sorted(range(arms), key=lambda i: -mean[i])
        weakest = min(order[:k], key=lambda i: mean[i] - radius[i])
        strongest = max(order[k:], key=lambda i: mean[i] + radius[i])
        if mean[strongest] + radius[strongest] < mean[weakest] - radius[weakest]:
            return t, batches, set(order[:k])
        counts[weakest] += size // 2
        counts[strongest] += size // 2
        batches += 1


def evidence(counts, mean, sigma, k):
    order = sorted(range(len(mean)), key=lambda i: -mean[i])
    return min(
        (mean[a] - mean[b]) ** 2 / (2 * sigma**2 * (1 / counts[a] + 1 / counts[b]))
        for a in order[:k]
        for b in order[k:]
    )


def plain_track_and_stop(arms, k, delta, sigma, walks, size=7):
    problem = Problem(BestArm() if k == 1 else TopK(k), arms, delta, SubGaussian(sigma))
    counts, batches = [1] * arms, 1
    while True:
        mean = [walks.mean(i, counts[i]) for i in range(arms)]
        bar = KaufmannKoolenPairwise().at(problem, sum(counts))
        if evidence(counts, mean, sigma, k) > bar:
            return sum(counts), batches, set(np.argsort(mean)[-k:].tolist())
        weights = problem.question.complexity(mean, sigma=sigma).weights
        for _ in range(size):
            t = sum(counts)
            few = [i for i in range(arms) if counts[i] < math.sqrt(t) - arms / 2]
            if few:
                pick = min(few, key=lambda i: counts[i])
            else:
                pick = max(range(arms), key=lambda i: t * weights[i] - counts[i])
            counts[pick] += 1
        batches += 1


def plain_top_two(arms, k, delta, sigma, walks, size=7):
    problem = Problem(BestArm(), arms, delta, SubGaussian(sigma))
    counts, led, pulled, batches = [1] * arms, [0] * arms, [0] * arms, 1
    while True:
        mean = [walks.mean(i, counts[i]) for i in range(arms)]
        leader = int(np.argmax(mean))
        if evidence(counts, mean, sigma, 1) > KaufmannKoolenPairwise().at(problem, sum(counts)):
            return sum(counts), batches, {leader}
        for _ in range(size):
            led[leader] += 1
            pick = leader
            if pulled[leader] > led[leader] / 2:
                pick = min(
                    (j for j in range(arms) if j != leader),
                    key=lambda j: (
                        (mean[leader] - mean[j]) ** 2 / (2 * sigma**2 * (1 / counts[leader] + 1 / counts[j]))
                        + math.log(counts[j])
                    ),
                )
            else:
                pulled[leader] += 1
            counts[pick] += 1
        batches += 1


FAIR = GLR(KaufmannKoolenPairwise())
PLAIN = {
    "hillel": (Hillel(), plain_hillel, (1,)),
    "karpov": (Karpov(), plain_karpov, (1, 2, 3)),
    "elimination": (Elimination(first_pulls=20, growth=3), plain_elimination, (1, 2, 3)),
    "batch-racing": (BatchRacing(batch=60), plain_batch_racing, (1, 2, 3)),
    "agarwal": (Agarwal(gap=0.5, rounds=3), plain_agarwal, (1, 2)),
    "lucb": (LUCB(batch=20), plain_lucb, (1, 2, 3)),
    "classic-track-and-stop": (ClassicTrackAndStop(batch=7, stopping=FAIR), plain_track_and_stop, (1, 2)),
    "top-two": (TopTwo(batch=7, stopping=FAIR), plain_top_two, (1,)),
}


@pytest.mark.long
@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("sigma", [1.0, 0.3])
def test_it_does_what_a_plain_program_does(name, sigma):
    policy, plain, tops = PLAIN[name]
    means = sigma * np.array([0.0, 1.9, 0.3, 2.6, 1.0, -0.4])
    if name == "agarwal":
        sigma = 1.0
    for k in tops:
        for seed in range(6):
            walks = Walks(means, sigma, seed)
            problem = Problem(BestArm() if k == 1 else TopK(k), 6, 0.1, SubGaussian(sigma))
            assert played(problem, policy, walks) == plain(6, k, 0.1, sigma, walks)


def leading_costs(counts, mean, least=-math.inf):
    """What it costs to make each arm the largest: a search over their common value, in steps."""
    found = []
    for i, own in enumerate(mean):
        ends = [max(own, least), max(*mean, least)]

        def cost(x, i=i, own=own):
            rest = sum(n * max(m - x, 0.0) ** 2 for n, m in zip(counts, mean, strict=True))
            return counts[i] * (x - own) ** 2 + rest - counts[i] * max(own - x, 0.0) ** 2

        for _ in range(200):  # it is convex in x
            low, high = (2 * ends[0] + ends[1]) / 3, (ends[0] + 2 * ends[1]) / 3
            ends = [ends[0], high] if cost(low) <= cost(high) else [low, ends[1]]
        found.append(cost(ends[0]))
    return found


def plain_sticky(question, arms, sigma, walks, pulls, size=7, region=10.0):
    """The counts after so many pulls."""
    counts, tracked = [1] * arms, [1.0] * arms
    while sum(counts) < pulls:
        mean = [walks.mean(i, counts[i]) for i in range(arms)]
        room = 2 * sigma**2 * region * math.log(sum(counts))
        alike = [1 / arms] * arms
        if question.name == "best-arm":
            first = next(i for i, cost in enumerate(leading_costs(counts, mean)) if cost <= room)
            shifted = [m - (0 if i == first else question.tolerance) for i, m in enumerate(mean)]
            right = shifted[first] == max(shifted) and shifted.count(max(shifted)) == 1
            weights = BestArm().complexity(shifted).weights.tolist() if right else alike
        else:
            ahead = [m - question.level for m in mean]
            inside = [i for i, cost in enumerate(leading_costs(counts, ahead, 0.0)) if cost <= room]
            if not inside:
                needs = [x**-2 for x in ahead]
                weights = [x / sum(needs) for x in needs]
            elif ahead[inside[0]] > 0:
                weights = [float(i == inside[0]) for i in range(arms)]
            else:
                weights = alike
        for _ in range(size):
            least = 0.5 / math.sqrt(arms**2 + sum(counts))
            tracked = [t + least + (1 - arms * least) * w for t, w in zip(tracked, weights, strict=True)]
            counts[max(range(arms), key=lambda i: tracked[i] - counts[i])] += 1
    return counts


@pytest.mark.long
@pytest.mark.parametrize("question", [BestArm(), BestArm(0.3), AnyAbove(2.0), AnyAbove(3.5)], ids=str)
def test_sticky_track_and_stop_does_what_a_plain_program_does(question):
    means = np.array([0.0, 1.9, 0.3, 2.6, 2.55, -0.4])
    policy, never = StickyTrackAndStop(batch=7, region=0.6), GLR(KaufmannKoolenSum())
    for seed in range(4):
        walks, pulls = Walks(means, 1.0, seed), 600
        problem = Problem(question, 6, 1e-300, SubGaussian(1.0))
        trial = begin(problem, replace(policy, stopping=never))
        while trial.record.samples < pulls:
            before = trial.record.counts.astype(int)
            after, arms = before + trial.plan.pulls.astype(int), np.arange(6)
            totals = walks.sums[arms, after] - walks.sums[arms, before]
            trial = advance(problem, replace(policy, stopping=never), trial, Batch(trial.plan.pulls, totals))
        assert not trial.done
        expected = plain_sticky(question, 6, 1.0, walks, pulls, region=0.6)
        assert trial.record.counts.astype(int).tolist() == expected


@pytest.mark.long
def test_sticky_track_and_stop_ends_near_the_bound_as_delta_falls():
    """Two arms above the level: by the estimates alone the tracked arm changes; both are as easy."""
    question, world = AnyAbove(0.0), GaussianArms([0.5, 0.5, -0.5])
    ratios = []
    for delta in (1e-3, 1e-30):
        (runs,) = simulate(
            question, world, [StickyTrackAndStop(batch=20, stopping=GLR(KaufmannKoolenSum()))], runs=20, delta=delta
        )
        assert runs.correct.all()
        ratios.append(runs.summary.samples_over_lower_bound)
    assert ratios[1] < 2.0 < ratios[0]


@pytest.mark.long
def test_jin_2019_does_what_a_plain_program_does():
    """Its draws are those of the seed; many arms, so that there is something to draw from."""
    rng = np.random.default_rng(0)
    ranks = set()
    for seed in range(4):
        means = rng.uniform(0, 1, 300)
        means[:2] = 6.0, 3.5
        walks = Walks(means, 1.0, seed)
        eps, delta, policy = 3.0, 0.2, Jin2019(seed=seed)
        draws = np.random.default_rng(seed).random(60)
        left, size, best, value, used = list(range(300)), 1.0, None, -math.inf, [0] * 300
        samples = batches = 0
        r = 1
        while left:
            level = delta / 2 ** (r + 1)
            pulls = math.ceil(size * 8 * 4 / eps**2 * math.log(1 / level))
            mean = {i: walks.mean(i, used[i] + pulls, used[i]) for i in left}
            for i in left:
                used[i] += pulls
            order = sorted(left, key=lambda i: -mean[i])
            number = max(1, math.ceil(level**size * len(left) / 2))
            rank = int(number * draws[r - 1])
            ranks.add((number > 1, rank > 0))
            arm = order[rank]
            again = walks.mean(arm, used[arm] + pulls, used[arm])
            used[arm] += pulls
            samples += pulls * (len(left) + 1)
            batches += 2
            if again > value:
                best, value = arm, again
            kept = [i for i in left if mean[i] >= again + 3 * eps / 4]
            size *= len(left) / max(len(kept), 1)
            left, r = kept, r + 1
        assert played(Problem(BestArm(eps), 300, delta), policy, walks) == (samples, batches, {best})
    assert (True, True) in ranks


# ---------------------------------------------------------------- what they promise


def test_hillel_needs_at_most_log_one_over_eps_rounds():
    """It "uses less than log(1/eps) batches": here ceil(log2(2/eps)), eps in units of 2 sigma."""
    for tolerance in (0.5, 0.25, 0.03):
        (runs,) = simulate(BestArm(tolerance), GaussianArms(np.zeros(5), 0.5), [Hillel()], runs=200, delta=0.1)
        assert runs.batches.max() == math.ceil(math.log2(2 / tolerance))
        assert runs.correct.all()


def test_agarwal_makes_just_so_many_batches_and_knows_its_condition():
    for rounds in (1, 2, 3, 4):
        policy = Agarwal(gap=0.3, rounds=rounds)
        (runs,) = simulate(TopK(3), GaussianArms(np.append([1.0, 1.0, 1.0], np.full(60, 0.7))), [policy], runs=100)
        assert (runs.batches == rounds).all()
        assert runs.correct.mean() >= 0.95
        assert "lead all others by 0.3 or more" in str(policy.stopping.doubt(Problem(TopK(3), 63)))
    # sizes by hand: ln 1000 = 6.908, 1 + floor(1000/6.908) = 145; ln 6.908 = 1.933, 1 + floor(1000/1.933) = 518
    assert Agarwal(rounds=2).sizes(Problem(BestArm(), 1000)) == [1000, 145]
    assert Agarwal(rounds=3).sizes(Problem(BestArm(), 1000))[:2] == [1000, 518]
    assert repeated_log(1000.0, 2) == pytest.approx(1.9326, abs=1e-4)
    # the more rounds, the fewer samples: n/gap^2 (ilog^(r) n + ln(1/delta))
    many = [Agarwal(gap=0.5, rounds=r) for r in (1, 2)]
    costs = []
    for policy in many:
        problem = Problem(BestArm(), 10**6)
        costs.append(sum(n * policy.pulls(problem, policy.rounds - i) for i, n in enumerate(policy.sizes(problem))))
    assert costs[1] < costs[0]


@pytest.mark.parametrize(
    "policy",
    [Hillel(), Karpov(), Elimination(), BatchRacing(batch=200), LUCB(batch=40), Elimination(first_pulls=5, growth=1.5)],
    ids=lambda policy: policy.name,
)
@pytest.mark.parametrize("delta", [0.5, 0.1])
def test_errors_stay_below_delta_where_they_are_likely(policy, delta):
    """A best arm that hardly leads, sigma as small as it may be for the noise: looked at for some batches."""
    means = np.array([0.02, 0.0, 0.0, 0.0])
    problem = Problem(BestArm(), 4, delta)
    rng, runs = np.random.default_rng(3), 400
    trial = begin(problem, policy, (runs,))
    for _ in range(8):
        pulls = trial.plan.pulls
        totals = pulls * means + np.sqrt(pulls) * rng.standard_normal((runs, 4))
        trial = advance(problem, policy, trial, Batch(pulls, totals))
    wrong = trial.done & (final_answer(problem, policy, trial) != 0)
    assert wrong.mean() <= delta + 3 * math.sqrt(delta * (1 - delta) / runs)


def test_the_guarantees_that_are_stated():
    problem = Problem(BestArm(0.1), 3)
    doubts = {name: made().stopping.doubt(problem) for name, made in POLICIES.items()}
    assert {name for name in PLAIN if doubts[name] is not None} == {"agarwal"}
    assert "constants of jin-2019" in str(doubts["jin-2019"])


@pytest.mark.long
def test_the_price_of_batching_on_the_papers_instances():
    """A plain elimination needs a tenth of PET's samples in a third of its batches, and no more than a top-two rule."""
    world = GaussianArms(RandomGaps())
    found = {
        each.policy: each.summary
        for each in simulate(
            BestArm(), world, [Elimination(), Hillel(), LUCB(batch=500), TopTwo(batch=500, stopping=FAIR)], runs=200
        )
    }
    assert found["elimination"].samples_mean == pytest.approx(17_700, rel=0.08)
    assert found["elimination"].batches_mean == pytest.approx(2.35, abs=0.2)
    assert found["hillel"].samples_mean == pytest.approx(50_300, rel=0.08)
    assert found["hillel"].batches_mean == pytest.approx(4.5, abs=0.2)
    assert found["top-two"].samples_mean == pytest.approx(20_500, rel=0.08)
    assert all(each.error <= 0.02 for each in found.values())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: begin(Problem(TopK(2), 4), Hillel()), "'hillel'.*'best-arm'"),
        (lambda: begin(Problem(BestArm(0.1), 4), Karpov()), "'karpov'"),
        (lambda: begin(Problem(BestArm(), 4), Jin2019()), "'jin-2019' needs a tolerance"),
        (lambda: begin(Problem(BestArm(), 40), BatchRacing(batch=30)), "batch"),
        (lambda: Agarwal(gap=0.0), "`gap` is 0"),
        (lambda: Agarwal(rounds=0), "`rounds` is 0"),
        (lambda: LUCB(batch=1), "`batch` is 1"),
        (lambda: Elimination(growth=1.0), "`growth` is 1"),
        (lambda: TopTwo(share=1.0), "`share` is 1"),
        (lambda: ClassicTrackAndStop(batch=0), "`batch` is 0"),
        (lambda: BatchRacing(most=0.0), "`most` is 0"),
        (lambda: Jin2019(c=0.0), "`c` is 0"),
    ],
)
def test_mistakes(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_at_most_so_many_pulls_of_an_arm():
    problem = Problem(TopK(1), 3, 0.1)
    trial = begin(problem, BatchRacing(batch=90, most=11), (5,))
    assert (trial.plan.pulls == 11).all()


@pytest.mark.long
def test_track_and_stop_with_the_weights_of_the_rewards_themselves():
    """0/1 rewards with small rates: its counts follow the weights for these, not those for normal rewards."""
    rates = np.array([0.05, 0.04, 0.01])
    problem = Problem(BestArm(), 3, 1e-9, Binary())
    for own, expected in (
        (True, BestArm().family_complexity(rates, BinaryFamily()).weights),
        (False, BestArm().complexity(rates).weights),
    ):
        policy = ClassicTrackAndStop(batch=500, kl_weights=own)
        trial = begin(problem, policy)
        for _ in range(40):
            trial = advance(problem, policy, trial, Batch(trial.plan.pulls, trial.plan.pulls * rates))
        np.testing.assert_allclose(trial.record.counts / trial.record.samples, expected, atol=0.01)
