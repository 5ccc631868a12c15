"""How many files a reader follows: those in which `simulate`, `tell` and `report` call a function.

`python benchmarks/traces.py` prints three numbers, `--files` also the files, each with the lines of the functions that
are called in it: one that has only a few is a jump for little. What a module does when it is imported does not count.
"""

import argparse
import ast
import contextlib
import csv
import io
import os
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path

import roundwise
from roundwise import BestArm, GaussianArms, Wager, load_study, simulate
from roundwise.cli import main
from roundwise.environments import RandomGaps

SOURCE = Path(roundwise.__file__).parent


def importing(frame):
    """Whether a module of the package is being imported."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(str(SOURCE)):
            return True
        frame = frame.f_back
    return False


def traced(work):
    """The functions that are called, by their files."""
    called = defaultdict(set)

    def noted(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)) and not importing(frame):
            called[Path(code.co_filename)].add((code.co_name, code.co_firstlineno))

    threading.setprofile(noted)
    sys.setprofile(noted)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return called


def lines(file, called):
    """How many lines these functions of a file have, those within others not counted again."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if (node.name, first) in called:
                found |= set(range(node.lineno, node.end_lineno + 1))
    return len(found)


def command(*words):
    """`roundwise` with these words, in this process, without what it prints."""
    sys.argv = ["roundwise", *words]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main()
    except SystemExit as left:
        if left.code:
            raise RuntimeError(said.getvalue()) from None


def paths():
    """What each of the three calls: a simulation, and the first round of a study of 0/1 results."""
    world = GaussianArms(RandomGaps())

    def simulated():
        simulate(BestArm(), world, [Wager()], runs=64)

    simulated()  # tables that are made once a process are there
    command("new", "s", "--question", "best-arm", "--arms", "a,b,c", "--binary")
    command("ask", "s")
    with Path("results.csv").open("w", newline="") as file:
        rows = [(arm, int(i % 10 < 3)) for arm, pulls in load_study("s").ask().table for i in range(pulls)]
        csv.writer(file).writerows([("arm", "outcome"), *rows])
    yield "simulate", traced(simulated)
    yield "tell", traced(lambda: command("tell", "s", "results.csv"))
    yield "report", traced(lambda: command("report", "s"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="print the files, with the lines of what is called")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["ROUNDWISE_STORAGE"] = "sqlite:///traces.db"
        for name, called in paths():
            print(f"{name}: {len(called)} files")
            if given.files:
                for number, file in sorted((lines(file, names), file) for file, names in called.items()):
                    print(f"  {number:4d} lines  {file.relative_to(SOURCE).as_posix()}")
