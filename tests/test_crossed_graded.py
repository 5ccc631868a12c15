"""Graded results on shared items: every bet on their differences is fair, however few of their values were told."""

import itertools
import math

import numpy as np
import pytest

from roundwise import (
    Above,
    BestArm,
    Binary,
    Bounded,
    Claims,
    Columns,
    ConditionalPower,
    Statements,
    TopK,
    Wager,
    create_study,
    simulate,
)
from roundwise.model.batch import Batch, Parts, ValueTable
from roundwise.model.estimates import Estimates, Past
from roundwise.model.problem import Problem, advance, begin
from roundwise.noise import PairedBinary, PairedBounded
from roundwise.noise.bets import PartForm, parts_data
from roundwise.rules.eprocess.claim_bounds import ClaimStep, pad_past, pad_steps
from roundwise.rules.eprocess.rule import eprocess_for
from roundwise.simulation.items import ItemReplay, StickItems
from roundwise.solvers.halfspaces import Halfspaces


def differences_of(grades):
    """The law of the difference of two independent, equally likely grades."""
    pairs = [round(a - b, 9) for a, b in itertools.product(grades, repeat=2)]
    return {value: pairs.count(value) / len(pairs) for value in sorted(set(pairs))}


LAWS = {  # of the difference of two arms on one item, mean 0; and how many items there are
    "+.1/-1": ({0.1: 10 / 11, -1.0: 1 / 11}, 20),
    "-.1/+1": ({-0.1: 10 / 11, 1.0: 1 / 11}, 20),
    "+.5/-1, whole sums": ({0.5: 2 / 3, -1.0: 1 / 3}, 12),
    "grades 0, .1, ..., 1": (differences_of(np.arange(11) / 10), 3),
    "grades 0, .5, 1": (differences_of([0.0, 0.5, 1.0]), 6),
    "0/1": (differences_of([0.0, 1.0]), 12),
}
ALONE = 25  # so many outcomes are bet on one by one, as in a live study: a bet must not be chosen by what came
PASTS = {  # of 200 items: variance of the differences, and their mean
    "hardly any spread": (0.001, 0.0),
    "some spread": (0.1, 0.05),
    "a lead": (0.05, 0.2),
}


def outcomes_of(values, items):
    """How often each value may come in so many items. (R, V)"""
    return np.array(
        [
            np.bincount(each, minlength=len(values))
            for each in itertools.combinations_with_replacement(range(len(values)), items)
        ],
        dtype=np.float64,
    )


def chances_of(counts, chances):
    """The multinomial probability of each. (R)"""
    logs = [math.lgamma(row.sum() + 1) - sum(math.lgamma(each + 1) for each in row) for row in counts]
    return np.exp(np.array(logs) + counts @ np.log(chances))


def batch_of(values, counts, table):
    """Two arms that differed so often by each value, a run for each row of counts; with how often, or sums alone."""
    runs, number = len(counts), counts.sum(axis=-1)
    totals, squares = counts @ values, counts @ values**2
    pairs = np.zeros((3, runs, 4))
    for place, sign in ((1, 1.0), (2, -1.0)):
        pairs[:, :, place] = number, sign * totals, squares - totals**2 / number
    told = None
    if table:
        every = np.unique(np.concatenate([values, -values, [0.0]]))
        of_pairs = np.zeros((runs, 4, len(every)))
        of_pairs[:, 1, np.searchsorted(every, values)] = counts
        of_pairs[:, 2, np.searchsorted(every, -values)] = counts
        told = ValueTable(np.broadcast_to(every, (runs, len(every))), of_pairs)
    alone = np.repeat(number[:, None], 2, axis=1)
    return Batch(alone, alone / 2, alone / 12, pairs=Batch(*pairs, told))


def past_of(runs, variance, mean, items=200.0):
    every = np.ones((runs, 4)) * items
    lead = np.array([0.0, 1.0, -1.0, 0.0]) * mean * items
    own = np.ones((runs, 2)) * items
    pairs = Past(every, np.broadcast_to(lead, every.shape), variance * every, every, ())
    return Past(own, own / 2, own / 12, own, ((own, own / 2),), pairs=pairs)


def pieces_of(runs):
    return Halfspaces(np.broadcast_to(np.array([[0, 1]]), (runs, 1, 2)), None, np.zeros((runs, 1)), True)


def in_one_part(batch):
    """The batch as one part of one partition."""

    def of(values):
        return values[:, None, :, None]

    pairs, table = batch.pairs, batch.pairs.table
    told = None if table is None else ValueTable(table.values, table.counts[:, None, :, None, :])
    both = Parts(of(pairs.counts), of(pairs.totals), of(pairs.scatter), told)
    return Parts(of(batch.counts), of(batch.totals), of(batch.scatter), pairs=both)


def tilted(noise, past, batch, size):
    """The bet of one size on a part."""
    runs = len(batch.counts)
    tilts = noise.part_bets(parts_data(past, in_one_part(batch)))
    places = np.arange(runs)[None], runs + np.arange(runs)[None]
    per_row = 1.0 / batch.counts[:, 0][None]
    tilt = tilts.forms(PartForm(list(places), None, np.zeros((1, runs))), np.zeros((1, runs)), 2 * per_row)
    return tilt(0, np.full(runs, size))


def towards(noise, past, batch, share):
    runs = len(batch.counts)
    known = Estimates(past, past.means, noise.variance(past))
    need, rho = np.full((runs, 1), 3.0), np.full((runs, 1), share)
    return noise.budget_bet(known, batch, pieces_of(runs), need, rho, 0.2)[:, 0]


def steadied(noise, past, batch, drift):
    runs = len(batch.counts)
    drifts = np.full((1, 1, 1), drift)
    return noise.fixed_size_bet(past, batch, pieces_of(runs), batch.counts, drifts)(np.zeros((runs, 1)))[0, :, 0]


BETS = {
    "a part, size 1": lambda *given: tilted(*given, 1.0),
    "a part, size 2": lambda *given: tilted(*given, 2.0),
    "a part, size 8": lambda *given: tilted(*given, 8.0),
    "towards a budget": lambda *given: towards(*given, 0.3),
    "the last batch": lambda *given: towards(*given, 1.0),
    "a bound, drift 1": lambda *given: steadied(*given, 1.0),
    "a bound, drift 4": lambda *given: steadied(*given, 4.0),
}


def mean_of_bet(noise, law, items, past, bet, table):
    """The exact mean of a bet over all that may come back."""
    values, chances = np.array(list(law)), np.array(list(law.values()))
    counts = outcomes_of(values, items)
    assert abs(values @ chances) < 1e-12
    lots = counts[:, None] if len(counts) <= ALONE else [counts]
    logs = np.concatenate([bet(noise, past_of(len(each), *past), batch_of(values, each, table)) for each in lots])
    return float(chances_of(counts, chances) @ np.exp(logs))


@pytest.mark.long
@pytest.mark.parametrize("table", [False, True], ids=["sums", "values"])
@pytest.mark.parametrize("bet", BETS)
@pytest.mark.parametrize("law", LAWS)
def test_the_exact_mean_of_a_bet_on_graded_differences_is_at_most_1(law, bet, table):
    for past in PASTS.values():
        assert mean_of_bet(PairedBounded(0.0, 1.0), *LAWS[law], past, BETS[bet], table) <= 1 + 1e-9


@pytest.mark.parametrize("bet", BETS)
def test_sums_tell_everything_of_zero_one_results_and_only_of_those(bet):
    law, items = LAWS["0/1"]
    counts = outcomes_of(np.array(list(law)), items)
    for past in PASTS.values():
        assert 0.5 < mean_of_bet(PairedBinary(), law, items, past, BETS[bet], table=False) <= 1 + 1e-9
        sums, values = (batch_of(np.array(list(law)), counts, table) for table in (False, True))
        known = past_of(len(counts), *past)
        exact = BETS[bet](PairedBinary(), known, sums)
        if "batch" not in bet and "budget" not in bet:  # McNemar's law is for 0/1 results alone
            np.testing.assert_allclose(exact, BETS[bet](PairedBounded(0.0, 1.0), known, values), atol=1e-9)
        assert not np.allclose(exact, BETS[bet](PairedBounded(0.0, 1.0), known, sums), atol=1e-3)


@pytest.mark.parametrize("table", [False, True], ids=["sums", "values"])
def test_batches_before_an_arm_was_added_are_bet_on_as_they_were(table):
    """What claims keep of batches is widened when an arm joins: bounds of a pair that was there stay as they were."""
    noise, (law, items) = PairedBounded(0.0, 1.0), LAWS["grades 0, .5, 1"]
    values, past = np.array(list(law)), past_of(1, *PASTS["a lead"])
    for counts in outcomes_of(values, items)[::20]:
        batch = batch_of(values, counts[None], table)
        arms, pairs = (each[0] for each in batch[:3]), batch.pairs
        told = None if pairs.table is None else ValueTable(pairs.table.values[0], pairs.table.counts[0])
        one = np.zeros(1)
        step = ClaimStep(*arms, np.ones(()), one, one, one > 0, Batch(*(each[0] for each in pairs[:3]), told))
        wide = pad_steps([step], 3, 2, 2).steps[0]
        pieces = Halfspaces(np.array([[0, 1]]), None, np.zeros(1), True)
        before, after = (
            noise.fixed_size_bet(known, each.batch, pieces, np.full(size, 50.0), np.full((1, 1), 2.0))(np.zeros(1))
            for each, known, size in (
                (step, one_run(past), 2),
                (wide, pad_past(one_run(past), 3), 3),
            )
        )
        np.testing.assert_allclose(after, before, atol=1e-12)
        assert before.any()


def one_run(past):
    own, pairs = past, past.pairs
    both = Past(*(each[0] for each in pairs[:4]), ())
    return Past(*(each[0] for each in own[:4]), (), pairs=both)


# --- the error at ties, and that questions are still answered ---------------------------------------------------------


def close_grades(arms):
    """Independent grades of a narrow part of the range, in every order of the arms: all means are the same."""
    drawn = np.random.default_rng(3).choice(np.linspace(0.35, 0.65, 7), (400, arms))
    every = [np.roll(drawn, turn, axis=1) for turn in range(arms)]
    return np.concatenate([*every, [[0.0] * arms, [1.0] * arms]])


TIES = {
    "best of two": (ItemReplay(close_grades(2)), BestArm()),
    "best of three": (ItemReplay(close_grades(3)), BestArm()),
    "top 1 of 3": (ItemReplay(close_grades(3)), TopK(1)),
    "statements": (ItemReplay(close_grades(3)), Statements.against_control(3, 0)),
    "the mean of eight 0/1 results": (StickItems([0.3, 0.3], 0.7, 8), BestArm()),
}


def struck(name, runs, batches, delta=0.05, seed=11):
    """In how many runs a true null was struck off, each played to the horizon, also past its end."""
    world, question = TIES[name]
    problem, policy, rng = Problem(question, world.arms, delta, world.noise), Wager(), np.random.default_rng(seed)
    state = world.initial_state(rng, runs)
    trial = begin(problem, policy, (runs,))
    ever, means = np.zeros(runs, dtype=bool), state.means[0]
    for _ in range(batches):
        pulls = np.clip(trial.plan.pulls, 1, 120)
        batch, state = world.pull_parts(rng, state, pulls, trial.plan.parts, 1)
        trial = advance(problem, policy, trial._replace(plan=trial.plan._replace(pulls=pulls)), batch)
        ever |= eprocess_for(problem).false_rejection(problem, trial.kept.wealth, means)
    return int(ever.sum())


@pytest.mark.long
def test_graded_ties_are_struck_off_with_at_most_the_error():
    """With every `Bounded(-1, 1)` taken for differences of 0/1 results it is 13 of 80."""
    assert struck("best of two", 80, 30) <= 0.05 * 80 + 3 * math.sqrt(0.05 * 0.95 * 80)


@pytest.mark.slow
@pytest.mark.parametrize("name", TIES)
def test_graded_ties_are_struck_off_with_at_most_the_error_in_many_runs(name):
    assert struck(name, 2000, 30) <= 0.05 * 2000


@pytest.mark.parametrize("graded", [False, True], ids=["0/1", "graded"])
@pytest.mark.parametrize(
    "question",
    [
        BestArm(),
        TopK(1),
        BestArm(tolerance=0.05),
        Statements.against_control(3, 0),
        Above(0.6),
        Claims.against_control(3, 0),
    ],
    ids=lambda question: f"{question.name} {getattr(question, 'tolerance', '') or ''}".strip(),
)
def test_every_question_is_answered(question, graded):
    rng = np.random.default_rng(2)
    luck = np.where(rng.random((3000, 3)) < 0.6, rng.random((3000, 1)), rng.random((3000, 3)))
    table = luck < np.array([0.3, 0.5, 0.8])
    if graded:
        table = (table + np.round(luck, 1)[:, ::-1] * 0.5) / 1.5
    world = ItemReplay(table.astype(float))
    assert (world.noise == PairedBinary()) is not graded
    claims = question.name == "claims"
    (found,) = simulate(
        question, world, [ConditionalPower() if claims else Wager()], runs=6, seed=3, budget=900 if claims else None
    )
    assert found.doubt is None
    assert found.correct.all()
    assert (found.true_shown == 2).all() if claims else found.decided.all()
    assert found.samples.mean() < 2500


# --- live studies ----------------------------------------------------------------------------------------------------


def rows_of(rng, arms, pulls, start, graded):
    """Results of items from `start` on, of which each arm is tried on the first so many."""
    rows = {"arm": [], "outcome": [], "item": []}
    for item in range(int(max(pulls))):
        luck = rng.random()
        for arm, number in zip(arms, pulls, strict=True):
            if item < number:
                own = luck if rng.random() < 0.6 else rng.random()
                right = float(own < RATES[arm])
                rows["arm"].append(arm)
                rows["outcome"].append(round((right + rng.random() / 2) / 1.5, 2) if graded else right)
                rows["item"].append(f"i{start + item}")
    return rows


RATES = {"a": 0.2, "b": 0.5, "c": 0.9, "d": 0.6}


def study_of(tmp_path, question, graded, **words):
    noise = Bounded(0.0, 1.0) if graded else Binary()
    where = f"sqlite:///{tmp_path}/s.db"
    return create_study(
        "s",
        question=question,
        arms=list("abc"),
        noise=noise,
        columns=Columns(item="item"),
        storage=where,
        seed=1,
        **words,
    )


@pytest.mark.long
@pytest.mark.parametrize("graded", [False, True], ids=["0/1", "graded"])
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (BestArm(), "c"),
        (TopK(2), ["b", "c"]),
        (BestArm(tolerance=0.1), "c"),
        (Above(0.6), ["c"]),
        (Statements.against_control(3, 0), None),
    ],
    ids=["best arm", "top 2", "tolerance", "above", "statements"],
)
def test_every_question_is_answered_live(tmp_path, question, answer, graded):
    rng, start = np.random.default_rng(4), 0
    with study_of(tmp_path, question, graded) as study:
        for _ in range(6):
            asked = study.ask()
            if asked is None:
                break
            report = study.tell(rows_of(rng, "abc", asked.pulls, start, graded))
            start += int(max(asked.pulls))
            assert (study.state.rounds[0].batch.pairs.table is not None) == graded
        assert report.status == "decided"
        assert report.guarantee.status != "void"
        assert answer is None or report.answer == answer


@pytest.mark.long
@pytest.mark.parametrize("graded", [False, True], ids=["0/1", "graded"])
def test_bounds_of_claims_hold_after_an_arm_was_added(tmp_path, graded):
    truth = {arm: (rate + 0.25) / 1.5 if graded else rate for arm, rate in RATES.items()}
    rng, start, arms = np.random.default_rng(5), 0, "abc"
    with study_of(tmp_path, Claims.against_control(3, 0), graded, budget=900) as study:
        for turn in range(4):
            asked = study.ask()
            if asked is None:
                break
            study.tell(rows_of(rng, arms, asked.pulls, start, graded))
            start += int(max(asked.pulls))
            if turn == 1:
                study.add("d", "a new one")
                arms = "abcd"
        found = study.report().claims
        assert len(found) == 3
        for words, *bounds in found[["claim", "lower", "upper", "single_lower", "single_upper"]].itertuples(
            index=False
        ):
            difference = truth[words[0]] - truth["a"]
            low, high, single_low, single_high = np.array(bounds, dtype=float)
            assert not max(low, single_low) > difference
            assert not min(high, single_high) < difference
            assert single_low > -0.9
