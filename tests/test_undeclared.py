"""Items that nobody declared are seen in one file, over several and over rounds, and nothing else is taken for them."""

import pytest

from changing import studies
from roundwise.studies.keeping import verified


@pytest.fixture
def make(tmp_path):
    with studies(tmp_path) as found:
        yield found


def test_items_that_come_back_make_the_guarantee_conditional(make):
    study = make()
    asked = study.ask()
    n = int(asked.pulls.min())
    rows = [(arm, i % 2, f"q{i}") for i in range(n) for arm in asked.arms]
    arms, outcomes, items = map(list, zip(*rows, strict=True))
    found = study.tell({"arm": arms, "outcome": outcomes, "question_id": items})
    assert found.guarantee == (
        "conditional on the assumption that results of different arms on the same item have nothing to do with "
        "each other"
    )


def test_items_that_come_back_in_another_file_make_it_conditional_too(make):
    """One file an arm: no file shows it alone."""
    study = make()
    n = int(study.ask().pulls.min())
    for number, arm in enumerate("abc"):
        items = [f"q{(7 * i + number) % n}" for i in range(n)]  # the same ones in another order
        found = study.tell({"arm": [arm] * n, "outcome": [i % 2 for i in range(n)], "question_id": items})
        assert ("same item" in found.guarantee) == (number > 0)
    assert sum("stand in data frame too, with another arm" in each for each in found.notes) == 1
    assert verified(study.entries()).sound


@pytest.mark.parametrize(
    ("title", "values"),
    [
        ("question_id", lambda arm, n: [f"{arm}{i}" for i in range(n)]),  # items of its own for every arm
        ("id", lambda _, n: list(range(1, n + 1))),  # it numbers the rows of each file
        ("question_id", lambda _, n: [f"q{i % 9}" for i in range(n)]),  # too few to tell
        ("date", lambda _, n: [f"day {i}" for i in range(n)]),
    ],
)
def test_what_is_no_item_is_not_spoken_of(make, title, values):
    study = make()
    n = int(study.ask().pulls.min())
    for arm in "abc":
        found = study.tell({"arm": [arm] * n, "outcome": [i % 2 for i in range(n)], title: values(arm, n)})
    assert found.guarantee == "kept"
    assert not any("items" in each for each in found.notes)


def test_users_who_come_back_with_their_own_arm_are_no_items(make):
    study = make(round=600, split="equal")
    study.ask()
    users = [f"u{i}" for i in range(150)]
    for day in range(3):
        table = {"arm": list("abc") * 50, "outcome": [(i + day) % 2 for i in range(150)], "user": users}
        found = study.tell(table, again=True)
    assert not any("same items" in each for each in found.notes)


def test_items_of_the_round_before_are_seen_in_the_next(make):
    study = make(arms=("a", "b"), round=60)
    for number, arm in enumerate("ab"):
        study.ask()
        table = {"arm": [arm] * 60, "outcome": [i % 2 for i in range(60)], "task": range(60)}
        found = study.tell(table, again=True, round_over="by hand")
        assert ("same item" in found.guarantee) == (number > 0)
