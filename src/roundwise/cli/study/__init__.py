"""`roundwise new, ask, tell, status, ...`: live studies. Commands are registered in the order of the help."""

from roundwise.cli.study import rounds, record, amend  # noqa: F401, I001
