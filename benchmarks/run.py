"""Ratios of speed, measured in one run: `make bench`. Never a test: the machine may be busy.

All times are CPU times of one process. The floor is what NumPy needs to draw the normals that a simulation uses;
`plain.py` holds the same algorithms as a script would write them. `--millions` takes minutes and is left out otherwise.
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import plain
from roundwise import PET, BestArm, GaussianArms, RoundRobin, TopK, TrackAndStop, Wager, simulate
from roundwise.environments import RandomGaps
from roundwise.noise import SubGaussian
from roundwise.policies import OptBBAI

POLICIES = {"PET": PET(), "Round Robin": RoundRobin(), "Track-and-Stop": TrackAndStop()}
FIRST_FIGURE = {**POLICIES, "Opt-BBAI": OptBBAI()}
SCRIPTS = {"PET": plain.pet, "Round Robin": plain.round_robin, "Track-and-Stop": plain.track_and_stop}
PAPER = GaussianArms(RandomGaps())
SIGMA_1 = SubGaussian(1.0)


def cpu(work, repeat=5):
    """The least CPU time of several calls, in seconds."""
    times = []
    for _ in range(repeat):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


class Counting(GaussianArms):
    """Normal arms that count the normals they draw, and those that are used: of arms that are pulled in a batch."""

    drawn = used = 0

    def pull(self, rng, world, pulls, needs="sums"):
        Counting.drawn += pulls.size
        Counting.used += int(np.count_nonzero(pulls))
        return super().pull(rng, world, pulls, needs)


def draw(rng, normals, piece=80_000):
    """Draw so many normals into memory that is there already: the fastest way NumPy has."""
    room = np.empty(min(piece, normals))
    for left in range(normals, 0, -piece):
        rng.standard_normal(out=room[: min(piece, left)])


def against_floor(policy, runs, arms=10, repeat=5):
    """CPU time of the runs, how many normals they draw, and what these alone take."""
    Counting.drawn = Counting.used = 0
    options = {"runs": runs, "noise": SIGMA_1}
    (found,) = simulate(BestArm(), Counting(RandomGaps(arms)), [policy], **options)
    normals, rng = Counting.used, np.random.default_rng(0)
    work, floor = np.inf, np.inf
    for _ in range(repeat):  # in turns, so that both see the same machine
        floor = min(floor, cpu(lambda: draw(rng, normals), 1))
        work = min(work, cpu(lambda: simulate(BestArm(), GaussianArms(RandomGaps(arms)), [policy], **options), 1))
    return work, normals, floor, found


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def header(title, *cells):
    print(f"\n{title}\n")
    row(*cells)
    row(*("---" for _ in cells))


def to_the_floor(runs):
    header(
        f"The paper's first experiment, {runs:,} runs: ratio to drawing its normals with NumPy",
        "policy", "normals drawn", "of these used", "time", "floor of those used", "ratio", "ratio to all drawn",
    )  # fmt: skip
    for name, policy in FIRST_FIGURE.items():
        work, _, floor, _ = against_floor(policy, runs)
        share = Counting.used / Counting.drawn
        row(
            name,
            f"{Counting.drawn:,}",
            f"{share:.0%}",
            f"{1e3 * work:.1f} ms",
            f"{1e3 * floor:.1f} ms",
            f"**{work / floor:.1f}**",
            f"{work / floor * share:.1f}",
        )


def to_a_script(runs=20_000, alone=200):
    header(
        "The same algorithms one run at a time in plain Python (`benchmarks/plain.py`)",
        "policy", "script, a run", "ours, a run", "ratio", "mean samples: script", "ours",
    )  # fmt: skip
    for name, policy in POLICIES.items():
        samples = []
        script = cpu(lambda n=name, s=samples: s.append(plain.samples(SCRIPTS[n], alone)), 2) / alone
        work, _, _, found = against_floor(policy, runs)
        each = np.array(samples[0])
        row(
            name,
            f"{1e6 * script:.0f} µs",
            f"{1e6 * work / runs:.1f} µs",
            f"**{script / work * runs:.0f}**",
            f"{each.mean():,.0f} ± {each.std() / alone**0.5:,.0f}",
            f"{found.samples.mean():,.0f} ± {found.samples.std() / runs**0.5:,.0f}",
        )


def growing_runs():
    sizes = (100, 1000, 10_000, 100_000, 1_000_000)
    header(
        "More runs of the paper's first experiment: time of a run (ratio to the floor)",
        "policy", *(f"{n:,} runs" for n in sizes),
    )  # fmt: skip
    for name, policy in {**POLICIES, "Wager": Wager()}.items():
        cells = []
        for runs in sizes[: 4 if name == "Wager" else None]:
            work, _, floor, _ = against_floor(policy, runs, repeat=max(2, min(20, 20_000 // runs)))
            cells.append(f"{1e6 * work / runs:.1f} µs ({work / floor:.1f})")
        row(name, *cells, *["-"] * (len(sizes) - len(cells)))


def growing_arms():
    sizes = (10, 100, 1000, 10_000, 100_000)
    header(
        "More arms, one at 1 and the others uniform in [0.6, 0.9]: time of a run (ratio to the floor)",
        "policy", *(f"{arms:,} arms" for arms in sizes),
    )  # fmt: skip
    for name, policy in {**POLICIES, "Wager": Wager()}.items():
        cells = []
        for arms in sizes:
            runs = max(4, min(8000, 800_000 // arms))
            work, _, floor, _ = against_floor(policy, runs, arms, repeat=2)
            unit, each = ("ms", 1e3) if work / runs > 1e-3 else ("µs", 1e6)
            cells.append(f"{each * work / runs:.1f} {unit} ({work / floor:.1f})")
        row(name, *cells)


def memory():
    header("Peak memory of a process that runs Round Robin", "runs", "peak")
    for runs in (1000, 100_000, 1_000_000, 3_000_000):
        code = (
            "import resource, run; run.simulate(run.BestArm(), run.PAPER, [run.RoundRobin()], "
            f"runs={runs}, noise=run.SIGMA_1); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        # started by a small process: a process counts the peak of the one that it was copied from
        small = "import subprocess, sys; subprocess.run(sys.argv[1:], check=True)"
        words = (sys.executable, "-c", small, sys.executable, "-c", code)
        peak = int(subprocess.run(words, capture_output=True, check=True, cwd=Path(__file__).parent).stdout) / 1024
        row(f"{runs:,}", f"{peak:.0f} MB")


def complexities():
    header("Complexity T* and w*: CPU time of one call", "question", "time")
    rng = np.random.default_rng(0)
    for label, question, shape in (
        ("best arm, 1000 runs of 10 arms", BestArm(), (1000, 10)),
        ("best arm, 100 000 arms", BestArm(), (100_000,)),
        ("top-3 of 10, 1000 runs", TopK(3), (1000, 10)),
        ("top-20 of 200", TopK(20), (200,)),
        ("top-50 of 1000", TopK(50), (1000,)),
    ):
        means = rng.uniform(size=shape)
        row(label, f"{1e3 * cpu(lambda q=question, m=means: q.complexity(m)):.2f} ms")


def start_up():
    header("Start-up: CPU time, least of 5 (make test compiles the sources first)", "command", "time")
    for label, words in (
        ("python, nothing", ("-c", "pass")),
        ("import numpy", ("-c", "import numpy")),
        ("import roundwise", ("-c", "import roundwise")),
        ("roundwise --help", ("-m", "roundwise", "--help")),
    ):
        code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); "
        code += "u = resource.getrusage(resource.RUSAGE_CHILDREN); print(u.ru_utime + u.ru_stime)"
        words = (sys.executable, "-c", code, sys.executable, *words)
        least = min(float(subprocess.run(words, capture_output=True, check=True).stdout) for _ in range(5))
        row(label, f"{least:.3f} s")


def millions(workers, runs=10_000_000, delta=0.001):
    header(
        f"The error rate at delta = {delta:g} from {runs:,} runs, {workers} workers",
        "policy", "instance", "wall-clock time", "wrong", "95 % upper bound", "peak memory",
    )  # fmt: skip
    two = GaussianArms([0.01, 0.0])
    for name, label, policy, world in (
        ("PET", "the paper's", PET(), PAPER),
        ("Round Robin", "the paper's", RoundRobin(), PAPER),
        ("Track-and-Stop", "the paper's", TrackAndStop(), PAPER),
        ("Wager", "the paper's", Wager(), PAPER),
        ("Wager", "two arms, gap 0.01", Wager(), two),
    ):
        begun = time.perf_counter()
        (found,) = simulate(
            BestArm(), world, [policy], runs=runs, delta=delta, noise=SIGMA_1, workers=workers,
            progress=bar(f"{name}, {label}", runs),
        )  # fmt: skip
        spent, summary = time.perf_counter() - begun, found.summary
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        wrong = int((~found.correct).sum())
        row(name, label, f"{spent:.0f} s", wrong, f"{summary.error_upper_95:.2e}", f"{peak:.1f} GiB")


def bar(label, runs):
    """A line on the terminal that says how far it is."""
    done = [0]

    def progress(more):
        before, done[0] = done[0], done[0] + more
        if sys.stderr.isatty() and before * 100 // runs < done[0] * 100 // runs:
            print(f"\r{label}: {done[0] * 100 // runs} %", end="\r", file=sys.stderr, flush=True)

    return progress


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--millions", action="store_true", help="the error rate from 10 million runs (minutes)")
    options.add_argument("--workers", type=int, default=2, help="processes to use for --millions")
    chosen = options.parse_args()
    if chosen.millions:
        millions(chosen.workers)
    else:
        to_the_floor(1000)
        to_the_floor(100_000)
        to_a_script()
        growing_runs()
        growing_arms()
        memory()
        complexities()
        start_up()
