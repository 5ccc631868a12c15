"""Live studies on both stores: whole studies to a decision, resuming as replaying, amendments, and what is refused."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest

import postgres
import roundwise
from roundwise import (
    GLR,
    PET,
    Above,
    AnyAbove,
    BestArm,
    Binary,
    Bounded,
    DataError,
    Gaussian,
    InputError,
    Largest,
    MinimumBelow,
    Normal,
    Poisson,
    RoundRobin,
    Statements,
    SubGaussian,
    TopK,
    TrackAndStop,
    Wager,
    advance,
    begin,
    create_study,
    final_answer,
    load_study,
)
from roundwise.errors import StudyExistsError, UnknownStudyError
from roundwise.policies import OptBBAI, TriBBAI
from roundwise.policies.base import Limited
from roundwise.report.text import name_answer
from roundwise.rules.eprocess.rule import EProcessRule
from roundwise.store import open_store
from roundwise.store.log import Head, chain_entries
from roundwise.study import replay
from roundwise.study.audit import audit_entries
from roundwise.thresholds import Lemma32ByCounts, LogLogHeuristic

ARMS = ("a", "b", "c", "d")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """A storage URL under which there is nothing yet."""
    return f"sqlite:///{tmp_path}/studies.db" if request.param == "sqlite" else postgres.server().fresh()


@pytest.fixture
def file(tmp_path):
    """A storage URL of SQLite, for what does not depend on the store."""
    return f"sqlite:///{tmp_path}/studies.db"


def drawn(noise, rng, mean, size):
    """Results of one arm."""
    if isinstance(noise, Binary):
        return rng.binomial(1, mean, size)
    if isinstance(noise, Poisson):
        return rng.poisson(mean, size)
    if isinstance(noise, Bounded):
        return noise.low + (noise.high - noise.low) * rng.beta(8 * mean, 8 * (1 - mean), size)
    return rng.normal(mean, 1.0, size)


class World:
    """Arms with these means, under the names of a study: a batch as a table of rows or of sums."""

    def __init__(self, noise, means, seed=0, names=ARMS, form="rows"):
        self.noise, self.means, self.names, self.form = noise, means, names, form
        self.rng = np.random.default_rng(seed)

    def __call__(self, pulls):
        found = [drawn(self.noise, self.rng, mean, int(n)) for mean, n in zip(self.means, pulls, strict=True)]
        if self.form == "rows":
            arms = [name for name, values in zip(self.names, found, strict=False) for _ in values]
            order = self.rng.permutation(len(arms))
            values = np.concatenate(found)
            return {"arm": [arms[i] for i in order], "outcome": values[order].astype(float)}
        some = [
            (name, len(values), values.sum()) for name, values in zip(self.names, found, strict=False) if len(values)
        ]
        names, counts, totals = zip(*some, strict=True)
        return {"arm": list(names), "count": list(counts), "total": [float(total) for total in totals]}


def finished(study, world, most=300):
    """The report of a study that was asked and told until it was decided."""
    report = None
    for _ in range(most):
        asked = study.ask()
        if asked is None:
            return report
        report = study.tell(world(asked.outstanding))
    raise AssertionError("the study did not end")


def plain_trial(settings, batches):
    """Plans and verdict of a trial in arrays that is fed the same batches."""
    problem, policy = settings.problem, settings.limited_policy
    trial = begin(problem, policy)
    plans = [trial.plan.pulls]
    for batch in batches:
        trial = advance(problem, policy, trial, batch)
        plans.append(trial.plan.pulls)
    return plans, settings.question.answer_to_json(final_answer(problem, policy, trial)) if trial.done else None


def same_as_a_plain_trial(study):
    state = study.state
    plans, answer = plain_trial(state.spec, state.batches)
    assert len(plans) == len(state.rounds) + 1
    for plan, asked in zip(plans, state.rounds, strict=False):
        assert np.array_equal(plan, asked.pulls)
    assert answer == state.decided["answer"]


CONTROL = Statements.against_control(4, 3, 0.1)
QUESTIONS = [
    (BestArm(), (0.0, 1.0, 0.2, 0.1), 1),
    (BestArm(0.3), (1.0, 1.0, 0.0, 0.1), (0, 1)),
    (TopK(2), (0.0, 1.5, 0.2, 1.3), [1, 3]),
    (Above(0.5), (0.0, 1.0, -0.2, 1.2), [1, 3]),
    (MinimumBelow(0.0), (1.0, 1.0, -1.0, 1.0), True),
    (MinimumBelow(0.0), (1.0, 1.0, 1.0, 1.0), False),
    (AnyAbove(0.5), (0.0, 1.5, 0.0, 0.0), True),
    (CONTROL, (1.0, -1.0, 1.5, 0.0), [0, 2]),
    (Largest([[1, 1, 0, 0], [0, 0, 1, 1]], None, ("left", "right")), (0.0, 0.0, 1.0, 1.0), 1),
]


class TestWholeStudies:
    @pytest.mark.long
    @pytest.mark.parametrize(("question", "means", "answer"), QUESTIONS, ids=lambda each: getattr(each, "name", None))
    def test_every_question(self, url, question, means, answer):
        with create_study("q", question=question, arms=ARMS, noise=Gaussian(1.0), storage=url) as study:
            report = finished(study, World(Gaussian(1.0), means))
            assert report.status == "decided"
            right = answer if isinstance(answer, tuple) else (answer,)
            assert report.answer in [name_answer(question, each, ARMS) for each in right]
            same_as_a_plain_trial(study)
            assert study.ask() is None

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("noise", "form"),
        [
            (noise, form)
            for noise in (Gaussian(1.0), SubGaussian(1.0), Bounded(-1, 3), Binary(), Poisson(), Normal())
            for form in ("rows", "sums")
            if (noise, form) != (Normal(), "sums")  # which need squares; see below
        ],
    )
    def test_every_noise_model(self, url, noise, form):
        rates = (0.1, 0.5, 0.9, 0.4) if not isinstance(noise, Poisson) else (1.0, 2.0, 4.0, 2.0)
        with create_study("n", question=BestArm(), arms=ARMS, noise=noise, storage=url) as study:
            report = finished(study, World(noise, rates, form=form))
            assert (report.status, report.answer) == ("decided", "c")
            same_as_a_plain_trial(study)

    @pytest.mark.long
    def test_unknown_variance_takes_sums_with_squares(self, file):
        world = World(Gaussian(), (0.0, 2.0, 0.0, 0.0))
        with create_study("n", question=BestArm(), arms=ARMS, noise=Normal(), storage=file) as study:
            with pytest.raises(DataError, match="need the column 'squares'"):
                study.ask(), study.tell({"arm": ["a"], "count": [3], "total": [1.0]})
            while (asked := study.ask()) is not None:
                found = [
                    drawn(Gaussian(), world.rng, mean, int(n)) for mean, n in zip(world.means, asked.pulls, strict=True)
                ]
                sums = {"total": [x.sum() for x in found], "squares": [(x * x).sum() for x in found]}
                study.tell({"arm": list(ARMS), "count": [len(x) for x in found], **sums})
            assert study.report().answer == "b"

    @pytest.mark.parametrize(
        "policy",
        [
            Wager(),
            Wager(batch_price=2000),
            PET(),
            PET(stopping=GLR(Lemma32ByCounts()), guess=100),
            TrackAndStop(),
            RoundRobin(),
            TriBBAI(),
            OptBBAI(c=1.0),
        ],
        ids=lambda policy: policy.name,
    )
    def test_every_policy(self, file, policy):
        with create_study(
            "p", question=BestArm(), arms=ARMS, noise=Gaussian(1.0), policy=policy, storage=file
        ) as study:
            report = finished(study, World(Gaussian(1.0), (0.0, 2.5, 0.2, 0.1), form="sums"))
            assert (report.status, report.answer) == ("decided", "b")
            same_as_a_plain_trial(study)

    @pytest.mark.parametrize("policy", [Wager(), PET(), TrackAndStop(), OptBBAI(c=1.0)], ids=lambda p: p.name)
    def test_limits_are_honoured_by_every_policy(self, file, policy):
        with create_study(
            "p",
            question=BestArm(),
            arms=ARMS,
            noise=Gaussian(1.0),
            policy=policy,
            max_round_size=400,
            min_per_arm=7,
            storage=file,
        ) as study:
            assert finished(study, World(Gaussian(1.0), (0.0, 2.5, 0.2, 0.1), form="sums")).answer == "b"
            for asked in study.state.rounds:
                assert asked.pulls.sum() <= 400
                assert all(n == 0 or n >= 7 for n in asked.pulls)
            same_as_a_plain_trial(study)

    @pytest.mark.long
    @pytest.mark.parametrize("arms", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
    def test_very_many_arms(self, file, arms):
        names = [f"arm {i}" for i in range(arms)]
        pulls, best = 30, 7_777
        with create_study("big", question=BestArm(), arms=names, noise=Binary(), storage=file) as study:
            asked = study.ask()
            assert asked.pulls.sum() == pulls * len(names)
            successes = np.random.default_rng(1).binomial(pulls, 0.1, len(names))
            successes[best] = pulls
            told = {"arm": names, "count": [pulls] * len(names), "successes": successes.tolist()}
            report = study.tell(told)
            again = study.ask()
            assert (report.answer == names[best]) if again is None else again.pulls[best] > 0

    def test_the_default_storage(self, monkeypatch, tmp_path):
        monkeypatch.setenv("ROUNDWISE_STORAGE", f"sqlite:///{tmp_path}/elsewhere.db")
        create_study("x", question=BestArm(), arms=ARMS, noise=Binary()).close()
        assert (tmp_path / "elsewhere.db").exists()
        with load_study("x") as study:
            assert study.state.spec.arms == ARMS


@pytest.fixture
def study(url):
    with create_study("checkout", question=BestArm(), arms=("a", "b"), noise=Binary(), storage=url, seed=1) as study:
        yield study


@pytest.fixture
def decided(study):
    """The study after two batches that decide it."""
    study.ask()
    study.tell(sums(a=(30, 15), b=(30, 22)))
    pulls = [int(each) for each in study.ask().pulls]
    study.tell({"arm": ["a", "b"], "count": pulls, "successes": [pulls[0] // 3, pulls[1]]})
    assert study.state.decided is not None
    return study


def sums(**arms):
    return {"arm": list(arms), "count": [n for n, _ in arms.values()], "successes": [s for _, s in arms.values()]}


class TestPartialResults:
    def test_ask_gives_the_same_batch_until_it_is_complete(self, study):
        first = study.ask()
        assert first.pulls.tolist() == [30, 30]
        seq = study.state.seq
        assert study.ask().pulls.tolist() == [30, 30]
        assert study.state.seq == seq  # nothing was recorded by asking again
        report = study.tell(sums(a=(10, 5)))
        assert (report.rounds, report.remaining) == (0, {"a": 20, "b": 30})
        assert "50 results of round 1 are still to come" in report.next
        again = study.ask()
        assert (again.number, again.outstanding.tolist()) == (1, [20, 30])
        study.tell(sums(b=(35, 7)))  # more than asked
        assert study.ask().outstanding.tolist() == [20, 0]
        report = study.tell(sums(a=(20, 11)))
        assert (report.rounds, report.results, report.remaining) == (1, 65, {})
        assert study.ask().number == 2

    def test_several_files_at_once(self, study, tmp_path):
        (tmp_path / "1.csv").write_text("arm,outcome\n" + "a,1\n" * 30)
        (tmp_path / "2.csv").write_text("arm;outcome\n" + "b;0\n" * 30)
        study.ask()
        report = study.tell(tmp_path / "1.csv", tmp_path / "2.csv")
        assert (report.rounds, report.results) == (1, 60)
        assert [each.name for each in study.state.rounds[0].files] == [str(tmp_path / "1.csv"), str(tmp_path / "2.csv")]

    def test_one_bad_file_of_several_changes_nothing(self, study, tmp_path):
        (tmp_path / "1.csv").write_text("arm,outcome\n" + "a,1\n" * 30)
        (tmp_path / "2.csv").write_text("arm,outcome\nb,7\n")
        study.ask()
        seq = study.state.seq
        with pytest.raises(DataError, match=r"line 2.*'b'"):
            study.tell(tmp_path / "1.csv", tmp_path / "2.csv")
        with pytest.raises(InputError, match="is given twice"):
            study.tell(tmp_path / "1.csv", tmp_path / "1.csv")
        assert study.state.seq == seq

    def test_several_files_are_one_batch(self, file):
        """Cut as one likes, the batch is the same, and so is everything that follows."""
        world = World(Binary(), (0.3, 0.9))
        reports = []
        for cuts in (1, 3):
            with create_study(
                "cut", question=BestArm(), arms=("a", "b"), noise=Binary(), storage=f"{file}{cuts}", seed=1
            ) as study:
                world = World(Binary(), (0.3, 0.9), seed=5, form="sums")
                while (asked := study.ask()) is not None:
                    told = world(asked.pulls)
                    for i, arm in enumerate(told["arm"]):
                        count, total = told["count"][i], told["total"][i]
                        if cuts == 1:
                            continue
                        half = min(count // 2, int(total))
                        study.tell(sums(**{arm: (half, half)}))
                        study.tell(sums(**{arm: (count - half, total - half)}))
                    if cuts == 1:
                        study.tell(told)
                reports.append(study.report())
        one, three = ((each.headline, each.answer, each.results, each.rounds, each.arm_rows) for each in reports)
        assert one == three

    def test_an_arm_that_returns_nothing(self, study):
        study.ask()
        study.tell(sums(b=(30, 20)))
        report = study.tell(round_over="the server of a is down")
        assert (report.rounds, report.results, report.arm_rows[0].results, report.arm_rows[0].mean) == (1, 30, 0, None)
        assert any("the server of a is down" in each for each in report.warnings)
        assert study.ask().pulls[0] > 0

    @pytest.mark.long
    @pytest.mark.parametrize("noise", [Binary(), Bounded(0, 1), Normal(), Poisson(), Gaussian()])
    def test_a_batch_of_which_nothing_comes(self, file, noise):
        with create_study("none", question=BestArm(), arms=ARMS, noise=noise, storage=file) as study:
            study.ask()
            report = study.tell(round_over="strike")
            assert (report.results, report.status) == (0, "undecided")
            world = World(noise, (0.1, 0.9, 0.2, 0.3) if not isinstance(noise, Normal) else (0, 2, 0, 0))
            assert finished(study, world).answer == "b"

    def test_results_and_a_reason_together(self, study):
        study.ask()
        report = study.tell(sums(a=(30, 10), b=(29, 20)), round_over="one was lost")
        assert (report.rounds, report.results) == (1, 59)

    def test_more_than_asked_counts_once(self, study):
        """Also where a file completes the batch and another, or a reason, is told with it."""
        study.ask()
        report = study.tell(sums(a=(30, 10), b=(30, 20)), sums(a=(5, 1)), round_over="that is all")
        assert (report.rounds, report.results) == (1, 65)
        assert [arm.results for arm in report.arm_rows] == [35, 30]
        assert report.warnings == []
        same = study.report()
        assert (same.rounds, same.results) == (1, 65)
        plans, _ = plain_trial(study.state.spec, study.state.batches)
        assert np.array_equal(study.ask().pulls, plans[-1])

    def test_a_file_that_decides_with_another(self, study):
        study.ask()
        study.tell(sums(a=(30, 15), b=(30, 16)))
        study.ask()
        report = study.tell(sums(a=(300, 50), b=(300, 280)), sums(a=(7, 1)), new=True)
        assert (report.status, report.results) == ("decided", 667)
        assert study.state.decided["samples"] == 667

    def test_late_results_count_in_the_batch_that_is_waited_for(self, study):
        study.ask()
        study.tell(sums(a=(30, 10), b=(20, 9)), round_over="late")
        late = sums(b=(10, 7))
        with pytest.raises(InputError, match="round"):
            study.tell(late)
        asked = study.ask()
        report = study.tell(late)
        assert report.rounds == 1
        assert study.ask().outstanding[1] == asked.pulls[1] - 10

    def test_a_reason_must_be_given(self, study):
        study.ask()
        seq = study.state.seq
        for call in (lambda: study.tell(round_over=" "), lambda: study.end(""), lambda: study.amend("x", None, "")):
            with pytest.raises(InputError, match="The reason is empty"):
                call()
        with pytest.raises(InputError, match="results"):
            study.tell()
        assert study.state.seq == seq


class TestWhatIsRefused:
    def test_the_same_contents_twice(self, study, tmp_path):
        study.ask()
        (tmp_path / "1.csv").write_text("arm,outcome\na,1\n")
        (tmp_path / "copy.csv").write_text("arm,outcome\na,1\n")
        study.tell(tmp_path / "1.csv")
        for name in ("1.csv", "copy.csv"):
            with pytest.raises(
                InputError, match=f"{name} is already recorded as round 1 .identical contents.. Nothing"
            ):
                study.tell(tmp_path / name)

    def test_before_asking(self, study):
        with pytest.raises(InputError, match="No round is open"):
            study.tell(sums(a=(3, 1)))

    def test_after_the_decision_nothing_is_asked_for(self, decided):
        seq = decided.state.seq
        assert decided.ask() is None
        with pytest.raises(InputError, match="decided"):
            decided.tell(round_over="late")
        assert decided.state.seq == seq

    def test_after_closing(self, study):
        study.ask()
        report = study.end("no money left")
        assert (report.status, report.answer) == ("closed", None)
        assert "Closed undecided (no money left)" in report.headline
        assert study.ask() is None
        for call in (
            lambda: study.tell(sums(a=(3, 1))),
            lambda: study.end("again"),
            lambda: study.amend("x", None, "why"),
        ):
            with pytest.raises(InputError, match="closed"):
                call()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"arms": "red,green"}, "'red,green'"),
            ({"min_per_arm": float("inf")}, "`min_per_arm` is inf"),
            ({"max_round_size": float("nan")}, "`max_round_size` is nan"),
            ({"arms": ("a",)}, "arms"),
            ({"arms": ("a", " ")}, "arm"),
            ({"arms": ("a", "a ")}, "two arms called 'a'"),
            ({"arms": ("a", "b\nc")}, "characters that cannot be printed"),
            ({"delta": 5}, "delta"),
            ({"max_round_size": 1}, "round"),
            ({"min_per_arm": -1}, "`min_per_arm` is -1"),
            ({"question": TopK(2)}, "."),
            ({"policy": PET(), "noise": Poisson()}, "has no sigma"),
            ({"policy": Wager(stopping=EProcessRule(shifts=False))}, "settings"),
            ({"policy": TrackAndStop(stopping=EProcessRule())}, "settings"),
            ({"name": ""}, "cannot be called"),
        ],
    )
    def test_settings_that_cannot_be(self, file, change, message):
        given = {"name": "x", "question": BestArm(), "arms": ("a", "b"), "noise": Binary(), "storage": file, **change}
        with pytest.raises(InputError, match=message):
            create_study(given.pop("name"), **given)
        with open_store(file) as store:
            assert store.studies() == []

    def test_unknown_study(self, study, url):
        with pytest.raises(UnknownStudyError, match=r"'chekout'.*'checkout'"):
            load_study("chekout", url)


class TestResuming:
    def test_load_if_exists(self, study, url):
        given = {"question": BestArm(), "arms": ("a", "b"), "noise": Binary(), "storage": url}
        study.ask()
        study.tell(sums(a=(30, 3), b=(20, 7)))
        with pytest.raises(StudyExistsError, match="already a study called 'checkout'"):
            create_study("checkout", **given)
        with create_study("checkout", **given, load_if_exists=True) as again:
            assert again.ask().outstanding.tolist() == [0, 10]
        for other in (
            {"delta": 0.1},
            {"arms": ("b", "a")},
            {"noise": Gaussian()},
            {"max_round_size": 500},
            {"policy": PET()},
        ):
            with pytest.raises(InputError, match="settings"):
                create_study("checkout", **{**given, **other}, load_if_exists=True)

    @pytest.mark.parametrize("question", [CONTROL, QUESTIONS[-1][0]], ids=["statements", "largest"])
    def test_load_if_exists_with_tables(self, file, question):
        given = {"question": question, "arms": ARMS, "noise": Binary(), "storage": file, "load_if_exists": True}
        create_study("x", **given).close()
        create_study("x", **given, max_round_size=None).close()

    @pytest.mark.parametrize("policy", [Wager(max_batch=400), PET(guess=50)], ids=lambda policy: policy.name)
    def test_every_batch_by_another_process(self, file, policy):
        """A study that is loaded anew for every step goes as one that is kept open."""
        ends = []
        for fresh in (False, True):
            place = f"{file}{fresh}"
            study = create_study(
                "s", question=TopK(2), arms=ARMS, noise=Gaussian(), policy=policy, storage=place, seed=1
            )
            world = World(Gaussian(), (0.0, 2.0, 2.2, 0.5), seed=3, form="sums")
            while (asked := study.ask()) is not None:
                if fresh:
                    study.close()
                    study = load_study("s", place)
                study.tell(world(asked.pulls))
                if fresh:
                    study.close()
                    study = load_study("s", place)
            report = study.report()
            said = (report.headline, report.answer, report.results, report.arm_rows, report.claim_rows)
            ends.append((said, [each.pulls.tolist() for each in study.state.rounds]))
            study.close()
        assert ends[0] == ends[1]

    def test_a_state_is_its_entries(self, decided):
        entries = decided.store.read("checkout")
        state = decided.state
        for other in (replay(entries), replay(entries[:3])):
            for entry in entries[other.seq + 1 :]:
                other.apply(entry)
            assert other.seq == state.seq
            assert other.decided == state.decided
            assert other.trial.record.totals.tolist() == state.trial.record.totals.tolist()
            assert repr(other.trial.kept.wealth) == repr(state.trial.kept.wealth)
            assert other.trial.plan.pulls.tolist() == state.trial.plan.pulls.tolist()

    def test_the_verdict_is_recorded_with_what_decides_it(self, decided):
        entries = decided.store.read("checkout")
        assert [entry.kind for entry in entries] == [
            *("created", "asked", "told", "checkpoint"),
            *("asked", "told", "checkpoint", "decided"),
        ]
        assert entries[-1].at == entries[-2].at == entries[-3].at  # one transaction
        assert entries[-1].payload == {"answer": 1, "answer_text": "b is the best arm", "rounds": 2, "samples": 208}
        assert all(entry.version == roundwise.__version__ for entry in entries)

    def test_batches_as_a_data_frame(self, decided):
        frame = decided.rounds()
        assert list(frame.columns) == ["round", "arm", "asked", "count", "total", "mean"]
        assert frame["round"].tolist() == [1, 1, 2, 2]
        assert frame["count"].tolist() == [30, 30, 74, 74]
        assert frame["mean"].tolist() == [0.5, 22 / 30, 24 / 74, 1.0]

    @pytest.mark.long
    def test_a_study_moves_from_store_to_store(self, decided, tmp_path):
        with open_store(f"sqlite:///{tmp_path}/other.db") as store:
            store.put(decided.store.read("checkout"))
        with load_study("checkout", f"sqlite:///{tmp_path}/other.db") as copy:
            assert copy.report().plain() == decided.report().plain()


def rechained(entries, change):
    """The log with each (kind, payload) changed as wanted, and a chain that is valid."""
    texts = []
    for entry in entries:
        payload = json.loads(entry.text)
        kind = change(entry.seq, entry.kind, payload) or entry.kind
        texts.append((kind, json.dumps(payload, separators=(",", ":"))))
    return chain_entries(entries[0].study, Head(), texts, datetime.now(UTC))


class TestReplayThatDiffers:
    def changed(self, decided, tmp_path, change):
        with open_store(f"sqlite:///{tmp_path}/changed.db") as store:
            store.put(rechained(decided.store.read("checkout"), change))
        return load_study("checkout", f"sqlite:///{tmp_path}/changed.db")

    def differences(self, study):
        return [(each.entry, each.words) for each in audit_entries(study.entries()).differences]

    def test_a_sound_study_has_none(self, decided):
        audit = audit_entries(decided.entries())
        assert (audit.plans, audit.checkpoints, audit.verdicts, audit.differences) == (2, 2, 1, ())
        assert audit.sound

    @pytest.mark.long
    def test_a_plan(self, decided, tmp_path):
        """What was asked is a fact; only the audit says that it is not what would be asked."""

        def change(seq, kind, payload):
            if seq == 4:
                payload["pulls"] = [1, 2]

        with self.changed(decided, tmp_path, change) as study:
            assert study.report().headline == decided.report().headline
            assert study.state.rounds[1].pulls.tolist() == [1, 2]
            assert self.differences(study) == [(4, "round 2 was planned as 1, 2, this version plans 74, 74")]

    @pytest.mark.long
    def test_results_that_lead_elsewhere(self, decided, tmp_path):
        def change(seq, kind, payload):
            if seq == 2:
                payload["results"]["totals"] = [0, 30]

        with self.changed(decided, tmp_path, change) as study:
            assert study.report().answer == "b"
            found = self.differences(study)
            assert any("after round 1 the totals were 15, 22, the files add up to 0, 30" in words for _, words in found)
            assert not audit_entries(study.entries()).sound

    def test_what_was_won(self, decided, tmp_path):
        def change(seq, kind, payload):
            if seq == 3:
                payload["state"]["rule"]["saved"]["wealth"]["gains"]["float"][0] += 5

        with self.changed(decided, tmp_path, change) as study:
            study.report()
            assert any("contradicts its stated evidence" in words for _, words in self.differences(study))

    def test_a_verdict(self, decided, tmp_path):
        def change(seq, kind, payload):
            if kind == "decided":
                payload["answer"] = 0

        with self.changed(decided, tmp_path, change) as study:
            assert self.differences(study) == [(7, "the answer was recorded as 0, this version finds 1")]

    def test_another_version_that_plans_otherwise(self, decided, monkeypatch):
        monkeypatch.setattr("roundwise.policies.wager.SMALLEST", 1.5)
        report = decided.report()
        assert (report.status, report.answer) == ("decided", "b")
        assert {entry for entry, _ in self.differences(decided)} <= {3, 6}
        assert self.differences(decided)

    @pytest.mark.long
    @pytest.mark.parametrize(
        "change",
        [
            lambda seq, kind, payload: "blessed" if seq == 2 else None,
            lambda seq, kind, payload: "told" if seq == 1 else None,
            lambda seq, kind, payload: payload.clear() if seq == 2 else None,
            lambda seq, kind, payload: payload.clear() if seq == 1 else None,
            lambda seq, kind, payload: payload["results"].clear() if seq == 2 else None,
        ],
    )
    def test_entries_that_make_no_sense(self, decided, tmp_path, change):
        with (
            self.changed(decided, tmp_path, change) as study,
            pytest.raises(
                DataError, match="which this version does not know|cannot be replayed|not results as roundwise"
            ),
        ):
            study.report()


class TestAmendments:
    def test_correcting_undoes_a_verdict(self, decided):
        name = decided.state.rounds[1].files[0].digest[:8]
        before = decided.store.read("checkout")
        report = decided.amend(name, sums(a=(60, 31), b=(60, 29)), "columns were swapped")
        after = decided.store.read("checkout")
        assert after[: len(before)] == before  # never an edit
        assert [entry.kind for entry in after[len(before) :]] == ["amended", "checkpoint"]
        assert (report.status, report.answer) == ("undecided", None)
        assert any("columns were swapped" in each for each in report.warnings)
        asked = decided.ask()
        assert asked.number == 3
        report = finished(decided, World(Binary(), (0.2, 0.9), names=("a", "b")))
        assert report.answer == "b"
        assert any("columns were swapped" in each for each in report.warnings)
        assert replay(decided.store.read("checkout")).decided == decided.state.decided

    def test_the_other_answer(self, decided):
        first, second = (each.files[0].digest for each in decided.state.rounds)
        decided.amend(first, sums(a=(30, 22), b=(30, 15)), "swapped")
        report = decided.amend(second, sums(a=(60, 60), b=(60, 20)), "swapped too")
        assert (report.status, report.answer) == ("decided", "a")
        kinds = [entry.kind for entry in decided.store.read("checkout")]
        assert kinds[-3:] == ["amended", "checkpoint", "decided"]

    def test_the_same_answer_is_recorded_again(self, decided):
        second = decided.state.rounds[1].files[0].digest
        report = decided.amend(second, sums(a=(60, 21), b=(60, 60)), "one was miscounted")
        assert report.answer == "b"
        assert decided.state.decided is not None
        assert [entry.kind for entry in decided.store.read("checkout")][-3:] == ["amended", "checkpoint", "decided"]

    def test_withdrawing(self, decided):
        second = decided.state.rounds[1].files[0].digest
        report = decided.amend(second, None, "another experiment's")
        assert (report.status, report.results, report.rounds) == ("undecided", 60, 1)
        assert any("withdrawn: another experiment's" in each for each in report.warnings)
        assert decided.ask().number == 3

    def test_a_batch_that_is_waited_for_stays_so(self, study):
        study.ask()
        study.tell(sums(a=(10, 5)))
        report = study.amend(study.state.rounds[0].files[0].digest, sums(a=(12, 5)), "two more")
        assert (report.rounds, report.remaining) == (0, {"a": 18, "b": 30})
        report = study.amend(study.state.rounds[0].files[0].digest, None, "all wrong")
        assert (report.rounds, report.remaining) == (0, {"a": 30, "b": 30})
        assert study.ask().number == 1

    def test_a_correction_may_complete_a_batch(self, study):
        study.ask()
        study.tell(sums(a=(10, 5), b=(30, 9)))
        report = study.amend(study.state.rounds[0].files[0].digest, sums(a=(30, 15), b=(30, 9)), "a page was missing")
        assert (report.rounds, report.remaining) == (1, {})

    def test_what_cannot_be_amended(self, decided):
        seq = decided.state.seq
        with pytest.raises(InputError, match=r"'x.csv'"):
            decided.amend("x.csv", None, "why")
        with pytest.raises(InputError, match="data"):
            decided.amend("data frame", None, "why")
        assert decided.state.seq == seq


@pytest.mark.parametrize("limits", [{}, {"max_round_size": 500, "min_per_arm": 5}])
@pytest.mark.parametrize(
    "policy", [Wager(), PET(guess=4), TrackAndStop(stopping=GLR(LogLogHeuristic())), OptBBAI(c=4.0)]
)
def test_settings_survive_json(policy, limits):
    from roundwise.study import StudySpec

    settings = StudySpec(
        question=BestArm(),
        arms=ARMS,
        noise=Gaussian(2.0),
        delta=0.01,
        policy=policy,
        seed=7,
        **limits,
    )
    assert StudySpec.from_json(json.loads(json.dumps(settings.to_json()))) == settings
    settings.check_recordable()


def test_limits_of_the_policy_stay_beside_others():
    assert Wager(max_batch=500).with_limits(None, 5) == Wager(max_batch=500, min_per_arm=5)
    assert Wager(min_per_arm=5).with_limits(np.int64(500), 0) == Wager(max_batch=500, min_per_arm=5)
    assert PET().with_limits(np.int64(500), 0) == Limited(PET(), 500)


def test_a_policy_that_is_limited_already(file):
    limited = Limited(PET(guess=100), 300, 0)
    with create_study("x", question=BestArm(), arms=ARMS, noise=Gaussian(), policy=limited, storage=file) as study:
        assert study.ask().pulls.sum() <= 300


def test_every_report_has_the_digest_of_the_record(tmp_path):
    """So that `study.expected` guards whatever report it is taken from."""
    with create_study(
        "s", question=BestArm(), arms=["a", "b"], noise=Binary(), storage=f"sqlite:///{tmp_path}/s.db"
    ) as study:
        study.ask()
        told = {"arm": ["a", "b"], "count": [10, 10], "successes": [3, 4]}
        for report in (lambda: study.status(), lambda: study.tell(told), lambda: study.note("hm"), study.report):
            assert report().digest == study.store.head("s").digest
