"""E-processes: bets against the wrong answers of each kind of question; `base` has their base class."""
