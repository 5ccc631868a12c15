"""Tables of outcomes to replay: how often each arm had each outcome."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from roundwise.arrays import Floats
from roundwise.errors import DataError, unknown


def read_outcomes(path: Path, instance: str | None) -> tuple[tuple[str, ...], Floats, Floats]:
    """The arms, outcomes and counts of a table `[instance,]arm,outcome,count`."""
    tally: dict[str, dict[float, int]] = {}
    instances: set[str] = set()
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            missing = [name for name in ("arm", "outcome", "count") if name not in (rows.fieldnames or ())]
            if missing:
                raise DataError(f"{path}, line 1: no column '{missing[0]}'. The table needs arm,outcome,count.")
            has_instances = "instance" in (rows.fieldnames or ())
            if instance is not None and not has_instances:
                raise DataError(f"{path}, line 1: no column 'instance'. Leave out --instance, or add the column.")
            for row in rows:
                if has_instances:
                    instances.add(row["instance"])
                    if instance is not None and row["instance"] != instance:
                        continue
                outcome, count = _row(path, rows.line_num, row)
                outcomes = tally.setdefault(row["arm"], {})
                outcomes[outcome] = outcomes.get(outcome, 0) + count
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as a CSV table ({error}).") from None
    if instance is not None and instance not in instances:
        raise unknown("instance", instance, instances)
    if instance is None and len(instances) > 1:
        raise DataError(
            f"{path} holds {len(instances)} instances. Choose one with --instance, for example {min(instances)}."
        )
    names = tuple(tally)
    values = sorted({outcome for outcomes in tally.values() for outcome in outcomes})
    counts = np.array([[float(tally[name].get(value, 0)) for value in values] for name in names])
    if len(names) < 2:
        raise DataError(f"{path}: the table needs at least two arms; found {len(names)}.")
    if len(values) < 2:
        raise DataError(f"{path}: every outcome is {values[0]:g}; there is nothing to find out.")
    if (counts.sum(axis=-1) == 0).any():
        raise DataError(
            f"{path}: arm '{names[int(np.argmin(counts.sum(axis=-1)))]}' has no outcome (all counts are 0)."
        )
    return names, np.array(values), counts


def _row(path: Path, line: int, row: dict[str, str]) -> tuple[float, int]:
    try:
        outcome = float(row["outcome"])
        if not np.isfinite(outcome):
            raise ValueError
    except (TypeError, ValueError):
        raise DataError(f"{path}, line {line}: the outcome '{row['outcome']}' is not a number.") from None
    try:
        count = int(row["count"])
        if count < 0:
            raise ValueError
    except (TypeError, ValueError):
        raise DataError(
            f"{path}, line {line}: the count '{row['count']}' is not a whole number of at least 0."
        ) from None
    if not row["arm"]:
        raise DataError(f"{path}, line {line}: the arm has no name.")
    return outcome, count
