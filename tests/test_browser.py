"""The pages in a real browser: what people do, light and dark, on a phone, with the keyboard alone, and offline."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from chromium import MISSING, browser, found
from roundwise import load_study
from serving import ARMS, AXE, example, examples, served, table_of

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.environ.get("ROUNDWISE_BROWSER") == "skip", reason="ROUNDWISE_BROWSER=skip"),
]

WAYS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1120, "height": 800}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1120, "height": 800}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True},
}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def chrome():
    if found() is None:
        pytest.fail(MISSING)
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A server with studies of every kind."""
    storage = f"sqlite:///{tmp_path_factory.mktemp('site')}/a.db"
    examples(storage)
    with served(storage) as address:
        yield address


@pytest.fixture
def own(tmp_path):
    """A server and a storage of one's own."""
    storage = f"sqlite:///{tmp_path}/a.db"
    example(storage, "begun", rounds=0)
    with served(storage) as address:
        yield address, storage


@contextmanager
def opened(chrome, address, **way):
    """A page; what it complains about, and what it asks of other machines, fails the test."""
    context = chrome.new_context(base_url=address, **(way or WAYS["light"]))
    page = context.new_page()
    page.set_default_timeout(60_000)
    complaints, asked = [], []
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    try:
        yield page
    finally:
        context.close()
    assert [each for each in asked if not each.startswith((address, "data:", "blob:"))] == []
    given_up = ("htmx:sendAbort", "htmx:afterRequest")  # one typed on, or left the page
    expected = (*given_up, "status of 422", "status of 404", "status of 409", "status of 403")
    assert [each for each in complaints if not any(words in each for words in expected)] == []


def checked(page):
    """No violation that axe-core knows of."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    result = page.evaluate("rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})", RULES)
    said = [(each["id"], [node["target"] for node in each["nodes"]][:3]) for each in result["violations"]]
    assert said == [], page.url


def fits(page):
    """Nothing is wider than the screen."""
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, page.url


PAGES = (
    "/",
    "/plan",
    "/lab",
    "/help",
    "/me",
    "/api/v1/docs",
    "/studies/checkout",
    "/studies/decided%2F2025",
    "/studies/dose",
    "/studies/%3Cb%3Ehostile%3C%2Fb%3E",
    "/studies/empty",
    "/studies/checkout/report",
    "/studies/checkout/record",
    "/studies/checkout/change/drop",
    "/studies/checkout/change/amend",
    "/studies/nothing",
)


@pytest.mark.parametrize("way", list(WAYS))
def test_every_page_can_be_used_by_everybody(chrome, site, way):
    with opened(chrome, site, **WAYS[way]) as page:
        for path in PAGES:
            page.goto(path)
            if path == "/plan":
                page.wait_for_selector("#protocol", state="attached", timeout=120_000)
                page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
                page.evaluate("document.getElementById('forecast').classList.add('htmx-request')")  # as while it works
            if path in ("/studies/checkout", "/studies/dose"):
                page.wait_for_selector("text=interval")
                page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            checked(page)
            fits(page)


def told(page, text, name="day.csv"):
    """Put a file into the form."""
    page.wait_for_load_state()
    page.set_input_files("#file", {"name": name, "mimeType": "text/csv", "buffer": text.encode()})
    page.wait_for_selector("#preview form")


def choose_quickly(page):
    """Choose two things, the second before the first is answered: none is lost."""
    held = []
    page.route("**/check", lambda route: route.continue_() if held else held.append(route))
    page.click("#preview >> text=Say more about this file")
    page.select_option("#column_id", "user_id")
    page.check("#others")
    page.wait_for_selector("#preview >> text=0 rows seen before")
    assert page.is_checked("#others")
    assert page.input_value("#column_id") == "user_id"
    page.unroute("**/check")


def type_on(page):
    """Type while a preview is on its way: the letters stay when it arrives."""
    held = []
    page.route("**/check", lambda route: route.continue_() if held else held.append(route))
    page.select_option("#empty", "missing")
    page.locator("#missing").press_sequentially("no consent")
    while not held:
        page.wait_for_timeout(50)
    held[0].continue_()
    page.wait_for_selector("#preview #missing[value='no consent']")  # the preview of what was typed
    page.unroute("**/check")


def test_from_a_plan_to_a_report(chrome, own):
    """Create, plan, ask, upload with an error, upload right, reach a verdict, download the report."""
    address, storage = own
    with opened(chrome, address) as page:
        page.goto("/")
        page.click("text=New study")
        page.fill("#name", "checkout")
        page.fill("#arms", "\n".join(ARMS))
        page.fill("#per_day", "1 000")
        page.fill("#budget", "20 000")
        page.wait_for_selector("#command:has-text('--budget 20000')", state="attached")
        assert "--round-size 875 --budget 20000" in page.text_content("#command")
        page.fill("#budget", "30 000")
        page.wait_for_selector("#command:has-text('--budget 30000')", state="attached")
        page.click("text=Create this study")
        page.click("text=Begin round 1")
        for number in range(1, 31):
            with load_study("checkout", storage) as study:
                asked = study.state.open_round
            rates = dict(zip(ARMS, (0.31, 0.30, 0.33, 0.42), strict=True))
            if number == 1:
                told(page, table_of(asked, rates, heads=("id", "arm", "outcome")).replace("Control", "control", 1))
                assert "Did you mean 'Control'" in page.inner_text("#preview [role=alert]")
                checked(page)
                page.click("#preview >> text=Cancel")
            told(page, table_of(asked, rates, number), f"day{number}.csv")
            if number == 2:  # what was said of the last file is said of this one
                assert page.input_value("#column_id") == "user_id"
            assert "875 new results" in page.inner_text("#preview").replace("\N{NO-BREAK SPACE}", " ")
            if number == 1:
                assert page.input_value("#column_arm") == "variant"
                checked(page)
                choose_quickly(page)
                type_on(page)
            page.click("#preview button.main")
            page.wait_for_selector(f"[aria-labelledby=files-title] >> text=day{number}.csv")
            if page.query_selector(".headline.decided"):
                break
            page.click(f"text=Begin round {number + 1}")
        assert "Guest checkout is best" in page.inner_text(".headline")
        page.click("text=Make a report")
        with page.expect_download() as download:
            page.click("text=Excel")
        assert Path(download.value.path()).read_bytes()[:2] == b"PK"
        with page.expect_download() as download:
            page.click("main >> text=PDF")
        assert Path(download.value.path()).read_bytes()[:4] == b"%PDF"
        page.click("text=Make a link")
        page.click("text=Open it")
        assert "Guest checkout is best" in page.inner_text("main")
        assert page.query_selector("text=Back to the study") is None
        checked(page)
    with load_study("checkout", storage) as study:
        assert study.report().answer == "Guest checkout"


def test_a_time_suggests_that_lower_is_better(chrome, own):
    """Until somebody chooses; the forecast asks for the lowest mean."""
    with opened(chrome, own[0]) as page:
        page.goto("/new")
        page.fill("#unit", "ms")
        assert page.input_value("#direction") == "lower"
        page.wait_for_selector("#command:has-text('--lower-is-better')", state="attached")
        page.fill("#unit", "kg")
        assert page.input_value("#direction") == ""
        page.select_option("#direction", "lower")
        page.fill("#unit", "m")
        assert page.input_value("#direction") == "lower"


def test_an_option_is_taken_out_after_its_sentence(chrome, own):
    address, storage = own
    with opened(chrome, address) as page:
        page.goto("/studies/begun")
        page.click("text=Take an arm out")
        page.wait_for_load_state()
        page.select_option("#arm", "Big button")
        page.wait_for_selector("#effect >> text=won against Big button")
        page.check("#unrelated")
        page.wait_for_selector("#effect >> text=as if Big button had never been there")
        with page.expect_response("**/effect"):  # the sentence is asked for once more
            page.fill("#why", "sold out")
        page.click("text=Take it out")
        page.wait_for_selector("text=Where it stands")
        assert "Big button" not in page.inner_text("#stands")
    with load_study("begun", storage) as study:
        assert study.state.spec.arms == tuple(arm for arm in ARMS if arm != "Big button")


def test_policies_are_compared(chrome, site):
    with opened(chrome, site) as page:
        page.goto("/lab")
        page.fill("#runs", "20")
        page.click("form[action='/lab'] button.main")
        page.wait_for_selector("text=All runs as CSV")
        assert page.locator("svg.chart").count() == 3
        assert "arm 1 is the best arm" in page.inner_text("main")
        checked(page)
        page.goto("/lab")
        page.fill("#means", "0, 1e-6")
        page.fill("#most", "1e15")
        page.fill("#runs", "5000")
        for name in ("wager", "pet", "track-and-stop", "round-robin"):
            page.uncheck(f"#policy-{name}")
        page.check("#policy-lucb")
        page.click("form[action='/lab'] button.main")
        page.wait_for_selector("progress")
        checked(page)
        page.click("text=Cancel")
        page.wait_for_selector("text=Cancelled after")


def test_with_the_keyboard_alone(chrome, own):
    """Every step by Tab, Enter, arrows and letters; the focus can always be seen."""
    address, storage = own

    def reached(page, words, most=80):
        for _ in range(most):
            page.keyboard.press("Tab")
            text, width = page.evaluate(
                "(each => [each.textContent.trim() || each.id || each.value, getComputedStyle(each).outlineWidth])"
                "(document.activeElement)"
            )
            assert width != "0px", text
            if words in text:
                return
        raise AssertionError(f"{words} is not reached")

    with opened(chrome, address) as page:
        page.goto("/")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "To the content"
        reached(page, "begun")
        page.keyboard.press("Enter")
        page.wait_for_url("**/studies/begun")
        reached(page, "or paste a table")
        page.keyboard.press("Enter")
        reached(page, "pasted", 3)
        with load_study("begun", storage) as study:
            text = table_of(study.state.open_round)
        page.keyboard.insert_text(text)
        reached(page, "Preview", 3)
        page.keyboard.press("Enter")
        page.wait_for_selector("#preview form")
        reached(page, "Record")
        page.keyboard.press("Enter")
        page.wait_for_selector("[aria-labelledby=files-title] >> text=pasted table.csv")
    with load_study("begun", storage) as study:
        assert study.report().results == 600


def test_a_change_by_somebody_else_is_noticed(chrome, own):
    address, storage = own
    with opened(chrome, address) as page:
        page.goto("/studies/begun")
        page.wait_for_timeout(500)
        assert not page.is_visible("text=This study has changed")
        with load_study("begun", storage) as study:
            study.note("from elsewhere")
        page.wait_for_selector("text=This study has changed", state="visible")


def test_names_do_nothing(chrome, site):
    """Names that look like markup are shown as they are."""
    with opened(chrome, site) as page:
        page.on("dialog", lambda dialog: pytest.fail("a name was run"))
        page.goto("/studies/%3Cb%3Ehostile%3C%2Fb%3E")
        assert "<img src=x onerror=alert(1)>" in page.inner_text("main")
        assert page.inner_text("h1").startswith("<b>hostile</b>")


def test_without_any_script(chrome, own):
    """A file is looked at and recorded, an option taken out: by forms alone."""
    address, storage = own
    with opened(chrome, address, java_script_enabled=False) as page:
        page.goto("/studies/begun")
        with load_study("begun", storage) as study:
            text = table_of(study.state.open_round)
        page.set_input_files("#file", {"name": "day.csv", "mimeType": "text/csv", "buffer": text.encode()})
        page.click("text=Preview")
        page.click("button.main:has-text('Record')")
        page.wait_for_selector("[aria-labelledby=files-title] >> text=day.csv")
        page.click("text=Take an arm out")
        page.select_option("#arm", "Short form")
        page.fill("#why", "sold out")
        page.click("text=Take it out")
        page.wait_for_selector("#effect >> text=Short form")  # another sentence than was on the screen: nothing is done
        with load_study("begun", storage) as study:
            assert "Short form" in study.state.spec.arms
        page.click("text=Take it out")
        page.wait_for_selector("text=Where it stands")
    with load_study("begun", storage) as study:
        assert "Short form" not in study.state.spec.arms
        assert study.state.trial.record.samples > 0


def test_coming_in_with_a_token(chrome, tmp_path):
    storage = f"sqlite:///{tmp_path}/a.db"
    example(storage, rounds=0)
    with served(storage, tokens="view=a-token-to-look-with") as address, opened(chrome, address) as page:
        page.goto("/studies/checkout")
        assert page.url.endswith("/login")
        checked(page)
        page.fill("#token", "wrong")
        page.click("button:has-text('Log in')")
        page.wait_for_selector("[role=alert]")
        page.fill("#token", "a-token-to-look-with")
        page.fill("#name", "Ada")
        page.click("button:has-text('Log in')")
        page.wait_for_selector("text=You: Ada (view)")
        page.goto("/studies/checkout")
        assert page.query_selector("text=Hand in results") is None
        page.goto("/me")
        page.click("text=Leave")
        page.wait_for_selector("#token")
