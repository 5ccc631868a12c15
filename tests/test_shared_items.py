"""Users and items that nobody declared: repeats are seen in one file, over several and over rounds."""

import json
from html import unescape

import numpy as np
import pytest

from roundwise import Bounded, Columns, Reading
from roundwise.ingest.record import unit_kind
from roundwise.study.audit import audit_entries
from studies import studies

pd = pytest.importorskip("pandas")


@pytest.fixture
def make(tmp_path):
    with studies(tmp_path) as found:
        yield found


def rows(n, column, title="user_id", seed=0):
    """A table of 0/1 results, arms by turns, with one more column: a function of the number of the row."""
    outcomes = np.random.default_rng(seed).integers(0, 2, n)
    return {"arm": ["ab"[i % 2] for i in range(n)], "outcome": outcomes, title: [column(i) for i in range(n)]}


def repeats(report):
    """The columns that make the guarantee conditional, with how many values repeat."""
    found = [each.fields for each in report.guarantee.conditions if each.code == "repeated_ids"]
    return {each["column"]: (each["repeated"], each["values"], each["several_arms"]) for each in found}


IN_BOTH = rows(80, lambda i: f"u{i // 2}")  # 40 users, each in both arms
REPEATING = {
    "both arms": (IN_BOTH, (40, 40)),
    "both arms and one row more": (
        {key: [*cells, cells[0]] for key, cells in IN_BOTH.items()},
        (40, 40),
    ),
    "ten rows a user in one arm": (rows(600, lambda i: f"u{i % 60}"), (60, 60)),
    "ten rows a user in any arm": (
        rows(600, lambda i: i // 10),
        (60, 60),
    ),
    "one user twice": (rows(100, lambda i: i if i < 99 else 0), (1, 99)),
    "six users in one arm each": (rows(60, lambda i: i % 6, "user"), (6, 6)),
    "six patients": (rows(120, lambda i: i % 6, "patient_id"), (6, 6)),
    "a title in one word": (rows(80, lambda i: i // 2, "customerid"), (40, 40)),
    "camel case": (rows(80, lambda i: i // 2, "visitorId"), (40, 40)),
    "email": (rows(80, lambda i: f"{i // 2}@x.org", "email"), (40, 40)),
    "items in all arms": (rows(80, lambda i: f"q{i // 2}", "question"), (40, 40)),
    "plates": (rows(96, lambda i: i // 8, "plate"), (12, 12)),
    "orders": (rows(200, lambda i: i // 3, "order_id"), (67, 67)),
}
ORDINARY = {
    "question_id": lambda i: f"q{i % 9}",  # too few to tell from a category
    "id": lambda i: i + 1,  # it numbers the rows
    "country": lambda i: f"C{i % 40}",
    "country_id": lambda i: i % 40,
    "day": lambda i: f"2026-03-{i % 28 + 1:02}",
    "date": lambda i: i // 20,
    "weekday": lambda i: i % 7,
    "device": lambda i: f"phone {i % 30}",
    "user_agent": lambda i: f"Mozilla {i % 35}",
    "user_type": lambda i: ("new", "returning")[i % 2],
    "user age": lambda i: 18 + i % 60,
    "campaign_id": lambda i: i % 15,
    "experiment_id": lambda i: 7,
    "client_id": lambda i: i % 3,
    "prompt": lambda i: f"template {i % 12}",  # 50 rows each
    "zip": lambda i: 10_000 + i % 80,
    "paid": lambda i: i % 50,
    "price": lambda i: i % 70 / 10,
    "session_length": lambda i: i % 90,
    "latency": lambda i: i // 2,
    "email": lambda i: i % 2,  # whether one was sent
    "subject": lambda i: f"Subject line {i % 2}",
    "visitor": lambda i: ("old page", "new page")[i % 2],  # describes the arms
    "timestamp": lambda i: f"2026-03-01T00:{i // 60:02}:{i % 60:02}",
}


@pytest.mark.parametrize("name", REPEATING)
def test_repeats_make_the_guarantee_conditional(make, name):
    table, numbers = REPEATING[name]
    title = list(table)[-1]
    study = make(arms=("a", "b"), round_size=len(table["arm"]))
    study.ask()
    report = study.tell(table)
    assert repeats(report)[title][:2] == numbers
    assert f"'{title}' looks like an identifier" in str(report.dangers[0])


def test_data_frames_and_files(make, tmp_path):
    frame = pd.DataFrame(IN_BOTH)
    frame.to_csv(tmp_path / "x.csv", index=False)
    for number, source in enumerate((frame, tmp_path / "x.csv")):
        study = make(f"s{number}", arms=("a", "b"), round_size=80)
        study.ask()
        assert repeats(study.tell(source)) == {"user_id": (40, 40, 40)}


def test_ordinary_columns_do_not(make):
    study = make(arms=("a", "b"), round_size=600, split="equal")
    for number in range(2):
        study.ask()
        table = rows(600, lambda i, number=number: f"u{i} {number}", seed=number)
        table["arm"] = np.random.default_rng(number).choice(["a", "b"], 600)
        report = study.tell(table | {title: [column(i) for i in range(600)] for title, column in ORDINARY.items()})
        assert (report.guarantee.status, report.dangers) == ("kept", ())


@pytest.mark.parametrize("files", [1, 4])
@pytest.mark.parametrize("title", ["kunde", "cid", "x"])
def test_values_that_repeat_and_stay_in_one_arm_are_taken_for_units(make, title, files):
    """Whatever the column is called: users are assigned to one arm, what describes rows is in all."""
    rng = np.random.default_rng(1)
    people = rng.integers(0, 120, 400)
    table = {"arm": np.array(["a", "b"])[people % 2], "outcome": rng.integers(0, 2, 400), title: people * 7919}
    table["hits"] = rng.integers(0, 120, 400)  # as many values, of either arm
    study = make(arms=("a", "b"), round_size=400, split="equal")
    study.ask()
    for k in range(files):
        report = study.tell({key: each[k::files] for key, each in table.items()}, new=True)
    ((found, numbers),) = repeats(report).items()
    assert (found, numbers[2]) == (title, 0)
    assert f"'{title}' looks like an identifier" in str(report.dangers[0])


def test_unequal_arms_alone_are_no_sign_of_units(make):
    """In 95 % of rows of one arm most values that repeat are of that arm by chance."""
    rng = np.random.default_rng(2)
    study = make(arms=("a", "b"), round_size=400, split="19:1")
    study.ask()
    arms = rng.choice(["a", "b"], 400, p=[0.95, 0.05])
    report = study.tell({"arm": arms, "outcome": rng.integers(0, 2, 400), "hits": rng.integers(0, 150, 400)})
    assert repeats(report) == {}


def test_it_is_said_on_every_surface(make):
    study = make(arms=("a", "b"), round_size=80)
    study.ask()
    assert repeats(study.tell(IN_BOTH)) == {"user_id": (40, 40, 40)}
    report = study.report()
    assert json.loads(json.dumps(report.plain()))["guarantee"] == report.guarantee.plain()
    for text in (report.text(), report.markdown(), unescape(report.html()), report.sentence):
        assert "rows with the same 'user_id' are independent of each other (40 of 40" in " ".join(text.split())


def test_one_file_an_arm(make):
    study = make()
    n = int(study.ask().pulls.min())
    for number, arm in enumerate("abc"):
        items = [f"q{(7 * i + number) % n}" for i in range(n)]  # the same ones in another order
        report = study.tell({"arm": [arm] * n, "outcome": [i % 2 for i in range(n)], "question_id": items})
        assert ("question_id" in repeats(report)) == (number > 0)
    assert repeats(report) == {"question_id": (n, n, n)}
    assert audit_entries(study.entries()).sound


def test_users_who_come_back_every_day_with_their_own_arm(make):
    study = make(round_size=600, split="equal")
    study.ask()
    for day in range(3):
        table = {"arm": list("abc") * 50, "outcome": [(i + day) % 2 for i in range(150)], "user": range(150)}
        report = study.tell(table, new=True)
        assert ("user" in repeats(report)) == (day > 0)
    assert repeats(report) == {"user": (150, 150, 0)}


def test_over_rounds_also_after_a_checkpoint(make):
    study = make(arms=("a", "b"), round_size=60)
    for number in range(3):
        study.ask()
        report = study.tell(rows(60, lambda i: i, "task", seed=number))
        assert ("task" in repeats(report)) == (number > 0)
    assert repeats(study.report()) == repeats(report) == {"task": (60, 60, 0)}


def test_long_files_are_sampled(make):
    """5000 users, a tenth of whom come back the next day: about how many is said, and nothing of those who do not."""
    study = make(arms=("a", "b"), round_size=5000)
    for day in range(2):
        study.ask()
        report = study.tell(rows(5000, lambda i, day=day: i + 4500 * day, seed=day))
        assert ("user_id" in repeats(report)) == (day > 0)
    repeated, values, _ = repeats(report)["user_id"]
    assert repeated == pytest.approx(500, rel=0.6)
    assert values == pytest.approx(9500, rel=0.2)


def test_rows_that_were_recorded_before_do_not_count_again(make):
    """An export "so far" with declared orders: the users of yesterday stand in it again, each once."""
    study = make(arms=("a", "b"), round_size=400, columns=Columns(id="order"))
    study.ask()
    for day in (100, 200):
        report = study.tell(rows(day, lambda i: i, "order") | {"user_id": [f"u{i}" for i in range(day)]})
        assert report.guarantee.status == "kept"
    study.tell(rows(250, lambda i: i, "order") | {"user_id": [f"u{i % 240}" for i in range(250)]})
    assert repeats(study.status())["user_id"][:2] == (10, 240)


def test_averaged_ids_are_one_result(make):
    means = Reading(id_result="mean")
    study = make(arms=("a", "b"), noise=Bounded(0, 1), round_size=60, columns=Columns(id="user"), reading=means)
    study.ask()
    table = rows(600, lambda i: i % 60, "user") | {"user_name": [f"name {i % 60}" for i in range(600)]}
    assert "user_name" not in repeats(study.tell(table))


def test_titles():
    named = ("user_id", "UserID", "USER_ID", "userId", "patient no", "uuid", "customer_name", "Visitor Id")
    assert {unit_kind(each) for each in named} == {"person"}
    assert {unit_kind(each) for each in ("user", "Patients", "email", "cookie")} == {"people"}
    assert {unit_kind(each) for each in ("prompt", "device_id", "id", "caseid", "session")} == {"thing"}
    others = ("covid", "android", "side", "bid", "grid", "valid", "user_country", "number", "x" * 500, "", "run_id")
    assert {unit_kind(each) for each in others} == {None}
    assert np.all([unit_kind(f"{each}_id") is None for each in ("variant", "day", "category", "segment", "page")])
