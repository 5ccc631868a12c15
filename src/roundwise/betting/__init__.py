"""The wrong answers of each kind of question, and what has been won against them; `base` says what a ledger owes."""
