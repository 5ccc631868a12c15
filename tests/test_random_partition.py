"""Dealing: orders of the rows that have nothing to do with their values, the law of parts given sums, one verdict."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from roundwise import (
    Above,
    BestArm,
    Binary,
    Bounded,
    DataError,
    Gaussian,
    Poisson,
    Problem,
    SubGaussian,
    TopK,
    Wager,
)
from roundwise.ingest import Results, batch_of, read_results
from roundwise.model.batch import (
    GRID,
    Batch,
    PartitionRows,
    part_edges,
    part_shares_of_rest,
    partition_rows,
    partition_sums,
    split_counts,
)
from roundwise.model.problem import advance, begin


def rows_of(arms, values) -> PartitionRows:
    return PartitionRows(np.asarray(arms), np.ones(len(arms)), np.asarray(values, dtype=float), np.zeros(len(arms)))


def test_parts_shrink_and_hold_all_rows() -> None:
    assert part_edges(12)[[0, 1, 6, 12]].tolist() == [0.0, 1 - (11 / 12) ** 2, 0.75, 1.0]
    counts = split_counts(np.array([30.0, 7.0, 1.0, 0.0]), 12)
    assert counts.shape == (1, 4, 12)
    assert counts.sum(axis=-1).tolist() == [[30.0, 7.0, 1.0, 0.0]]
    assert (counts[0, :3, -1] >= 1).all()  # every arm that is there has a row in the last part
    np.testing.assert_allclose(part_shares_of_rest(4), [1 - 9 / 16, 1 - 4 / 9, 3 / 4, 1.0])


def test_rows_are_dealt_without_loss_and_the_same_each_time() -> None:
    rng = np.random.default_rng(1)
    arms = np.repeat([0, 1, 2], [40, 25, 3])
    values = rng.normal(100.0, 1.0, 68)
    one, again, other = (partition_rows(rows_of(arms, values), 4, seed, 2, 12) for seed in (5, 5, 6))
    assert one.totals.shape == (256, 4, 12)
    for first, second in zip(one[:3], again[:3], strict=True):
        assert np.array_equal(first, second)
    assert not np.array_equal(one.totals, other.totals)
    assert not np.array_equal(one.totals, partition_rows(rows_of(arms, values), 4, 5, 3, 12).totals)
    assert np.array_equal(
        one.counts, np.broadcast_to(split_counts(np.array([40.0, 25.0, 3.0, 0.0]), 12), one.counts.shape)
    )
    np.testing.assert_allclose(one.totals.sum(axis=-1), np.tile(np.bincount(arms, values, 4), (256, 1)))
    within = one.scatter.sum(axis=-1) + (one.counts * (one.totals / np.maximum(one.counts, 1) - 100) ** 2).sum(axis=-1)
    around = np.array([((values[arms == arm] - 100) ** 2).sum() for arm in range(4)])
    np.testing.assert_allclose(within, np.tile(around, (256, 1)), rtol=1e-9)


def test_each_partition_is_the_order_of_its_own_hashes() -> None:
    """The order of a row in a partition, in whole numbers: the high bits of its hash, ties by place."""
    mask = 2**64 - 1

    def mix(state: int) -> int:
        state = (state + 0x9E3779B97F4A7C15) & mask
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
        return state ^ (state >> 31)

    sizes, seed, batch, parts = [40, 25, 3], 5, 1, 4
    arms = np.repeat(np.arange(3), sizes)
    values = np.random.default_rng(1).normal(size=68)
    found = partition_rows(rows_of(arms, values), 3, seed, batch, parts)
    for m in (0, 1, 735, 736, 2047):
        state = mix((mix((mix(seed) + batch) & mask) + m) & mask)
        for arm, size in enumerate(sizes):
            own = mix(state ^ arm)
            order = sorted(range(size), key=lambda place: (mix((own + place) & mask) >> 2 >> 6, place))
            ends = [int(np.floor(size * edge + 1e-9)) for edge in part_edges(parts)]
            rows = values[arms == arm]
            totals = [rows[order[a:b]].sum() for a, b in itertools.pairwise(ends)]
            np.testing.assert_allclose(found.totals[m, arm], totals, rtol=1e-12, atol=1e-9)


def test_lots_of_rows_are_dealt_as_they_are() -> None:
    strata = PartitionRows(np.zeros(6, dtype=int), np.arange(1.0, 7.0), np.arange(6.0), np.full(6, 0.5))
    found = partition_rows(strata, 1, 1, 1, 4)
    assert (found.counts.sum(axis=-1) == 21).all()
    np.testing.assert_allclose(found.totals.sum(axis=-1), 15.0)
    assert len(np.unique(found.counts[:, 0, 0])) > 2


def test_every_place_is_as_likely_in_every_part_and_so_is_every_pair() -> None:
    size, seeds, labels = 12, (1, 2), []
    for mark in np.eye(size)[:3]:  # the row of one place alone has the value 1
        rows = rows_of(np.zeros(size, dtype=int), mark)
        labels.append(
            np.concatenate([partition_rows(rows, 1, seed, 1, 4).totals[:, 0].argmax(axis=-1) for seed in seeds])
        )
    shares = split_counts(np.array([float(size)]), 4)[0, 0] / size
    drawn = len(labels[0])
    for found in labels:
        assert stats.chisquare(np.bincount(found, minlength=4), drawn * shares).pvalue > 1e-4
    together = (labels[0] == labels[1]).mean()
    expected = float((shares * (shares * size - 1) / (size - 1)).sum())
    assert together == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / drawn))


def test_items_stay_whole() -> None:
    items = np.tile(np.arange(30, dtype=np.uint64), 2)
    rows = PartitionRows(np.repeat([0, 1], 30), np.ones(60), np.tile(np.arange(30.0), 2), np.zeros(60), items)
    found = partition_rows(rows, 2, 3, 1, 4)
    assert np.array_equal(found.totals[:, 0], found.totals[:, 1])
    assert len(np.unique(found.totals[:, 0, 0])) > 20


def test_tables_keep_counts_and_means() -> None:
    values = np.random.default_rng(2).beta(0.4, 0.4, 500)
    rows = rows_of(np.repeat([0, 1], 250), values)
    found = partition_rows(rows, 2, 1, 1, 4, (0.0, 1.0))
    assert found.table is not None
    assert found.table.counts.shape[-1] <= 2 * GRID
    np.testing.assert_allclose(found.table.counts.sum(axis=-1), found.counts)
    np.testing.assert_allclose(found.table.counts @ found.table.values, found.totals, atol=1e-9)


@pytest.mark.parametrize("steps", [2, 3, 4, 5, 10, 20])
def test_tables_of_usual_scales_are_exact(steps: int) -> None:
    values = 1 + np.arange(steps + 1) * (7.0 / steps)
    rows = rows_of(np.zeros(40 * (steps + 1), dtype=np.int64), np.tile(values, 40))
    table = partition_rows(rows, 1, 1, 1, 4, (1.0, 8.0)).table
    assert table is not None
    np.testing.assert_allclose(table.values, values, rtol=1e-12)
    np.testing.assert_array_equal(table.counts.sum(axis=2)[:, 0], 40.0)


@pytest.mark.long
def test_the_table_of_a_part_knows_nothing_of_later_parts() -> None:
    """Rows of the last part of one partition are changed (few values, many, the ends): the parts before stay."""
    rng = np.random.default_rng(7)
    arms, partition = np.repeat([0, 1], 150), 3
    values = rng.choice([0.25, 0.5, 0.75], 300)

    def before(changed: object) -> dict[float, list[float]]:
        table = partition_rows(rows_of(arms, changed), 2, 1, 1, 4, (0.0, 1.0)).table
        assert table is not None
        kept = table.counts[partition][:, :-1]
        return {v: kept[..., i].tolist() for i, v in enumerate(table.values) if kept[..., i].any()}

    last = np.array([_part_of(arms, row, partition) == 3 for row in range(300)])
    for others in (np.full(300, 1.0), rng.random(300), np.zeros(300)):
        assert before(np.where(last, others, values)) == before(values)


def _part_of(arms: object, row: int, partition: int) -> int:
    """Where one row is put: it alone has a value."""
    found = partition_rows(rows_of(arms, (np.arange(300) == row).astype(float)), 2, 1, 1, 4)
    return int(found.totals[partition].sum(axis=0).argmax())


@pytest.mark.parametrize(
    ("law", "draw"),
    [
        (Binary(), lambda rng, n: rng.binomial(n, 0.3)),
        (Gaussian(2.0), lambda rng, n: rng.normal(0.7 * n, 2.0 * np.sqrt(n))),
        (Poisson(), lambda rng, n: rng.poisson(0.8 * n)),
    ],
    ids=["binary", "gaussian", "poisson"],
)
def test_sums_dealt_have_the_law_of_parts(law, draw) -> None:
    """Means and covariances of the first two parts of 12 rows, with the sum drawn each time: those of true parts."""
    rng, sizes = np.random.default_rng(3), split_counts(np.array([12.0]), 4)[0, 0]
    found_totals = []
    for seed in range(400):
        total = np.array([float(draw(rng, 12))])
        found = partition_sums(law.draw_part_totals, np.array([12.0]), total, seed, 1, 4)
        assert found is not None
        np.testing.assert_allclose(found.totals.sum(axis=-1), total[0])
        found_totals += list(found.totals[:8, 0])
    true = draw(rng, np.broadcast_to(sizes.astype(int), (200_000, 4)))
    found = np.array(found_totals)
    np.testing.assert_allclose(found.mean(axis=0), true.mean(axis=0), atol=5 * true.std() / np.sqrt(400))
    np.testing.assert_allclose(np.cov(found.T), np.cov(true.T), atol=0.2 * np.cov(true.T).max())


def test_sums_of_other_laws_are_not_dealt() -> None:
    assert partition_sums(SubGaussian(1.0).draw_part_totals, np.array([12.0]), np.array([1.0]), 1, 1, 4) is None
    assert partition_sums(Bounded(0, 1).draw_part_totals, np.array([12.0]), np.array([1.0]), 1, 1, 4) is None


@pytest.mark.long
@pytest.mark.parametrize("question", [BestArm(), TopK(1), Above(0.33)], ids=lambda each: each.name)
def test_forty_seeds_give_one_verdict(question) -> None:
    """1200 rows of each of two arms, 30.3 and 36.8 %, just not enough: the evidence hardly hangs on the seed."""
    problem, policy = Problem(question, 2, 0.05, Binary()), Wager(first_pulls=1200)
    plan, counts = begin(problem, policy), np.full(2, 1200.0)
    totals = np.array([364.0, 442.0])
    evidence, done = [], set()
    for seed in range(40):
        parts = partition_sums(Binary().draw_part_totals, counts, totals, seed, 1, plan.plan.parts)
        trial = advance(problem, policy, plan, Batch(counts, totals, parts=parts))
        evidence.append(
            float(np.max(trial.kept.wealth.above if isinstance(question, Above) else trial.kept.wealth.gains))
        )
        done.add(bool(trial.done))
    assert len(done) == 1
    assert np.ptp(evidence) < 1.0  # log: a factor of e; with one partition they differ by far more
    single = []
    for seed in range(40):
        parts = partition_sums(Binary().draw_part_totals, counts, totals, seed, 1, plan.plan.parts)
        assert parts is not None
        one = parts._replace(totals=parts.totals[:1])
        trial = advance(problem, policy, plan, Batch(counts, totals, parts=one))
        single.append(
            float(np.max(trial.kept.wealth.above if isinstance(question, Above) else trial.kept.wealth.gains))
        )
    assert np.std(single) > 2 * np.std(evidence)


def test_sums_of_exactly_normal_results_are_dealt_in_a_study_and_of_others_not() -> None:
    """Two files of one batch: their parts add up to the sums; of a mere bound on the deviation nothing is known."""
    arms = ("a", "b")
    frames = [pd.DataFrame({"arm": arms, "count": [40, 40], "sum": [s, 1.0]}) for s in (3.0, 9.0)]
    exact, bounded_ = ([read_results(f, arms, noise=noise, parts=4, seed=5) for f in frames]
                       for noise in (Gaussian(0.5), SubGaussian(0.5)))  # fmt: skip
    batch = batch_of([Results.from_payload(each.payload()) for each in exact])
    assert batch.parts is not None
    np.testing.assert_allclose(batch.parts.totals.sum(axis=-1), np.broadcast_to([12.0, 2.0], (2048, 2)))
    spread = batch.parts.totals[:, 0, 0].std()
    assert spread == pytest.approx(0.5 * np.sqrt(35 * 45 / 80), rel=0.15)  # of 80 rows, 35 are in the first part
    assert not exact[0].notes
    assert batch_of(bounded_).parts is None
    assert bounded_[0].notes[0].code == "teaches_only"
    with pytest.raises(DataError, match="deviation"):
        Results.from_payload({**exact[0].payload(), "distribution": None})
