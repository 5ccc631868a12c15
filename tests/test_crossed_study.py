"""Studies of arms tried on the same items: declared by a column of items, or by files with one column an arm."""

import csv

import numpy as np
import pytest

from roundwise import BestArm, Binary, Bounded, Columns, create_study
from roundwise.errors import InputError, RoundwiseError
from roundwise.ingest import read_results
from roundwise.noise import PairedBinary
from roundwise.study.audit import audit_entries
from roundwise.study.guarantee import guarantee_of

ITEM = Columns(item="question_id")


def study(tmp_path, noise, columns=ITEM, name="items", arms=("a", "b"), seed=1):
    where = f"sqlite:///{tmp_path}/s.db"
    return create_study(name, question=BestArm(), arms=arms, noise=noise, columns=columns, storage=where, seed=seed)


def rows(tmp_path, pulls, start=0, rates=(0.9, 0.3), name="r.csv", seed=0):
    """A file of rows: of the items from `start` on each arm is tried on the first so many."""
    rng, path = np.random.default_rng(seed), tmp_path / name
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["arm", "outcome", "question_id"])
        for item in range(start, start + max(pulls)):
            stick = rng.random()
            for arm, rate, n in zip("ab", rates, pulls, strict=True):
                if item - start < n:
                    writer.writerow([arm, int(stick < rate), f"q{item}"])
    return path


def told(each, tmp_path, **words):
    """Rounds are asked for and told until the study is over."""
    start = 0
    for r in range(9):
        asked = each.ask()
        if asked is None:
            return
        pulls = [int(n) for n in asked.pulls]
        each.tell(rows(tmp_path, pulls, start, name=f"r{r}.csv", seed=r), **words)
        start += max(pulls)


def test_a_study_of_items_is_decided_and_its_guarantee_kept(tmp_path):
    with study(tmp_path, Binary(), seed=None) as each:
        assert each.state.spec.noise == PairedBinary()
        told(each, tmp_path)
        assert each.state.decided is not None
        assert guarantee_of(each.state).kept
        assert not audit_entries(each.entries()).differences


def test_items_that_repeat_but_were_not_declared_are_a_condition(tmp_path):
    with study(tmp_path, Binary(), columns=None) as each:
        told(each, tmp_path, columns=ITEM)
        assert "shared_items" in guarantee_of(each.state).codes


@pytest.mark.parametrize(("title", "watched"), [("question_id", True), ("minute", False)])
def test_a_column_that_nobody_named_and_looks_like_items_is_watched(tmp_path, title, watched):
    lines = [f"{arm},q{i},{(i + (arm == 'a')) % 2}" for i in range(30) for arm in ("a", "b")]
    (tmp_path / "x.csv").write_text("\n".join([f"arm,{title},outcome", *lines]))
    found = read_results(tmp_path / "x.csv", ("a", "b"), Binary())
    assert (title in found.sketches) == watched
    assert found.counts.tolist() == [30, 30]


def test_a_file_without_items_is_refused(tmp_path):
    with study(tmp_path, Binary().with_items(), columns=None) as each:
        each.ask()
        for text in ("arm,outcome\na,1\nb,0\n", "arm,count,successes\na,20,3\nb,20,4\n"):
            (tmp_path / "x.csv").write_text(text)
            with pytest.raises(RoundwiseError, match="item"):
                each.tell(tmp_path / "x.csv")


def test_a_wide_table_has_items(tmp_path):
    with study(tmp_path, Bounded(0, 10).with_items(), columns=None, seed=None) as each:
        asked = each.ask()
        rng = np.random.default_rng(1)
        lines = [f"{s + 6:.1f},{s:.1f}" for s in rng.uniform(0, 4, int(asked.pulls.max()))]
        (tmp_path / "w.csv").write_text("\n".join(["a,b", *lines]))
        each.tell(tmp_path / "w.csv")
        assert each.state.trial.kept.wealth.rejected.tolist() == [False, True]  # 6 ahead on every item
        assert guarantee_of(each.state).kept


def test_an_item_is_known_however_its_number_is_written(tmp_path):
    """A column of whole numbers with an empty cell somewhere comes out as 7.0, 8.0, ..."""
    with study(tmp_path, Binary().with_items()) as each:
        each.ask()
        tables = [
            "arm,outcome,question_id\n" + "".join(f"{arm},1,{i}{end}\n" for i in range(20))
            for arm, end in (("a", ""), ("b", ".0"), ("a", ".0"))
        ]
        for number, text in enumerate(tables):
            (tmp_path / f"{number}.csv").write_text(text)
        each.tell(tmp_path / "0.csv")
        each.tell(tmp_path / "1.csv")
        files = each.state.rounds[0].files
        assert [sorted(file.strata.items.tolist()) for file in files[:1]] == [sorted(files[1].strata.items.tolist())]
        with pytest.raises(RoundwiseError, match="brings nothing new"):
            each.tell(tmp_path / "2.csv")


def test_an_item_of_an_earlier_round_is_refused(tmp_path):
    with study(tmp_path, Binary()) as each:
        pulls = [int(n) for n in each.ask().pulls]
        each.tell(rows(tmp_path, pulls, rates=(0.6, 0.5)))
        asked = each.ask()
        (tmp_path / "again.csv").write_text("arm,outcome,question_id\na,1,q3\nb,0,q999\n")
        with pytest.raises(RoundwiseError, match="'q3'"):
            each.tell(tmp_path / "again.csv", new=True)
        assert asked is not None


def test_a_model_without_bets_on_items_is_refused(tmp_path):
    from roundwise import SubGaussian

    with pytest.raises(InputError, match="no bets on items"):
        study(tmp_path, SubGaussian(1.0))
