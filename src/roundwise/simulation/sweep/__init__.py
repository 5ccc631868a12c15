"""Sweeps: every combination of questions, instances, policies and levels in a file, each stored once it is finished."""

from roundwise.simulation.sweep.grid import SweepCell, SweepGrid, read_grid
from roundwise.simulation.sweep.run import SweepResult, is_finished, run_cells, run_sweep, summary_row

__all__ = ["SweepCell", "SweepGrid", "SweepResult", "is_finished", "read_grid", "run_cells", "run_sweep", "summary_row"]
