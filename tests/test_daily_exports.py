"""Daily exports, corrections, digests that were kept, splits that went wrong: as a user meets them."""

import numpy as np
import pytest

from roundwise import BestArm, Binary, DataError, InputError, create_study, verify_study
from roundwise.study import load_study

ARMS = ["a", "b", "c"]


@pytest.fixture
def roundwise(roundwise):
    def call(*words, code=0):
        found, out, err = roundwise(*words)
        assert found == code, err
        return out if code == 0 else err

    return call


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with create_study("s", question=BestArm(), arms=ARMS, noise=Binary(), seed=1) as study:
        study.ask()
        yield study


class TestAmend:
    def test_with_the_options_of_files(self, study, roundwise, tmp_path):
        (tmp_path / "wrong.csv").write_text("arm,outcome\na,1\nb,0\n")
        (tmp_path / "right.csv").write_text("variant,bought\na,yes\nb,\nold,no\n")
        roundwise("tell", "s", "wrong.csv")
        options = ["--arm-column", "variant", "--outcome-column", "bought", "--ignore-arms", "old", "--missing", "ill"]
        assert "no column" in roundwise("amend", "s", "wrong.csv", "--with", "right.csv", "--why", "typo", code=2)
        roundwise("amend", "s", "wrong.csv", "--with", "right.csv", "--why", "typo", *options)
        asked = study.state.rounds[0]
        assert (asked.counts.tolist(), asked.lost.tolist()) == ([1, 0, 0], [0, 1, 0])

    def test_they_need_a_file(self, study, roundwise, tmp_path):
        (tmp_path / "wrong.csv").write_text("arm,outcome\na,1\nb,0\n")
        roundwise("tell", "s", "wrong.csv")
        assert "need --with" in roundwise("amend", "s", "wrong.csv", "--why", "typo", "--missing", "ill", code=2)


def test_what_fails_after_something_was_recorded_is_not_exit_code_2(study, roundwise, monkeypatch, tmp_path):
    """A disk that fills between the record and the file that was to be written."""

    def full(path, contents):
        raise InputError(f"{path} cannot be written: No space left on device. Give another place.")

    study.tell(round_over="nobody came")
    monkeypatch.setattr("roundwise.cli.study.rounds.write_file", full)
    said = roundwise("ask", "s", "--out", "batch.csv", code=3)
    assert "round 2 of 's' is asked for, but: batch.csv cannot be written: No space left" in said
    assert study.state.number == 2


class TestDigests:
    def test_of_a_report_that_was_kept(self, study, roundwise):
        report = study.report()
        assert report.digest == study.entries()[-1].digest
        forms = (report.text(), report.markdown(), report.html(), report.json())
        assert all(form.count(report.digest) >= 1 for form in forms)
        assert f"verify s --storage sqlite:///copy.db --digest {report.digest}" in report.reproduce
        assert "it is that of its last entry" in roundwise("verify", "s", "--digest", report.digest)
        study.note("a remark")
        assert "is that of entry 1, and 1 came after it" in roundwise("verify", "s", "--digest", report.digest[:12])
        assert verify_study("s", digest=report.digest).sound

    def test_of_another_record(self, study, roundwise):
        """Its chain is unbroken, and it is sound: only the digest tells that it was made anew."""
        digest = study.report().digest
        study.remove()
        with create_study("s", question=BestArm(), arms=ARMS, noise=Binary(), seed=2) as other:
            other.ask()
        roundwise("verify", "s")
        assert "was rewritten" in roundwise("verify", "s", "--digest", digest, code=2)
        with pytest.raises(DataError, match="No entry of 's'"):
            verify_study("s", digest=digest)

    @pytest.mark.parametrize("digest", ["", "abc", "x" * 64, "\x1b[2J" * 20])
    def test_that_are_none(self, study, roundwise, digest):
        said = roundwise("verify", "s", "--digest", digest, code=2)
        assert "is not a digest" in said
        assert "\x1b" not in said


class TestTheSplit:
    """Sample-ratio mismatch: a warning where the split was left to chance, and more than chance was at work."""

    def told(self, split, counts, **words):
        with create_study("s", question=BestArm(), arms=ARMS, noise=Binary(), seed=1, split=split, **words) as study:
            study.ask()
            ones = [count // 3 for count in counts]
            return study.tell({"arm": ARMS, "count": counts, "successes": ones})

    @pytest.fixture(autouse=True)
    def here(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

    @pytest.mark.parametrize("split", ["2:1:1", None])
    def test_that_went_wrong(self, split):
        counts = [1000, 560, 440] if split else [650, 750, 600]
        report = self.told(split, counts, round_size=2000)
        (danger,) = report.dangers
        expected = 500 if split else 667
        found = tuple(danger.fields[each] for each in ("arm", "returned", "expected"))
        assert (danger.code, found) == ("sample_ratio_mismatch", ("b", counts[1], expected))
        for said in (report.text(), report.top()):  # above the headline, once
            assert said.startswith(f"Danger: {danger}\n{report.headline}.")
            assert said.count("Danger: ") == 1
        assert report.guarantee.status == "kept"  # how many results there are of an arm has no part in it

    @pytest.mark.parametrize("split", ["2:1:1", None])
    def test_it_is_said_wherever_one_looks(self, split):
        """Also by whoever reads no more than the last checkpoint: `tell` of a later day, and a quick look."""
        self.told(split, [1000, 560, 440] if split else [650, 750, 600], round_size=2000)
        with load_study("s") as study:
            expected = study.report().dangers
            assert len(expected) == 1
            assert study.status().dangers == expected
        with load_study("s") as study:
            counts = study.ask().pulls + np.array([-60, 120, -60])
            (danger,) = study.tell({"arm": ARMS, "count": counts.tolist(), "successes": (counts // 3).tolist()}).dangers
            assert (danger.code, danger.fields["arm"]) == ("sample_ratio_mismatch", "b")

    @pytest.mark.parametrize("split", ["2:1:1", None])
    def test_that_is_chance(self, split):
        assert self.told(split, [1020, 470, 510] if split else [640, 700, 660], round_size=2000).dangers == ()

    def test_a_page_that_always_splits_equally(self):
        """It is judged by its own split, not by the one that a round asks for; any other one is told of."""
        with create_study("s", question=BestArm(), arms=ARMS, noise=Binary(), seed=1, round_size=3000) as study:
            study.ask()
            study.tell({"arm": ARMS, "count": [1000] * 3, "successes": [300, 330, 350]})
            asked = study.ask().pulls
            assert asked.max() > 1.4 * asked.min()
            study.tell({"arm": ARMS, "count": [1000, 990, 1010], "successes": [300, 325, 345]})
            assert study.report().dangers == ()
            asked = study.ask().pulls
            assert asked.max() > 1.4 * asked.min()
            report = study.tell({"arm": ARMS, "count": [1000, 1400, 600], "successes": [300, 455, 210]})
        assert [each.code for each in report.dangers] == ["sample_ratio_mismatch"]

    def test_it_warns_as_rarely_as_it_says(self):
        from roundwise.study.diagnostics import Splits

        rng, shares = np.random.default_rng(1), [np.array([2.0, 1, 1]), np.array([1.0, 1, 4])]
        found = []
        for _ in range(2000):
            splits = Splits()
            for each in shares:
                splits = splits.plus(each, rng.multinomial(300, each / each.sum()).astype(float))
            found.append(splits.chance)
        assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 2000))

    def test_missing_ones_came_too(self, tmp_path):
        rows = [f"{arm},{'' if arm == 'b' and i < 60 else i % 2}" for arm in ARMS for i in range(200)]
        (tmp_path / "x.csv").write_text("arm,outcome\n" + "\n".join(rows) + "\n")
        with create_study("s", question=BestArm(), arms=ARMS, noise=Binary(), split="equal", round_size=600) as study:
            study.ask()
            report = study.tell("x.csv", missing="lost")
        assert [each for each in report.dangers if each.code == "sample_ratio_mismatch"] == []
        assert any(each.code == "missing_differ" for each in report.dangers)


class TestNotes:
    def test_one_line_however_many_days(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        rows = [f"u{i},{ARMS[i % 3]},{i % 2}" for i in range(400)]
        with create_study("s", question=BestArm(), arms=ARMS, noise=Binary(), seed=1, round_size=300) as study:
            for day in range(1, 5):
                if study.state.open_round is None:
                    study.ask()
                (tmp_path / f"day{day}.csv").write_text(
                    "user,arm,outcome\n" + "\n".join(rows[: 100 * day]) + "\nx,d,1\n"
                )
                study.tell(f"day{day}.csv", columns=_by_user(), ignore_arms="*")
        with load_study("s") as study:
            notes = study.report().notes
        (skipped,) = [each.fields for each in notes if each.code == "skipped"]
        assert (skipped["file"], skipped["rows"], skipped["others"]) == ("day4.csv", 300, 2)
        assert len([each for each in notes if each.code == "other_arms"]) == 1


def _by_user():
    from roundwise.ingest import Columns

    return Columns(id="user")
