"""Sweeps: every combination of a file's questions, instances, policies and levels, each stored once it is finished."""

from roundwise.simulation.sweep.grid import Cell, Grid, read_grid
from roundwise.simulation.sweep.run import folder_of_cells, is_finished, relabel, run_cells, summary_row

__all__ = ["Cell", "Grid", "folder_of_cells", "is_finished", "read_grid", "relabel", "run_cells", "summary_row"]
