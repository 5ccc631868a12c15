"""One `tell` reads, replays, folds, parses and reports once."""

import json
from collections import Counter

import pytest

from roundwise import BestArm, Binary, create_study
from roundwise.cli import main
from roundwise.formats import readers
from roundwise.report import build
from roundwise.store import database
from roundwise.study import fold, load_study, state, study


@pytest.fixture
def work(tmp_path, monkeypatch):
    """What `roundwise tell` of a round that completes and decides nothing does, each step with how often."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROUNDWISE_STORAGE", "sqlite:///s.db")
    with create_study("s", question=BestArm(), arms=["a", "b", "c"], noise=Binary()) as created:
        asked = created.ask()
    rows = [f"{arm},{int(i % 10 < 3)}" for arm, pulls in asked.table for i in range(pulls)]
    (tmp_path / "results.csv").write_text("\n".join(["arm,outcome", *rows, ""]))
    done = Counter()

    def counted(where, name, what):
        call = getattr(where, name)

        def one_more(*given, **words):
            done[what] += 1
            return call(*given, **words)

        monkeypatch.setattr(where, name, one_more)

    counted(study, "replay", "replays")
    counted(state, "replay", "replays")
    counted(fold, "advance", "folds")
    counted(fold, "batch_of", "partitions")
    counted(readers, "text_sheet", "files read")
    counted(database.Store, "_entries", "reads of the log")
    for module in (build, __import__("roundwise.report").report):
        counted(module, "build_report", "reports")
    parse = json.loads

    def parsed(text, **words):
        done["parsed results"] += '"results":' in text[:200] if isinstance(text, str) else 0
        return parse(text, **words)

    monkeypatch.setattr(json, "loads", parsed)
    return done


def test_each_step_is_done_once(work, monkeypatch):
    monkeypatch.setattr("sys.argv", ["roundwise", "tell", "s", "results.csv"])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert work == {
        "replays": 1,
        "folds": 1,
        "partitions": 1,
        "files read": 1,
        "reads of the log": 1,
        "reports": 1,
        "parsed results": 0,
    }
    with load_study("s") as found:
        assert found.status().results == found.state.rounds[0].counts.sum()
