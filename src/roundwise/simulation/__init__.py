"""Fake and replayed worlds, many runs, grids of them, and where they are computed."""
