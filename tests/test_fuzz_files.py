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
    Poisson,
    UnknownVariance,
    create_study,
)  # fmt: skip
from roundwise.studies.results import Columns, Options, Results, batch_of, read_results

NOISES = [Binary(), Bounded(0, 5), Gaussian(1.0), Poisson(), UnknownVariance()]
COLUMNS = [None, None, Columns(id="user"), Columns(item="item"), Columns(arm="arm", outcome="outcome", id="user")]
OPTIONS = [
    *(Options(),) * 4,
    Options(missing="lost"),
    Options(ignore_arms="*"),
    Options(average_ids=True),
    Options(cumulative=True),
]  # fmt: skip
QUICK = {"xlsx": 250, "parquet": 60}  # inputs of a format; of others 700
KEPT: list[tuple[str, int]] = []  # formats and seeds that once failed


def check(kind, seed, folder):
    """Read one input; whether it could be read."""
    rng = np.random.default_rng(seed)
    noise, columns, options = (each[int(rng.integers(len(each)))] for each in (NOISES, COLUMNS, OPTIONS))
    path = folder / f"input.{kind if kind in ('xlsx', 'parquet') else 'txt'}"
    path.write_bytes(fuzz.fuzzed(kind, seed))
    try:
        found = read_results(path, fuzz.ARMS, noise, parts=4, seed=seed, columns=columns, options=options)
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
    assert all(note.isprintable() for note in found.notes)
    if batch.parts is not None:
        assert (batch.parts.counts <= batch.counts[:, None]).all()
    return True


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
