"""Which compiler flags make the program fastest? Lower is better, and times are skewed.

Timings have a long right tail, so they are not normal: `LargeSample` assumes no shape. It waits for 400 runs of each
build before it concludes anything, and its guarantee is approximate.

`run` stands for your benchmark. Run the builds in random order, so that a busy machine slows all of them alike.
"""

import random
import tempfile

from roundwise import BestArm, LargeSample, create_study

SECONDS = {"-O2": 1.00, "-O3": 0.97, "-O3 -flto": 0.93, "-Os": 1.08}
rng = random.Random(11)


def run(flags):
    return SECONDS[flags] * rng.lognormvariate(0, 0.25)


with (
    tempfile.TemporaryDirectory() as folder,
    create_study(
        "flags",
        question=BestArm(lower_is_better=True),
        arms=list(SECONDS),
        noise=LargeSample(),
        unit="s",
        seed=11,  # to print the same each time: leave it out in a real study
        storage=f"sqlite:///{folder}/studies.db",
    ) as study,
):
    while (asked := study.ask()) is not None:
        builds = [flags for flags, runs in asked.table for _ in range(runs)]
        rng.shuffle(builds)
        report = study.tell({"arm": builds, "outcome": [run(flags) for flags in builds]})
        print(f"round {asked.number}, {len(builds)} runs: {report.headline}")
    print(study.report().sentence)  # for a paper; .html() is the whole report

# It prints:
#
#     round 1, 1600 runs: Not decided yet. Any of the 4 arms may be the best; -O3 -flto (0.9323 s) leads
#     round 2, 291 runs: Not decided yet. -O3 -flto (0.931 s) or -O3 (0.9978 s) is the best; -O2 and -Os are out
#     round 3, 198 runs: Not decided yet. -O3 -flto (0.948 s) or -O3 (1.006 s) is the best; -O2 and -Os are out
#     round 4, 388 runs: Not decided yet. -O3 -flto (0.949 s) or -O3 (1.003 s) is the best; -O2 and -Os are out
#     round 5, 258 runs: -O3 -flto is fastest: 0.9447 s; the next is -O3 (1 s)
#     With 2735 results of 4 arms in 5 rounds, allocated by the wager policy (roundwise 1.0.0rc1), the study concluded
#         that -O3 -flto is the best arm; the probability of a wrong conclusion is in large samples at most 5 % at any
#         number of rounds, assuming that results follow any law with a finite variance, which is estimated from
#         earlier results, provided that the order of the rows is unrelated to their values (the seed of the random
#         partition was chosen, not drawn).
