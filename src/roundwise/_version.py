"""The version, where everybody can read it without importing the package."""

__version__ = "1.0.0rc1"

RULES = 1  # raised whenever a plan, a bet or a threshold changes: a study says by which rules each batch was counted
