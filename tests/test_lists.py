"""Studies of a finite list: bets without replacement, and studies from `new` to the report."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from roundwise import Above, AnyAbove, BestArm, Binary, Bounded, Claims, Columns, Normal, TopK, simulate
from roundwise.errors import DataError, InputError
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, Problem, advance, begin
from roundwise.policies import Lockstep
from roundwise.rules.finite.bets import EARLY, log_wealth
from roundwise.rules.finite.rule import ListRule, process_for
from roundwise.simulation.items import ListReplay
from roundwise.study import create_study
from roundwise.study.audit import verify_study
from roundwise.study.item_list import ItemList

ARMS = ["a", "b", "c"]


def folded(problem, table, **settings):
    """The state of the rule after a whole table in its order."""
    rule = ListRule(len(table), **settings)
    rows = np.asarray(table, dtype=np.float64)
    batch = Batch((~np.isnan(rows)).sum(axis=0) * 1.0, np.nansum(rows, axis=0), rows=rows)
    return rule, rule.fold(problem, rule.start(problem, ()), BatchPlan(batch.counts, np.asarray(True)), batch)


def plain_wealth(table, place, delta=0.05):
    """Wealth against each arm after so many places, and who is rejected: the specification, line by line."""
    rows, (size, arms) = np.asarray(table, dtype=float), np.shape(table)
    wealth, out = np.ones((arms, 6)), np.zeros(arms, dtype=bool)
    for t in range(place):
        sums = rows[:t].sum(axis=0)
        before = out.copy()
        if (~before).sum() <= 1:
            break
        for i in range(arms):
            if before[i]:
                continue
            o = max((j for j in range(arms) if j != i and not before[j]), key=lambda j: (sums[j], -j))
            y = rows[:, o] - rows[:, i]
            left = size - t
            m = -y[:t].sum() / left
            v = (0.5 + (y[:t] ** 2).sum()) / (t + 2)
            if t >= EARLY:
                for k, g in enumerate((0.015, 0.03, 0.06, 0.12, 0.25, 0.5)):
                    edge = g * size / left
                    lam = min(edge / (v + edge**2), 0.5 / max(m + 1, 1e-6))
                    wealth[i, k] *= 1 + lam * (y[t] - m)
            total = rows[: t + 1].sum(axis=0)
            rest = size - t - 1
            best = max(total[j] for j in range(arms) if j != i and not before[j])
            out[i] = wealth[i].mean() >= 1 / delta or best - total[i] > rest + 1e-9
    return np.log(wealth.mean(axis=1)), out


@pytest.mark.parametrize("graded", [False, True])
def test_the_bets_are_those_of_the_specification(graded):
    rng = np.random.default_rng(5)
    table = rng.random((60, 3)) if graded else (rng.random((60, 3)) < [0.8, 0.6, 0.4]).astype(float)
    problem = Problem(BestArm(), 3, noise=Bounded(0, 1))
    for place in (3, 8, 20, 35, 59):
        rows = np.where(np.arange(60)[:, None] < place, table, np.nan)
        _, kept = folded(problem, rows)
        wealth, out = plain_wealth(table, place)
        np.testing.assert_array_equal(kept.wealth.rejected, out)
        np.testing.assert_allclose(log_wealth(kept.wealth.log_wealth)[~out], wealth[~out], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("values", [(1, 1, 0, 0, 0), (1, 0.5, 0.25, 0, 0)])
def test_the_wealth_against_a_best_arm_is_one_on_average_over_all_orders(values, monkeypatch):
    """L1 by enumeration: exactly 1 at a tie, less where the arm is ahead."""
    monkeypatch.setattr("roundwise.rules.finite.best_arm.EARLY", 1)
    problem = Problem(BestArm(), 2, delta=1e-12, noise=Bounded(0, 1))
    tied = np.stack([values, np.roll(values, 2)], axis=1).astype(float)
    ahead = tied.copy()
    ahead[-1, 0] += 0.5
    for place in (2, 3, 4):
        mean = {}
        for name, table in (("tied", tied), ("ahead", ahead)):
            found = []
            for order in itertools.permutations(range(5)):
                rows = np.where(np.arange(5)[:, None] < place, table[list(order)], np.nan)
                found.append(math.exp(log_wealth(folded(problem, rows)[1].wealth.log_wealth)[0]))
            mean[name] = float(np.mean(found))
        assert mean["tied"] == pytest.approx(1.0, abs=1e-6)
        assert mean["ahead"] < 1.0


def test_what_comes_later_does_not_change_the_bets():
    rng = np.random.default_rng(2)
    problem = Problem(BestArm(), 3, noise=Binary())
    table = (rng.random((80, 3)) < 0.6).astype(float)
    other = table.copy()
    other[40:] = 1 - other[40:]
    for one in (table, other):
        one[60] = np.nan
    first, second = (folded(problem, np.where(np.arange(80)[:, None] < 40, one, np.nan))[1] for one in (table, other))
    np.testing.assert_array_equal(first.wealth.log_wealth, second.wealth.log_wealth)
    # results beyond a gap wait
    _, gap = folded(problem, table)
    assert gap.items <= 60


def test_nothing_is_certain_while_the_null_may_still_be_true():
    """At m = lo the arms may still tie: with m <= lo a tied arm would be out."""
    problem = Problem(BestArm(), 2, delta=1e-12, noise=Binary())
    table = np.array([[1, 0]] * 4 + [[0, 1]] * 4, dtype=float)
    rule, kept = folded(problem, np.where(np.arange(8)[:, None] < 4, table, np.nan))
    assert not kept.wealth.rejected.any()
    rule, kept = folded(problem, table)
    assert not kept.wealth.rejected.any()
    assert bool(rule.finished(problem, kept))
    rule, kept = folded(problem, np.where(np.arange(7)[:, None] < 4, table[:7], np.nan))
    assert kept.wealth.certain.tolist() == [False, True]


@pytest.mark.parametrize("table", [[[1, 0]], [[0, 0]], [[1, 0], [0, 1]], np.ones((30, 3)), np.zeros((12, 2))])
def test_small_and_uniform_lists_are_answered(table):
    table = np.asarray(table, dtype=float)
    (runs,) = simulate(BestArm(), ListReplay(table), [Lockstep(len(table))], runs=20, noise=Binary())
    assert runs.decided.all()
    assert runs.correct.all()


def test_each_of_several_arms_that_tie_is_right():
    """Of the two best the second ties with the third, on every item: no answer about them is wrong."""
    rng = np.random.default_rng(1)
    one = (rng.random(40) < 0.5).astype(float)
    table = np.stack([one, one, np.minimum(one + (np.arange(40) < 5), 1), np.zeros(40)], axis=1)
    for question in (TopK(2), BestArm(), TopK(2, lower_is_better=True)):
        (runs,) = simulate(question, ListReplay(table), [Lockstep(40)], runs=30)
        assert runs.decided.all()
        assert runs.correct.all()
    (runs,) = simulate(TopK(2), ListReplay(table[:, [0, 3, 2]]), [Lockstep(40)], runs=5)
    assert not ListRule(40).correct(runs.problem, np.array([True, True, False]), table[:, [0, 3, 2]].mean(axis=0))


def errors(table, runs, seed=1):
    (found,) = simulate(BestArm(), ListReplay(table), [Lockstep(len(table))], runs=runs, seed=seed)
    return 1 - found.correct.mean(), float((found.samples / table.size).mean())


def two_arms(size, gap, apart=0.2):
    one, other = round(size * (apart + gap) / 2), round(size * (apart - gap) / 2)
    table = np.zeros((size, 2))
    table[:one, 0] = 1
    table[one : one + other, 1] = 1
    table[one + other : (size + one + other) // 2] = 1
    return table


def test_it_takes_as_few_results_as_was_measured():
    """FINITE tables: .690 +- .006 and .478 +- .006 of all results; here 200 orders."""
    for size, used in ((200, 0.690), (500, 0.478)):
        wrong, mean = errors(two_arms(size, 0.06), 200)
        assert wrong <= 0.05
        assert mean == pytest.approx(used, abs=0.045)


def test_one_item_ahead_is_wrong_in_at_most_delta():
    """600 orders; a rate of .05 + 3 standard errors would be surprising (the slow test has 20 000)."""
    table = two_arms(200, 0.2 / 20)
    assert table.mean(axis=0)[0] - table.mean(axis=0)[1] == pytest.approx(0.01)
    wrong, _ = errors(table, 600)
    assert wrong <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 600)


@pytest.mark.slow
@pytest.mark.parametrize(("arms", "size"), [(2, 50), (2, 200), (2, 500), (8, 200)])
def test_errors_at_ties_and_one_item_off(arms, size):
    rng = np.random.default_rng(arms)
    column = (rng.random(size) < 0.5).astype(float)
    table = np.stack([rng.permutation(column) for _ in range(arms)], axis=1)
    table[np.flatnonzero(table[:, 0] == 0)[0], 0] = 1
    wrong, _ = errors(table, 20_000)
    assert wrong <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 20_000)


# --- studies


@pytest.fixture(autouse=True)
def _the_same_order(monkeypatch):
    """Every study draws the same seed, so that no test depends on chance."""
    monkeypatch.setattr("secrets.randbits", lambda bits: 11)


@pytest.fixture
def storage(tmp_path):
    return f"sqlite:///{tmp_path / 'studies.db'}"


def drawn(size=120, rates=(0.8, 0.55, 0.5), seed=3):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        [(f"q{i}", arm, int(rng.random() < rate)) for i in range(size) for arm, rate in zip(ARMS, rates, strict=False)],
        columns=["item", "arm", "outcome"],
    )


def create(storage, name="evals", size=120, **settings):
    return create_study(
        name,
        question=BestArm(),
        arms=ARMS,
        noise=Binary(),
        list=[f"q{i}" for i in range(size)],
        storage=storage,
        **settings,
    )


def due(study, rows):
    """The rows that the open round asks for."""
    asked = study.ask()
    wanted = {(arm, item) for arm, items in asked.items.items() for item in items}
    return rows[[(arm, item) in wanted for arm, item in zip(rows.arm, rows["item"], strict=True)]]


def finish(study, rows, change=lambda rows: [rows]):
    while study.ask() is not None:
        for part in change(due(study, rows)):
            if len(part):
                study.tell(part)
    return study.report()


def test_a_study_from_new_to_report(storage):
    rows = drawn()
    study = create(storage)
    report = finish(study, rows)
    assert report.answer == "a"
    assert report.headline.startswith("On this list, a is best")
    assert report.guarantee.kept
    assert report.results < report.list_results == 360
    assert "on this list of 120 items" in report.question_text
    assert f"{report.results} of 360 results of the whole list" in report.text()
    assert any("another winner is not known without repeats" in str(each) for each in report.notes)
    assert verify_study("evals", storage).sound
    truth = rows.groupby("arm").outcome.mean()
    for arm in report.arm_rows:
        assert arm.lower - 1e-9 <= truth[arm.name] <= arm.upper + 1e-9


def test_the_order_of_telling_does_not_matter(storage):
    rows, found = drawn(), []
    for k, change in enumerate(
        (
            lambda part: [part],
            lambda part: [part[part.arm == arm].iloc[::-1] for arm in reversed(ARMS)],
        )
    ):
        study = create(f"{storage}{k}", f"evals{k}", seed=7)  # a storage each: a second study says so
        plain = finish(study, rows, change).plain()
        for key in (
            "study",
            "files",
            "digest",
            "created",
            "changed",
            "reproduce",
            "by",
            "notes",
            "waiting_since",
            "next",
        ):
            plain.pop(key, None)
        found.append(plain)
    assert all(each == found[0] for each in found)


def test_results_of_later_items_wait(storage):
    rows = drawn()
    study = create(storage)
    now = due(study, rows)
    later = rows.drop(now.index)
    report = study.tell(later)  # all but what was asked for
    assert report.status == "undecided"
    assert study.ask().items
    report = study.tell(now)
    assert report.answer == "a"
    assert verify_study("evals", storage).sound


def test_the_whole_list_at_once_is_counted(storage):
    rows = drawn(rates=(0.5, 0.5, 0.5), seed=4)
    study = create(storage)
    study.ask()
    report = study.tell(rows)
    sums = rows.groupby("arm").outcome.sum()
    best = sums.index[sums == sums.max()].tolist()
    assert ([report.answer] if len(best) == 1 else list(report.tied_arms)) == best
    assert all(each.lower == pytest.approx(each.upper) for each in report.arm_rows)


def test_arms_that_tie_share_the_first_place(storage):
    rows = drawn(40, (0.5, 0.5, 0.5))
    rows["outcome"] = [int(int(item[1:]) % 2 == 0) for item in rows["item"]]
    study = create(storage, size=40)
    study.ask()
    report = study.tell(rows)
    assert report.tied_arms == ("a", "b", "c")
    assert report.headline == "On this list, a, b and c share the first place: 50.0 %"


def test_rows_without_an_outcome_are_asked_for_again(storage):
    rows = drawn()
    study = create(storage)
    now = due(study, rows)
    failed = now.astype({"outcome": object})
    failed.loc[failed.index[3], "outcome"] = None
    report = study.tell(failed)
    assert report.remaining == {now.iloc[3].arm: 1}
    assert any("asked for again" in str(each) for each in report.notes)
    assert sum(map(len, study.ask().items.values())) == 1
    study.tell(now.iloc[[3]])
    assert finish(study, rows).guarantee.kept


def test_the_rest_of_the_list_may_contradict_the_answer(storage):
    rows = drawn()
    study = create(storage)
    report = finish(study, rows)
    assert report.answer == "a"
    state = study.state
    order, there = state.spec.list.ordered(state.spec.seed), ~np.isnan(state.trial.kept.results)
    told = {(ARMS[arm], order[place]) for place, arm in np.argwhere(there)}
    rest = rows[[(arm, item) not in told for arm, item in zip(rows.arm, rows["item"], strict=True)]].copy()
    rest["outcome"] = (rest.arm == "b").astype(int)
    report = study.tell(rest)
    assert any("the answer is wrong: b is the best arm" in str(each) for each in report.dangers)
    assert report.answer == "a"


def test_an_arm_may_be_ahead_of_the_leader_until_the_answer_is_there(storage):
    study = create(storage, size=60)
    study.tell(due(study, drawn(60, (0.6, 0.55, 0.1))))
    report = study.report()
    assert report.status == "undecided"
    behind = [arm for arm in report.arm_rows if arm.gap_to_leader_upper]
    assert behind
    assert all(arm.lift_upper is None or arm.lift_upper > 0 for arm in behind)


def test_an_arm_that_ties_with_the_answer_does_not_contradict_it(storage):
    rows = drawn(rates=(0.55, 0.8, 0.5))
    study = create(storage)
    report = finish(study, rows)
    assert report.answer == "b"
    state = study.state
    order, there = state.spec.list.ordered(state.spec.seed), ~np.isnan(state.trial.kept.results)
    told = {(ARMS[arm], order[place]) for place, arm in np.argwhere(there)}
    rest = rows[[(arm, item) not in told for arm, item in zip(rows.arm, rows["item"], strict=True)]].copy()
    rest["outcome"] = 0
    behind = rows.drop(rest.index).groupby("arm").outcome.sum()
    of_a = rest.index[rest.arm == "a"]
    rest.loc[of_a[: behind["b"] - behind["a"]], "outcome"] = 1
    report = study.tell(rest)
    assert not report.dangers
    assert verify_study("evals", storage).sound


def test_arms_of_a_list_leave_and_join_for_reasons_that_are_unrelated_to_results(storage):
    """Then the study is what it would have been with the other arms from the beginning."""
    rows, study = drawn(), create(storage)
    rows = pd.concat([rows, rows[rows.arm == "a"].assign(arm="d", outcome=[int(i % 3 == 0) for i in range(120)])])
    study.tell(due(study, rows))
    for change in (lambda: study.drop("c", "too slow"), lambda: study.add("d", "new")):
        with pytest.raises(InputError, match="only for a reason that is unrelated"):
            change()
    study.add("d", "it was forgotten", unrelated=True)
    assert set(study.ask().items) == {"d"}  # it catches up
    study.tell(due(study, rows))
    study.drop("b", "its licence ended", unrelated=True)
    report = finish(study, rows)
    assert report.answer == "a"
    assert [each.name for each in report.arm_rows] == ["a", "c", "d"]
    assert "d was added for a reason unrelated" in str(report.guarantee)
    assert verify_study("evals", storage).sound
    spec = study.state.spec
    fresh = create_study(
        "fresh", question=BestArm(), arms=spec.arms, noise=Binary(), list=spec.list, seed=spec.seed, storage=storage
    )
    fresh.ask()
    told = study.state.trial.kept.results
    order = spec.list.ordered(spec.seed)
    same = [(arm, order[t], told[t, k]) for t, k in np.argwhere(~np.isnan(told)) for arm in [spec.arms[k]]]
    after = fresh.tell(pd.DataFrame(same, columns=["arm", "item", "outcome"]))
    assert after.answer == report.answer
    np.testing.assert_array_equal(fresh.state.trial.kept.wealth.log_wealth, study.state.trial.kept.wealth.log_wealth)


def test_the_arms_of_claims_about_a_list_are_fixed(storage):
    study = create_study(
        "e", question=Claims.against_control(ARMS, "a"), arms=ARMS, noise=Binary(), list=50, storage=storage
    )
    with pytest.raises(InputError, match="are fixed"):
        study.drop("c", "too slow", unrelated=True)


def test_a_second_study_of_a_list_rests_on_a_condition(storage):
    first = create(storage)
    create_study("items", question=BestArm(), arms=ARMS, noise=Binary(), list=120, storage=storage)
    assert first.report().guarantee.kept
    second = create(storage, name="again")
    assert "known from 'evals' (the same list)" in str(second.report().guarantee)
    shuffled = create_study(
        "third",
        question=TopK(2),
        arms=ARMS,
        noise=Binary(),
        list=[f"q{i}" for i in reversed(range(120))],
        storage=storage,
    )
    assert "known from 'again' and 'evals'" in str(shuffled.report().guarantee)
    assert create(storage, name="again", load_if_exists=True).state.spec == second.state.spec


def test_closing_a_round_keeps_the_guarantee_and_asks_again(storage):
    rows = drawn()
    study = create(storage)
    now = due(study, rows)
    study.tell(now.iloc[5:], round_over="the API was down")
    assert {item for items in study.ask().items.values() for item in items} >= set(now.iloc[:5]["item"])
    report = finish(study, rows)
    assert report.guarantee.kept
    assert verify_study("evals", storage).sound


def test_bounds_of_a_list_that_is_used_up_are_not_said_to_miss_by_their_rounding(storage):
    rng = np.random.default_rng(3)
    for k in range(20):
        study = create_study(f"s{k}", question=BestArm(), arms=ARMS, noise=Bounded(0, 1), list=7, storage=storage)
        study.ask()
        rows = [(arm, str(i), round(float(value), 3)) for arm in ARMS for i, value in enumerate(rng.random(7))]
        report = study.tell(pd.DataFrame(rows, columns=["arm", "item", "outcome"]))
        assert not any(each.widened for each in study.report().arm_rows), report.text()
        study.close()


def test_items_count_once_and_only_those_of_the_list(storage):
    rows = drawn()
    study = create(storage)
    now = due(study, rows)
    study.tell(now.iloc[:10])
    with pytest.raises(DataError, match="not on the list"):
        study.tell(now.iloc[10:].replace({"item": {now.iloc[10]["item"]: "q999"}}))
    report = study.tell(now)  # ten of them again
    assert report.results + report.pending == len(now)
    wrong = now.copy()
    wrong["outcome"] = 1 - wrong["outcome"]
    study.ask()
    with pytest.raises(DataError, match="nothing new|recorded"):
        study.tell(wrong)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"seed": 3}, "seed was chosen"),
        ({"list": {"items": [f"q{i}" for i in range(120)], "order": "given"}}, "that of the file"),
    ],
)
def test_an_order_that_was_chosen_is_a_condition(storage, settings, said):
    study = create_study(
        "evals",
        **{"question": BestArm(), "arms": ARMS, "noise": Binary(), "storage": storage, "list": 120} | settings,
    )
    report = study.report()
    assert not report.guarantee.kept
    assert said in str(report.guarantee)


def test_the_order_is_that_of_the_seed_and_an_audit_knows_it():
    one = ItemList(tuple(f"q{i}" for i in range(50)))
    assert one.ordered(1) != one.ordered(2)
    assert sorted(one.ordered(1)) == sorted(one.items)
    assert one.ordered(5) == one.ordered(5)


@pytest.mark.parametrize(
    ("list_", "said"),
    [
        (["q1", "q1 "], "twice"),
        (["q1", ""], "no id"),
        ([], "empty"),
        (0, "at least 1"),
        (10**15, "at most 1.000.000 items"),
        ({"size": 10, "repeats": 10**9}, "at most 1.000.000 items"),
        ({"items": ["a"], "order": "sorted"}, "random or given"),
        ({"names": ["a"]}, "needs `items`"),
    ],
)
def test_lists_that_are_none(list_, said, storage):
    with pytest.raises(InputError, match=said):
        create_study("e", question=BestArm(), arms=ARMS, noise=Binary(), list=list_, storage=storage)


def test_a_list_needs_results_in_a_range(storage):
    with pytest.raises(InputError, match="results in a range"):
        create_study("e", question=BestArm(), arms=ARMS, noise=Normal(), list=10, storage=storage)


def test_repeats_are_entries_of_their_own(storage):
    study = create_study(
        "evals", question=BestArm(), arms=ARMS, noise=Binary(), list=ItemList(("q1", "q2"), repeats=3), storage=storage
    )
    asked = study.ask()
    assert sorted(asked.items["a"]) == ["q1#1", "q1#2", "q1#3", "q2#1", "q2#2", "q2#3"]
    rows = [(arm, item, k, int(arm == "b" or k == 1)) for arm in ARMS for item in ("q1", "q2") for k in (1, 2, 3)]
    report = study.tell(pd.DataFrame(rows, columns=["arm", "item", "repeat", "outcome"]))
    assert report.answer == "b"
    assert "tried 3 times each" in report.question_text
    assert any("another run of the list" in str(each) and "is about" in str(each) for each in report.notes)


def test_a_tie_for_the_last_place_of_the_top_k_is_named(storage):
    study = create_study("evals", question=TopK(1), arms=ARMS, noise=Binary(), list=4, storage=storage)
    study.ask()
    rows = [(arm, str(i), int((arm == "a" and i < 3) or (arm == "b" and i > 0))) for arm in ARMS for i in range(4)]
    study.tell(pd.DataFrame(rows, columns=["arm", "item", "outcome"]))
    assert study.report().headline == "On this list, the top 1: a (75.0 %); b ties with a"


def test_the_command_line(roundwise, tmp_path):
    rows = drawn()
    (tmp_path / "items.csv").write_text("item\n" + "\n".join(f"q{i}" for i in range(120)))
    rows.to_csv(tmp_path / "all.csv", index=False)
    new = "new", "evals", "--question", "best-arm", "--arms", "a,b,c", "--binary"
    roundwise(*new, "--list", "items.csv")
    asked = roundwise("ask", "evals", "--as", "ids")[1].splitlines()
    assert asked[0] == "place,item,arm"
    assert len(asked) >= 61
    assert "On this list, a is best" in roundwise("tell", "evals", "all.csv")[1]
    other = "--item-column", "vars.id"  # where result files have it; the list has a column of its own
    assert "120 items" in roundwise("new", "nested", *new[2:], "--list", "items.csv", *other)[1]
    (tmp_path / "nameless.csv").write_text("id\nq1\nq2\n")
    assert "no column 'vars.id'" in roundwise("new", "none", *new[2:], "--list", "nameless.csv", *other)[2]


# --- other questions


def sums_decide(question, table, runs=30, **settings):
    (found,) = simulate(question, ListReplay(table), [Lockstep(len(table))], runs=runs, **settings)
    assert found.decided.all()
    return found


def drawn_table(size, rates, seed=1):
    return (np.random.default_rng(seed).random((size, len(rates))) < rates).astype(float)


@pytest.mark.parametrize(
    "question",
    [
        TopK(2),
        TopK(2, lower_is_better=True),
        BestArm(tolerance=0.05),
        Above(0.5),
        Above(0.5, lower_is_better=True),
        Above(0.5, tolerance=0.05),
        Claims.against_control(4, 1, sides="two"),
        Claims.against_control(4, 1, margin=0.05),
        Claims.against_control(4, 1, futility=0.1),
    ],
    ids=lambda each: f"{each.name} {each.lower_is_better}",
)
def test_every_question_is_answered_and_few_answers_are_wrong(question):
    table = drawn_table(150, [0.9, 0.6, 0.55, 0.3])
    found = sums_decide(question, table, 40)
    assert found.correct.mean() >= 0.9
    assert (found.samples < table.size).any()


@pytest.mark.parametrize("question", [Above(0.5), Claims.against_control(3, 0, sides="two")], ids=["above", "claims"])
def test_sides_are_shown_wrongly_in_at_most_delta(question):
    """All arms on the level, and level with the control: 500 orders."""
    column = np.arange(120) % 2.0
    rng = np.random.default_rng(4)
    table = np.stack([rng.permutation(column) for _ in range(3)], axis=1)
    found = sums_decide(question, table, 500)
    assert 1 - found.correct.mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 500)


def wealth_of(process_kept):
    return np.exp(log_wealth(process_kept.wealth.log_wealth))


@pytest.mark.parametrize(
    ("question", "table"),
    [
        (Above(0.4), [[1, 0.4], [1, 0.4], [0, 0.4], [0, 0.4], [0, 0.4]]),
        (Claims.against_control(2, 0, sides="two"), [[1, 0], [0.5, 1], [0, 0.5], [1, 1], [0, 0]]),
    ],
    ids=["above", "claims"],
)
def test_sides_have_wealth_one_on_average_at_their_bound(question, table):
    """L1 by enumeration, for levels and claims."""
    problem = Problem(question, 2, delta=1e-12, noise=Bounded(0, 1))
    rows, found = np.asarray(table, dtype=float), []
    for order in itertools.permutations(range(5)):
        told = np.where(np.arange(5)[:, None] < 3, rows[list(order)], np.nan)
        found.append(wealth_of(folded(problem, told)[1]))
    assert np.mean(found, axis=0) == pytest.approx(np.ones_like(found[0]), abs=1e-6)


def test_the_wealth_of_a_candidate_is_one_on_average_at_a_tie(monkeypatch):
    """Candidates by enumeration, named after two places."""
    monkeypatch.setattr("roundwise.rules.finite.candidates.FIRST", 2)
    problem = Problem(TopK(1), 2, delta=1e-12, noise=Bounded(0, 1))
    rows, found = np.array([[1, 0], [0.5, 1], [0, 0.5], [1, 1], [0, 0]]), []
    process_for.cache_clear()
    for order in itertools.permutations(range(5)):
        _, kept = folded(problem, np.where(np.arange(5)[:, None] < 4, rows[list(order)], np.nan))
        inside = kept.wealth.candidates[0].argmax()
        wealth = kept.wealth.log_wealth[0, :, inside, 1 - inside]
        found.append(float(np.exp(wealth).mean()))
    process_for.cache_clear()
    assert np.mean(found) == pytest.approx(1.0, abs=1e-6)


def test_arms_that_come_back_catch_up():
    """A candidate that changes needs arms again that had paused; then what is told of them counts from the start."""
    rng = np.random.default_rng(8)
    problem = Problem(TopK(2), 4, noise=Binary())
    found = 0
    for seed in range(12):
        table = drawn_table(120, [0.8, 0.55, 0.55, 0.3], seed)
        order = rng.permutation(120)
        rule = ListRule(120)
        policy = Lockstep(120)
        trial = begin(problem, policy)
        rows = table[order]
        while not bool(trial.done):
            missing = policy.missing_entries(problem, trial)
            found += bool((missing[: int(trial.kept.items)]).any())
            told = np.where(missing, rows[: len(missing)], np.nan)
            batch = Batch(missing.sum(axis=0) * 1.0, np.nansum(told, axis=0), rows=told)
            trial = advance(problem, policy, trial, batch)
        answer = rule.answer(problem, trial)
        assert answer.sum() == 2
    assert found  # somebody came back


@pytest.mark.parametrize(
    "settings",
    [
        {"question": TopK(2)},
        {"question": Above(0.6)},
        {"question": Claims.against_control(ARMS, "c", sides="two")},
        {"question": BestArm(tolerance=0.1), "noise": Bounded(0, 1)},
    ],
    ids=["top-k", "above", "claims", "tolerance"],
)
def test_studies_of_other_questions(storage, settings):
    rows = drawn(rates=(0.85, 0.7, 0.4))
    study = create_study("evals", **{"arms": ARMS, "noise": Binary(), "storage": storage, "list": 120} | settings)
    rows["item"] = rows["item"].str[1:]
    report = finish(study, rows)
    assert report.status == "decided"
    assert report.guarantee.kept
    assert verify_study("evals", storage).sound
    assert "on this list" in report.text().lower()


def test_questions_that_cannot_be_asked_of_a_list(storage):
    for question in (AnyAbove(0.5), Claims.against_control(3, 0, 2.0, scale="odds-ratio")):
        with pytest.raises(InputError):
            create_study("e", question=question, arms=ARMS, noise=Binary(), list=10, storage=storage)


def test_a_study_on_shared_items_says_what_it_saved(storage):
    study = create_study(
        "evals", question=BestArm(), arms=ARMS, noise=Binary(), columns=Columns(item="item"), prices="1,4,9",
        storage=storage,
    )  # fmt: skip
    study.ask()
    rows = drawn(100).query("arm != 'c' or item < 'q5'")
    report = study.tell(rows)
    rest = int((rows.arm == "c").sum())
    assert (report.items, report.results, report.items_cost) == (100, 200 + rest, 1400)
    said = " ".join(report.text().replace(chr(160), " ").split())
    assert f"{200 + rest} results ({(200 + rest) / 3:.1f} % of running all arms on 100 items)" in said
    assert "% of all arms on these items)" in said
