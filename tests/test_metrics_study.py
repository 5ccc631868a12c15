"""Live studies of several metrics: files with a column for each, through tell, verify and report."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import serving
from roundwise import Binary, Claims, InputError, LargeSample, Metric, Normal, Study, create_study, load_study
from roundwise.errors import RoundwiseError
from roundwise.noise import Noise
from roundwise.rules.eprocess.claim_bounds import _replay_values, claims_of, metrics_of, pad_steps, states_of
from roundwise.study.audit import audit_entries
from roundwise.study.guarantee import guarantee_of
from roundwise.study.metrics import parse_metric
from roundwise.web.forms import Form

ARMS = ["A", "B", "C"]
LATENCY = Metric("latency", Normal(), margin=4, lower_is_better=True, column="ms", unit="ms")
BASKET = Metric("basket", LargeSample(), "secondary")


def create(folder: Path, *metrics: Metric, sides: str = "one", **settings: object) -> Study:
    question = Claims.against_control(ARMS, "A", sides=sides)
    usual = {"noise": Binary(), "budget": 1500, "round_size": 300, "seed": 3, "delta": 0.05}
    storage = f"sqlite:///{folder / 'x.db'}"
    return create_study("s", question=question, arms=ARMS, metrics=metrics, storage=storage, **usual | settings)  # type: ignore[arg-type]


def rows_of(table: list[tuple[str, int]], rng: np.random.Generator, slow: float = 8.0) -> list[list[object]]:
    """B and C convert better, C is slow; baskets and times of a row go together."""
    found: list[list[object]] = []
    for arm, n in table:
        k = "ABCD".index(arm)
        for _ in range(n):
            z = rng.standard_normal()
            value = int(rng.random() < 0.2 + 0.15 * (k > 0))
            ms, basket = 100 + slow * (k == 2) + 5 * z, 50 + k + 5 * (0.8 * z + 0.6 * rng.standard_normal())
            found.append([arm, value, round(ms, 3), round(basket, 3)])
    return found


def write(path: Path, rows: list[list[object]], head: tuple[str, ...] = ("arm", "outcome", "ms", "basket")) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([list(head), *rows])
    return path


def live(study: Study, folder: Path, seed: int = 1, rounds: int = 99) -> None:
    rng = np.random.default_rng(seed)
    for number in range(1, rounds + 1):
        asked = study.ask()
        if asked is None:
            break
        study.tell(write(folder / f"{number}.csv", rows_of(asked.table, rng)))


@pytest.mark.long
def test_a_study_of_several_metrics_decides_ships_and_verifies(tmp_path: Path) -> None:
    study = create(tmp_path, LATENCY, BASKET, sides="two")
    live(study, tmp_path)
    report = study.report()
    assert {each.arm: each.decision for each in report.decisions} == {"B": "ship", "C": "do not ship"}
    assert report.headline.startswith("Ship B: B beats A (outcome); B is not worse than A by 4 or more (latency).")
    assert [each.metric for each in report.metric_rows if each.arm == "B"] == ["outcome", "latency", "basket"]
    latency = {each.arm: each for each in report.metric_rows if each.metric == "latency"}
    assert latency["C"].difference == pytest.approx(8, abs=1.5)  # in the user's units: C is slower
    assert latency["C"].refuted
    assert latency["C"].difference_lower is not None
    assert latency["C"].difference_lower >= 4
    assert latency["B"].difference_upper is not None
    assert latency["B"].difference_upper <= 4
    audit = audit_entries(study.entries())
    assert audit.sound
    assert not audit.differences
    again = load_study("s", f"sqlite:///{tmp_path / 'x.db'}")
    assert again.report().plain() == report.plain()


def test_every_format_has_the_decision(tmp_path: Path) -> None:
    study = create(tmp_path, LATENCY, sides="two")
    live(study, tmp_path)
    report = study.report()
    for text in (report.text(120), report.markdown(), report.html(), report._repr_html_()):
        assert "do not ship" in text
        assert "latency (guardrail)" in text
    plain = json.loads(report.json())
    assert plain["decisions"][0] == {
        "arm": "B",
        "decision": "ship",
        "why": "B beats A (outcome); B is not worse than A by 4 or more (latency)",
    }
    assert len(plain["metrics"]) == 4
    assert report.csv("metrics").splitlines()[1].startswith("B,ship,outcome,primary,B beats A,true")
    assert report.xlsx()


def test_one_metric_has_no_decision_table(tmp_path: Path) -> None:
    study = create(tmp_path)
    live(study, tmp_path, rounds=2)
    report = study.report()
    assert report.decisions == report.metric_rows == ()
    assert "Decision" not in report.markdown()
    assert "metrics" not in study.entries()[0].payload


def test_a_guardrail_needs_its_opposite_to_say_do_not_ship(tmp_path: Path) -> None:
    study = create(tmp_path, LATENCY)
    live(study, tmp_path)
    decided = {each.arm: each for each in study.report().decisions}
    assert decided["B"].decision == "ship"
    assert decided["C"].decision == "undecided"
    assert decided["C"].why == "not shown: C is not worse than A by 4 or more (latency)"


def test_a_model_that_rows_contradict_is_named_with_its_metric(tmp_path: Path) -> None:
    study, rng = create(tmp_path, Metric("spend", Normal(), margin=4)), np.random.default_rng(5)
    for number in (1, 2):
        asked = study.ask()
        assert asked is not None
        rows = [
            [arm, int(rng.random() < 0.2), round(rng.exponential() ** 3, 4)] for arm, n in asked.table for _ in range(n)
        ]
        study.tell(write(tmp_path / f"{number}.csv", rows, ("arm", "outcome", "spend")))
    found = guarantee_of(study.state)
    assert found.status == "conditional"
    assert "metric spend" in str(found)
    assert any("spend" in str(each) for each in study.report().dangers)


def test_values_may_be_missing_by_metric(tmp_path: Path) -> None:
    study, rng = create(tmp_path, LATENCY, reading={"empty": "missing"}), np.random.default_rng(5)
    asked = study.ask()
    assert asked is not None
    rows = rows_of(asked.table, rng)
    for row in rows[::10]:
        row[2] = ""
    study.tell(write(tmp_path / "1.csv", rows))
    state = study.state
    assert state.open_round is None  # complete: every row has a result
    assert state.of_metric(0).record.samples == len(rows) - len(rows[::10])
    assert "metric latency" in str(guarantee_of(state))
    report = study.report()
    assert not any("not used: 'ms'" in str(each) for each in report.notes)


def test_a_file_without_the_column_of_a_metric_is_refused(tmp_path: Path) -> None:
    study = create(tmp_path, LATENCY)
    asked = study.ask()
    assert asked is not None
    rows = [[arm, 1] for arm, n in asked.table for _ in range(n)]
    with pytest.raises(RoundwiseError, match="ms"):
        study.tell(write(tmp_path / "1.csv", rows, ("arm", "outcome")))
    assert study.state.recent[-1].files == ()


def test_rows_are_recognised_as_with_one_metric(tmp_path: Path) -> None:
    """Low-entropy metrics do not refuse what the first metric lets pass; ids and running totals say what is new."""
    rng = np.random.default_rng(7)
    study = create(tmp_path, Metric("flag", Binary(), margin=0.2), columns={"id": "user"}, round_size=None)
    asked = study.ask()
    assert asked is not None
    arms = [arm for arm, n in asked.table for _ in range(n)]
    rows = [[i, arm, int(rng.random() < 0.3), 1] for i, arm in enumerate(arms)]
    head = ("user", "arm", "outcome", "flag")
    study.tell(write(tmp_path / "1.csv", rows[: len(rows) // 2], head))
    study.tell(write(tmp_path / "2.csv", rows, head))  # the first half again: skipped, by every metric
    state = study.state
    assert state.record.samples == state.of_metric(0).record.samples == len(rows)
    other = create_study(
        "t", question=Claims.against_control(ARMS, "A"), arms=ARMS, noise=Normal(), budget=900, round_size=300,
        metrics=[Metric("flag", Binary(), margin=0.2)], storage=f"sqlite:///{tmp_path / 'x.db'}",
    )  # fmt: skip
    told: list[list[object]] = []
    for number in (3, 4):
        asked = other.ask()
        assert asked is not None
        told += [[arm, round(rng.standard_normal(), 4), 1] for arm, n in asked.table for _ in range(n)]
        other.tell(write(tmp_path / f"{number}.csv", told, ("arm", "outcome", "flag")), cumulative=True)
    assert other.state.of_metric(0).record.samples == other.state.record.samples == len(told)


@pytest.mark.long
def test_a_study_of_several_metrics_changes_like_others(tmp_path: Path) -> None:
    study = create(tmp_path, LATENCY, BASKET)
    live(study, tmp_path, rounds=2)
    fixed = write(tmp_path / "fixed.csv", rows_of([("A", 100), ("B", 100), ("C", 100)], np.random.default_rng(9)))
    study.amend("1.csv", fixed, "a wrong export")
    study.ask()
    study.drop("C", "too slow")
    study.extend(2000)
    live(study, tmp_path, seed=11)
    assert study.state.of_metric(1).record.samples == study.state.record.samples
    assert audit_entries(study.entries()).sound
    assert study.report().text(100)
    study.close()


def test_an_arm_joins_by_every_metric_with_the_least_of_all(tmp_path: Path) -> None:
    """Proposition 18: the claims of D start with the least that any claim of any metric has, also in bounds."""
    study = create(tmp_path, Metric("latency", Normal(), margin=0.3, lower_is_better=True, column="ms"), round_size=150)
    live(study, tmp_path, rounds=2)
    first, second = states_of(study.state.trial.kept)
    least = second.gains[~second.shown].min()
    assert least < min(first.gains[~first.shown].min(initial=np.inf), 0) - 0.01  # another metric has less
    study.add("D", "it was built later")
    for each in states_of(study.state.trial.kept):
        assert each.gains[2] == least
    live(study, tmp_path, seed=11, rounds=2)
    problem = study.state.spec.problem
    rule = study.state.spec.policy.stopping
    for sub, kept in zip(metrics_of(problem), states_of(study.state.trial.kept), strict=True):
        levels = np.asarray(claims_of(sub).lines.levels)
        every = pad_steps(kept.steps, 4, 3, 3)
        *_, (logs, _) = _replay_values(sub, every, partial(rule.budget_bets, sub), levels)
        np.testing.assert_allclose(logs[~kept.shown], kept.gains[~kept.shown])
    report = study.report()
    assert [each.metric for each in report.metric_rows if each.arm == "D"] == ["outcome", "latency"]
    assert len(study.state.of_metric(0).row_checks.smallest) == 4
    assert audit_entries(study.entries()).differences == ()
    assert load_study("s", f"sqlite:///{tmp_path / 'x.db'}").report().plain() == report.plain()


def test_earlier_data_teach_all_metrics(tmp_path: Path) -> None:
    study = create(tmp_path, LATENCY)
    past = rows_of([("A", 50), ("B", 50), ("C", 50)], np.random.default_rng(13))
    study.import_past(write(tmp_path / "past.csv", past))
    live(study, tmp_path)
    assert audit_entries(study.entries()).sound


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ([Metric("a", Binary(), margin=0.1), Metric("A", Binary(), margin=0.1)], "same name"),
        ([Metric("a", Binary(), margin=0.1), Metric("b", Binary(), margin=0.1, column="a")], "same column"),
        ([Metric("outcome", Binary(), margin=0.1)], "already"),
        ({"name": "a"}, "list of metrics"),
        ([{"name": "a"}], "noise"),
        ([{"name": "a", "noise": {"name": "binary"}, "marign": 1}], "marign"),
    ],
)
def test_metrics_that_do_not_fit_are_refused(tmp_path: Path, metrics: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        create_study(
            "s", question=Claims.against_control(ARMS, "A"), arms=ARMS, noise=Binary(), metrics=metrics,  # type: ignore[arg-type]
            storage=f"sqlite:///{tmp_path / 'x.db'}",
        )  # fmt: skip


def test_only_claims_against_one_control_have_metrics(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one control"):
        create_study(
            "s", question=Claims.pairs(ARMS), arms=ARMS, noise=Binary(), metrics=[LATENCY],
            storage=f"sqlite:///{tmp_path / 'x.db'}",
        )  # fmt: skip
    with pytest.raises(InputError, match="positive"):
        Metric("a", Binary())
    with pytest.raises(InputError, match="not a metric"):
        parse_metric("latency", "guardrail")
    with pytest.raises(InputError, match="Every metric has the settings column=, denominator=, lower"):
        parse_metric("latency:normal,better=low", "guardrail")
    assert parse_metric("ms:normal,lower-is-better,margin=4", "guardrail").lower_is_better


@pytest.mark.long
def test_the_command_line_takes_metrics(tmp_path: Path, roundwise: Callable[..., tuple[int, str, str]]) -> None:
    said = "new s --question claims --control A --two-sided --arms A,B,C --binary --budget 1500 --round-size 300"
    latency = "latency:normal,column=ms,lower,margin=4,unit=ms"
    assert roundwise(*said.split(), "--guardrail", latency, "--secondary", "basket:large-sample")[0] == 0
    study = load_study("s", f"sqlite:///{tmp_path / 'roundwise.db'}")
    assert study.state.spec.metrics == (LATENCY, BASKET)
    live(study, tmp_path, rounds=2)
    assert roundwise("ask", "s")[0] == 0
    code, out, _ = roundwise("report", "s")
    assert code == 0
    assert "latency (guardrail)" in out
    assert "Forecast: " in out
    assert roundwise("verify", "s")[0] == 0
    one_sided = said.replace("new s", "new t").replace("--two-sided ", "")
    assert "With --two-sided it could also be shown" in roundwise(*one_sided.split(), "--guardrail", latency)[1]
    code, _, error = roundwise(*said.replace("new s", "plan").split(), "--baseline", "20%", "--guardrail", latency)
    assert code != 0
    assert "depends on the baseline of 'latency'" in error.replace("\n", " ")


def test_the_form_of_the_page_takes_metrics() -> None:
    latency = {"role": "guardrail", "name": "latency", "column": "ms", "noise": "normal", "direction": "lower"}
    basket = {"role": "secondary", "name": "basket", "noise": "large-sample"}
    given = {"question": "claims", "arms": "A\nB\nC", "metric_2_role": "", "metric_2_name": "not used"}
    given |= {f"metric_1_{key}": value for key, value in (latency | {"margin": "4", "unit": "ms"}).items()}
    given |= {f"metric_3_{key}": value for key, value in basket.items()}
    form = Form.of(given)
    assert form.spec().metrics == (LATENCY, BASKET)
    assert form.spec().question.opposites
    assert form.alone.spec().delta == pytest.approx(0.05 / 3, rel=1e-5)
    assert not Form.of({"question": "claims", "arms": "A\nB"}).spec().question.opposites
    with pytest.raises(InputError, match="must be positive"):
        Form.of(given | {"metric_1_margin": ""}).spec()
    with pytest.raises(InputError):  # nothing is imported for a form
        Form.of(given | {"metric_1_noise": "antigravity:Fly"}).spec()


@pytest.mark.long
def test_the_api_and_the_page_have_metrics(tmp_path: Path) -> None:
    new = {
        "name": "s",
        "question": {"name": "claims", "arms": ARMS, "control": "A", "sides": "two"},
        "arms": ARMS,
        "noise": {"name": "binary"},
        "metrics": [LATENCY.to_json(), {"name": "basket", "noise": {"name": "large-sample"}, "role": "secondary"}],
        "budget": 1500,
        "round_size": 300,
    }
    with serving.serving(f"sqlite:///{tmp_path / 'studies.db'}") as (url, _):
        status, _, created = serving.ask(url, "POST", "/api/v1/studies", new)
        assert status == 201, created
        assert created["decisions"][0]["decision"] == "undecided"
        asked = serving.ask(url, "POST", "/api/v1/studies/s/ask", {})[2]["asked"]
        rows = rows_of(list(asked.items()), np.random.default_rng(3))
        named = [dict(zip(("arm", "outcome", "ms", "basket"), each, strict=True)) for each in rows]
        status, _, told = serving.ask(url, "POST", "/api/v1/studies/s/results", {"rows": named})
        assert status == 200, told
        assert [each["metric"] for each in told["metrics"]] == ["outcome", "latency", "basket"] * 2
        assert serving.ask(url, "GET", "/api/v1/studies/s/verify")[2]["sound"] is True
        for path in ("/studies/s", "/studies/s/report"):
            status, _, page = serving.ask(url, "GET", path, raw=True)
            assert status == 200
            assert b"latency (guardrail)" in page
        again = {**new, "name": "t", "metrics": [{"name": "ms"}]}
        status, _, problem = serving.ask(url, "POST", "/api/v1/studies", again)
        assert status == 422, problem
        assert "noise" in problem["detail"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("noise", "columns", "reading"),
    [
        (Binary(), {"item": "u"}, None),  # arms on the same items, by every metric
        (Normal(), {"id": "u"}, {"id_result": "mean"}),
        (Normal(), {"id": "u", "covariate": "x"}, None),  # which adjusts the first metric
        (Binary(), {"id": "u"}, {"share_above": 0.0}),  # a rule for the first metric
    ],
)
def test_rules_for_rows_hold_for_every_metric(
    tmp_path: Path, noise: Noise, columns: dict[str, str], reading: dict[str, object] | None
) -> None:
    study = create(tmp_path, LATENCY, noise=noise, columns=columns, reading=reading)
    rng = np.random.default_rng(4)
    for number in range(3):
        asked = study.ask()
        if asked is None:
            break
        rows: list[list[object]] = []
        for arm, n in asked.table:
            for i in range(n):
                unit = f"{number}-{i}" if "item" in columns else f"{number}-{arm}-{i}"
                value = int(rng.random() < 0.3) if "item" in columns else round(rng.standard_normal(), 3)
                rows.append([unit, arm, value, round(100 + 5 * rng.standard_normal(), 2), round(rng.normal(), 3)])
        study.tell(write(tmp_path / f"{number}.csv", rows, ("u", "arm", "outcome", "ms", "x")))
    state = study.state
    np.testing.assert_array_equal(state.record.counts, state.of_metric(0).record.counts)
    assert audit_entries(study.entries()).sound


def test_visitors_who_return_convert_once_and_spend_the_sum(tmp_path: Path) -> None:
    rule = {"noise": Binary(), "columns": {"id": "u"}, "reading": {"id_result": "any"}, "round_size": 6}
    study = create(tmp_path, Metric("spent", LargeSample(), "secondary"), **rule)
    study.ask()
    rows: list[list[object]] = [[f"{arm}{k}", arm, int(k > 0), 5 * k] for arm in ARMS for k in (0, 1, 1, 2)]
    study.tell(write(tmp_path / "1.csv", rows, ("u", "arm", "outcome", "spent")))
    state = study.state
    assert state.record.means.tolist() == [2 / 3] * len(ARMS)  # two of three ids have a row that is not 0
    assert state.of_metric(0).record.means.tolist() == pytest.approx([20 / 3] * len(ARMS))
    assert "Of 'spent' it is their sum." in study.report().assumptions
    money = create_study(
        "money",
        question=Claims.against_control(ARMS, "A"),
        arms=ARMS,
        noise=LargeSample(),
        metrics=[Metric("bought", Binary(), "secondary")],
        columns={"id": "u", "outcome": "spent"},
        reading={"id_result": "sum"},
        budget=900,
        storage=f"sqlite:///{tmp_path / 'x.db'}",
    )
    assert money.state.of_metric(0).spec.reading.id_result == "any"


def test_a_round_of_which_nothing_came(tmp_path: Path) -> None:
    study = create(tmp_path, LATENCY)
    study.ask()
    study.close_round("nothing came")
    live(study, tmp_path, rounds=2)
    assert study.state.of_metric(0).record.samples == study.state.record.samples == 600
    assert audit_entries(study.entries()).sound
