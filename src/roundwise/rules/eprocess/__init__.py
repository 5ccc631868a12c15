"""The wrong answers of each kind of question, and what has been won against them; `ledger` says what one owes."""
