"""Rules by which rows become results: in every format, over several files, in the record and on every surface."""

import json

import numpy as np
import pytest

from result_files import ARMS, WITH_IDS, reader, table, users
from roundwise import (
    BestArm,
    Binary,
    Bounded,
    Claims,
    Columns,
    DataError,
    InputError,
    Metric,
    Normal,
    Reading,
    create_study,
    load_study,
)
from roundwise.ingest import RecordedFiles, Results, read_results
from roundwise.study.audit import export_study, import_study, verify_study
from roundwise.study.spec import StudySpec
from studies import same_when_read_again, studies

ORDERS = Columns(id="user", time="day")


@pytest.fixture
def tell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return reader(tmp_path)


def orders(*rows):
    return table(*rows, header="user,arm,outcome,day")


def codes(results):
    return [each.code for each in results.notes]


# --- empty outcomes


def test_empty_is_zero_missing_or_refused(tell):
    text = table("placebo,2", "placebo,", "25mg,NA", "25mg,4")
    with pytest.raises(DataError, match=r"line 3: 2 rows have no outcome"):
        tell(text, Bounded(0, 9))
    zero = tell(text, Bounded(0, 9), reading=Reading(empty="zero"))
    assert (zero.counts.tolist(), zero.totals.tolist(), zero.missing) == ([2, 2, 0], [2, 4, 0], None)
    assert zero.notes[0].fields["rows"] == 2
    missing = tell(text, Bounded(0, 9), reading=Reading(empty="missing"))
    assert (missing.counts.tolist(), missing.missing.tolist()) == ([1, 1, 0], [1, 1, 0])
    assert missing.missing_reason == "the outcome is empty"
    said = tell(text, Bounded(0, 9), reading=Reading(empty="missing"), missing="moved away")
    assert said.missing_reason == "moved away"


def test_empty_cells_of_a_wide_table(tell):
    text = "placebo,25mg,Big button\n1,,0\n,1,1\n"
    assert tell(text).counts.tolist() == [1, 1, 2]
    assert tell(text, reading=Reading(empty="zero")).counts.tolist() == [2, 2, 2]
    assert tell(text, reading=Reading(empty="missing")).missing.tolist() == [1, 1, 0]


def test_what_is_no_number_stays_an_error(tell):
    with pytest.raises(DataError, match="not a number"):
        tell(table("placebo,many"), Bounded(0, 9), reading=Reading(empty="zero"))


# --- shares


def test_shares_above_and_below(tell):
    text = table("placebo,299", "placebo,300", "25mg,301", "25mg,1200", "Big button,1")
    above = tell(text, reading=Reading(share_above=300))
    below = tell(text, reading=Reading(share_below=300))
    assert above.totals.tolist() == [0, 2, 0]
    assert below.totals.tolist() == [1, 0, 1]
    with pytest.raises(DataError, match="299"):
        tell(text)
    with pytest.raises(DataError, match="sums cannot be read"):
        tell("arm,count,total\nplacebo,3,900\n", reading=Reading(share_above=300))
    assert tell("arm,count,successes\nplacebo,3,1\n", reading=Reading(share_above=300)).totals.tolist() == [1, 0, 0]


# --- units


@pytest.mark.parametrize(
    ("rule", "wanted"), [("sum", [6.0, 7.0]), ("mean", [3.0, 3.5]), ("max", [5.0, 4.0]), ("any", [1.0, 1.0])]
)
def test_one_result_of_each_unit(tell, rule, wanted):
    text = users("1,placebo,1", "2,25mg,3", "1,placebo,5", "3,placebo,0", "2,25mg,4")
    found = tell(text, Binary() if rule == "any" else Bounded(0, 10), study=WITH_IDS, reading=Reading(id_result=rule))
    assert (found.rows, found.counts.tolist()) == (3, [2, 1, 0])
    assert found.totals.tolist()[:2] == pytest.approx(wanted)
    again = Results.from_payload(json.loads(json.dumps(found.payload())))
    with pytest.raises(DataError, match="nothing new"):
        tell(text + "1,placebo,0\n", study=WITH_IDS, reading=Reading(id_result=rule), told=[again])


def test_the_result_of_a_unit_is_checked_not_its_rows(tell):
    text = users("1,placebo,6", "1,placebo,6")
    with pytest.raises(DataError, match=r"line 2: outcome \(sum of one id\) 12 of arm 'placebo' is outside"):
        tell(text, Bounded(0, 10), study=WITH_IDS, reading=Reading(id_result="sum"))
    assert tell(text, Binary(), study=WITH_IDS, reading=Reading(id_result="any")).totals[0] == 1
    large = Reading(id_result="sum", share_above=10)
    assert tell(text, Binary(), study=WITH_IDS, reading=large).totals[0] == 1


def test_empty_rows_of_units(tell):
    text = users("1,placebo,", "1,placebo,4", "2,placebo,", "3,25mg,", "3,25mg,")
    words = {"study": WITH_IDS, "noise": Bounded(0, 9)}
    zero = tell(text, reading=Reading(empty="zero", id_result="sum"), **words)
    assert (zero.counts.tolist(), zero.totals.tolist()) == ([2, 1, 0], [4, 0, 0])


@pytest.mark.parametrize("rule", ["sum", "mean", "max", "any"])
def test_a_unit_that_lacks_an_outcome_is_missing(tell, rule):
    """What its other rows lead to is not its result: half of an arm's revenue was left out, and the guarantee kept."""
    text = users("1,placebo,", "1,placebo,0", "2,placebo,", "3,25mg,", "3,25mg,", "4,25mg,0", "4,25mg,0")
    reading = Reading(empty="missing", id_result=rule)
    found = tell(text, Binary() if rule == "any" else Bounded(0, 9), study=WITH_IDS, reading=reading)
    assert (found.counts.tolist(), found.missing.tolist()) == ([0, 1, 0], [2, 1, 0])
    known = tell(users("1,placebo,", "1,placebo,1"), Binary(), study=WITH_IDS, reading=Reading("missing", "any"))
    assert (known.totals.tolist(), known.missing) == ([1, 0, 0], None)  # whatever the other row would be


def test_a_unit_in_two_arms(tell):
    text = users("1,placebo,1", "1,25mg,1", "2,placebo,1")
    with pytest.raises(DataError, match="another arm"):
        tell(text, study=WITH_IDS, reading=Reading(id_result="max"))
    found = tell(text, study=WITH_IDS, reading=Reading(id_result="max", mixed_ids="left-out"))
    assert found.counts.tolist() == [1, 0, 0]
    assert "several_arms" in codes(found)
    for rows in (("1,placebo,1", "1,25mg,1"), ("1,25mg,1", "1,placebo,1")):  # whichever arm comes first
        again = tell(
            users(*rows, "3,placebo,1"),
            study=WITH_IDS,
            reading=Reading(id_result="max", mixed_ids="left-out"),
            told=[found],
        )
        assert (again.counts.tolist(), again.contradicted) == ([1, 0, 0], None)


def test_a_window(tell):
    """A unit is told when its window has closed; until then it waits, and later rows do not count."""
    rules = {"study": ORDERS, "reading": Reading(id_result="sum", id_window="7d"), "noise": Normal()}
    first = tell(orders("1,placebo,10,2026-05-01", "2,25mg,1,2026-05-06", "1,placebo,5,2026-05-07 23:59",
                        "1,placebo,99,2026-05-08"), **rules)  # fmt: skip
    assert (first.counts.tolist(), first.totals.tolist()) == ([1, 0, 0], [15, 0, 0])
    assert {"waiting", "after_window"} <= set(codes(first))
    kept = Results.from_payload(json.loads(json.dumps(first.payload())))
    every = orders("1,placebo,10,2026-05-01", "2,25mg,1,2026-05-06", "1,placebo,5,2026-05-07 23:59",
                   "1,placebo,99,2026-05-08", "2,25mg,2,2026-05-09T08:00:00+00:00", "3,25mg,1,2026-05-13")  # fmt: skip
    second = tell(every, told=[kept], **rules)
    assert (second.counts.tolist(), second.totals.tolist(), second.contradicted) == ([0, 1, 0], [0, 3, 0], None)
    assert second.skipped == 3
    for wrong in (orders("3,25mg,1,2026-05-19"), orders("2,25mg,2,2026-05-09", "3,25mg,1,2026-05-19")):
        with pytest.raises(DataError, match="lacks rows of 1 of the 1 ids"):
            tell(wrong, told=[kept], **rules)
    with pytest.raises(DataError, match="still open for all 1"):
        tell(orders("1,placebo,10,2026-05-01"), **rules)
    with pytest.raises(DataError, match=r"line 2: 'soon' is not a time"):
        tell(orders("1,placebo,10,soon"), **rules)


def test_the_same_in_every_format(tmp_path, tell):
    pd = pytest.importorskip("pandas")
    rows = [
        ("1", "placebo", 10.0, "2026-05-01"),
        ("2", "25mg", None, "2026-05-02"),
        ("1", "placebo", 5.0, "2026-05-03"),
        ("3", "25mg", 7.0, "2026-05-04"),
        ("9", "25mg", 1.0, "2026-05-20"),
    ]
    frame = pd.DataFrame(rows, columns=["user", "arm", "outcome", "day"])
    frame.to_csv("a.csv", index=False)
    frame.to_parquet("a.parquet")
    frame.assign(day=pd.to_datetime(frame["day"])).to_excel("a.xlsx", index=False)
    frame.to_json("a.json", orient="records")
    reading = Reading(empty="zero", id_result="sum", id_window="1w")
    sources = ["a.csv", "a.parquet", "a.xlsx", "a.json", frame, frame.assign(day=pd.to_datetime(frame["day"]))]
    found = [read_results(each, ARMS, Normal(), columns=ORDERS, reading=reading, seed=3) for each in sources]
    for each in found:
        assert (each.counts.tolist(), each.totals.tolist()) == ([1, 2, 0], [15, 7, 0])
        assert (each.ids, each.id_outcomes, each.waiting_ids) == (
            found[0].ids,
            found[0].id_outcomes,
            found[0].waiting_ids,
        )


# --- rules


@pytest.mark.parametrize(
    "wrong",
    [
        {"empty": "null"},
        {"id_result": "median"},
        {"mixed_ids": "both"},
        {"id_result": "sum", "id_window": "soon"},
        {"id_result": "sum", "id_window": "0d"},
        {"id_window": "7d"},
        {"share_above": float("nan")},
        {"share_above": 1, "share_below": 2},
    ],
)
def test_rules_that_make_no_sense(wrong):
    with pytest.raises(InputError):
        Reading(**wrong)


@pytest.mark.parametrize(
    ("reading", "columns", "noise"),
    [
        (Reading(id_result="sum"), Columns(), Normal()),
        (Reading(mixed_ids="left-out"), Columns(), Normal()),
        (Reading(id_result="sum", id_window="7d"), Columns(id="user"), Normal()),
        (Reading(share_above=3), Columns(), Normal()),
        (Reading(id_result="any"), Columns(id="user"), Bounded(0, 1)),
    ],
)
def test_rules_that_a_study_cannot_have(reading, columns, noise):
    with pytest.raises(InputError):
        StudySpec.declare(question=BestArm(), arms=["a", "b"], noise=noise, columns=columns, reading=reading)


def test_zero_is_a_value_like_others():
    spec = StudySpec.declare(question=BestArm(), arms=["a", "b"], noise=Binary(), reading=Reading(share_above=0.0))
    assert StudySpec.from_json(spec.to_json()).reading == Reading(share_above=0.0)


# --- studies


@pytest.fixture
def make(tmp_path):
    with studies(tmp_path) as found:
        yield found


def day_file(*rows):
    return dict(zip(("user", "arm", "outcome", "visits", "day"), map(list, zip(*rows, strict=True)), strict=True))


@pytest.mark.parametrize("metrics", [(), (Metric("visits", Normal(), margin=1.0),)])
def test_an_id_whose_rows_come_in_two_files(make, metrics):
    """Without a window the first file tells it; with one, a file must have all rows of the ids that wait."""
    ids = [("u1", "a", 10.0, 1, "2026-05-04"), ("u2", "b", 5.0, 1, "2026-05-04"), ("u5", "a", 1.0, 1, "2026-05-01")]
    more = [("u1", "a", 7.0, 2, "2026-05-05"), ("u4", "b", 3.0, 1, "2026-05-05"), ("u9", "a", 0.0, 0, "2026-05-08")]
    words = {"arms": ("a", "b"), "noise": Normal(), "round_size": 20, "columns": ORDERS, "metrics": metrics}
    words["question"] = Claims.against_control(["a", "b"], 0)
    study = make("not a window", reading=Reading(id_result="sum"), **words)
    study.ask()
    study.tell(day_file(*ids))
    report = study.tell(day_file(*more))
    assert (report.pending, study.state.rounds[0].files[1].totals.tolist()) == (5, [0, 3])
    assert {"skipped", "contradicts", "ids_in_two_files"} <= {each.code for each in report.notes}
    assert "contradicted" in report.guarantee.codes
    study = make("window", reading=Reading(id_result="sum", id_window="2d"), **words)
    study.ask()
    assert study.tell(day_file(*ids)).pending == 1  # u5, whose window has closed
    with pytest.raises(DataError, match="lacks rows of 2 of the 2 ids"):
        study.tell(day_file(*more))
    report = study.tell(day_file(*ids, *more))
    files = study.state.rounds[0].files
    assert files[1].totals.tolist() == [17, 8]
    assert [each.totals.tolist() for each in files[1].metrics] == [[3, 2]] * len(metrics)
    assert "contradicted" not in report.guarantee.codes
    same_when_read_again(study)


def test_a_study_with_rules_is_recorded_verified_and_moved(make, tmp_path):
    rules = Reading(empty="zero", id_result="sum", id_window="2d")
    study = make(arms=("a", "b"), noise=Normal(), round_size=60, columns=ORDERS, reading=rules)
    assert study.state.spec.reading == rules
    rng, rows = np.random.default_rng(1), {"user": [], "arm": [], "outcome": [], "day": []}
    for day in range(1, 12):
        for user in range(20):
            name = f"{day}-{user}"
            for later in range(int(rng.integers(1, 4))):
                rows["user"].append(name)
                rows["arm"].append("ab"[user % 2])
                rows["outcome"].append(float(rng.normal(user % 2, 1)) if rng.random() < 0.8 else None)
                rows["day"].append(f"2026-05-{min(day + later, 28):02d}")
        if study.state.decided is None:
            study.ask()
        if day >= 3:
            until = f"2026-05-{day:02d}"
            some = [i for i, at in enumerate(rows["day"]) if at <= until]
            study.tell({title: [column[i] for i in some] for title, column in rows.items()})
    report = study.report()
    assert rules.words in report.assumptions
    assert rules.words in report.text().replace("\n", " ")
    assert report.results == 20 * 9
    same_when_read_again(study)
    url, other = f"sqlite:///{tmp_path}/studies.db", f"sqlite:///{tmp_path}/other.db"
    assert verify_study("s", url).differences == ()
    export_study("s", tmp_path / "s.jsonl", url)
    import_study(tmp_path / "s.jsonl", other).close()
    with load_study("s", other) as copy:
        assert copy.state.spec.reading == rules


def test_several_files_in_one_call(make, tmp_path):
    study = make(arms=("a", "b"), noise=Normal(), round_size=8, columns=WITH_IDS, reading=Reading(id_result="sum"))
    study.ask()
    one = {"user": [1, 1, 2, 3], "arm": ["a", "a", "b", "a"], "outcome": [1.0, 2.0, 3.0, 4.0]}
    two = {"user": [3, 4, 5, 5], "arm": ["a", "b", "a", "a"], "outcome": [4.0, 3.0, 2.0, 1.5]}
    report = study.tell(one, two)
    assert report.pending == 5
    assert study.state.contradicted == 0


def test_at_the_command_line(roundwise, tmp_path):
    words = ("new", "load", "--question", "best-arm", "--arms", "old,new", "--share-above", "300", "--empty", "missing")
    assert roundwise(*words, "--round-size", "8")[0] == 0
    roundwise("ask", "load")
    (tmp_path / "day.csv").write_text(table("old,280", "old,410", "new,", "new,120", "new,290"))
    code, out, _ = roundwise("tell", "load", "day.csv")
    assert code == 0
    assert "A result is 1 if its value is above 300, else 0." in " ".join(out.split())
    code, _, error = roundwise("new", "x", "--question", "best-arm", "--arms", "a,b", "--normal", "--id-result", "sum")
    assert code == 2
    assert "--id-column" in error


def test_created_once_and_for_all(tmp_path):
    words = {"question": BestArm(), "arms": ["a", "b"], "noise": Binary(), "storage": f"sqlite:///{tmp_path}/x.db"}
    create_study("s", reading=Reading(share_above=3), **words).close()
    with pytest.raises(InputError, match="other settings"):
        create_study("s", load_if_exists=True, **words)


def test_recorded_files_without_units_have_none_waiting():
    assert [len(each) for each in RecordedFiles().waiting_units] == [0, 0]
