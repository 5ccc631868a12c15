"""A study of claims from its creation to its report: rounds, what is shown for good, why it ended."""

import itertools
import math

import numpy as np
import pytest

from roundwise import Binary, Claims, ConditionalPower, Problem, Rounds, create_study, load_study
from roundwise.model.batch import Batch
from roundwise.model.problem import advance, begin
from roundwise.rules.eprocess.claims import ClosedTestingRule

DOSES = ("placebo", "25mg", "75mg", "150mg", "300mg")
RATES = dict(zip(DOSES, (0.2, 0.1, 0.35, 0.4, 0.8), strict=True))


@pytest.fixture
def storage(tmp_path):
    return f"sqlite:///{tmp_path / 'studies.db'}"


def created(storage, **more):
    words = {"budget": 300, "round_size": 60, **more}
    return create_study(
        "doses", question=Claims.against_control(DOSES, "placebo"), arms=DOSES, noise=Binary(), delta=0.025,
        storage=storage, **words,
    )  # fmt: skip


def told(study, seed=1):
    """Ask and tell to the end; the totals of every batch."""
    import pandas as pd

    rng, batches = np.random.default_rng(seed), []
    while (asked := study.ask()) is not None:
        rows = [(arm, int(x)) for arm, n in asked.table for x in rng.binomial(1, RATES[arm], n)]
        study.tell(pd.DataFrame(rows, columns=["arm", "outcome"]), new=True)
        counts = [sum(arm == name for arm, _ in rows) for name in DOSES]
        batches.append(
            Batch(np.array(counts, float), np.array([sum(x for a, x in rows if a == n) for n in DOSES], float))
        )
    return batches


@pytest.mark.long
@pytest.mark.parametrize("split", [None, (2, 1, 1, 1, 1)], ids=["own split", "fixed split"])
def test_a_study_is_the_trial_of_its_batches(storage, split):
    pytest.importorskip("pandas")
    with created(storage, split=split) as study:
        batches = told(study)
        report = study.report()
    problem = Problem(Claims.against_control(DOSES, "placebo"), 5, 0.025, Binary())
    policy = Rounds(ConditionalPower(), 300, 60, split)
    trial = begin(problem, policy)
    for batch in batches:
        assert trial.plan.pulls.tolist() == batch.counts.tolist()
        trial = advance(problem, policy, trial, batch)
    assert trial.done
    rows = report.plain()["claims"]
    assert [row["shown"] for row in rows] == trial.kept.shown.tolist()
    assert rows[3]["shown"]
    assert rows[3]["shown_at"] == int(trial.kept.batch[3])
    assert not rows[0]["shown"]
    for row, claim in zip(rows, ClosedTestingRule().claims(problem, trial, DOSES), strict=True):
        assert row["claim"] == claim.words
        lost = claim.evidence == -np.inf  # by a last bet: nothing that JSON has
        assert row["log_evidence"] == (None if lost else pytest.approx(claim.evidence))
        assert row["estimate"] == pytest.approx(claim.estimate)
    assert report.headline.startswith("Shown: ")
    assert "300mg (+" in report.headline
    assert report.guarantee.status == "kept"


def test_a_claim_that_was_shown_stays_when_the_study_is_loaded_again(storage):
    pytest.importorskip("pandas")
    import pandas as pd

    with created(storage, budget=600, round_size=100) as study:
        turned = {"placebo": 0.0, "25mg": 0.0, "75mg": 0.0, "150mg": 0.0, "300mg": 1.0}
        for _ in range(2):
            asked = study.ask()
            rows = [(arm, int(turned[arm])) for arm, n in asked.table for _ in range(n)]
            study.tell(pd.DataFrame(rows, columns=["arm", "outcome"]), new=True)
    with load_study("doses", storage) as study:
        assert [row.shown for row in study.report().claim_rows] == [False, False, False, True]
        asked = study.ask()
        rows = [(a, int(a == "placebo")) for a, n in asked.table for _ in range(n)]
        study.tell(pd.DataFrame(rows, columns=["arm", "outcome"]), new=True)
        shown = study.report().claim_rows[3]
        assert shown.shown
        assert shown.shown_at == 1 or shown.shown_at == 2


def test_the_report_says_why_it_ended(storage):
    pytest.importorskip("pandas")
    with created(storage) as study:
        told(study)
        assert any(each.code == "ended" for each in study.report().notes)


@pytest.mark.parametrize("withdrawn", [1, 2], ids=["before the next round", "after it"])
def test_without_a_budget_the_only_file_of_the_first_round_can_be_withdrawn(storage, tmp_path, withdrawn):
    """It was a traceback: nothing came back, so nothing was planned, and an empty batch was passed over."""
    rng = np.random.default_rng(1)
    with created(storage, budget=None, round_size=None) as study:
        for number in range(1, withdrawn + 1):
            rows = [f"{arm},{x}" for arm, n in study.ask().table for x in rng.binomial(1, RATES[arm], n)]
            (tmp_path / f"{number}.csv").write_text("\n".join(["arm,outcome", *rows]))
            study.tell(tmp_path / f"{number}.csv")
        study.amend("1.csv", None, "it was of a pilot study")
        assert study.report().results == (0 if withdrawn == 1 else len(rows))
        asked = study.ask()
        assert asked is not None
        assert sum(n for _, n in asked.table) > 0
        if withdrawn == 1:  # as if it began anew
            first = ConditionalPower().first(study.state.spec.problem, ())
            assert [n for _, n in asked.table] == first.pulls.tolist()


def test_reports_have_adjusted_e_values_and_bounds_of_single_steps_in_columns_of_their_own(storage):
    pytest.importorskip("pandas")
    with created(storage) as study:
        told(study)
        report = study.report()
    rows, open_ = report.plain()["claims"], [i for i, row in enumerate(report.claim_rows) if not row.shown]
    assert 0 < len(open_) < len(rows)
    money = [math.exp(row["log_evidence"]) if row["log_evidence"] is not None else 0.0 for row in rows]
    for i, row in enumerate(rows):
        others = [j for j in open_ if j != i]
        sets = [(i, *some) for n in range(len(others) + 1) for some in itertools.combinations(others, n)]
        least = min(sum(money[j] for j in each) / len(each) for each in sets)
        found = 0.0 if row["log_adjusted"] is None else math.exp(row["log_adjusted"])
        assert found == pytest.approx(least, rel=1e-9)
        assert row["shown"] or found < 1 / 0.025
        assert row["single_lower"] <= row["estimate"] <= row["single_upper"] == row["upper"]
        assert row["lower"] >= (row["single_lower"] if row["shown"] else min(row["single_lower"], 0.0))
    assert {"log_adjusted", "single_lower", "single_upper"} <= set(report.claims.columns)
