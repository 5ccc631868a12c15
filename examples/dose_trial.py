"""A dose trial: which of four doses beat placebo, at most 540 patients, an interim look after every cohort of 90?

Each dose is a claim of its own. What is shown stays shown, and the probability that anything false is ever shown is at
most 5 %, over all doses and all looks. The trial ends early if every claim is settled or nothing more can be expected.
"""

import random
import tempfile

from roundwise import Binary, Claims, create_study

RESPONSE = {"placebo": 0.30, "25mg": 0.33, "75mg": 0.48, "150mg": 0.60, "300mg": 0.64}
rng = random.Random(3)

with (
    tempfile.TemporaryDirectory() as folder,
    create_study(
        "trial",
        question=Claims.against_control(list(RESPONSE), control="placebo"),
        arms=list(RESPONSE),
        noise=Binary(),
        budget=540,
        round_size=90,
        split="2:1:1:1:1",
        seed=3,  # to print the same each time: leave it out in a real study
        storage=f"sqlite:///{folder}/studies.db",
    ) as study,
):
    while (cohort := study.ask()) is not None:
        doses = [dose for dose, patients in cohort.table for _ in range(patients)]
        rng.shuffle(doses)  # patients are assigned in random order
        report = study.tell({"arm": doses, "outcome": [int(rng.random() < RESPONSE[dose]) for dose in doses]})
        print(f"cohort {cohort.number}: {report.headline}")
    print(study.report().sentence)  # for a paper; .html() is the whole report

# It prints:
#
#     cohort 1: Not decided yet. Shown: nothing. Open: 25mg, 75mg, 150mg and 300mg
#     cohort 2: Not decided yet. Shown: nothing. Open: 25mg, 75mg, 150mg and 300mg
#     cohort 3: Not decided yet. Shown: 150mg. Open: 25mg, 75mg and 300mg
#     cohort 4: Not decided yet. Shown: 75mg, 150mg and 300mg. Open: 25mg
#     cohort 5: Shown: 75mg, 150mg and 300mg. Not shown: 25mg
#     With 450 results of 5 arms in 5 rounds, split 2:1:1:1:1 as fixed in advance, judged by the rule of conditional-
#         power (roundwise 1.0.0rc1), the study concluded that 75mg beats placebo; 150mg beats placebo; 300mg beats
#         placebo; the probability of a wrong conclusion is at most 5 % at any number of rounds, assuming that results
#         are 0 or 1.
