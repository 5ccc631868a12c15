"""Ratios of sums over ids: how they are linearized, what is recorded, how often they err, where they are refused."""

import numpy as np
import pytest

from roundwise import (
    Above,
    BestArm,
    Claims,
    Columns,
    DataError,
    InputError,
    LargeSample,
    Metric,
    Normal,
    Reading,
)
from roundwise.arrays import pack
from roundwise.ingest import Results, read_results
from roundwise.ingest.ratios import Linearization, RatioSums, ratio_sums
from roundwise.study.audit import audit_entries
from roundwise.study.spec import StudySpec
from studies import same_when_read_again, studies

SPEND = Columns(outcome="revenue", denominator="sessions", id="user")
QUICK = LargeSample(min_rows=50)


@pytest.fixture
def make(tmp_path):
    with studies(tmp_path) as found:
        yield found


def sessions(rng, n, ratios, means):
    """Numerators and denominators of n users an arm, who differ in how much they spend. (K, n) each"""
    means, ratios = np.array(means)[:, None], np.array(ratios)[:, None]
    y = rng.poisson(rng.gamma(2.0, means / 2, (len(means), n)))
    x = y * ratios * rng.gamma(4.0, 0.25, (len(means), n)) * (1 + 0.5 * rng.standard_normal((len(means), n)))
    return x, y.astype(float)


def frame(x, y, start, arms=("a", "b"), split=False):
    """A row for each user, or two that add up to it."""
    parts = ((0.3, 0.4), (0.7, 0.6)) if split else ((1.0, 1.0),)
    rows = [
        (f"u{start + j * x.shape[1] + i}", arms[j], p * x[j, i], q * y[j, i])
        for p, q in parts
        for j in range(len(arms))
        for i in range(x.shape[1])
    ]
    return dict(zip(("user", "arm", "revenue", "sessions"), map(list, zip(*rows, strict=True)), strict=True))


def linearize(before, x, y):
    """The results of a round by those before it; the first by itself."""
    old = before or [(x, y)]
    numerators, denominators = (np.concatenate([each[k] for each in old], axis=1) for k in (0, 1))
    ratios = (numerators.sum(axis=1) / denominators.sum(axis=1))[:, None]
    return ratios + (x - ratios * y) / denominators.mean(axis=1, keepdims=True)


def run(study, rng, rounds, n=100, ratios=(2.0, 2.0), means=(3, 5), **about):
    told = []
    for _ in range(rounds):
        if study.ask() is None:
            break
        told.append(sessions(rng, n, ratios, means))
        study.tell(frame(*told[-1], 10_000 * study.state.number, **about))
    return told


def test_own_means_give_the_ratio_itself():
    """Scaled by its own means, the mean result of an arm is its ratio."""
    rng = np.random.default_rng(1)
    arms = rng.integers(0, 3, 500)
    x, y = rng.gamma(2, 3, 500), rng.poisson(4, 500).astype(float)
    sums = RatioSums.of(arms, x, y, 3)
    rule = ratio_sums({}, ["a", "b", "c"]).linearization(sums)
    assert rule.from_own_rows
    z = rule.linearize(arms, x, y)
    for j in range(3):
        assert z[arms == j].mean() == pytest.approx(x[arms == j].sum() / y[arms == j].sum())


def test_an_arm_without_a_past_is_read_by_its_own_rows():
    known = RatioSums(np.array([10.0, 0]), np.array([40.0, 0]), np.array([20.0, 0]))
    told = RatioSums(np.array([5.0, 5]), np.array([9.0, 10]), np.array([25.0, 50]))
    found = known.linearization(told)
    assert found.ratios == pytest.approx([2.0, 0.2])
    assert found.scales == pytest.approx([0.5, 0.1])
    assert found.from_own_rows
    assert not known.linearization(told._replace(counts=np.array([5.0, 0]))).from_own_rows
    nothing = known.linearization(told._replace(denominators=np.array([25.0, 0])))  # then as the others are
    assert nothing.scales == pytest.approx([0.5, 15 / 20])
    assert nothing.ratios == pytest.approx([2.0, 50 / 20])


def test_arms_that_differ_do_not_move_those_that_are_alike():
    """Two arms with a ratio of 1, one of 4, 400 earlier ids and 1 200 new ones: the errors of what was learned from the
    former are no part of the difference of the two (with one ratio for all arms its variance was 4 times as large)."""
    rng, arms, off = np.random.default_rng(13), np.repeat(np.arange(3), 1200), []
    for _ in range(400):
        y = rng.exponential(1.0, (3, 1600))
        x = y * np.array([[1.0], [1.0], [4.0]]) * (1 + 0.05 * rng.standard_normal(y.shape))
        known = RatioSums(np.full(3, 400.0), x[:, :400].sum(axis=1), y[:, :400].sum(axis=1))
        told = RatioSums(np.full(3, 1200.0), x[:, 400:].sum(axis=1), y[:, 400:].sum(axis=1))
        z = known.linearization(told).linearize(arms, x[:, 400:].ravel(), y[:, 400:].ravel()).reshape(3, -1)
        off.append((z[0].mean() - z[1].mean()) / np.sqrt((z[0].var() + z[1].var()) / 1200))
    assert 0.8 < np.var(off) < 1.25


def test_rows_of_an_id_add_up(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "user,arm,revenue,sessions\n1,a,10,2\n2,b,6,1\n1,a,20,3\n3,b,0,0\n4,a,0,1\n"
    (tmp_path / "a.csv").write_text(text)
    words = {"columns": SPEND, "reading": Reading(id_result="sum"), "seed": 3}
    rule = Linearization(np.array([4.0, 4.0]), np.array([0.5, 2.0]))
    found = read_results("a.csv", ["a", "b"], LargeSample(), ratio=rule, parts=3, **words)
    assert found.totals.tolist() == [4 + 0.5 * (30 - 20) + 4 + 0.5 * (0 - 4), 4 + 2 * (6 - 4) + 4]
    assert found.parts == 3
    again = Results.from_payload(found.payload())
    assert [each.tolist() for each in again.ratio] == [[2, 2], [30, 6], [6, 1]]
    assert again.linearization.scales.tolist() == [0.5, 2.0]
    own = read_results("a.csv", ["a", "b"], LargeSample(), ratio=ratio_sums({}, ["a", "b"]), parts=3, **words)
    assert own.parts == 1
    assert own.totals / own.counts == pytest.approx([5, 6])
    for wrong, said in (("10,-2", "'-2' cannot be one"), ("10,", "cannot be one"), ("10,x", "'x' cannot be one")):
        (tmp_path / "a.csv").write_text(text.replace("10,2", wrong))
        with pytest.raises(DataError, match=said):
            read_results("a.csv", ["a", "b"], LargeSample(), ratio=rule, **words)
    (tmp_path / "a.csv").write_text("user,arm,revenue,sessions\n1,a,10,0\n2,b,6,0\n")
    with pytest.raises(DataError, match="every sessions is 0"):
        read_results("a.csv", ["a", "b"], LargeSample(), ratio=ratio_sums({}, ["a", "b"]), **words)


def test_a_study_linearizes_by_earlier_rounds(make):
    rng = np.random.default_rng(2)
    study = make(arms=("a", "b"), noise=QUICK, round_size=200, columns=SPEND)
    told = run(study, rng, 4, split=True)
    for k, each in enumerate(study.state.rounds):
        z = linearize(told[:k], *told[k])
        assert each.files[0].totals == pytest.approx(z.sum(axis=1))
        assert each.files[0].scatter == pytest.approx(z.var(axis=1) * 100)
        assert each.files[0].linearization.from_own_rows == (k == 0)
    same_when_read_again(study)
    report = study.report()
    assert [each.code for each in report.guarantee.approximations] == ["large_sample"]
    note = next(each for each in report.notes if each.code == "ratio")
    sums = np.concatenate([each[0] for each in told], axis=1).sum(axis=1)
    assert [note.fields["arms"][arm][0] for arm in "ab"] == pytest.approx(sums)
    for arm, (x, y) in note.fields["arms"].items():
        mean = next(each.mean for each in report.arm_rows if each.name == arm)
        assert mean == pytest.approx(x / y, rel=0.01)
    assert "total 'revenue' over total 'sessions'" in report.assumptions


@pytest.mark.parametrize("question", [BestArm(), Claims.against_control(["a", "b"], 0)])
def test_the_first_round_is_not_bet_on_and_the_better_ratio_wins(make, question):
    """However large the first is: how its rows become results is taken from them."""
    rng = np.random.default_rng(3)
    study = make(arms=("a", "b"), noise=QUICK, round_size=4000, columns=SPEND, question=question)
    run(study, rng, 1, 2000, (2.0, 2.6), (5, 3))
    assert {each.log_evidence for each in study.report().claim_rows} == {0.0}
    run(study, rng, 1, 2000, (2.0, 2.6), (5, 3))
    report = study.report()
    assert any(each.shown for each in report.claim_rows)
    loser = next(each for each in report.arm_rows if each.lift is not None)
    assert loser.lift == pytest.approx(0.3 if loser.name == "b" else 1 / 1.3 - 1, abs=0.05)


def test_earlier_data_do_not_say_how_rounds_are_read(make):
    """Arms had other ratios and denominators then: read by those, two equal arms were told apart 22 times in 30."""
    rng = np.random.default_rng(4)
    study = make(arms=("a", "b"), noise=QUICK, round_size=200, columns=SPEND)
    study.import_past(frame(*sessions(rng, 300, (3.0, 3.0), (3, 9)), 900_000))
    told = run(study, rng, 2)
    for k, each in enumerate(study.state.rounds):
        assert each.files[0].linearization.from_own_rows == (k == 0)
        assert each.files[0].totals == pytest.approx(linearize(told[:k], *told[k]).sum(axis=1))
    note = next(each for each in study.report().notes if each.code == "ratio")
    assert note.fields["arms"]["a"][1] == sum(each[1][0].sum() for each in told)


def test_files_of_a_round_and_corrections_are_linearized_alike(make):
    rng = np.random.default_rng(5)
    study = make(arms=("a", "b"), noise=QUICK, round_size=400, columns=SPEND)
    run(study, rng, 1, 200)
    study.ask()
    halves = [frame(*sessions(rng, 100, (2, 2), (3, 5)), 50_000 * k) for k in (1, 2)]
    for each in halves:
        study.tell(each)
    first, second = (each.linearization for each in study.state.rounds[1].files)
    assert first.ratios.tolist() == second.ratios.tolist()
    halves[0]["revenue"][0] += 5.0
    study.amend(study.state.rounds[1].files[0].digest, halves[0], "a typing error")
    third = next(each for each in study.state.rounds[1].files if each.linearization is not second).linearization
    assert third.ratios.tolist() == first.ratios.tolist()
    same_when_read_again(study)


def test_the_first_round_of_an_added_arm_only_teaches(make):
    rng = np.random.default_rng(10)
    study = make(arms=("a", "b"), noise=QUICK, round_size=200, columns=SPEND)
    told = run(study, rng, 2)
    study.add("c", "it was built later")
    study.ask()
    told.append(sessions(rng, 100, (2.0, 2.0, 2.0), (3, 5, 20)))
    study.tell(frame(*told[-1], 90_000, arms=("a", "b", "c")))
    (file,) = study.state.rounds[2].files
    assert (file.linearization.from_own_rows, file.parts) == (True, 1)
    ratios = [
        sum(each[0][j].sum() for each in rounds) / sum(each[1][j].sum() for each in rounds)
        for j, rounds in ((0, told[:2]), (1, told[:2]), (2, told[2:]))
    ]
    assert file.linearization.ratios == pytest.approx(ratios)
    means = [np.mean([each[1][j] for each in told[:2]]) for j in (0, 1)]
    assert file.linearization.scales == pytest.approx([1 / means[0], 1 / means[1], 1 / told[2][1][2].mean()])
    same_when_read_again(study)


def test_an_added_arm_is_read_by_its_own_rows_also_in_a_file_of_its_own(make):
    """Scaled as the others are, results of an arm with few sessions a user seemed to vary hardly at all: 7 of 20 claims
    about such an arm were false at 5 %."""
    rng = np.random.default_rng(15)
    study = make(arms=("a", "b"), noise=QUICK, round_size=200, columns=SPEND)
    run(study, rng, 2)
    study.add("c", "it was built later")
    study.ask()
    for k, arm in enumerate("abc"):
        x, y = sessions(rng, 66, (2.0,), (20 if arm != "c" else 1,))
        study.tell(frame(x, y, 90_000 + 1000 * k, arms=(arm,)))
    files = study.state.rounds[2].files
    assert [each.linearization.from_own_rows for each in files] == [False, False, True]
    assert files[2].linearization.scales[2] == pytest.approx(66 / y.sum())
    assert files[0].linearization.scales[:2].tolist() == files[2].linearization.scales[:2].tolist()
    same_when_read_again(study)


def test_an_audit_finds_another_linearization(make):
    study = make(arms=("a", "b"), noise=QUICK, round_size=200, columns=SPEND)
    run(study, np.random.default_rng(6), 3)
    entries = study.entries()
    told = [each for each in entries if each.kind == "told"][1]
    told.payload["results"]["linearization"]["scales"] = pack(np.array([0.5, 0.5]))
    assert any("linearized" in each.words for each in audit_entries(entries).differences)


def test_ids_that_are_all_recorded_are_no_denominators_of_zero(make):
    study = make(arms=("a", "b"), noise=QUICK, round_size=400, columns=SPEND)
    study.ask()
    rows = frame(*sessions(np.random.default_rng(16), 50, (2, 2), (3, 5)), 0)
    study.tell(rows)
    rows["sessions"][0] += 1  # not the same file
    with pytest.raises(DataError, match="brings nothing new: all of its 100 rows are recorded"):
        study.tell(rows)


def test_denominators_that_changed_are_a_contradiction(make):
    study = make(arms=("a", "b"), noise=QUICK, round_size=400, columns=SPEND)
    study.ask()
    rows = frame(*sessions(np.random.default_rng(7), 50, (2, 2), (3, 5)), 0)
    study.tell(rows)
    rows["sessions"][0] += 1
    rows = {key: [*each, *more] for (key, each), more in zip(rows.items(), (["x"], ["a"], [3.0], [2]), strict=True)}
    assert "contradicts" in [each.code for each in study.tell(rows).notes]


def test_a_guardrail_may_be_a_ratio(make):
    arms, rng = ["a", "b"], np.random.default_rng(8)
    spend = Metric("spend", QUICK, margin=1.0, column="revenue", denominator="sessions")
    study = make(
        arms=arms, question=Claims.against_control(arms, 0), noise=QUICK, metrics=[spend], round_size=400, budget=1600,
        columns=Columns(outcome="sessions", id="user"), reading=Reading(id_result="sum"),
    )  # fmt: skip
    told = run(study, rng, 4, 200, (2.0, 2.2), (3, 5))
    files = [each.files[0].metrics[0] for each in study.state.rounds]
    assert files[-1].totals == pytest.approx(linearize(told[:-1], *told[-1]).sum(axis=1))
    assert any(each.metric == "spend" and each.shown for each in study.report().metric_rows)
    same_when_read_again(study)
    assert Metric.from_json(spend.to_json()) == spend


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"columns": Columns(outcome="x", denominator="y")}, "id"),
        ({"columns": Columns(outcome="x", denominator="y", id="u", covariate="z")}, "no covariate"),
        ({"reading": Reading(id_result="mean")}, "found: mean"),
        ({"noise": Normal()}, "earlier results"),
        ({"question": Above(2.0)}, "compare arms"),
    ],
)
def test_where_a_ratio_is_refused(words, reason):
    usual = {"question": BestArm(), "arms": ["a", "b"], "noise": LargeSample(), "columns": SPEND}
    with pytest.raises(InputError, match=reason):
        StudySpec.declare(**usual | words).check()


def test_it_is_fixed_at_creation(make):
    study = make(arms=("a", "b"), noise=QUICK, round_size=200, columns=Columns(outcome="revenue", id="user"))
    study.ask()
    with pytest.raises(InputError, match="no denominators"):
        study.tell(frame(*sessions(np.random.default_rng(8), 100, (2, 2), (3, 5)), 0), columns=SPEND)


def test_on_the_command_line(roundwise, tmp_path):
    """A column of denominators says large-sample and the sum of each id."""
    flags = "--outcome-column revenue --denominator-column sessions --id-column user --round-size 200"
    assert roundwise("new", "spend", "--question", "best-arm", "--arms", "a,b", *flags.split())[0] == 0
    roundwise("ask", "spend")
    rows = frame(*sessions(np.random.default_rng(9), 100, (2.0, 2.0), (3, 5)), 0, split=True)
    lines = [",".join(map(str, each)) for each in zip(*rows.values(), strict=True)]
    (tmp_path / "1.csv").write_text("\n".join([",".join(rows), *lines]))
    code, _, err = roundwise("tell", "spend", "1.csv")
    assert code == 0, err
    assert "Total 'revenue' over total 'sessions': a" in " ".join(roundwise("report", "spend")[1].split())


# --- how often it errs: a program of its own


def false_claims(rng, runs, means, rounds=12, n=400, gate=400, delta=0.05, by_rows=False):
    """How often "b has a larger ratio than a" is shown of equal ratios, by one bet a round on all its users.

    The bet is that of Proposition 31 with the size that reaches the bar at the last round. `by_rows` takes single
    sessions for independent results, which they are not.
    """
    bar, wrong = np.log(1 / delta), 0
    for _ in range(runs):
        told, won = [], 0.0
        past = [np.zeros(0), np.zeros(0)]
        for r in range(rounds):
            y = rng.poisson(rng.gamma(2.0, np.array(means)[:, None] / 2, (2, n))).astype(float)
            p = rng.beta(1.0, 9.0, (2, n))
            x = rng.binomial(y.astype(int), p).astype(float)
            if by_rows:
                z = [np.repeat([1.0, 0.0], [int(x[j].sum()), int((y[j] - x[j]).sum())]) for j in (0, 1)]
            else:
                z = list(linearize(told, x, y))
            if min(map(len, past)) >= gate and won < bar:
                v = [each.var(ddof=1) for each in past]
                spread = sum(v[j] / len(z[j]) for j in (0, 1))
                size = np.sqrt(2 * max(bar - won, 0.0) / (rounds - r))
                loss = sum(
                    (((z[j] - past[j].mean()) ** 2).sum() / 6 + len(z[j]) * v[j] * (1 + 1 / len(past[j])) / 3)
                    / len(z[j]) ** 2
                    for j in (0, 1)
                )
                won += size * (z[1].mean() - z[0].mean()) / np.sqrt(spread) - size**2 * loss / spread
            told.append((x, y))
            past = [np.concatenate([old, new]) for old, new in zip(past, z, strict=True)]
        wrong += won >= bar
    return wrong


def test_equal_ratios_are_told_apart_no_more_often_than_delta():
    """Users with 12 and with 3 sessions: 300 runs at 5 % have more than 29 errors in 1 of 1000 cases."""
    assert false_claims(np.random.default_rng(11), 300, (12, 3)) <= 29


def test_sessions_taken_for_independent_are():
    """The control: it errs twice as often as it may, and more often the more sessions a user has."""
    assert false_claims(np.random.default_rng(12), 150, (12, 12), by_rows=True) > 15
