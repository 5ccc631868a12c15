"""`roundwise new, ask, tell, status, ...`: live studies, one file a command.

They are registered in the order of the help.
"""

from importlib import import_module

for _name in (
    *("new", "ask", "tell", "status", "list", "report", "log", "export", "importing", "verify", "amend", "close"),
    *("drop", "add", "extend", "import_past", "reopen", "note", "remove"),
):
    import_module(f"roundwise.cli.study.{_name}")
