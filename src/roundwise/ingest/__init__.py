"""Results of real experiments, from files and data frames to batches.

`rows` reads a table (`formats`) and checks every line; `columns` says which column is what and which arm a name means;
`reading` has the rules by which rows become results; `duplicates` sees that nothing counts twice or contradicts the
record in silence; `record` is what a study keeps of a file, and joins the files of a round into a batch in random
parts; `row_checks` tests single rows against the noise model.
"""

from roundwise.ingest.columns import TellKeywords, TellOptions
from roundwise.ingest.duplicates import ArmSums, RecordedFiles
from roundwise.ingest.reading import Columns, Reading
from roundwise.ingest.record import (
    FileForm,
    FileStart,
    Repeats,
    Results,
    Strata,
    ValueSketch,
    batch_of,
    merge_sketches,
    moments_of,
    of_arms,
    parts_of,
    sketches_from,
    strata_of,
    whole_of,
)
from roundwise.ingest.rows import read_results

__all__ = [
    "ArmSums",
    "Columns",
    "FileForm",
    "FileStart",
    "Reading",
    "RecordedFiles",
    "Repeats",
    "Results",
    "Strata",
    "TellKeywords",
    "TellOptions",
    "ValueSketch",
    "batch_of",
    "merge_sketches",
    "moments_of",
    "of_arms",
    "parts_of",
    "read_results",
    "sketches_from",
    "strata_of",
    "whole_of",
]
