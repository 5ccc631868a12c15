"""A server for the tests of the page and the API, and studies to look at."""

from contextlib import contextmanager
from pathlib import Path

import numpy as np

from roundwise import Above, BestArm, Binary, Claims, TopK, create_study
from serving import serving

ARMS = ("Control", "Short form", "Big button", "Guest checkout")
RATES = dict(zip(ARMS, (0.31, 0.30, 0.345, 0.42), strict=True))


def rows_of(asked, rates, seed):
    """Rows of a round: an id, the arm and a 0/1 outcome, in random order."""
    rng = np.random.default_rng(seed)
    rows = [
        (arm, int(value))
        for arm, pulls in zip(asked.arms, asked.pulls, strict=True)
        for value in rng.binomial(1, rates[arm], int(pulls))
    ]
    return [(f"{seed}-{i}", *rows[j]) for i, j in enumerate(rng.permutation(len(rows)))]


def table_of(asked, rates=RATES, seed=1, heads=("user_id", "variant", "converted")):
    """The same as a CSV text."""
    return "\n".join([",".join(heads), *(",".join(map(str, row)) for row in rows_of(asked, rates, seed))]) + "\n"


def example(storage, name="checkout", rounds=3, arms=ARMS, rates=RATES, question=None, **settings):
    """A study with a few rounds told, and the next one asked for."""
    words = {"round": 600, "budget": 12_000, "seed": 1, **settings}
    with create_study(
        name, question=question or BestArm(), arms=arms, noise=Binary(), storage=storage, **words
    ) as study:
        for number in range(1, rounds + 1):
            asked = study.ask()
            if asked is None:
                return
            columns = list(zip(*rows_of(asked, rates, number), strict=True))
            study.tell({"user_id": columns[0], "arm": columns[1], "outcome": columns[2]})
        study.ask()


def examples(storage):
    """Studies of every kind of page."""
    example(storage, rates=dict(zip(ARMS, (0.31, 0.30, 0.345, 0.38), strict=True)))
    example(storage, "decided/2025", rounds=30)
    doses = ("Placebo", "75 mg", "300 mg")
    rates = dict(zip(doses, (0.3, 0.3, 0.6), strict=True))
    example(storage, "dose", 2, doses, rates, Claims.against_control(doses, "Placebo"), round=200)
    prompts = tuple("ABCDE")
    example(storage, "top two", 1, prompts, dict.fromkeys(prompts, 0.5), TopK(2))
    hostile = ("<img src=x onerror=alert(1)>", "'; drop table study; --", "“ü”")
    example(storage, "<b>hostile</b>", 1, hostile, dict.fromkeys(hostile, 0.5), Above(0.3))
    create_study("empty", question=BestArm(), arms=["a", "b"], noise=Binary(), storage=storage, seed=1).close()


@contextmanager
def served(storage, tokens=""):
    """The address of a server that runs in a thread."""
    with serving(storage, tokens) as (address, _):
        yield address


AXE = Path(__file__).parent / "axe" / "axe.min.js"
