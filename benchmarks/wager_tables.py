"""The tables of docs/wager.md, and the figure of the dial: `python benchmarks/wager.py --tables`."""

import numpy as np

from roundwise import (
    GLR,
    PET,
    BernoulliArms,
    BestArm,
    Binary,
    Bounded,
    Gaussian,
    Normal,
    Problem,
    RoundRobin,
    SubGaussian,
    TrackAndStop,
    Wager,
    simulate,
)
from roundwise.environments import Replay
from roundwise.model.problem import advance, begin
from roundwise.questions.lower_bounds import sample_lower_bound
from roundwise.simulation.environments import FIRST_PARTITIONS, PARTITIONS
from roundwise.theory.figures.canvas import new_figure, save
from roundwise.thresholds import KaufmannKoolenPairwise, Lemma32
from run import PAPER, SIGMA_1, row
from wager_cases import EASY, HARD, HELD_BEFORE, HELD_OUT, INSTANCES, LIMITS, MANY


def header(*cells):
    row(*cells)
    row(*("---" for _ in cells))


def cell(runs):
    """Samples over the lower bound, the mean of the runs' ratios / mean batches; a dash where runs are undecided."""
    found = runs.summary
    ratio = found.samples_over_lower_bound
    if ratio is None:
        return f"- / {found.batches_mean:.2f}"
    return f"{ratio:.0f} / {found.batches_mean:.1f}" if ratio >= 100 else f"{ratio:.2f} / {found.batches_mean:.2f}"


def simulated(question, world, policies, noise=SIGMA_1, runs=2000, **others):
    return simulate(question, world, policies, runs=runs, noise=noise, max_batches=300, **others)


RIVALS = {
    "PET": PET(),
    "Track-and-Stop": TrackAndStop(),
    "Track-and-Stop, pairwise": TrackAndStop(stopping=GLR(KaufmannKoolenPairwise())),
    "Round Robin": RoundRobin(),
}


def compared(instances, seed):
    """Ours beside the others."""
    header("instance", "lower bound", *RIVALS, "Wager", "p95 of batches", "wrong", "first 100", "exactly Gaussian")
    for name, (question, world) in instances.items():
        fits = question.pieces(world.arms) is not None
        rivals = {n: p for n, p in RIVALS.items() if fits or "pairwise" not in n}
        others = simulated(question, world, rivals, runs=500, seed=seed)
        texts = dict(zip(rivals, map(cell, others), strict=True))
        ours, larger = simulated(question, world, {"a": Wager(), "b": Wager(first_pulls=100)}, seed=seed)
        (exact,) = simulated(question, world, [Wager()], Gaussian(1.0), seed=seed)
        row(
            name,
            f"{ours.summary.lower_bound:,.0f}".replace(",", " "),
            *(texts.get(n, "-") for n in RIVALS),
            f"**{cell(ours)}**",
            f"{np.quantile(ours.batches, 0.95):.0f}",
            f"{ours.summary.error:.4f}",
            cell(larger),
            cell(exact),
        )


def seeds(number=5):
    """What is asked for, and how much the figures move with the seed."""
    header("instance", "asked", f"mean of {number} seeds", "largest", "smallest", "wrong")
    cases = [(name, *INSTANCES[name], SIGMA_1, *limit) for name, limit in LIMITS.items()]
    cases.append(("paper's instances, exactly Gaussian", BestArm(), PAPER, Gaussian(1.0), 2.95, 5.0))
    for name, question, world, noise, ratio, batches in cases:
        found = [simulated(question, world, [Wager()], noise, seed=s)[0].summary for s in range(1, number + 1)]
        ratios = np.array([each.samples_over_lower_bound for each in found], dtype=float)
        rounds = np.mean([each.batches_mean for each in found])
        wrong = np.mean([each.error for each in found])
        row(
            name,
            f"{ratio:g} / {batches:g}",
            f"{ratios.mean():.2f} / {rounds:.2f}",
            f"{ratios.max():.2f}",
            f"{ratios.min():.2f}",
            f"{wrong:.5f}",
        )


def noises(number=5):
    """What the noise model is worth, in mean samples / mean batches of all seeds; and the least saving of a seed."""
    header("rewards", "sigma only", "their own model", "saving", "least of a seed")
    third = Replay(("a", "b"), np.array([0.0, 0.5, 1.0]), np.array([[10.0, 80.0, 10.0], [15.0, 80.0, 5.0]]))
    rates = {
        "0/1, rates .5 .45 .43 .4, first 100": (BernoulliArms([0.5, 0.45, 0.43, 0.4]), 100),
        "0/1, rates .05 .045 .043 .04, first 1000": (BernoulliArms([0.05, 0.045, 0.043, 0.04]), 1000),
        "0/1, rates .05 .04, first 1000": (BernoulliArms([0.05, 0.04]), 1000),
        "0/1, rates .02 .015 .015, first 1000": (BernoulliArms([0.02, 0.015, 0.015]), 1000),
    }
    cases = [(name, world, Binary(), SubGaussian(0.5), first) for name, (world, first) in rates.items()]
    cases.append(("values 0, .5, 1 with means .5 .45 and variance .05", third, Bounded(0, 1), SubGaussian(0.5), 30))
    cases.append(("normal, sigma 1, the paper's instances", PAPER, Normal(), SIGMA_1, 30))
    for name, world, model, plain, first in cases:
        policy, every = [Wager(first_pulls=first)], range(1, number + 1)
        ways = [[simulated(BestArm(), world, policy, each, seed=s)[0] for s in every] for each in (plain, model)]
        samples = np.array([[runs.samples.mean() for runs in found] for found in ways])
        batches = [np.mean([runs.batches.mean() for runs in found]) for found in ways]
        row(
            name,
            *(f"{each.mean():.0f} / {most:.1f}" for each, most in zip(samples, batches, strict=True)),
            f"{samples[0].mean() / samples[1].mean():.2f} x",
            f"{(samples[0] / samples[1]).min():.2f}",
        )


def front(seed):
    """Samples against batches on the paper's instances: what the dial gives, and the others."""
    bound = simulated(BestArm(), PAPER, [Wager()], runs=1000, seed=seed)[0].summary.lower_bound
    header("policy", "setting: samples over the lower bound / mean batches")
    ours = {str(p): Wager(batch_price=p * bound) for p in PRICES}
    for label, noise in (("Wager", SIGMA_1), ("Wager, exactly Gaussian", Gaussian(1.0))):
        found = simulated(BestArm(), PAPER, ours, noise, runs=1000, seed=seed)
        row(
            f"**{label}**, a batch is worth x lower bounds",
            ", ".join(f"{p:g}: {cell(r)}" for p, r in zip(PRICES, found, strict=True)),
        )
    times = (100, 300, 900, 2700, 8100, 24300)
    groups = {"PET, T0": {g: PET(guess=g) for g in (1, 4, 16, 64, 256)}}
    for rule in (Lemma32(), KaufmannKoolenPairwise()):
        groups[f"Track-and-Stop, {rule.name}, first time"] = {
            t: TrackAndStop(stopping=GLR(rule), first_time=t) for t in times
        }
        groups[f"Round Robin, {rule.name}, first time"] = {
            t: RoundRobin(stopping=GLR(rule), first_time=t) for t in times
        }
    for label, group in groups.items():
        found = simulated(BestArm(), PAPER, {str(k): p for k, p in group.items()}, runs=500, seed=seed)
        row(label, ", ".join(f"{k}: {cell(r)}" for k, r in zip(group, found, strict=True)))


PRICES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # of a batch, in lower bounds


def along_the_dial(name, seed, runs):
    """Wager at each price, and without one."""
    question, world = INSTANCES[name] if name in INSTANCES else (BestArm(), EASY[name])
    few = runs // 10 if "1000" in name else runs // 4 if "100" in name else runs
    bound = simulated(question, world, [Wager()], runs=few, seed=seed)[0].summary.lower_bound
    policies = {str(p): Wager(batch_price=p * bound) for p in PRICES} | {"none": Wager()}
    return simulated(question, world, policies, runs=few, seed=seed)


def dial(seed, runs=1000):
    """Samples against batches as the price of a batch moves, for few arms and for many."""
    header("a batch is worth x lower bounds", *(f"{p:g}" for p in PRICES), "no price")
    for name in INSTANCES:
        row(name, *map(cell, along_the_dial(name, seed, runs)))


def figure(seed, path, runs=1000):
    """The same as a figure: a line for an instance, a star for no price."""
    drawing, (axes,) = new_figure()
    shown = (
        "gap 0.1 (2)",
        "paper's random instances (10 arms)",
        "above 0.5, three groups (10)",
        "linear means (100)",
        "linear means (1000)",
    )
    for name in shown:
        found = [each.summary for each in along_the_dial(name, seed, runs)]
        points = [(each.batches_mean, each.samples_over_lower_bound) for each in found]
        (line,) = axes.plot(*zip(*points[:-1], strict=True), "o-", markersize=3, linewidth=1, label=name)
        axes.plot(*points[-1], "*", markersize=11, color=line.get_color())
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks([1, 2, 3, 5, 10, 20], ["1", "2", "3", "5", "10", "20"])
    axes.set_yticks([1, 2, 3, 5, 10], ["1", "2", "3", "5", "10"])
    axes.minorticks_off()
    axes.set_xlabel("mean batches")
    axes.set_ylabel("mean samples over the lower bound")
    axes.set_title("One price moves along the front (star: no price)", loc="left", fontsize=10)
    axes.legend(fontsize=8)
    save(drawing, path)


def many(seed):
    """The dial for many arms: 500 runs, 1000 arms 400."""
    header("instance", "lower bound", *(f"{p:g}" for p in PRICES[:-1]), "no price")
    for name, world in MANY.items():
        bound = sample_lower_bound(BestArm().complexity(np.asarray(world.means))[0], 0.05)
        policies = {str(p): Wager(batch_price=p * bound) for p in PRICES[:-1]} | {"none": Wager()}
        found = simulated(BestArm(), world, policies, runs=400 if "1000" in name else 500, seed=seed)
        row(name, f"{bound:.0f}", *map(cell, found))


def held_out(number=5):
    """Held-out instances beside the Wager that bet on whole batches, both with 50 pulls of each arm at first."""
    header("instance", "without parts", f"mean of {number} seeds", "less", "first 30")
    for (name, (question, world)), before in zip(HELD_OUT.items(), HELD_BEFORE, strict=True):
        found = [
            [simulated(question, world, [Wager(first_pulls=n)], seed=s)[0].summary for s in range(1, number + 1)]
            for n in (50, 30)
        ]
        ratios = [np.mean([each.samples_over_lower_bound for each in group]) for group in found]
        batches = [np.mean([each.batches_mean for each in group]) for group in found]
        cells = [f"{ratio:.2f} / {most:.2f}" for ratio, most in zip(ratios, batches, strict=True)]
        row(name, f"{before:.2f}", cells[0], f"{100 * (1 - ratios[0] / before):.0f} %", cells[1])


def easy(seed):
    """Where the first batch is much of what is needed, and where there are many arms: mean samples / batches."""
    header("instance", "lower bound", "mean samples", "samples over the bound / mean batches")
    for name, world in EASY.items():
        (found,) = simulated(BestArm(), world, [Wager()], runs=400 if "1000" in name else 1000, seed=seed)
        row(name, f"{found.summary.lower_bound:.0f}", f"{found.samples.mean():.0f}", cell(found))


def hard_points(seed=7, runs=20_000, block=2000):
    """How often a true statement is ever struck off where that is likeliest, also past the end of the search."""
    header("where", "batches", "ever struck off", "delta")
    for name, (question, world, noise, policy, batches) in HARD.items():
        problem, times, means = Problem(question, world.arms, 0.05, noise), 0, np.asarray(world.means)
        for start in range(0, runs, block):
            rng = np.random.default_rng([seed, start])
            drawn, trial = world.initial_state(rng, block), begin(problem, policy, (block,))
            ever = np.zeros(block, dtype=bool)
            for number in range(batches):
                plan = trial.plan
                batch, drawn = world.pull_parts(
                    rng, drawn, plan.pulls, plan.parts, PARTITIONS if number else FIRST_PARTITIONS, noise.needs
                )
                trial = advance(problem, policy, trial, batch)
                ever |= policy.stopping.false_rejection(problem, trial, means)
            times += int(ever.sum())
        row(name, batches, f"{times / runs:.4f}", "0.05")


def tails(seed, runs=100_000):
    header("instance", "mean", "p99", "p99.9", "largest", "most batches", "not stopped", "wrong")
    for name in (*list(INSTANCES)[:2], "gap 0.1 (2)", list(INSTANCES)[-1]):
        question, world = INSTANCES[name]
        (found,) = simulated(question, world, [Wager()], runs=runs, seed=seed)
        ratio = found.samples / found.lower_bound
        row(
            name,
            f"{ratio.mean():.2f}",
            *(f"{np.quantile(ratio, q):.1f}" for q in (0.99, 0.999)),
            f"{ratio.max():.0f}",
            f"{found.batches.max():.0f}",
            f"{(~found.decided).sum()}",
            f"{found.summary.error:.5f}",
        )


def small_deltas(seed):
    deltas = (0.05, 1e-3, 1e-6, 1e-10)
    header("instance", *(f"delta = {d:g}" for d in deltas))
    for name in (*list(INSTANCES)[:2], "gap 0.1 (2)", "above 0.5, three groups (10)"):
        question, world = INSTANCES[name]
        row(name, *(cell(simulated(question, world, [Wager()], delta=d, seed=seed)[0]) for d in deltas))


def tables(seed):
    for title, table in (
        ("Ours beside the others", lambda: compared(INSTANCES, seed)),
        ("Held out: instances on which no constant was chosen", lambda: compared(HELD_OUT, seed)),
        ("What is asked for, five seeds", seeds),
        ("Noise models, five seeds", noises),
        ("The front", lambda: front(seed)),
        ("The dial", lambda: dial(seed)),
        ("Easy problems, and many arms", lambda: easy(seed)),
        ("The dial for many arms", lambda: many(seed)),
        ("Held out, five seeds", held_out),
        ("As delta falls", lambda: small_deltas(seed)),
        ("Tails", lambda: tails(seed)),
        ("Where an error is likeliest", hard_points),
    ):
        print(f"\n{title} (seed {seed})\n", flush=True)
        table()
