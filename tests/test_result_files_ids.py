"""Rows with ids: none counts twice, and what says something else than is recorded is not lost in silence."""

import json

import numpy as np
import pytest

from result_files import ARMS, WITH_IDS, reader, users
from roundwise import BestArm, Binary, Bounded, DataError, Gaussian, create_study
from roundwise.arrays import pack_hashes, unpack_hashes
from roundwise.ingest import Reading, RecordedFiles, Results, read_results
from roundwise.ingest.duplicates import sums_of_arms
from roundwise.messages import Danger, FileNote

MEANS = Reading(id_result="mean")


@pytest.fixture
def tell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return reader(tmp_path)


class TestIds:
    def test_rows_that_are_recorded_are_skipped(self, tell):
        first = tell(users("1,placebo,1", "2,25mg,0"), study=WITH_IDS)
        found = tell(users("2,25mg,0", "3,25mg,1", "1,placebo,1"), study=WITH_IDS, told=[first])
        assert (found.rows, found.skipped, found.totals.tolist()) == (1, 2, [0, 1, 0])
        assert found.notes == (FileNote("skipped", file="results.csv", rows=2),)
        back = Results.from_payload(json.loads(json.dumps(found.payload())))
        third = tell(users("3,25mg,1", "4,25mg,1"), study=WITH_IDS, told=[first, back])
        assert third.rows == 1
        with pytest.raises(DataError, match=r"results.csv"):
            tell(users("3,25mg,1", "1,placebo,1"), study=WITH_IDS, told=[first, back])
        with pytest.raises(DataError, match="brings nothing new"):  # whoever says that it is new
            tell(users("1,placebo,1"), study=WITH_IDS, told=[first], new=True)
        assert tell(users("1,placebo,1", "5,25mg,1"), study=WITH_IDS, told=[first], new=True).rows == 1

    def test_numbers_and_texts_are_one_id(self, tell):
        first = tell(users("1,placebo,1", " 2 ,25mg,0"), study=WITH_IDS)
        frame = {"user": [1.0, 2], "arm": ["placebo", "25mg"], "outcome": [1, 0]}
        with pytest.raises(DataError, match="nothing new"):
            read_results(frame, ARMS, Binary(), columns=WITH_IDS, recorded=RecordedFiles([first]), seed=3)

    def test_whole_numbers_with_a_point_are_the_same(self, tell):
        """A table writes 7 as 7.0 once a cell of its column was empty."""
        rows = ("7.0,placebo,1", "10.0,25mg,0")
        first = tell(users(*(each.replace(".0", "") for each in rows)), study=WITH_IDS)
        found = tell(users(*rows, "1.0,25mg,1"), study=WITH_IDS, told=[first])
        assert (found.rows, found.skipped) == (1, 2)
        assert found.notes == (FileNote("skipped", file="results.csv", rows=2),)
        with pytest.raises(DataError, match="id"):
            tell(users("7,placebo,1", "7.0,placebo,1"), study=WITH_IDS)
        assert tell(users(*(f"{each},placebo,1" for each in ("1.10", "1.1", "v1.0", "v1"))), study=WITH_IDS).rows == 4

    def test_hashes_are_keyed_by_the_study(self, tell):
        frame = {"user": [1, 2], "arm": ["placebo", "25mg"], "outcome": [1, 0]}
        one, two = (read_results(frame, ARMS, Binary(), columns=WITH_IDS, seed=seed) for seed in (1, 2))
        assert not set(one.id_hashes.tolist()) & set(two.id_hashes.tolist())

    def test_several_rows_of_one_id(self, tell):
        text = users("1,placebo,1", "2,25mg,0", "1,placebo,0", "2,25mg,0")
        with pytest.raises(
            DataError,
            match="line 4",
        ):
            tell(text, study=WITH_IDS)
        found = tell(text, Bounded(0, 1), study=WITH_IDS, reading=MEANS)
        assert (found.rows, found.totals.tolist()) == (2, [0.5, 0, 0])
        assert found.notes == (FileNote("combined", file="results.csv", rows=4, ids=2, rule="mean"),)
        with pytest.raises(DataError, match="'placebo'"):
            tell(text, study=WITH_IDS, reading=MEANS)
        for reading in (Reading(), MEANS):
            with pytest.raises(DataError, match="line 3"):
                tell(users("1,placebo,1", "1,25mg,0"), study=WITH_IDS, reading=reading)

    def test_an_id_that_is_missing(self, tell):
        with pytest.raises(DataError, match="line 3"):
            tell(users("1,placebo,1", ",placebo,1"), study=WITH_IDS)

    def test_missing_rows_are_not_missed_twice(self, tell):
        first = tell(users("1,placebo,", "2,25mg,0"), study=WITH_IDS, missing="ill")
        found = tell(users("1,placebo,", "2,25mg,0", "3,25mg,1"), study=WITH_IDS, missing="ill", told=[first])
        assert (found.rows, found.missing) == (1, None)

    def test_a_million_take_little_room(self):
        hashes = np.random.default_rng(1).integers(0, 2**63, 1_000_000, dtype=np.uint64)
        packed = pack_hashes(hashes)
        assert len(packed) < 8.5e6  # 64 bits each as they are would be 10.7
        np.testing.assert_array_equal(unpack_hashes(packed), np.sort(hashes))


def test_sums_have_no_ids(tell):
    with pytest.raises(DataError, match="sums have no ids"):
        tell("arm,count,successes,user\nplacebo,1,1,3\n", study=WITH_IDS)


class TestContradictions:
    """An id that is recorded, and says something else now: skipped, but counted and said."""

    FIRST = ("1,placebo,1", "2,25mg,0", "3,25mg,", "4,placebo,0")

    def test_every_kind(self, tell):
        first = tell(users(*self.FIRST), study=WITH_IDS, missing="not yet")
        other = ("1,placebo,0", "2,placebo,0", "3,25mg,1", "4,placebo,")
        found = tell(users(*other, "5,25mg,1"), study=WITH_IDS, told=[first], missing="lost")
        assert (found.rows, found.skipped, found.counts.tolist(), found.missing) == (1, 4, [0, 1, 0], None)
        assert found.notes[1].code == "contradicts"
        assert found.notes[1].fields["kinds"] == {"outcome": 1, "arm": 1, "late": 1, "gone": 1}
        assert found.contradicted.plain() == {
            "rows": 4,
            "outcome": 1,
            "arm": 1,
            "late": 1,
            "gone": 1,
            "lines": [2, 3, 4, 5],
            "recorded_by": ["results.csv"],
        }
        assert Results.from_payload(json.loads(json.dumps(found.payload()))).contradicted == found.contradicted
        with pytest.raises(DataError, match=r"all of its 4 rows are recorded.*`study.amend`"):
            tell(users(*other), study=WITH_IDS, told=[first], missing="lost")

    @pytest.mark.parametrize("noise", [Binary(), Bounded(0, 10), Gaussian(1.0)])
    def test_the_same_is_no_contradiction(self, tell, noise):
        """Whatever the order, the way numbers are written, and other arms than there were then."""
        first = tell(users(*self.FIRST), noise, study=WITH_IDS, missing="not yet")
        first = Results.from_payload(first.payload())
        again = users("5,25mg,1", "4, placebo ,0.0", " 3 ,25mg,", "2,25mg,no", "1,placebo,1e0")
        found = tell(again, noise, study=WITH_IDS, told=[first], missing="lost")
        assert (found.skipped, found.contradicted) == (4, None)
        earlier = RecordedFiles(sums_of_arms([(ARMS, first)], ["25mg", "new", "placebo"]))
        frame = {"user": [1, 2, 9], "arm": ["placebo", "25mg", "new"], "outcome": [0, 0, 1]}
        found = read_results(frame, ["25mg", "new", "placebo"], noise, columns=WITH_IDS, recorded=earlier, seed=3)
        assert found.contradicted.plain()["lines"] == [1]

    def test_means_of_several_rows_are_compared(self, tell):
        noise, words = Bounded(0, 1), {"study": WITH_IDS, "reading": MEANS}
        first = tell(users("1,placebo,.1", "1,placebo,.2", "1,placebo,.6", "2,25mg,1"), noise, **words)
        again = ("1,placebo,.6", "2,25mg,1", "1,placebo,.1", "3,25mg,1")
        found = tell(users(*again, "1,placebo,.2"), noise, told=[first], **words)
        assert (found.skipped, found.contradicted) == (4, None)
        assert tell(users(*again), noise, told=[first], **words).contradicted.lines == (2,)

    def test_several_rows_of_a_recorded_id_are_refused_too(self, tell):
        first = tell(users(*self.FIRST), study=WITH_IDS, missing="not yet")
        with pytest.raises(DataError, match="line 3"):
            tell(users("1,placebo,1", "1,placebo,1", "7,25mg,1"), study=WITH_IDS, told=[first])

    def test_records_without_outcomes_of_ids(self, tell):
        """As earlier versions wrote them: nothing can be said."""
        first = tell(users(*self.FIRST), study=WITH_IDS, missing="not yet").payload()
        del first["id_outcomes"]
        found = tell(users("1,placebo,0", "5,25mg,1"), study=WITH_IDS, told=[Results.from_payload(first)])
        assert (found.skipped, found.contradicted) == (1, None)

    def test_forged_ones_are_refused(self, tell):
        first = tell(users(*self.FIRST), study=WITH_IDS, missing="not yet")
        found = tell(users("1,placebo,0", "5,25mg,1"), study=WITH_IDS, told=[first]).payload()
        for forged in (
            {"id_outcomes": [1, 2, 3]},
            {"contradicted": {"kinds": {}, "lines": [], "files": []}},
            {"contradicted": {"kinds": {"outcome": -1}, "lines": [], "files": []}},
            {"contradicted": {"kinds": {"outcome": 1}, "lines": ["x"], "files": []}},
            {"contradicted": 3},
        ):
            with pytest.raises(DataError, match="results"):
                Results.from_payload(found | forged)

    def test_in_a_study_until_they_are_corrected(self, tmp_path):
        def rows(*each):
            return dict(zip(("user", "arm", "outcome"), map(list, zip(*each, strict=True)), strict=True))

        (tmp_path / "monday.csv").write_text(users("1,a,1", "2,b,0"))
        (tmp_path / "corrected.csv").write_text(users("1,a,0", "2,b,0"))
        with create_study(
            "s", question=BestArm(), arms=["a", "b"], noise=Binary(), columns=WITH_IDS,
            storage=f"sqlite:///{tmp_path}/x.db",
        ) as study:  # fmt: skip
            study.ask()
            study.tell(tmp_path / "monday.csv")
            for day in (3, 4):  # the same contradiction, every day
                report = study.tell(rows((1, "a", 0), (2, "b", 0), (day, "a", 1)))
            report = study.tell(rows((9, "b", 1)), round_over="enough")
            for each in (report, study.report()):
                assert each.guarantee.codes == ("short_rounds", "contradicted")
                assert Danger("contradicted", ids=1) in each.dangers
            files = study.report().plain()["files"]
            assert [each["skipped"] for each in files] == [0, 2, 2, 0]
            assert files[1]["contradicts"]["lines"] == [1]
            assert files[0]["contradicts"] is None
            report = study.amend("monday.csv", tmp_path / "corrected.csv", "told before it was final")
            assert "contradicted" not in report.guarantee.codes
            assert not any(each.code == "contradicted" for each in study.report().dangers)
