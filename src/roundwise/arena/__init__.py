"""Every policy on the same work: the paper's and our fixed instances, and real outcomes that are replayed."""

from roundwise.arena.run import ArenaResult, run_arena

__all__ = ["ArenaResult", "run_arena"]
