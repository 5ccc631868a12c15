"""The pictures of docs/page.md, taken of the example studies: `make pictures`."""

import sys
import tempfile
from pathlib import Path

from PIL import Image

from chromium import browser
from roundwise import load_study
from roundwise.web.example import PAGES, example_studies
from serving import rows_of, served

DESK = {"viewport": {"width": 1120, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def taken(page, path, whole=True):
    """A picture in few colours, which is small."""
    page.screenshot(path=path, full_page=whole)
    few = Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def pictures(folder):
    """All of them."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        storage = f"sqlite:///{place}/a.db"
        example_studies(storage)
        with served(storage) as address, browser() as chrome:
            page = chrome.new_context(base_url=address, **DESK).new_page()
            page.goto("/")
            taken(page, folder / "studies.png", whole=False)
            page.goto("/studies/checkout")
            page.wait_for_selector("text=interval")
            page.wait_for_selector("text=more round")
            taken(page, folder / "study.png")
            taken(page, folder / "readme.png", whole=False)
            with load_study("checkout", storage) as study:
                rows = rows_of(study.state.open_round, PAGES, 4)
            text = "user_id,variant,converted\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows)
            page.set_input_files("#file", {"name": "day4.csv", "mimeType": "text/csv", "buffer": text.encode()})
            page.wait_for_selector("#preview form")
            page.locator("[aria-labelledby=upload-title]").screenshot(path=folder / "upload.png")
            page.goto("/studies/checkout/change/drop")
            page.fill("#why", "sold out")
            page.wait_for_timeout(800)
            taken(page, folder / "change.png", whole=False)
            page.goto("/studies/newsletter%20titles/report")
            page.wait_for_selector("text=For the statistician")
            taken(page, folder / "report.png", whole=False)
            page.set_viewport_size({"width": 1120, "height": 1360})  # the whole forecast
            page.goto("/plan")
            page.wait_for_selector("text=from 400 simulated", timeout=120_000)
            taken(page, folder / "plan.png", whole=False)
            page.set_viewport_size(DESK["viewport"])
            page.goto("/lab")
            page.click("form[action='/lab'] button.main")
            page.wait_for_selector("text=All runs as CSV", timeout=120_000)
            taken(page, folder / "lab.png")
            phone = chrome.new_context(base_url=address, color_scheme="dark", **PHONE).new_page()
            phone.goto("/studies/checkout")
            phone.wait_for_selector("text=interval", state="attached")
            taken(phone, folder / "phone-dark.png", whole=False)


if __name__ == "__main__":
    pictures(Path(sys.argv[1]))
