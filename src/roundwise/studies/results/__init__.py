"""Results of real experiments as they come in life: text tables, JSON, spreadsheets, Parquet, data frames.

`tables.opening` makes a `Sheet` of whatever was given; `columns` says which column is what, `lines` checks every line
(`names`, `checks`) and puts down what is wrong; `ids` and `earlier` see that nothing counts twice, or
is contradicted in silence, `undeclared` that users or items do not repeat without a word; `lots` keeps the
rows, `recorded` all that a file brought; `batches` joins files and deals their rows into parts. Nothing heavy is
imported before it is used.
"""

from roundwise.studies.results.batches import batch_of, lots_of, parts_of, whole_of
from roundwise.studies.results.columns import Columns, Options, Words
from roundwise.studies.results.earlier import Amounts, Earlier
from roundwise.studies.results.lots import Lots
from roundwise.studies.results.reading import read_results
from roundwise.studies.results.recorded import Form, Results, Start
from roundwise.studies.results.undeclared import Repeats, Sketch, merge_sketches, sketches_from

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
