"""Ratios of speed, measured in one run: `make bench`. Never a test: the machine may be busy.

The floor is what NumPy needs to draw the normals that a simulation uses.
"""

import subprocess
import sys
import time

import numpy as np

from roundwise import PET, BestArm, GaussianArms, OptBBAI, RandomGaps, RoundRobin, TopK, TrackAndStop, simulate
from roundwise.environments import GaussianArms as Normal

FIRST_FIGURE = {
    "PET": PET(),
    "Round Robin": RoundRobin(),
    "Track-and-Stop": TrackAndStop(),
    "Opt-BBAI": OptBBAI(),
}


def cpu(work, repeat=5):
    """The least CPU time of several calls, in seconds."""
    times = []
    for _ in range(repeat):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


class Counting(Normal):
    """Normal arms that count the normals they draw."""

    drawn = 0

    def pull(self, rng, world, pulls, needs="sums"):
        Counting.drawn += pulls.size
        return super().pull(rng, world, pulls, needs)


def to_the_floor(runs):
    print(f"\nFirst figure of the paper, {runs} runs: CPU time, and ratio to drawing its normals with NumPy")
    rows, work_sum, floor_sum = [], 0.0, 0.0
    for name, policy in FIRST_FIGURE.items():
        Counting.drawn = 0
        simulate(BestArm(), Counting(RandomGaps()), [policy], runs=runs)
        normals = Counting.drawn
        rng = np.random.default_rng(0)
        floor = cpu(lambda rng=rng, normals=normals: rng.standard_normal(normals))
        work = cpu(lambda policy=policy: simulate(BestArm(), GaussianArms(RandomGaps()), [policy], runs=runs))
        rows.append((name, normals, work, floor))
        work_sum, floor_sum = work_sum + work, floor_sum + floor
    for name, normals, work, floor in [*rows, ("all", sum(row[1] for row in rows), work_sum, floor_sum)]:
        print(f"  {name:16s} {normals:>10,} normals  {1e3 * work:8.1f} ms  {work / floor:6.1f} x the floor")


def complexities():
    print("\nComplexity T* and w*: CPU time of one call")
    rng = np.random.default_rng(0)
    for label, question, shape in (
        ("best arm, 1000 runs of 10 arms", BestArm(), (1000, 10)),
        ("best arm, 100 000 arms", BestArm(), (100_000,)),
        ("top-3 of 10, 1000 runs", TopK(3), (1000, 10)),
        ("top-20 of 200", TopK(20), (200,)),
        ("top-50 of 1000", TopK(50), (1000,)),
    ):
        means = rng.uniform(size=shape)
        print(f"  {label:32s} {1e3 * cpu(lambda q=question, m=means: q.complexity(m)):8.2f} ms")


def start_up():
    print("\nStart-up: CPU time, least of 5 (make test compiles the sources first)")
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
        print(f"  {label:20s} {least:6.3f} s")


if __name__ == "__main__":
    to_the_floor(1000)
    to_the_floor(20_000)
    complexities()
    start_up()
