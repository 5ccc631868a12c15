"""What commands cost as a log grows: CPU of `ask`, `tell` and reading the state after many batches and after few.

    python benchmarks/log.py [batches] [best-arm | claims | claims-budget]        (default 10 000, best-arm)

The arms are alike, so that the study goes on; claims have no budget, or one that lasts. The long log is made in memory
and put into the store at once; every measurement opens the study anew, as a command does.
"""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import UTC, datetime

import numpy as np

from roundwise import BestArm, Binary, Claims, ConditionalPower, load_study
from roundwise.policies import Wager
from roundwise.store import open_store
from roundwise.store.log import Head, chain_entries, encode_payload
from roundwise.study.spec import StudySpec
from roundwise.study.state import replay
from roundwise.study.study import Study

ARMS = ("a", "b", "c")
PULLS = 20  # of each arm, in a batch
TIMES = 15  # measurements; the median is printed


class Kept:
    """A store that keeps what is appended in a list."""

    def __init__(self, first):
        self.entries = [first]

    def append(self, name, new, expected, overview=None):
        """After the last entry."""
        last = self.entries[-1]
        texts = [(kind, encode_payload(payload)) for kind, payload in new]
        self.entries += chain_entries(name, Head(last.seq + 1, last.digest, last.at), texts, datetime.now(UTC))


class InMemory(Study):
    """A study whose state stays where it is."""

    def __init__(self, settings):
        (first,) = chain_entries("s", Head(), [("created", encode_payload(settings.to_json()))], datetime.now(UTC))
        super().__init__("s", Kept(first))
        self._now = replay([first])

    @property
    def state(self):
        """Where the study stands; batches that were counted are forgotten, as when it is loaded anew."""
        self._now.recent = [each for each in self._now.recent if not each.counted]
        return self._now


def settings(which, most):
    """The study: which question, for so many batches."""
    if which == "best-arm":
        policy = Wager(first_pulls=PULLS, growth=0.5, max_batch=len(ARMS) * PULLS)
        return StudySpec(question=BestArm(), arms=ARMS, noise=Binary(), delta=1e-9, policy=policy, seed=1)
    size = len(ARMS) * PULLS
    budget = None if which == "claims" else 10 * size * (most + TIMES)
    claims = Claims.against_control(ARMS, ARMS[0])
    return StudySpec(
        question=claims,
        arms=ARMS,
        noise=Binary(),
        delta=1e-9,
        policy=ConditionalPower(),
        seed=1,
        budget=budget,
        round_size=size,
        split=(1.0,) * len(ARMS),
    )


def batch(asked, rng):
    """The results of a batch as sums."""
    counts = asked.pulls.astype(int)
    return {"arm": list(ARMS), "count": counts.tolist(), "successes": rng.binomial(counts, 0.5).tolist()}


def cpu(action):
    """CPU seconds of an action, and what it returned."""
    start = time.process_time()
    found = action()
    return time.process_time() - start, found


def measured(entries, rng):
    """CPU seconds of one `ask`, one `tell`, one `status` and one look at the state, each with the study opened anew."""
    spent = {"ask": [], "tell": [], "status": [], "state": []}
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/log.db"
        with open_store(url) as store:
            store.put(entries)
        for _ in range(TIMES):
            with load_study("s", url) as study:
                seconds, asked = cpu(study.ask)
                spent["ask"].append(seconds)
            with load_study("s", url) as study:
                results = batch(asked, rng)
                spent["tell"].append(cpu(lambda: study.tell(results, new=True))[0])  # noqa: B023 - called here
            with load_study("s", url) as study:
                spent["status"].append(cpu(study.status)[0])
            with load_study("s", url) as study:
                spent["state"].append(cpu(lambda: study.state.trial)[0])
    return {what: float(np.median(values)) for what, values in spent.items()}


def main():
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    which = sys.argv[2] if len(sys.argv) > 2 else "best-arm"
    rng = np.random.default_rng(1)
    study = InMemory(settings(which, most))
    found = {}
    for number in range(1, most + 1):
        study.tell(batch(study.ask(), rng), new=True)
        if number in (10, most):
            size = len(next(each for each in reversed(study.store.entries) if each.kind == "counted").text)
            print(f"after {number} batches the state takes {size} characters", flush=True)
            found[number] = measured(study.store.entries, rng)
    few, many = found[10], found[most]
    for what in few:
        print(
            f"{what:6s}{1e3 * few[what]:8.2f} ms after 10 batches, {1e3 * many[what]:8.2f} ms after {most}: "
            f"{many[what] / few[what]:.2f} times"
        )


if __name__ == "__main__":
    main()
