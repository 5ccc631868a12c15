"""Results of real experiments as they come in life: text tables, JSON, spreadsheets, Parquet, data frames.

`tables.opening` makes a `Sheet` of whatever was given; `columns` says which column is what, `lines` checks every line
(`names`, `checks`) and puts down what is wrong; `ids` and `earlier` see that nothing counts twice, or
is contradicted in silence, `undeclared` that users or items do not repeat without a word; `lots` keeps the
rows, `recorded` all that a file brought; `batches` joins files and deals their rows into parts. Nothing heavy is
imported before it is used.
"""

from roundwise.ingest.columns import Columns, Options, Words
from roundwise.ingest.duplicates import Amounts, Earlier
from roundwise.ingest.read import read_results
from roundwise.ingest.record import Form, Lots, Results, Start, batch_of, lots_of, parts_of, whole_of
from roundwise.ingest.shared_items import Repeats, Sketch, merge_sketches, sketches_from

__all__ = [
    "Amounts",
    "Columns",
    "Earlier",
    "Form",
    "Lots",
    "Options",
    "Repeats",
    "Results",
    "Sketch",
    "Start",
    "Words",
    "batch_of",
    "lots_of",
    "merge_sketches",
    "parts_of",
    "read_results",
    "sketches_from",
    "whole_of",
]
