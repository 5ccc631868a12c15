"""Results of real experiments as they come in life: text tables, spreadsheets, Parquet, data frames; read whole or not.

`sheets` opens what was given, `columns` recognises what it holds, `checks` refuses what cannot be true, `tally` adds
up, `deal` cuts the rows of a first batch into parts, `batches` joins files.
Nothing heavy is imported before it is used.
"""

from roundwise.studies.results.batches import batch_of
from roundwise.studies.results.reading import read_results
from roundwise.studies.results.told import Dealt, Form, Part, Results

__all__ = ["Dealt", "Form", "Part", "Results", "batch_of", "read_results"]
