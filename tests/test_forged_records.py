"""Records that somebody forged, with a chain of digests that fits: one sentence, or a study; never a traceback."""

import copy
import json
import random
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "golden"))
import make

from roundwise import BestArm, Binary, DataError, create_study, import_study, verify_study
from roundwise.errors import RoundwiseError
from roundwise.report import build_report
from roundwise.store import write_log
from roundwise.store.log import Head, chain_entries
from roundwise.study.audit import audit_entries, import_entries
from roundwise.study.state import replay

VALUES = [None, True, False, 0, -1, 1e308, -1000, "x", "", [], {}, [1], ["a"], 2**70, 0.5, "nan", "inf", {"a": 1}]


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Golden logs: of every kind some, and all that is no plain study."""
    kept = sorted(make.HERE.glob("*/*.jsonl.gz"))
    plain = [path for path in kept if path.name.endswith(("_open.jsonl.gz", "_decided.jsonl.gz"))]
    some = [path for path in kept if path not in plain] + plain[::17]
    folder = tmp_path_factory.mktemp("logs")
    return [make.read(path, folder) for path in some]


def places(value, path=()):
    """Where something stands in a payload; of lists the first few."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value[:4]) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


def forged(rng, payload):
    """A payload with one thing taken out, made larger or replaced."""
    path = rng.choice([path for path in places(payload) if path])
    at = payload
    for key in path[:-1]:
        at = at[key]
    old, how = at[path[-1]], rng.random()
    if how < 0.25 and isinstance(at, dict):
        del at[path[-1]]
    elif how < 0.4 and isinstance(old, int | float) and not isinstance(old, bool):
        at[path[-1]] = rng.choice([-1, 2, 0.5, 1e9]) * old
    else:
        at[path[-1]] = copy.deepcopy(rng.choice(VALUES))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_it_is_refused_or_read(logs, seed):
    rng, refused = random.Random(seed), []
    for _ in range(40):
        log = rng.choice(logs)
        texts = [(entry.kind, json.loads(entry.text)) for entry in log]
        checkpoints = [payload for kind, payload in texts if kind == "checkpoint"]
        last = checkpoints[-1:] if rng.random() < 0.5 else []  # the one that is continued from
        forged(rng, rng.choice(last or [payload for _, payload in texts if payload]))
        if rng.random() < 0.2:
            place = rng.randrange(1, len(texts))
            texts[place : place + 1] = [texts[place]] * rng.choice([0, 2])
        entries = chain_entries(
            log[0].study, Head(), [(kind, json.dumps(payload)) for kind, payload in texts], datetime.now(UTC)
        )
        try:
            build_report(replay(entries), intervals=False).text()
            study = make.InMemory(entries)
            build_report(study.state, intervals=False).text()
            study.ask()
            audit_entries(entries)
        except RoundwiseError as error:
            refused.append(str(error))
    assert len(refused) > 5
    assert not any("\n" in each for each in refused)


def test_results_that_there_cannot_be_are_refused(logs):
    """0/1 results with a total of -1000, or more successes than results."""
    for total in (-1000, 1000):
        log = next(each for each in logs if each[0].study == "warm_started")
        texts = [(entry.kind, json.loads(entry.text)) for entry in log]
        told = next(payload for kind, payload in texts if kind == "told")
        told["results"]["totals"][0] = total
        entries = chain_entries("s", Head(), [(kind, json.dumps(each)) for kind, each in texts], datetime.now(UTC))
        with pytest.raises(DataError, match="a 'told' by roundwise .* cannot be replayed"):
            replay(entries)


def test_a_record_that_was_made_up_is_not_imported(tmp_path):
    """Results that could be, with a chain that fits, but not what was counted: refused, unless it may be unsound."""
    storage = f"sqlite:///{tmp_path}/s.db"
    with create_study("s", question=BestArm(), arms=["a", "b"], noise=Binary(), storage=storage, seed=1) as study:
        study.ask()
        study.tell({"arm": ["a", "b"], "count": [30, 30], "successes": [9, 12]})
        log = study.entries()
    texts = [(entry.kind, json.loads(entry.text)) for entry in log]
    next(payload for kind, payload in texts if kind == "told")["results"]["totals"][0] = 3
    entries = chain_entries("s", Head(), [(kind, json.dumps(each)) for kind, each in texts], datetime.now(UTC))
    write_log(tmp_path / "forged.jsonl", entries)
    copy_ = f"sqlite:///{tmp_path}/copy.db"
    with pytest.raises(DataError, match="sound"):
        import_study(tmp_path / "forged.jsonl", copy_)
    assert not (tmp_path / "copy.db").exists()
    import_study(tmp_path / "forged.jsonl", copy_, unsound=True).close()
    assert not verify_study("s", copy_).sound
    done = []
    import_entries(log, copy_.replace("copy", "other"), progress=done.append)
    assert sum(done) == len(log) - 1


def test_a_setting_of_a_later_version_is_not_ignored(logs):
    """A study that another setting changed would be read as if it were not there."""
    texts = [(each.kind, each.text) for each in logs[0]]
    texts[0] = (texts[0][0], texts[0][1][:-1] + ',"blinded":true}')
    entries = chain_entries(logs[0][0].study, Head(), texts, datetime.now(UTC))
    with pytest.raises(DataError, match="has the setting 'blinded', which this version does not know. Upgrade"):
        replay(entries)
