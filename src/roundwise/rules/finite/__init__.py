"""Bets on a finite list of items that is drawn without replacement, in a random order (docs/lists.md)."""
