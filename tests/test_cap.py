"""Results with a cap: larger ones count as the cap, and what was cut is said."""

import json

import numpy as np
import pytest

from roundwise import BestArm, Bounded, Capped, DataError, InputError, Wager, create_study, simulate, verify_study
from roundwise.environments import GaussianArms, Replay
from roundwise.ingest import read_results
from roundwise.model.batch import GRID, neighbours, value_grid
from roundwise.model.spec import from_spec, to_spec


def rows_of(path, values):
    lines = [f"{arm},{x!r}" for arm, each in values.items() for x in np.asarray(each, dtype=float).tolist()]
    path.write_text("arm,outcome\n" + "\n".join(lines) + "\n")
    return path


def test_the_model():
    noise = Capped(200.0, -5.0)
    assert from_spec("noise", to_spec(noise)) == noise
    assert (noise.low, noise.high, noise.outcome.clip) == (-5.0, 200.0, True)
    assert noise.flags == ("--cap", "200", "--floor", "-5")
    with pytest.raises(InputError, match="empty"):
        Capped(0.0)
    with pytest.raises(InputError, match="items"):
        noise.with_items()


def test_reading_clips_and_counts_what_it_cut(tmp_path):
    path = rows_of(tmp_path / "r.csv", {"a": [1, 50, 300, -7, 210], "b": [0, 0, 3]})
    found = read_results(path, ["a", "b"], Capped(200.0))
    assert found.totals.tolist() == [451.0, 3.0]
    assert sorted(found.values[0].tolist()) == [0.0, 1.0, 50.0, 200.0, 200.0]
    moments = found.row_statistics.moments
    assert moments.capped.tolist() == [3.0, 0.0]
    assert moments.cut.tolist() == [117.0, 0.0]
    sums = tmp_path / "s.csv"
    sums.write_text("arm,count,total\na,4,100\nb,4,100\n")
    with pytest.raises(DataError, match="how much of them lies beyond the cap"):
        read_results(sums, ["a", "b"], Capped(200.0))


def live(tmp_path, old, new, cap=20.0):
    """A study of two arms, told twice."""
    url = f"sqlite:///{tmp_path}/s.db"
    with create_study(
        "cap", question=BestArm(), arms=["old", "new"], noise=Capped(cap), round_size=600, storage=url
    ) as study:
        rng = np.random.default_rng(2)
        for number in range(8):
            if study.state.decided is not None:
                break
            study.ask()
            study.tell(rows_of(tmp_path / f"{number}.csv", {"old": old(rng, 300), "new": new(rng, 300)}))
        report = study.report()
    assert verify_study("cap", url).sound
    return report


def test_a_live_study_is_decided_and_kept(tmp_path):
    report = live(tmp_path, lambda rng, n: rng.lognormal(0, 1, n), lambda rng, n: 1.5 * rng.lognormal(0, 1, n))
    assert report.status == "decided"
    assert report.guarantee.status == "kept"
    assert not report.dangers
    (note,) = [each for each in json.loads(report.json())["notes"] if each["code"] == "cap_cut"]
    assert set(note["shares"]) == {"old", "new"}
    assert 0 < note["shares"]["new"] < 0.05
    assert "The cap cut" in report.text()
    assert "of the total of new" in report.html()


def test_a_cap_that_cuts_one_arm_more_is_a_danger(tmp_path):
    def whales(rng, n):
        return np.where(rng.random(n) < 0.05, 40.0, 0.5)

    report = live(tmp_path, lambda rng, n: rng.gamma(4, 0.5, n), whales)
    (danger,) = report.dangers
    assert danger.code == "cap_differs"
    assert danger.fields["most"] == "new"
    assert danger.fields["cut"] == pytest.approx(20 * 0.05 / 2.475, abs=0.15)
    assert danger.fields["of"] == 0
    assert "may be another without the cap" in report.text()


def test_simulations_cap_single_results():
    values, counts = np.array([0.0, 1.0, 50.0]), np.array([[80.0, 15.0, 5.0], [40.0, 60.0, 0.0]])
    world = Replay(("a", "b"), values, counts)
    (bounded,) = simulate(BestArm(), world, [Wager()], runs=50, noise=Bounded(0, 50))
    (capped,) = simulate(BestArm(), world, [Wager()], runs=50, noise=Capped(1.0))
    assert (bounded.answer == 0).all()
    assert (capped.answer == 1).all()
    assert capped.correct.all()
    with pytest.raises(InputError, match="cannot be capped"):
        simulate(BestArm(), GaussianArms([0.0, 1.0]), [Wager()], runs=2, noise=Capped(1.0))


def test_points_of_a_wide_range():
    """The table of a live study hardly inflates the variance of results near the low end."""
    points = value_grid(0.0, 1045.0)
    assert len(points) <= 2 * GRID
    assert set(np.linspace(0, 1045, GRID)) <= set(points)
    values = np.random.default_rng(1).lognormal(-0.3, 0.8, 20_000)
    left, share = neighbours(values, points)
    mean = points[left] * (1 - share) + points[left + 1] * share
    np.testing.assert_allclose(mean, values, rtol=1e-12)
    square = points[left] ** 2 * (1 - share) + points[left + 1] ** 2 * share
    assert (square.mean() - mean.mean() ** 2) / values.var() < 1.01
    on, part = neighbours(points, points)
    assert set(part.tolist()) <= {0.0, 1.0}
    np.testing.assert_array_equal(np.where(part == 1, points[np.minimum(on + 1, len(points) - 1)], points[on]), points)
