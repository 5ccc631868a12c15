"""The instances on which Wager is measured."""

import numpy as np

from roundwise import (
    Above,
    AnyAbove,
    BernoulliArms,
    BestArm,
    Binary,
    Bounded,
    EqualVariances,
    GaussianArms,
    MinimumBelow,
    Normal,
    Poisson,
    SubGaussian,
    TopK,
    Wager,
)
from roundwise.environments import PoissonArms
from run import PAPER, SIGMA_1

LOCATELLI = (0.1, 0.1, 0.1, 0.35, 0.45, 0.55, 0.65, 0.9, 0.9, 0.9)

INSTANCES = {
    "paper's random instances (10 arms)": (BestArm(), PAPER),
    "equal gaps 0.3 (10)": (BestArm(), GaussianArms([0.3] + [0.0] * 9)),
    "one close rival (10)": (BestArm(), GaussianArms([1.0, 0.9] + [0.5] * 8)),
    "linear means (100)": (BestArm(), GaussianArms(np.linspace(1, 0, 100))),
    "gap 0.1 (2)": (BestArm(), GaussianArms([0.1, 0.0])),
    "gap 0.01 (2)": (BestArm(), GaussianArms([0.01, 0.0])),
    "top-3 of 10, spacing 0.1": (TopK(3), GaussianArms(-0.1 * np.arange(10))),
    "above 0.5, three groups (10)": (Above(0.5), GaussianArms(LOCATELLI)),
    "minimum below 0.6: 0.5, 0.6 (2)": (MinimumBelow(0.6), GaussianArms([0.5, 0.6])),
}
ASKED = ((2.95, 5.0), (3.1, 4.4), (2.4, 4.65), (3.4, 8.7), (2.0, 5.2), (3.15, 5.2), (2.8, 5.6), (3.4, 4.9))
LIMITS = dict(zip(list(INSTANCES)[:5] + list(INSTANCES)[6:], ASKED, strict=True))  # samples over the bound, batches

_DRAW = np.random.default_rng(2024)
HELD_OUT = {
    "best of 20, normal means (sd 0.3)": (BestArm(), GaussianArms(_DRAW.normal(0, 0.3, 20))),
    "best of 6, geometric gaps 0.05 to 0.8": (BestArm(), GaussianArms([0.0, -0.05, -0.1, -0.2, -0.4, -0.8])),
    "above 0: 20 normal means (sd 0.5)": (Above(0.0), GaussianArms(_DRAW.normal(0, 0.5, 20))),
    "top-5 of 20, uniform means": (TopK(5), GaussianArms(_DRAW.uniform(0, 2, 20))),
    "minimum below 0: five arms, one at -0.2": (MinimumBelow(0.0), GaussianArms([-0.2, 0.0, 0.1, 0.2, 0.5])),
    "any above 0: eight arms, all below": (AnyAbove(0.0), GaussianArms(-np.linspace(0.1, 0.6, 8))),
}

HELD_BEFORE = (3.376, 3.049, 4.282, 3.970, 6.305, 2.958)  # the same of the Wager without parts (commit 86f2aa5)

EASY = {
    "gap 2 (3)": GaussianArms([2.0, 0.0, 0.0]),
    "gap 1 (2)": GaussianArms([1.0, 0.0]),
    "gap 1.5 (10)": GaussianArms([1.5] + [0.0] * 9),
    "equal gaps 0.3 (100)": GaussianArms([0.3] + [0.0] * 99),
    "1, 0.9, 0.8 and 97 times 0 (100)": GaussianArms([1.0, 0.9, 0.8] + [0.0] * 97),
    "linear means (1000)": GaussianArms(np.linspace(1, 0, 1000)),
}

MANY = {
    "linear means (100)": GaussianArms(np.linspace(1, 0, 100)),
    "equal gaps 0.3 (100)": EASY["equal gaps 0.3 (100)"],
    "1, 0.9, 0.8 and 97 times 0 (100)": EASY["1, 0.9, 0.8 and 97 times 0 (100)"],
    "1 - sqrt(i/99) (100)": GaussianArms(1 - np.sqrt(np.linspace(0, 1, 100))),
    "linear means (1000)": EASY["linear means (1000)"],
}

CROWD = [1.0 + 1e-6, *np.linspace(1, 0, 119)]

HARD = {
    "best arm, two arms 10^-6 apart": (BestArm(), GaussianArms([1e-6, 0.0]), SIGMA_1, Wager(), 20),
    "the same, first batch of 4": (BestArm(), GaussianArms([1e-6, 0.0]), SIGMA_1, Wager(first_pulls=4), 20),
    "best arm, ten arms, the best by 10^-6": (BestArm(), GaussianArms([1e-6] + [0.0] * 9), SIGMA_1, Wager(), 8),
    "best arm, 120 arms, a crowd, the best by 10^-6": (BestArm(), GaussianArms(CROWD), SIGMA_1, Wager(), 8),
    "best of 15, eight tie in front": (
        BestArm(), GaussianArms([0.5 + 1e-6] + [0.5] * 7 + [-0.5] * 7), SIGMA_1, Wager(), 8),
    "best of 20, two tie": (
        BestArm(), GaussianArms([1.0 + 1e-6, 1.0, *np.linspace(0.7, 0.0, 18)]), SIGMA_1, Wager(), 8),
    "best of 30, all equal to 10^-6": (BestArm(), GaussianArms([1e-6] + [0.0] * 29), SIGMA_1, Wager(), 8),
    "minimum on the level": (MinimumBelow(0.0), GaussianArms([0.0, 0.0]), SIGMA_1, Wager(), 12),
    "top-2 of 4, a tie at the cut": (TopK(2), GaussianArms([1.0, 1e-6, 0.0, -1.0]), SIGMA_1, Wager(), 10),
    "top-2 of 4, all equal to 10^-6": (TopK(2), GaussianArms([1.5e-6, 1e-6, 5e-7, 0.0]), SIGMA_1, Wager(), 10),
    "top-2 of 4, all equal, first batch of 4": (
        TopK(2), GaussianArms([1.5e-6, 1e-6, 5e-7, 0.0]), SIGMA_1, Wager(first_pulls=4), 10),
    "top-3 of 6, a tie of four": (
        TopK(3), GaussianArms([1.0, 2e-6, 1e-6, 5e-7, 0.0, -1.0]), SIGMA_1, Wager(), 10),
    "above, one of four arms on the level": (Above(0.0), GaussianArms([0.0, 0.5, -0.5, 1.0]), SIGMA_1, Wager(), 12),
    "0/1, two rates of 0.1, first 8": (BestArm(), BernoulliArms([0.1 + 1e-9, 0.1]), Binary(), Wager(first_pulls=8), 12),
    "the same with sigma = 1/2": (
        BestArm(), BernoulliArms([0.1 + 1e-9, 0.1]), SubGaussian(0.5), Wager(first_pulls=8), 12),
    "0/1, two rates of 0.5": (BestArm(), BernoulliArms([0.5 + 1e-9, 0.5]), Binary(), Wager(), 10),
    "0/1, four of 12 rates tie in front, 0.3 and 0.15": (
        BestArm(), BernoulliArms([0.3 + 1e-9] + [0.3] * 3 + [0.15] * 8), Binary(), Wager(), 8),
    "Poisson, two rates of 1": (BestArm(), PoissonArms([1.0 + 1e-9, 1.0]), Poisson(), Wager(), 10),
    "Poisson, top-2 of 4, all equal": (
        TopK(2), PoissonArms([1.0 + 2e-9, 1.0 + 1e-9, 1.0, 1.0 - 1e-9]), Poisson(), Wager(), 8),
    "values in a range, 0 or 1, two rates of 0.1": (
        BestArm(), BernoulliArms([0.1 + 1e-9, 0.1]), Bounded(0.0, 1.0), Wager(), 8),
    "two arms, unknown variance": (BestArm(), GaussianArms([1e-6, 0.0]), Normal(), Wager(), 12),
    "top-2 of 4, all equal, unknown deviations": (
        TopK(2), GaussianArms([1.5e-6, 1e-6, 5e-7, 0.0]), Normal(), Wager(), 8),
    "the same, first batch of 8": (
        TopK(2), GaussianArms([1.5e-6, 1e-6, 5e-7, 0.0]), Normal(), Wager(first_pulls=8), 8),
    "the same, equal deviations": (
        TopK(2), GaussianArms([1.5e-6, 1e-6, 5e-7, 0.0]), EqualVariances(), Wager(first_pulls=8), 8),
    "two arms, batches dear (X = 12)": (BestArm(), GaussianArms([1e-6, 0.0]), SIGMA_1, Wager(batch_price=600), 12),
    "two arms, batches cheap (X = 1.5)": (BestArm(), GaussianArms([1e-6, 0.0]), SIGMA_1, Wager(batch_price=30), 20),
}  # fmt: skip
