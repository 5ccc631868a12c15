"""No file, however damaged, gives anything but results or one clear refusal, and a refusal changes nothing."""

import json

import numpy as np
import pytest

import fuzz
from roundwise import (
    BestArm,
    Binary,
    Bounded,
    DataError,
    Gaussian,
    InputError,
    Normal,
    Poisson,
    RoundwiseError,
    create_study,
)  # fmt: skip
from roundwise.cli.options import read_names
from roundwise.ingest import Columns, Reading, RecordedFiles, Results, TellOptions, batch_of, read_results
from roundwise.planning.request import read_scenarios
from roundwise.planning.study_plan import PLAN_FORMAT, read_plan
from roundwise.report import build_report
from roundwise.simulation.sweep import read_grid
from roundwise.simulation.tables import read_features, read_forms, read_outcomes, read_wide
from roundwise.store import read_log, write_log
from roundwise.store.database import parse_url
from roundwise.study.spec import arm_names
from roundwise.study.state import replay

NOISES = [Binary(), Bounded(0, 5), Gaussian(1.0), Poisson(), Normal()]
COLUMNS = [None, None, Columns(id="user"), Columns(item="item"), Columns(arm="arm", outcome="outcome", id="user")]
OPTIONS = [
    *(TellOptions(),) * 4,
    TellOptions(missing="lost"),
    TellOptions(ignore_arms="*"),
    TellOptions(cumulative=True),
]  # fmt: skip
READINGS = [
    *(Reading(),) * 4,
    Reading(empty="zero"),
    Reading(empty="missing", id_result="sum", mixed_ids="left-out"),
    Reading(id_result="any"),
    Reading(id_result="max", share_above=0.5),
    Reading(share_below=2.0),
]  # fmt: skip
QUICK = {"xlsx": 250, "parquet": 60}  # inputs of a format; of others 700
KEPT: list[tuple[str, int]] = []  # formats and seeds that once failed


def recorded(noise, columns, seed):
    """What a study holds already, of every other one: rows of the same users, some of them with other outcomes."""
    if seed % 2 or columns == Columns(item="item"):
        return RecordedFiles()
    rows = {"user": [f"u{i}" for i in range(6)], "arm": fuzz.ARMS * 2, "outcome": [0, 1, 1, 0, 1, 0]}
    return RecordedFiles([read_results(rows, fuzz.ARMS, noise, seed=seed, columns=columns)], waiting=np.full(3, 9.0))


def check(kind, seed, folder):
    """Read one input; whether it could be read."""
    rng = np.random.default_rng(seed)
    kinds = NOISES, COLUMNS, OPTIONS, READINGS
    noise, columns, options, reading = (each[int(rng.integers(len(each)))] for each in kinds)
    path = folder / f"input.{kind if kind in ('xlsx', 'parquet') else 'txt'}"
    path.write_bytes(fuzz.fuzzed(kind, seed))
    words = {"parts": 4, "seed": seed, "columns": columns, "options": options, "reading": reading}
    try:
        found = read_results(path, fuzz.ARMS, noise, **words, recorded=recorded(noise, columns, seed))
    except (DataError, InputError) as error:
        said = str(error)
        assert "input." in said, said
        assert len(said) < 4000
        assert all(letter == "\n" or letter.isprintable() for letter in said), said
        return False
    written = json.dumps(found.payload(), allow_nan=False)
    back = Results.from_payload(json.loads(written))
    assert json.dumps(back.payload()) == written
    batch = batch_of([back])
    assert batch.counts.sum() + (0 if found.missing is None else found.missing.sum()) > 0
    assert all(str(note).isprintable() for note in found.notes)
    if batch.parts is not None:
        assert (batch.parts.counts <= batch.counts[:, None]).all()
    return True


# --- inputs that are no results


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """Records and plans as they are written."""
    folder = tmp_path_factory.mktemp("examples")
    words = {"question": BestArm(), "arms": fuzz.ARMS, "noise": Binary()}
    with create_study("s", storage=f"sqlite:///{folder}/x.db", **words) as study:
        study.ask()
        study.tell({"arm": fuzz.ARMS, "count": [30, 30, 30], "successes": [9, 12, 20]})
        write_log(folder / "log.jsonl", study.entries())
        settings = study.state.spec.to_json()
    rows = [{"lead": 0.05, "means": [0.3, 0.3, 0.35], "samples": {"typical": 900}, "rounds": {"typical": 3}}]
    plan = {"format": PLAN_FORMAT, "rows": rows, "target": 0, "recommended": {"settings": settings}}
    return {"log": [(folder / "log.jsonl").read_bytes()], "plan": [json.dumps(plan).encode()]}


def imported(path):
    state = replay(read_log(path))
    return build_report(state, intervals=False).text()


READERS = {
    "log": imported,
    "plan": read_plan,
    "sweep": read_grid,
    "forms": lambda path: read_forms(path, "above", True),
    "outcomes": lambda path: read_outcomes(path, "x"),
    "scenarios": lambda path: read_scenarios(path, fuzz.ARMS),
    "features": lambda path: read_features(path, fuzz.ARMS),
    "wide": read_wide,
    "semicolons": lambda path: read_outcomes(path, None),
    "objects": lambda path: read_forms(path, "above", True),
    "book": lambda path: read_scenarios(path, fuzz.ARMS),
    "arms": lambda path: arm_names(read_names(path)),
    "address": lambda path: parse_url(path.read_bytes().decode(errors="replace")).place,
    "file address": lambda path: parse_url(path.read_bytes().decode(errors="replace")).place,
}
KEPT_OTHERS = [("plan", 85), ("file address", 1107), ("log", 2063)]  # kinds and seeds that once failed


def check_other(kind, seed, path, examples):
    """Read one input; whether it could be read."""
    path.write_bytes(fuzz.other(kind, seed, examples.get(kind, ())))
    try:
        READERS[kind](path)
    except RoundwiseError as error:
        said = str(error)
    except Exception as error:
        raise AssertionError(f"keep ({kind!r}, {seed})") from error
    else:
        return True
    assert len(said) < 20_000
    assert "pass@word" not in said
    return False


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", READERS)
def test_damaged_inputs_of_other_kinds(kind, tmp_path, examples):
    kept = [seed for own, seed in KEPT_OTHERS if own == kind]
    read = [check_other(kind, seed, tmp_path / "input", examples) for seed in (*kept, *range(300))]
    assert any(read)
    assert not all(read)


NINES, DEEP = b"9" * 5000, 100_000


@pytest.mark.parametrize(
    ("kind", "contents"),
    [
        ("sweep", b"x = " + NINES),
        ("sweep", b"x = " + b"[" * DEEP),
        ("sweep", b"x = " + b"{a=" * DEEP),
        *((kind, start + b"[" * DEEP) for kind in ("plan", "log") for start in (b"", b'{"a":')),
        *((kind, b'{"a": ' + NINES + b"}") for kind in ("plan", "log")),
        ("outcomes", b"arm,outcome,count\nred,0," + NINES + b"\nblue,1,3\n"),
        ("outcomes", b"arm,outcome,count\nred," + NINES + b",3\nblue,1,3\n"),
        ("forms", b"name,red,blue,above\nx,1," + NINES + b",0\n"),
        ("scenarios", b"red,blue,green one\n1,2," + NINES + b"\n"),
        ("arms", NINES + b"\n"),
        ("file address", b"sqlite:///a\0b.db"),
        ("log", b'{"roundwise": "log", "format": 1, "study": "s"}\n'),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_depths_thousands_of_digits_and_what_is_left_out(kind, contents, tmp_path):
    (tmp_path / "input").write_bytes(contents)
    with pytest.raises(RoundwiseError) as found:
        READERS[kind](tmp_path / "input")
    assert "\n" not in str(found.value)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", READERS)
def test_thousands_of_damaged_inputs_of_other_kinds(kind, tmp_path, examples):
    for seed in range(1000, 4000):
        check_other(kind, seed, tmp_path / "input", examples)


@pytest.mark.long
@pytest.mark.parametrize("kind", fuzz.FORMATS)
def test_damaged_files(kind, tmp_path):
    seeds = range(1000, 1000 + QUICK.get(kind, 700))
    read = sum(check(kind, seed, tmp_path) for seed in (*(seed for own, seed in KEPT if own == kind), *seeds))
    assert 0.02 < read / len(seeds) < 0.98  # the inputs are neither all whole nor all hopeless


@pytest.mark.slow
@pytest.mark.parametrize("kind", fuzz.FORMATS)
def test_a_hundred_thousand_damaged_files(kind, tmp_path):
    for seed in range(10_000, 10_000 + {"parquet": 2000, "xlsx": 10_000}.get(kind, 15_000)):
        try:
            check(kind, seed, tmp_path)
        except Exception as error:
            raise AssertionError(f"keep ({kind!r}, {seed})") from error


@pytest.mark.long
def test_a_refusal_changes_nothing(tmp_path):
    """The same through a study: what is refused leaves no trace in the record."""
    url = f"sqlite:///{tmp_path}/x.db"
    refused = told = 0
    with create_study("s", question=BestArm(), arms=fuzz.ARMS, noise=Bounded(0, 9), storage=url) as study:
        study.ask()
        before = study.store.read("s")
        for seed in range(150):
            kind = fuzz.FORMATS[seed % len(fuzz.FORMATS)]
            path = tmp_path / f"{seed}.{kind if kind in ('xlsx', 'parquet') else 'txt'}"
            path.write_bytes(fuzz.fuzzed(kind, seed))
            try:
                study.tell(path)
            except (DataError, InputError):
                refused += 1
                assert study.store.read("s") == before
            else:
                told += 1
                before = study.store.read("s")
                if study.ask() is None:
                    break
                before = study.store.read("s")
    assert refused > 20
    assert told > 1
