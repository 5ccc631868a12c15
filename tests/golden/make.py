"""Golden logs: exported studies of every question and noise model, decided or open, and one for every event that may
happen to a study. Each format keeps its own, and every later version must open, continue, verify and report them.

    PYTHONPATH=src python tests/golden/make.py        writes tests/golden/format-N/*.jsonl.gz

They are made once, when a format is frozen, and never again.
"""

from __future__ import annotations

import gzip
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from roundwise import PET, Above, AnyAbove, BestArm, MinimumBelow, RoundRobin, TopK, TrackAndStop, Wager
from roundwise.noise import Binary, Bounded, Gaussian, Normal, Poisson, SubGaussian
from roundwise.policies import OptBBAI, usual_policy
from roundwise.questions import Claims, Largest, Statements
from roundwise.store import EventKind, log_lines, read_log
from roundwise.store.log import FORMAT, Head, chain_entries, encode_payload, search_keys
from roundwise.study.spec import StudySpec
from roundwise.study.study import Study

HERE = Path(__file__).parent
ARMS = ("a", "b", "c")
NOISES = {
    "normal": Gaussian(0.3),
    "sub-gaussian": SubGaussian(0.3),
    "unknown": Normal(),
    "binary": Binary(),
    "bounded": Bounded(0.0, 1.0),
    "poisson": Poisson(),
}
QUESTIONS = {
    "best-arm": BestArm(),
    "tolerance": BestArm(tolerance=0.05),
    "top-k": TopK(2),
    "above": Above(0.4),
    "any-above": AnyAbove(0.6),
    "minimum-below": MinimumBelow(0.3),
    "statements": Statements.against_control(3, 0),
    "largest": Largest([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]),
    "claims": Claims.against_control(ARMS, control="a"),
}
CLEAR, ALIKE = (0.1, 0.5, 0.9), (0.4, 0.42, 0.41)  # means at which a study is soon decided, and at which it is not


def read(path, folder):
    """The entries of a log that was kept."""
    plain = folder / "log.jsonl"
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    return read_log(plain)


class Kept:
    """A store that keeps entries in a list."""

    def __init__(self, entries):
        self.entries = list(entries)

    def append(self, name, new, expected, overview=None):
        """After the last entry."""
        assert self.entries[-1].seq == expected
        last = self.entries[-1]
        texts = [(kind, encode_payload(payload)) for kind, payload in new]
        made = chain_entries(name, Head(last.seq + 1, last.digest, last.at), texts, datetime.now(UTC))
        self.entries += made
        return made

    def recent(self, name):
        """The first entry and those from the last checkpoint on."""
        kept = [i for i, each in enumerate(self.entries) if each.kind == EventKind.CHECKPOINT]
        return [self.entries[0], *self.entries[kept[-1] if kept else 1 :]]

    def read(self, name):
        """All."""
        return list(self.entries)

    def find(self, name, key):
        """By what an entry can be found."""
        return [each for each in self.entries if key in search_keys(each.kind, each.payload)]

    def close(self):
        """Nothing to let go of."""


class InMemory(Study):
    """A study whose log is a list."""

    def __init__(self, entries):
        super().__init__(entries[0].study, Kept(entries))


def new(name, settings):
    """A study that was just created."""
    return InMemory(chain_entries(name, Head(), [("created", encode_payload(settings.to_json()))], datetime.now(UTC)))


def results(asked, noise, means, rng):
    """What a batch may bring: rows where the noise model has use for them, sums else."""
    n = asked.pulls.astype(int)
    at = dict(zip(ARMS, means, strict=True))
    rates = np.array([at.get(arm, 0.5) for arm in asked.arms])
    if isinstance(noise, Binary):
        return {"arm": list(asked.arms), "count": n.tolist(), "successes": rng.binomial(n, rates).tolist()}
    rows = np.repeat(rates, n)
    if isinstance(noise, Bounded):
        drawn = rng.binomial(4, rows) / 4
    elif isinstance(noise, Poisson):
        drawn = rng.poisson(rows)
    else:
        drawn = np.round(rng.normal(rows, 0.3), 3)
    if noise.needs in ("rows", "squares"):
        return {"arm": np.repeat(asked.arms, n).tolist(), "outcome": drawn.tolist()}
    sums = [float(part.sum()) for part in np.split(drawn, np.cumsum(n)[:-1])]
    return {"arm": list(asked.arms), "count": n.tolist(), "total": sums}


def step(study, means, rng):
    """One batch; None once the study is over."""
    asked = study.ask()
    if asked is not None:
        study.tell(results(asked, study.state.spec.noise, means, rng), new=True)
    return asked


def plain():
    """Every question with two noise models, decided and open."""
    for i, (question, asked) in enumerate(QUESTIONS.items()):
        for noise, model in [list(NOISES.items())[k % len(NOISES)] for k in (i, i + 3)]:
            policy = Wager(first_pulls=12, growth=1.0, max_batch=90) if question != "claims" else usual_policy(asked)
            budget, size = (270, 90) if question == "claims" else (None, None)
            settings = StudySpec(
                question=asked, arms=ARMS, noise=model, delta=0.1, policy=policy, seed=7, budget=budget, round=size
            )
            rng = np.random.default_rng(11)
            decided = new(f"{question} {noise} decided", settings)
            for _ in range(30):
                if step(decided, CLEAR, rng) is None:
                    break
            if noise == list(NOISES)[i % len(NOISES)]:
                yield decided
                continue
            still = new(f"{question} {noise} open", settings)
            for _ in range(2):
                if still.state.decided is None:
                    step(still, ALIKE, rng)
            if (waiting := still.ask()) is not None:
                part = results(waiting, model, ALIKE, rng)
                still.tell({key: values[:1] for key, values in part.items()})
            yield still


def eventful():
    """What may happen to a study."""
    rng = np.random.default_rng(3)

    def begun(name, question=None, noise=None, policy=None, **more):
        more["max_round"], more["min_per_arm"] = more.pop("limits", (None, 0))
        policy = policy or Wager(first_pulls=12, growth=1.0)
        question, noise = question or BestArm(), noise or Binary()
        return new(name, StudySpec(question=question, arms=ARMS, noise=noise, delta=0.1, policy=policy, seed=7, **more))

    for name, policy, limits in (
        ("pet", PET(guess=2), (None, 0)),
        ("pet limited", PET(guess=2), (100, 5)),
        ("opt-bbai", OptBBAI(), (None, 0)),
        ("round-robin", RoundRobin(), (None, 0)),
        ("track-and-stop", TrackAndStop(), (None, 0)),
    ):
        study = begun(name, noise=Gaussian(0.3), policy=policy, limits=limits)
        for _ in range(2):
            step(study, ALIKE, rng)
        yield study
    study = begun("amended")
    step(study, CLEAR, rng)
    study.amend(
        study.state.rounds[0].files[0].digest, {"arm": ["a", "b"], "count": [9, 9], "successes": [1, 4]}, "wrong"
    )
    step(study, ALIKE, rng)
    yield study
    study = begun("closed early, reopened", budget=200)
    asked = study.ask()
    study.tell({"arm": ["a"], "count": [int(asked.pulls[0])], "successes": [3]}, round_over="strike")
    study.end("no money")
    study.reopen("money came")
    study.extend(400)
    study.note("all is well")
    yield study
    study = begun("arms left and joined")
    step(study, ALIKE, rng)
    study.add("d", "a new idea")
    step(study, ALIKE, rng)
    study.drop("b", "sold out")
    step(study, ALIKE, rng)
    yield study
    study = begun("warm_started")
    study.import_past({"arm": list(ARMS), "count": [100] * 3, "successes": [10, 50, 90]})
    step(study, ALIKE, rng)
    yield study
    study = begun("rounds", round=60, split=(2.0, 1.0, 1.0))
    step(study, ALIKE, rng)
    yield study
    study = begun("results after the decision")
    while study.state.decided is None:
        step(study, CLEAR, rng)
    study.tell({"arm": ["a"], "count": [50], "successes": [25]})
    yield study
    study = begun("many batches", policy=Wager(first_pulls=10, growth=0.5, max_batch=30))
    for _ in range(22):
        step(study, ALIKE, rng)
    yield study


def logs():
    """All golden logs, as entries."""
    for study in (*plain(), *eventful()):
        yield study.entries()


def main():
    """Write them for this version."""
    folder = HERE / f"format-{FORMAT}"
    if folder.exists():
        sys.exit(f"{folder} is there already: golden logs are made once.")
    folder.mkdir()
    whole = 0
    for entries in logs():
        data = gzip.compress("".join(log_lines(entries)).encode(), mtime=0)
        (folder / f"{entries[0].study.replace(' ', '_').replace(',', '')}.jsonl.gz").write_bytes(data)
        whole += len(data)
    print(f"{len(list(folder.iterdir()))} logs, {whole} bytes, in {folder}")


if __name__ == "__main__":
    main()
