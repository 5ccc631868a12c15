"""What a page weighs and when it is painted, in a browser: `python benchmarks/page_weight.py`. Never a test.

The budget, as Lighthouse would have it: at most 150 kB over the wire for a first visit, 20 files, and 1.8 s to the
first paint on a processor that is four times slower than this one. It ends with status 1 where a page is over it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from chromium import browser
from roundwise.web.example import example_studies
from serving import served

PAGES = ("/", "/plan", "/studies/checkout", "/studies/newsletter%20titles/report", "/studies/dose", "/help")
KILOBYTES, FILES, PAINT = 150, 20, 1800  # the last in ms
SLOWER = 4  # times
MEASURE = """() => {
  const files = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  const painted = performance.getEntriesByName("first-contentful-paint")[0];
  return [files.reduce((sum, each) => sum + each.transferSize, 0), files.length, painted ? painted.startTime : NaN];
}"""


def main() -> int:
    """Print a table; 1 where a page is over the budget."""
    over = False
    with tempfile.TemporaryDirectory() as place:
        storage = f"sqlite:///{place}/a.db"
        example_studies(storage)
        with served(storage) as address, browser() as chrome:
            print(f"{'page':40}{'kB':>7}{'files':>7}{'first paint, ms':>17}")
            for path in PAGES:
                context = chrome.new_context(base_url=address)  # a first visit: nothing is cached
                page = context.new_page()
                context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
                page.goto(path)
                page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
                size, files, paint = page.evaluate(MEASURE)
                over |= size > 1000 * KILOBYTES or files > FILES or paint > PAINT
                print(f"{path:40}{size / 1000:7.1f}{files:7}{paint:17.0f}")
                context.close()
    print(f"budget{KILOBYTES:41}{FILES:7}{PAINT:17}   {'exceeded' if over else 'kept'}")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
