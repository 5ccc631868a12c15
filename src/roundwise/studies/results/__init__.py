"""Results of real experiments as they come in life: text tables, JSON, spreadsheets, Parquet, data frames.

`reading` opens whatever was given and makes a `sheets.Sheet` of it (`text`, `objects`, `books`, `frames`); `columns`
says which column is what, `lines` checks every line (`names`, `cells`, `checks`) and puts down what is wrong
(`problems`); `ids`, `marks` and `earlier` see that nothing counts twice; `lots` keeps the rows, `recorded` all that a
file brought; `batches` joins files and deals their rows into parts. Nothing heavy is imported before it is used.
"""

from roundwise.studies.results.batches import batch_of, lots_of, parts_of, whole_of
from roundwise.studies.results.columns import Columns
from roundwise.studies.results.earlier import Amounts, Earlier
from roundwise.studies.results.lots import Lots
from roundwise.studies.results.options import Options, Words
from roundwise.studies.results.reading import read_results
from roundwise.studies.results.recorded import Form, Results

__all__ = [
    "Amounts",
    "Columns",
    "Earlier",
    "Form",
    "Lots",
    "Options",
    "Results",
    "Words",
    "batch_of",
    "lots_of",
    "parts_of",
    "read_results",
    "whole_of",
]
