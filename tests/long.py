"""Measure which test functions are long, and write them to long.txt: `python tests/long.py`, on a quiet machine.

Long is what takes more than half a second of CPU over all its cases. Shared set-up (a server, a browser) counts for
the test that comes first, so whole files that need one are named in FILES.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = 0.5
FILES = ("test_browser.py",)


def main():
    """Run all that CI runs, and keep the dear ones."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cpu")
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "auto", "-m", "not slow", "--cpu", path, HERE], check=True
        )
        spent = Counter()
        for line in path.read_text().splitlines():
            seconds, name = line.split()
            spent[name] += float(seconds)
    long = sorted(name for name, total in spent.items() if total > SECONDS or name.startswith(FILES))
    HERE.joinpath("long.txt").write_text("".join(f"{name}\n" for name in long))
    left = sum(spent.values()) - sum(spent[name] for name in long)
    print(f"{len(long)} of {len(spent)} functions are long; the others take {left:.0f} of {sum(spent.values()):.0f} s.")


if __name__ == "__main__":
    main()
