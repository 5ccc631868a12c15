"""Reading results: from files and data frames to recorded rows.

`read` leads: `formats` opens a table, `columns` finds which column is what, `rows` validates every row, `duplicates`
makes sure that nothing counts twice, `shared_items` finds repeated identifiers, `record` is what is written down.
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
