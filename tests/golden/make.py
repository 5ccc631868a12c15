"""Golden logs: exported studies of every question, noise model, policy and setting, decided or open, and one for every
event that may happen to a study. Each format keeps its own, and every later version must open, continue, verify and
report them.

    PYTHONPATH=src python tests/golden/make.py            writes the logs that tests/golden/format-N lacks
    PYTHONPATH=src python tests/golden/make.py --anew     writes all of them again, as long as the format is not frozen

A new setting, noise model, question or policy needs a case: a line in `DECLARED` (a study of a few rounds), or one in
`eventful` for what happens to a study later. `tests/test_golden.py` names what no log has yet. Cases are never changed
once a release has written them; a study of an unreleased format that cannot be read any more is written anew.
"""

from __future__ import annotations

import argparse
import gzip
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from roundwise import (
    PET,
    Above,
    AnyAbove,
    BestArm,
    BestGroup,
    Metric,
    MinimumBelow,
    RoundRobin,
    TopK,
    TrackAndStop,
    Wager,
)
from roundwise.ingest import Columns, Reading
from roundwise.model.spec import from_spec
from roundwise.noise import (
    Binary,
    Bounded,
    BoundedVariance,
    Capped,
    EqualVariances,
    Gaussian,
    HeteroscedasticGaussian,
    LargeSample,
    Normal,
    Poisson,
    SubGaussian,
)
from roundwise.policies import Designed, Lockstep, OptBBAI, usual_policy
from roundwise.questions import Claims, Largest, Linear, Statements
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
PLANE = Linear(BestArm(), [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
CONTROL = Claims.against_control(ARMS, "a")
LATENCY = Metric("latency", LargeSample(min_rows=20), "guardrail", 0.2, lower_is_better=True, column="ms", unit="ms")
STARS = Metric("stars", Bounded(0.0, 1.0), "secondary")
SPEND = Metric("spend", LargeSample(min_rows=20), "guardrail", 1.0, denominator="sessions")
# studies of a few rounds: what is declared, beyond arms a, b, c, delta 0.1, rounds of 90 and the seed 7
DECLARED: dict[str, dict[str, Any]] = {
    # designs
    "designed": {"noise": Binary(), "budget": 600, "lead": 0.2, "looks": 3, "round_size": None},
    "designed for fewer": {
        "question": BestArm(lower_is_better=True), "noise": EqualVariances(), "budget": 500, "lead": 0.4,
        "round_size": None,
    },
    "designed levels": {"question": AnyAbove(0.6), "noise": Poisson(), "budget": 800, "lead": 0.2, "round_size": None},
    "designed in chosen rounds": {"noise": Bounded(0.0, 1.0), "budget": 400, "lead": 0.2, "split": "equal"},
    # noise models
    "own variances": {"noise": Normal()},
    "same variance": {"noise": EqualVariances(), "unit": "s"},
    "capped": {"noise": Capped(1.5, 0.1)},
    "large-sample": {"noise": LargeSample(), "delta": 0.2, "round_size": 300},
    "large-sample of 40": {"question": TopK(2, lower_is_better=True), "noise": LargeSample(min_rows=40)},
    "large-sample claims": {"question": CONTROL, "noise": LargeSample(min_rows=40), "budget": 270},
    "bounded variance": {"noise": BoundedVariance(0.1)},
    "deviations": {"noise": HeteroscedasticGaussian((0.2, 0.3, 0.4))},
    # lower is better, tolerances, names
    "lower above": {"question": Above(0.4, 0.05, lower_is_better=True), "noise": Binary()},
    "lower any above": {"question": AnyAbove(0.6, 0.05, lower_is_better=True), "noise": Gaussian(0.3)},
    "minimum below, tolerance": {"question": MinimumBelow(0.3, 0.05), "noise": Binary()},
    "top-k, tolerance": {"question": TopK(1, 0.05), "noise": Normal()},
    "statements with names": {
        "question": Statements([[1.0, -1, 0], [0, 1, -1]], [0.0, 0.1], ("a > b", "b > c"), 0.01),
        "noise": Binary(),
    },
    "statements for fewer": {
        "question": Statements.against_control(3, 0, lower_is_better=True), "noise": Gaussian(0.3),
    },
    "largest of combinations": {
        "question": Largest([[1.0, 1, 0], [0, 1, 1]], [0.1, 0.0], ("ab", "bc"), 0.01, lower_is_better=True),
        "noise": Normal(),
    },
    "best group": {"question": BestGroup(("one", "other", "one")), "noise": Binary()},
    "linear": {"question": PLANE, "noise": Gaussian(0.3), "round_size": None},
    # claims
    "claims for fewer": {
        "question": Claims.against_control(ARMS, "a", 0.05, weights=[1.0, 2.0], lower_is_better=True),
        "noise": Binary(), "budget": 270,
    },
    "claims with futility": {
        "question": Claims.against_control(ARMS, "a", futility=0.3), "noise": Binary(), "split": (2, 1, 1),
    },
    "claims on two sides of odds": {
        "question": Claims.against_control(ARMS, "a", 1.0, sides="two", scale="odds-ratio"), "noise": Binary(),
        "budget": 270,
    },
    "independent claims": {"question": Claims.above(ARMS, 0.4, independent=True), "noise": Binary()},
    "guardrails": {"question": CONTROL, "noise": Binary(), "metrics": (LATENCY, STARS), "budget": 360},
    "guardrails without a budget": {
        "question": Claims.against_control(ARMS, "a", sides="two"), "noise": Normal(), "metrics": (STARS,),
    },
    # files
    "covariate": {"question": CONTROL, "noise": Normal(), "columns": Columns(id="user", covariate="before")},
    "covariate of a best arm": {"noise": LargeSample(min_rows=40), "columns": Columns(id="user", covariate="before")},
    "ratio": {"noise": LargeSample(min_rows=40), "columns": Columns(id="user", denominator="sessions")},
    "guardrail that is a ratio": {
        "question": CONTROL, "noise": Normal(), "metrics": (SPEND,), "budget": 270, "columns": Columns(id="user"),
        "reading": Reading(id_result="sum"),
    },
    "named columns": {
        "noise": Binary(),
        "columns": Columns(arm="variant", outcome="bought", id="user", time="day"),
        "reading": Reading("zero", "sum", "7d", "left-out", share_above=0.5),
    },
    "shares below": {"noise": Binary(), "reading": Reading("missing", share_below=0.5)},
    "items of 0/1": {"noise": Binary(), "columns": Columns(item="question")},
    "list": {"noise": Binary(), "list": [f"question {i}" for i in range(150)], "round_size": None},
    "prices": {"noise": Binary(), "prices": {"a": 1, "b": 5, "c": 20}, "round_size": None},
    "prices that are told": {"noise": Binary(), "columns": Columns(cost="paid"), "round_size": None},
    "list, top-k": {"question": TopK(2), "noise": Binary(), "list": 150, "round_size": None},
    "list of which requests fail": {
        "noise": Binary(), "list": 90, "reading": Reading(failed_is=0, arm_names={"org/a": "a"}), "round_size": None,
        "same_list": ("list",),
    },
    "list, above": {"question": Above(0.5), "noise": Binary(), "list": 150, "round_size": None},
    "list, claims": {"question": CONTROL, "noise": Binary(), "list": 150, "round_size": None},
    "list of a range, strict": {
        "question": BestArm(lower_is_better=True), "noise": Bounded(0.0, 1.0), "max_round_size": 90,
        "list": {"size": 80, "repeats": 2, "order": "given", "strict": True}, "round_size": None,
    },
    "list, largest cost": {
        "noise": Binary(), "round_size": None, "list": 60, "prices": {"a": 1, "b": 5, "c": 20}, "max_cost": 800,
    },
    "largest cost": {"noise": Binary(), "prices": {"a": 1, "b": 5, "c": 20}, "max_cost": 2500},
    "list, known": {
        "noise": Binary(), "round_size": None,
        "list": {"size": 60, "known": {"score": [k % 7 / 7 for k in range(60)]}},
    },
    "items of a range": {"noise": Bounded(0.0, 1.0), "columns": Columns(item="question")},
    "items, normal": {"question": CONTROL, "noise": Normal(), "columns": Columns(item="question"), "budget": 270},
} | {  # policies and thresholds, with the rounds they plan
    text: {"policy": from_spec("policy", text), "noise": Gaussian(0.3), "round_size": None, **more}
    for text, more in {
        "wager:batch_price=50,max_batch=200,min_per_arm=5": {"noise": Binary()},
        "wager:growth=0.5": {},
        "wager:looks=3": {},
        "designed:price=0.1,max_batch=200": {"budget": 500, "lead": 0.2},
        "pet:threshold=counts,kl_weights=yes": {},
        "round-robin:threshold=pairwise": {},
        "track-and-stop:threshold=heuristic,tracking=C": {},
        "tri-bbai": {},
        "elimination:first_pulls=50": {"question": TopK(2)},
        "hillel": {},
        "agarwal": {},
        "jin-2019": {"question": BestArm(0.3)},
        "karpov": {},
        "batch-racing:batch=90,most=60": {},
        "rage": {"question": PLANE},
        "classic-track-and-stop:batch=30,threshold=log-det": {"question": PLANE},
        "lucb:batch=60": {},
        "top-two:batch=30,threshold=sum": {},
        "sticky-track-and-stop:batch=30,threshold=sum": {},
        "sequential-halving:budget=300,rounds=3": {},
        "successive-rejects:budget=300": {},
    }.items()
}  # fmt: skip


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


def draw(noise, rows, rng):
    """A result of each row, which has this mean (or nearly)."""
    if isinstance(noise, Binary):
        return rng.binomial(1, rows)
    if isinstance(noise, Capped):
        return np.round(rng.exponential(rows), 3)
    if isinstance(noise, Bounded):
        return rng.binomial(4, rows) / 4
    if isinstance(noise, Poisson):
        return rng.poisson(rows)
    low, high, whole = noise.outcome[:3]
    return np.clip(np.round(rng.normal(rows, 0.3), 0 if whole else 3), low, high)


def table(asked, spec, rates, rng):
    """What a batch may bring, as rows with all columns that the study names."""
    n, columns = asked.pulls.astype(int), spec.columns
    place = np.concatenate([np.arange(each) for each in n])
    rows = np.repeat(rates, n)
    outcome = rng.normal(rows, 0.3) if spec.reading.shares else draw(spec.noise, rows, rng)
    found = {columns.arm or "arm": np.repeat(asked.arms, n).tolist(), columns.outcome or "outcome": outcome.tolist()}
    if columns.id is not None:
        found[columns.id] = [f"u{asked.number}-{i}" for i in range(len(rows))]
    if spec.list is not None:
        found[columns.item] = [item for arm in asked.arms for item in asked.items.get(arm, ())]
    elif columns.item is not None:
        found[columns.item] = [f"q{asked.number}-{i}" for i in place]
    if columns.cost is not None:
        found[columns.cost] = (0.25 + place % 4).tolist()
    if columns.covariate is not None:
        found[columns.covariate] = (outcome - rows + rng.normal(0.0, 0.3, len(rows))).tolist()
    for each in (columns.denominator, *(metric.denominator for metric in spec.metrics)):
        if each is not None:
            found[each] = rng.integers(0, 4, len(rows)).tolist()
    if columns.time is not None:  # an id comes back within the window, one too late; one waits, one has waited
        month = 2 * asked.number
        first, later, last = (f"2026-{m:02d}-{day}" for m, day in ((month - 1, "04"), (month - 1, "06"), (month, "04")))
        for key, values in found.items():
            values += values[:4] if key != columns.id else [*values[:2], f"w{asked.number}", f"w{asked.number - 1}"]
        before = f"2026-{month - 2:02d}-04" if month > 2 else first
        found[columns.time] = [first] * len(rows) + [later, last, last, before]
    if spec.reading.empty != "refused" or spec.reading.failed_is is not None:
        found[columns.outcome or "outcome"][2] = None
    return found | {each.title: draw(each.noise, rows, rng).tolist() for each in spec.metrics}


def results(asked, spec, means, rng):
    """What a batch may bring: rows where the study has use for them, sums else."""
    n, noise = asked.pulls.astype(int), spec.noise
    at = dict(zip(ARMS, means, strict=True))
    rates = np.array([at.get(arm, 0.5) for arm in asked.arms])
    if spec.columns.payload() or spec.reading.payload() or spec.metrics:
        return table(asked, spec, rates, rng)
    if isinstance(noise, Binary):
        return {"arm": list(asked.arms), "count": n.tolist(), "successes": rng.binomial(n, rates).tolist()}
    drawn = draw(noise, np.repeat(rates, n), rng)
    if noise.needs in ("rows", "squares", "cubes"):
        return {"arm": np.repeat(asked.arms, n).tolist(), "outcome": drawn.tolist()}
    sums = [float(part.sum()) for part in np.split(drawn, np.cumsum(n)[:-1])]
    return {"arm": list(asked.arms), "count": n.tolist(), "total": sums}


def step(study, means, rng):
    """One batch; None once the study is over."""
    asked = study.ask()
    if asked is not None:
        study.tell(results(asked, study.state.spec, means, rng), new=True)
    return asked


def plain():
    """Every question with two noise models, decided and open."""
    for i, (question, asked) in enumerate(QUESTIONS.items()):
        for noise, model in [list(NOISES.items())[k % len(NOISES)] for k in (i, i + 3)]:
            policy = Wager(first_pulls=12, growth=1.0, max_batch=90) if question != "claims" else usual_policy(asked)
            budget, size = (270, 90) if question == "claims" else (None, None)
            settings = StudySpec(
                question=asked, arms=ARMS, noise=model, delta=0.1, policy=policy, seed=7, budget=budget, round_size=size
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
                part = results(waiting, settings, ALIKE, rng)
                still.tell({key: values[:1] for key, values in part.items()})
            yield still


def declared():
    """Every setting: two rounds, then one that is waited for."""
    for name, settings in DECLARED.items():
        usual = {"question": BestArm(), "arms": ARMS, "delta": 0.1, "round_size": 90, "seed": 7}
        spec = StudySpec.declare(**usual | settings)
        rng, study = np.random.default_rng(5), new(name, spec)
        for _ in range(2):
            step(study, ALIKE, rng)
        study.ask()
        yield study


def eventful():
    """What may happen to a study."""
    rng = np.random.default_rng(3)

    def begun(name, question=None, noise=None, policy=None, **more):
        more["max_round_size"], more["min_per_arm"] = more.pop("limits", (None, 0))
        policy = policy or Wager(first_pulls=12, growth=1.0)
        question, noise = question or BestArm(), noise or Binary()
        return new(name, StudySpec(question=question, arms=ARMS, noise=noise, delta=0.1, policy=policy, seed=7, **more))

    for name, policy, limits in (
        ("pet", PET(guess=2), (None, 0)),
        ("pet limited", PET(guess=2), (100, 5)),
        ("opt-bbai", OptBBAI(), (None, 0)),
        ("opt-bbai, second version", OptBBAI(version=2), (None, 0)),
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
    study = begun("rounds", round_size=60, split=(2.0, 1.0, 1.0))
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
    study = begun("files", columns=Columns(id="row"))
    asked = study.ask()
    n = int(asked.pulls.sum())
    file = {"arm": np.repeat(asked.arms, asked.pulls.astype(int)), "outcome": rng.binomial(1, 0.4, n)}
    file |= {"row": np.arange(n), "user_id": np.arange(n) // 2}  # users have two rows, which nobody declared
    study.tell({key: values[:10] for key, values in file.items()}, {key: values[10:30] for key, values in file.items()})
    study.tell(file | {"outcome": np.where(np.arange(n) < 5, 1 - file["outcome"], file["outcome"])})
    yield study
    study = begun("relaxed", noise=Normal(), round_size=600)
    for last in (False, True):
        asked = study.ask()
        rows = np.repeat(asked.arms, asked.pulls.astype(int))
        spent = rng.exponential(20.0, len(rows)) * (rng.random(len(rows)) < 0.2)
        study.tell({"arm": rows.tolist(), "outcome": spent.round(2).tolist()})
        if not last:
            study.relax("few buy")
    yield study
    study = begun("designed, extended, arms left and joined", policy=Designed(), budget=500, lead=0.2)
    step(study, ALIKE, rng)
    study.extend(800)
    step(study, ALIKE, rng)
    study.drop("b", "sold out")
    step(study, ALIKE, rng)
    study.add("d", "a new idea", unrelated=True)
    yield study
    study = begun("list of which requests are given up, arms left and joined", policy=Lockstep(), list=120)
    for _ in range(2):
        asked = study.ask()
        file = table(asked, study.state.spec, np.array(ALIKE), rng)
        file["outcome"][3] = None
        study.tell(file, failed=True)
    study.add("d", "it was forgotten", unrelated=True)
    study.drop("b", "its license ended", unrelated=True)
    yield study
    study = begun("redesigned")
    step(study, ALIKE, rng)
    study.redesign(600, 0.2)
    step(study, ALIKE, rng)
    study.ask()
    study.redesign()
    study.drop("b", "sold out")
    yield study
    study = begun(
        "claims, extended, arms left and joined", CONTROL, policy=usual_policy(CONTROL), budget=270, round_size=90
    )
    step(study, ALIKE, rng)
    study.extend(450)
    study.add("d", "a new idea")
    step(study, ALIKE, rng)
    study.drop("b", "sold out")
    step(study, ALIKE, rng)
    yield study
    study = begun(
        "guardrails, an arm left", CONTROL, policy=usual_policy(CONTROL), metrics=(LATENCY,), budget=360, round_size=90
    )
    step(study, ALIKE, rng)
    study.drop("b", "sold out")
    study.extend(450)
    step(study, ALIKE, rng)
    yield study
    study = begun(
        "guardrails, an arm joined",
        CONTROL,
        policy=usual_policy(CONTROL),
        metrics=(LATENCY,),
        budget=360,
        round_size=90,
    )
    step(study, ALIKE, rng)
    study.add("d", "it was built later")
    step(study, ALIKE, rng)
    yield study
    listed = {"size": 60, "known": {"c": [float(k % 3 == 0) for k in range(60)]}}
    usual = {
        "question": BestArm(),
        "arms": (*ARMS, "d"),
        "noise": Binary(),
        "delta": 0.1,
        "seed": 7,
        "round_size": None,
    }
    study = new("list, a known arm, an arm left", StudySpec.declare(list=listed, **usual))
    step(study, ALIKE, rng)
    study.drop("b", "its license ended", unrelated=True)
    step(study, ALIKE, rng)
    yield study


def logs():
    """All golden logs, as entries."""
    for study in (*plain(), *declared(), *eventful()):
        yield study.entries()


def main():
    """Write them for this version."""
    parser = argparse.ArgumentParser(description="Write golden logs.")
    parser.add_argument("--anew", action="store_true", help="also those that are there")
    anew = parser.parse_args().anew
    folder = HERE / f"format-{FORMAT}"
    folder.mkdir(exist_ok=True)
    for entries in logs():
        name = re.sub(r"[^\w.=-]+", "_", entries[0].study)
        path = folder / f"{name}.jsonl.gz"
        if anew or not path.exists():
            path.write_bytes(gzip.compress("".join(log_lines(entries)).encode(), mtime=0))
    sizes = [each.stat().st_size for each in folder.iterdir()]
    print(f"{len(sizes)} logs, {sum(sizes)} bytes, in {folder}")


if __name__ == "__main__":
    main()
