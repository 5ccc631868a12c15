"""Which of eight language models answers most questions of a benchmark right, without asking every model everything?

All models get the same questions, so two models are compared on the questions both had: a question that is hard for
everybody does no harm. Models that cannot win any more get no more questions.

`grade` stands for your harness. Here, a model is right if its skill and its luck exceed the difficulty of the question.
"""

import random
import tempfile

from roundwise import BestArm, Binary, Columns, create_study

SKILL = {"ada": 0.9, "bell": 0.5, "curie": 0.3, "dirac": 0.1, "euler": 0.0, "fermi": -0.2, "gauss": -0.6, "hertz": -1.0}
QUESTIONS = 12_000
rng = random.Random(5)
difficulty = [rng.gauss(0, 1.5) for _ in range(QUESTIONS)]


def grade(model, question):
    return int(SKILL[model] + rng.gauss(0, 1) > difficulty[question])


with (
    tempfile.TemporaryDirectory() as folder,
    create_study(
        "benchmark",
        question=BestArm(),
        arms=list(SKILL),
        noise=Binary().with_items(),
        columns=Columns(arm="model", outcome="correct", item="question"),
        seed=5,  # to print the same each time: leave it out in a real study
        storage=f"sqlite:///{folder}/studies.db",
    ) as study,
):
    used = 0  # every round needs questions that no model has had
    while (asked := study.ask()) is not None:
        pairs = [(model, used + i) for model, count in asked.table for i in range(count)]
        used += max(count for _, count in asked.table)
        report = study.tell(
            {
                "model": [model for model, _ in pairs],
                "question": [f"q{question}" for _, question in pairs],
                "correct": [grade(model, question) for model, question in pairs],
            }
        )
        print(f"round {asked.number}, {len(pairs)} answers: {report.headline}")
    print(f"{report.results} answers to {used} questions; the benchmark has {QUESTIONS}.")

# It prints:
#
#     round 1, 160 answers: Not decided yet. Any of the 8 arms may be the best; ada (75.0 %) leads
#     round 2, 703 answers: Not decided yet. ada (70.6 %), dirac (55.6 %), curie (52.3 %) or fermi (50.0 %) is the
#         best; bell, euler, gauss and hertz are out
#     round 3, 87 answers: ada is best: 71.1 %; the next is bell (57.7 %)
#     950 answers to 194 questions; the benchmark has 12000.
