"""The pages without a browser: what they say, what they refuse, and that looking changes nothing."""

import html
import importlib
import re
import shlex
import socket
import sys
from contextlib import contextmanager
from html.parser import HTMLParser
from urllib.parse import quote

import httpx
import pytest

from roundwise import InputError, list_studies, load_study
from roundwise.store.remote import segment
from roundwise.web.changes import CHANGES
from roundwise.web.forms import Form
from roundwise.web.plan_pages import EXAMPLE
from serving import ARMS, example, examples, served, table_of
from test_docs import ROOT, files_in

STUDIES = ("checkout", "decided/2025", "dose", "top two", "<b>hostile</b>", "empty")


class Checked(HTMLParser):
    """What a page holds: no script and no style of its own, nothing from elsewhere, every field with a label."""

    def __init__(self, text):
        super().__init__()
        self.labels, self.fields, self.links, self.wrong, self.title = set(), [], [], [], ""
        self.feed(text)
        self.wrong += [f"no label for {each}" for each in self.fields if each not in self.labels]

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.wrong += [f"{tag} {name}" for name in found if name == "style" or name.startswith("on")]
        if tag in ("style", "iframe", "object") or (tag == "script" and "src" not in found):
            self.wrong.append(tag)
        for name in ("src", "href", "action", "hx-get", "hx-post"):
            value = found.get(name) or ""
            if value and not value.startswith(("/", "#", "?")):
                self.wrong.append(f"{name} {value}")
        if tag == "a":
            self.links.append(found.get("href", ""))
        if tag == "label":
            self.labels.add(found.get("for"))
        if tag in ("input", "select", "textarea") and found.get("type") not in ("hidden", "submit"):
            self.fields.append(found.get("id"))


@contextmanager
def browsing(storage, tokens=""):
    """A client with a session, and the storage that it sees."""
    with served(storage, tokens=tokens) as address, httpx.Client(base_url=address, timeout=120) as client:
        client.storage = storage
        client.get("/")
        yield client


@pytest.fixture(scope="module", autouse=True)
def offline():
    """Nothing that the server does may speak to another machine: such a connection is refused, and fails the test."""
    asked, real = [], socket.socket.connect

    def connect(self, address):
        if self.family != socket.AF_UNIX and not str(address[0]).startswith(("127.", "::1", "localhost")):
            asked.append(address)
            raise OSError("the network is blocked")
        return real(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect)
        yield
    assert asked == []


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Studies to look at: nothing in these tests may change them."""
    storage = f"sqlite:///{tmp_path_factory.mktemp('shown')}/a.db"
    examples(storage)
    with browsing(storage) as client:
        yield client


@pytest.fixture
def own(tmp_path):
    """A storage and a client of one's own."""
    storage = f"sqlite:///{tmp_path}/a.db"
    with browsing(storage) as client:
        yield client


def secret(client):
    return re.search(r'name="form-secret" content="(\w+)"', client.get("/help").text)[1]


def post(client, path, data=None, **more):
    return client.post(path, data={"secret": secret(client), **(data or {})}, follow_redirects=False, **more)


def at(name):
    return f"/studies/{segment(name)}"


def pages():
    yield from ("/", "/new", "/plan", "/lab", "/help", "/me", "/api/v1/docs")
    for name in STUDIES:
        yield from (at(name), f"{at(name)}/stands", f"{at(name)}/forecast", f"{at(name)}/report", f"{at(name)}/record")
        yield from (f"{at(name)}/verify", f"{at(name)}/change/end", f"{at(name)}/change/note")
    for kind in CHANGES:
        yield f"{at('checkout')}/change/{kind}"


@pytest.mark.long
@pytest.mark.parametrize("path", list(pages()))
def test_every_page_is_safe_and_complete(shown, path):
    before = list_studies(shown.storage)
    answer = shown.get(path)
    assert answer.status_code == 200, answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert Checked(answer.text).wrong == []
    assert "<img" not in answer.text
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in answer.text
    assert list_studies(shown.storage) == before


def test_every_link_leads_somewhere(shown):
    found = {
        link
        for path in ("/", at("checkout"), at("decided/2025"), f"{at('dose')}/report")
        for link in Checked(shown.get(path).text).links
    }
    for link in sorted(found - {""}):
        if not link.startswith("#") and not link.endswith(".pdf"):
            assert shown.get(link).status_code == 200, link


def test_the_list_says_where_each_study_stands(shown):
    text = shown.get("/").text
    for words in (
        "Guest checkout",
        "1\N{NO-BREAK SPACE}800 of 12\N{NO-BREAK SPACE}000",
        "&lt;b&gt;hostile&lt;/b&gt;",
    ):
        assert words in text


def test_a_study_says_the_same_as_its_report(shown):
    with load_study("checkout", shown.storage) as study:
        report = study.report()
        asked = study.state.open_round
    quick, whole = shown.get(at("checkout")).text, shown.get(f"{at('checkout')}/stands").text
    assert report.headline.partition(".")[0] in quick
    for arm in report.arm_rows:
        assert report.units.value(arm.mean, "near") in whole
        assert f"{arm.results:,}".replace(",", "\N{NO-BREAK SPACE}") in whole
        assert report.units.value(arm.lower, "down").removesuffix(" %") in whole
    for number in asked.pulls:
        assert f">{int(number)}</td>" in quick
    text = shown.get(f"{at('checkout')}/next.csv").text
    assert text.splitlines()[0] == "arm,share,results,remaining"
    assert sum(int(line.split(",")[2]) for line in text.splitlines()[1:]) == 600


def test_what_is_not_there_is_one_sentence(shown):
    for path, status in (("/studies/no%2Fsuch", 404), (f"{at('checkout')}/change/nothing", 404), ("/lab/nothing", 404)):
        answer = shown.get(path)
        assert answer.status_code == status
        assert "Traceback" not in answer.text
        assert 'role="alert"' in answer.text


@pytest.mark.long
@pytest.mark.parametrize("name", ["a/b", "..", ".", "~x", "100 %", "%2F", "a?b#c", "ü “x”", "a\\b"])
def test_any_name_has_an_address(own, name):
    made = post(own, "/new", {"name": name, "arms": "x\ny"})
    assert made.status_code == 303
    assert f"{quote(name, safe='')}" in made.headers["location"]
    answer = own.get(made.headers["location"])
    assert answer.status_code == 200
    assert [each["name"] for each in list_studies(own.storage)] == [name]
    assert post(own, f"{made.headers['location']}/ask").status_code == 303
    with load_study(name, own.storage) as study:
        assert study.state.open_round is not None


def test_a_form_without_its_secret_is_refused(own):
    example(own.storage, rounds=0)
    for path in ("/new", "/lab", f"{at('checkout')}/record", f"{at('checkout')}/change/end", "/me"):
        assert own.post(path, data={"why": "x", "name": "y", "arms": "a\nb"}).status_code == 403
    assert len(list_studies(own.storage)) == 1


class TestHandIn:
    """A look first, then the record."""

    @pytest.fixture
    def study(self, own):
        example(own.storage, rounds=1)
        return own

    def asked(self, own):
        with load_study("checkout", own.storage) as study:
            return study.state.open_round

    def looked(self, own, text, name="day.csv", **fields):
        return post(own, f"{at('checkout')}/check", fields, files={"file": (name, text.encode())})

    def fields(self, page):
        return {name: re.search(f'name="{name}" value="([^"]*)"', page)[1] for name in ("key", "before")}

    def test_what_a_file_brings_is_shown_and_recorded_once(self, study):
        text = table_of(self.asked(study), seed=7)
        page = self.looked(study, text).text
        assert "600 new results" in page
        assert "Round 2 would be complete, and count." in page
        assert "<option selected>variant</option>" in page
        assert "<option selected>converted</option>" in page
        assert len(load_study("checkout", study.storage).entries()) == len(
            load_study("checkout", study.storage).entries()
        )
        assert self.asked(study).number == 2
        assert not self.asked(study).files
        first = post(study, f"{at('checkout')}/record", self.fields(page))
        assert first.status_code == 303
        again = post(study, f"{at('checkout')}/record", self.fields(page))
        assert again.status_code == 422
        with load_study("checkout", study.storage) as found:
            report = found.report()
        assert (report.rounds, report.results, report.files[-1].name) == (2, 1200, "day.csv")

    def test_a_pasted_table_with_semicolons(self, study):
        text = table_of(self.asked(study)).replace(",", ";")
        page = post(study, f"{at('checkout')}/check", {"pasted": text}).text
        assert "600 new results" in page

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("change", "words", "remedy"),
        [
            (lambda text: text.replace("Big button", "big Button", 1), "Did you mean", {}),
            (lambda text: text.replace("Big button", "Blue", 1), "leave out other arms", {"others": "1"}),
            (
                lambda text: re.sub(r",[01]\n", ",\n", text, count=1),
                "Rows without a result",
                {"empty": "missing", "missing": "a phone call"},
            ),
            (lambda text: re.sub(r",0\n", ",\n", text), "Rows without a result", {"empty": "zero"}),
            (lambda text: text.replace(",1\n", ",2\n", 1), "neither 0 nor 1", {}),
            (lambda text: "", "empty", {}),
            (lambda text: text.partition("\n")[0], "no results", {}),
        ],
    )
    def test_what_is_wrong_is_said_in_the_words_of_the_page(self, study, change, words, remedy):
        text = change(table_of(self.asked(study), heads=("user_id", "arm", "outcome")))
        page = self.looked(study, text).text
        assert 'role="alert"' in page
        assert words in page
        assert "--" not in re.sub(r"<[^>]*>", "", page)
        assert ">Record</button>" not in page
        assert Checked(page).wrong == []
        if remedy:
            again = self.looked(study, text, **remedy).text
            assert ">Record</button>" in again
            assert post(study, f"{at('checkout')}/record", {**self.fields(again), **remedy}).status_code == 303

    def test_two_people_hand_in_the_same_round(self, study):
        asked = self.asked(study)
        one, two = self.looked(study, table_of(asked, seed=5)).text, self.looked(study, table_of(asked, seed=6)).text
        assert post(study, f"{at('checkout')}/record", self.fields(one)).status_code == 303
        late = post(study, f"{at('checkout')}/record", self.fields(two))
        assert late.status_code == 409
        assert "wrote to this study. Nothing of yours was recorded. No round is open" in late.text
        assert late.text.count('role="alert"') == 1
        with load_study("checkout", study.storage) as found:
            assert found.report().results == 1200

    def test_other_columns_are_taken_by_menu(self, study):
        text = (
            table_of(self.asked(study), heads=("x", "variant", "converted"))
            .replace("\n", ",0\n")
            .replace("converted,0", "converted,other")
        )
        page = self.looked(study, text).text
        assert "it is not clear which column" in page
        chosen = {"column_arm": "variant", "column_outcome": "converted"}
        assert "600 new results" in self.looked(study, text, **chosen).text

    def test_what_was_said_of_a_file_is_remembered_for_the_next(self, study):
        """Its columns, and what an empty cell is; but not that all of it is new, which is about one file."""
        heads = ("x", "variant", "converted")
        said = {"column_outcome": "converted", "column_id": "x", "empty": "zero", "counts_as": "new", "others": "1"}
        text = re.sub(r",0\n", ",\n", table_of(self.asked(study), heads=heads))
        page = self.looked(study, text, **said).text
        assert post(study, f"{at('checkout')}/record", {**self.fields(page), **said}).status_code == 303
        with load_study("checkout", study.storage) as found:
            assert found.report().results == 1200
            found.ask()
        later = self.looked(study, re.sub(r",0\n", ",\n", table_of(self.asked(study), heads=heads, seed=9))).text
        assert "600 new results" in later
        for option in ('<option value="zero" selected>', "<option selected>x</option>"):
            assert option in later
        assert 'name="others" value="1" checked' in later
        assert '<option value="new" selected>' not in later
        other = study.cookies.jar
        assert [each.path for each in other if each.name == "file"] == [at("checkout")]

    def test_many_missing_results_are_said_before_they_are_recorded(self, study):
        """Where they are many, or more of one arm than of the others."""
        asked = self.asked(study)
        text, arm = table_of(asked), asked.arms[int(asked.pulls.argmax())]
        most = re.sub(rf"{arm},[01]\n", f"{arm},\n", text)
        page = html.unescape(self.looked(study, most, empty="missing", missing="no purchase").text)
        assert " % of the results are missing. If an empty cell means 0" in page
        assert f"{arm} lacks 100 % of its results" in page
        few = html.unescape(self.looked(study, re.sub(r",0\n", ",\n", text, count=3), empty="missing").text)
        assert "If an empty cell means 0" not in few

    def test_who_handed_it_in_is_recorded(self, study):
        assert post(study, "/me", {"name": "Ada <b>"}).status_code == 303
        page = self.looked(study, table_of(self.asked(study))).text
        post(study, f"{at('checkout')}/record", self.fields(page))
        with load_study("checkout", study.storage) as found:
            assert found.entries()[-2].by == "Ada <b>"
        assert "Ada &lt;b&gt;" in study.get(at("checkout")).text


class TestChanges:
    """The sentence first; nothing happens before somebody agreed to it."""

    GIVEN = {
        "drop": {"arm": "Short form", "why": "sold out"},
        "add": {"arm": "New page", "why": "late"},
        "close-round": {"why": "a holiday"},
        "end": {"why": "no money"},
        "extend": {"budget": "20 000"},
        "note": {"text": "a note"},
        "remove": {},
    }
    EFFECTS = {"close-round": "close_round"}

    @pytest.mark.long
    @pytest.mark.parametrize("kind", list(GIVEN))
    def test_a_change(self, own, kind):
        example(own.storage, rounds=0 if kind == "remove" else 1)
        given, where = self.GIVEN[kind], f"{at('checkout')}/change/{kind}"
        words = {key: int(value.replace(" ", "")) if key == "budget" else value for key, value in given.items()}
        with load_study("checkout", own.storage) as study:
            before = len(study.entries())
            sentence = study.effect(
                self.EFFECTS.get(kind, kind), **(words if kind in ("drop", "add", "extend") else {})
            )
        part = post(own, f"{where}/effect", given).text
        assert sentence in part.replace("&#39;", "'")
        unseen = post(own, where, given)
        assert unseen.status_code == 200
        assert sentence in unseen.text
        with load_study("checkout", own.storage) as study:
            assert len(study.entries()) == before
        assert post(own, where, {**given, "agreed": sentence}).status_code == 303
        if kind == "remove":
            assert list_studies(own.storage) == []
            return
        with load_study("checkout", own.storage) as study:
            assert len(study.entries()) > before
        assert own.get(at("checkout")).status_code == 200

    def test_reopen_and_correct_and_teach(self, own):
        example(own.storage, rounds=1)
        with load_study("checkout", own.storage) as study:
            digest = study.state.rounds[0].files[0].digest
            amend = study.effect("amend")
        table = "arm,count,successes\n" + "".join(f"{arm},150,50\n" for arm in ARMS)
        where = f"{at('checkout')}/change/amend"
        bare = post(own, where, {"file": digest, "why": "typo", "agreed": amend})
        assert bare.status_code == 422
        assert "Choose the corrected file" in bare.text
        sent = {"file": digest, "why": "typo", "agreed": amend}
        assert post(own, where, sent, files={"source": ("new.csv", table.encode())}).status_code == 303
        assert "was corrected: typo" in own.get(at("checkout")).text
        with load_study("checkout", own.storage) as study:
            study.end("enough")
            reopen = study.effect("reopen")
        assert post(own, f"{at('checkout')}/change/reopen", {"why": "money", "agreed": reopen}).status_code == 303
        example(own.storage, "young", rounds=0)
        with load_study("young", own.storage) as study:
            agreed = {"agreed": study.effect("import_past")}
        taught = post(own, f"{at('young')}/change/import-past", agreed, files={"source": ("old.csv", table.encode())})
        assert taught.status_code == 303

    def test_what_cannot_be_done_is_said(self, own):
        example(own.storage, rounds=0)
        refused = post(own, f"{at('checkout')}/change/reopen", {"why": "x", "agreed": "y"})
        assert refused.status_code == 422
        assert "is not closed" in refused.text
        text = post(own, f"{at('checkout')}/change/drop", {"arm": "nobody", "why": "x"}).text
        assert 'role="alert"' in text or 'role="note"' in text
        assert "nobody" in text


@pytest.fixture
def recipes(tmp_path, monkeypatch):
    """The modules of docs/own.md, imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in files_in(ROOT / "docs" / "own.md").items():
        (tmp_path / name).write_text(text)
    for name in ("my_question", "my_noise"):
        importlib.import_module(name)
    yield
    for name in ("my_question", "my_noise"):
        sys.modules.pop(name)


class TestNew:
    """The form, the forecast and the command say the same."""

    FORM = {"name": "my study", "arms": "Control\nB\nC", "baseline": "30 %", "round": "1 000", "budget": "20,000"}

    @pytest.mark.long
    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"question": "claims", "control": "B", "margin": "2 points", "budget": ""},
            {"question": "top-k", "k": "2", "splitting": "equal"},
            {"question": "above", "level": "30 %", "delta": "1 %"},
            {"tolerance": "2 points", "splitting": "own", "split": "2:1:1", "missing": "10 %", "days": "7"},
            {"noise": "bounded", "low": "1", "high": "5", "baseline": "3"},
            {"noise": "sub-gaussian", "sigma": "2", "baseline": "3", "round": ""},
            {"noise": "normal", "deviation": "2", "baseline": "3"},
            {"noise": "poisson", "baseline": "3"},
            {"noise": "large-sample", "deviation": "20", "baseline": "30", "round": "", "budget": ""},
            {"noise": "capped", "cap": "200", "deviation": "20", "baseline": "30", "round": ""},
        ],
    )
    def test_the_command_makes_the_same_study(self, own, tmp_path, fields):
        from commands import shell

        form = {**self.FORM, **fields}
        text = post(own, "/plan/forecast", form).text
        assert 'role="alert"' not in text, text
        command = html.unescape(re.search(r'<pre id="command"[^>]*>(.*?)</pre>', text, re.S)[1])
        policy, planned = (
            html.unescape(re.search(rf'name="{name}" value="([^"]*)"', text)[1]) for name in ("policy", "planned")
        )
        assert post(own, "/new", {**form, "policy": policy, "planned": planned}).status_code == 303
        words = shlex.split(command)
        assert words[:2] == ["roundwise", "new"]
        other = f"sqlite:///{tmp_path}/b.db"
        made = shell(*words[1:], "--storage", other)
        assert made.returncode == 0, made.stderr
        both = [load_study("my study", each).entries()[0].payload for each in (own.storage, other)]
        assert {**both[0], "seed": 0} == {**both[1], "seed": 0}

    @pytest.mark.parametrize(
        ("fields", "size"),
        [
            ({"per_day": "4000"}, 3500),  # a round takes a day, also a slow one
            ({"per_day": "4000", "days": "7"}, 24_500),
            ({"per_day": "4000", "days": "0.5", "round": "2000"}, 2000),
            ({"per_day": "4000", "looks": "3", "budget": "28 000"}, 9334),
            ({"looks": "4", "budget": "400", "question": "claims"}, 100),
            ({"looks": "3", "round": "500", "budget": "28 000"}, "are fewer than 28\N{NO-BREAK SPACE}000 in all"),
            ({"looks": "3", "question": "claims"}, "“Rounds at most” needs “At most in all”"),
            ({"per_day": "4000", "round": "500"}, 500),
            ({"per_day": "4000", "days": "7", "budget": "10 000"}, 10_000),
            ({"days": "7", "round": "900"}, 900),
            ({"per_day": "4000", "days": "1", "round": "2000"}, "in which 4\N{NO-BREAK SPACE}000 come"),
            ({"round": "2000", "budget": "1000"}, "more than the 1\N{NO-BREAK SPACE}000 that there may be in all"),
            ({"days": "1", "budget": "100 000"}, "how many results come in them?"),
        ],
    )
    def test_the_pace_of_results_must_fit_together(self, fields, size):
        form = Form.of({"arms": "a\nb", "baseline": "3 %", **fields})
        if isinstance(size, str):
            with pytest.raises(InputError, match=re.escape(size)):
                form.request(100)
        else:
            assert form.request(100).round_size == form.spec().round_size == size

    def test_numbers_are_taken_as_people_write_them_or_refused(self, own):
        for fields, words in (
            ({"delta": "five"}, "The chance of a wrong answer is"),
            ({"budget": "1.5"}, "whole number"),
            ({"budget": "140.000"}, "whole number of at least 1, such as 20 000"),
            ({"budget": "14 days"}, "whole number of at least 1, such as 20 000"),
            ({"arms": "one"}, "at least two arms"),
            ({"arms": "a\na"}, "&#39;a&#39;"),
            ({"name": " "}, "name"),
            ({"question": "nothing"}, "no question"),
            ({"noise": "nothing"}, "no noise model"),
            ({"noise": "sub-gaussian", "sigma": ""}, "The spread is missing"),
            ({"policy": "os:system", "planned": Form.of({**self.FORM}).fingerprint}, ""),
            ({"question": "os:system"}, ""),
            ({"noise": "os:system"}, ""),
            ({"noise": "nowhere:Model"}, "needs the module"),
        ):
            answer = post(own, "/new", {**self.FORM, **fields})
            assert answer.status_code == 422, fields
            assert words in answer.text
            assert 'role="alert"' in answer.text
        assert list_studies(own.storage) == []

    @pytest.mark.parametrize(
        ("fields", "names"),
        [
            ({"question": "any-above", "level": "30 %"}, ("any-above", "binary")),
            ({"noise": "gaussian:sigma=2", "baseline": ""}, ("best-arm", "gaussian")),
        ],
    )
    def test_what_has_no_field_of_its_own(self, own, fields, names):
        """Every built-in question and noise model is taken, by its name and settings."""
        assert post(own, "/new", {**self.FORM, **fields}).status_code == 303
        with load_study("my study", own.storage) as study:
            payload = study.entries()[0].payload
        assert (payload["question"]["name"], payload["noise"]["name"]) == names

    @pytest.mark.parametrize("question", ["best-arm", "top-k", "above", "any-above"])
    def test_a_budget_a_lead_and_looks_design_a_study(self, own, question):
        """Before, the form had no field for rounds, and of questions about a level it left out the lead."""
        level = {"level": "30 %", "baseline": ""} if "above" in question else {}
        form = {
            **self.FORM,
            **level,
            "arms": "A\nB\nC\nD",
            "question": question,
            "tolerance": "",
            "splitting": "adaptive",
        }
        form |= {"round": "", "days": "", "per_day": "", "budget": "3000", "lead": "5 points", "looks": "4"}
        assert post(own, "/new", form).status_code == 303
        with load_study("my study", own.storage) as study:
            spec = study.state.spec
        assert (spec.policy.name, spec.budget, spec.lead, spec.looks) == ("designed", 3000, 0.05, 4)

    def test_a_question_and_a_noise_model_of_ones_own(self, own, recipes):
        """By name, where the server was started with their modules; the menus have them."""
        mine = {"question": "my_question:Podium", "noise": "my_noise:Marks:most=5"}
        text = own.get("/new", params={**self.FORM, **mine}).text
        assert "<option selected>my_question:Podium</option>" in text
        assert "<option selected>my_noise:Marks:most=5</option>" in text
        assert post(own, "/new", {**self.FORM, **mine, "baseline": ""}).status_code == 303
        with load_study("my study", own.storage) as study:
            assert study.entries()[0].payload["question"]["name"] == "my_question:Podium"
            assert study.entries()[0].payload["noise"] == {"name": "my_noise:Marks", "most": 5.0}

    @pytest.mark.long
    def test_the_example_of_the_form_is_a_good_plan_and_a_poor_one_gets_alternatives(self, own):
        text = post(own, "/plan/forecast", {**vars(EXAMPLE), "fine": "1"}).text.replace("&nbsp;", " ")
        assert "from 400 simulated studies" in text
        assert re.search(r"in 9\d % of such studies for a lead of 2 points", text)
        assert "Alternatives" not in text
        poor = {**vars(EXAMPLE), "arms": "A\nB", "budget": "4 000", "fine": "1"}
        assert "give or take" in post(own, "/plan/forecast", poor).text.partition("Alternatives")[2]

    @pytest.mark.long
    def test_a_forecast_needs_the_spread_and_takes_a_lead(self, own):
        """Before, a spread of 1 was assumed without a word, and leads were chosen that nobody hopes for."""
        form = {**self.FORM, "noise": "large-sample", "baseline": "3", "outcome_column": "revenue"}
        said = post(own, "/plan/forecast", form).text
        assert "Give “The spread (standard deviation)”, roughly" in said
        assert "--" not in said
        found = post(own, "/plan/forecast", {**form, "deviation": "19", "lead": "0,31"}).text
        assert "+0.31" in found
        assert "--outcome-column revenue" in found

    def test_what_was_recommended_for_other_fields_is_left_out_and_lines_stay_lines(self, own):
        """Before, a budget given after the forecast was refused for its policy, and arms came back as 'Control\\r'."""
        stale = {**self.FORM, "lead": "2 points", "policy": "wager", "planned": "of another form"}
        assert post(own, "/new", stale).status_code == 303
        with load_study("my study", own.storage) as study:
            assert study.entries()[0].payload["policy"]["name"] == "designed"
        again = post(own, "/new", {**stale, "arms": "Control\r\nB", "round": "none"}).text
        assert ">Control\nB</textarea>" in again

    def test_a_plan_is_kept_as_a_file(self, own):
        saved = post(own, "/plan/save", {**self.FORM, "as": "json"})
        assert saved.headers["content-disposition"] == 'attachment; filename="plan of my study.json"'
        assert saved.json()["name"] == "my study"


class TestLab:
    """Runs in the background, with progress, and an end."""

    def waited(self, own, where):
        for _ in range(600):
            text = own.get(where).text
            if 'hx-trigger="every 1s"' not in text:
                return text
        raise AssertionError("it did not end")

    def test_policies_are_compared(self, own):
        fields = {"means": "30 %, 50 %", "world": "binary", "runs": "20", "policies": ["wager", "pet"]}
        started = post(own, "/lab", fields)
        assert started.status_code == 303
        text = self.waited(own, started.headers["location"])
        assert "arm 2 is the best arm" in text
        assert text.count('class="chart"') == 3
        table = own.get(f"{started.headers['location']}/runs.csv").text
        assert len(table.splitlines()) == 41
        assert Checked(text).wrong == []

    def test_runs_are_given_up(self, own):
        fields = {"means": "0, 1e-6", "runs": "5000", "most": "1e15", "policies": ["lucb"]}
        where = post(own, "/lab", fields).headers["location"]
        assert post(own, f"{where}/cancel").status_code == 303
        assert "Cancelled after" in self.waited(own, where)

    def test_the_papers_experiments(self, own):
        where = post(own, "/lab/paper", {"runs": "2"}).headers["location"]
        text = self.waited(own, where)
        assert "What the paper says, and what was measured" in text

    @pytest.mark.parametrize("fields", [{"runs": "100000"}, {"means": "x"}, {"policies": []}, {"question": "none"}])
    def test_what_cannot_be_run_is_said(self, own, fields):
        answer = post(own, "/lab", {"policies": ["wager"], **fields})
        assert answer.status_code == 422
        assert 'role="alert"' in answer.text


class TestReport:
    """The report in every form, and a link that lets one read it."""

    @pytest.mark.parametrize(
        ("form", "start"),
        [("html", b"<!doctype html>"), ("xlsx", b"PK"), ("csv", b"arm,"), ("md", b"[//]: # ("), ("json", b"{")],
    )
    def test_every_form(self, shown, form, start):
        answer = shown.get(f"{at('decided/2025')}/report.{form}")
        assert answer.status_code == 200
        assert answer.content.startswith(start)
        assert answer.headers["content-disposition"] == f'attachment; filename="decided_2025.{form}"'

    def test_a_link_opens_one_report_and_nothing_else(self, tmp_path):
        storage = f"sqlite:///{tmp_path}/a.db"
        example(storage)
        example(storage, "other", rounds=0)
        with browsing(storage, "manage=a-long-enough-token-1, view=a-long-enough-token-2") as client:
            bearer = {"authorization": "Bearer a-long-enough-token-2"}
            assert "/shared/" not in client.get(f"{at('checkout')}/report", headers=bearer).text
            link = link_to(client, "checkout", "a-long-enough-token-1")
            assert link in client.get(f"{at('checkout')}/report", headers=bearer).text
            client.cookies.clear()
            shared = client.get(link)
            assert shared.status_code == 200
            assert "Where it stands" not in shared.text
            assert client.get(f"{link}/report.csv").status_code == 200
            key = link.rpartition("/")[2]
            for path in (f"/shared/other/{key}", f"/shared/checkout/{'0' * len(key)}", f"/shared/none/{key}"):
                assert client.get(path).status_code == 404
            assert client.get(at("checkout"), follow_redirects=False).status_code == 303  # to the login
            assert client.post(link).status_code in (404, 405)

    def test_a_link_is_withdrawn_and_another_one_made(self, tmp_path):
        storage, token = f"sqlite:///{tmp_path}/a.db", "a-long-enough-token-1"
        example(storage, rounds=1)
        with browsing(storage, f"manage={token}") as client:
            link = link_to(client, "checkout", token)
            assert link_to(client, "checkout", token) == link  # the same one, however often it is made
            post(client, f"{at('checkout')}/link", {"what": "withdraw"})
            assert client.get(link).status_code == 404
            assert client.get(f"{link}/report.csv").status_code == 404
            assert link_to(client, "checkout", token) != link

    def test_a_later_study_of_the_same_name_has_a_link_of_its_own(self, tmp_path):
        storage, token = f"sqlite:///{tmp_path}/a.db", "a-long-enough-token-1"
        example(storage, rounds=0)
        with browsing(storage, f"manage={token}") as client:
            link = link_to(client, "checkout", token)
            assert client.get(link).status_code == 200
            with load_study("checkout", storage) as study:
                study.remove()
            assert client.get(link).status_code == 404
            example(storage, rounds=1)
            assert client.get(link).status_code == 404
            assert link_to(client, "checkout", token) != link

    def test_all_servers_of_a_storage_know_the_link_whatever_their_tokens(self, tmp_path):
        storage = f"sqlite:///{tmp_path}/a.db"
        example(storage, rounds=1)
        with browsing(storage, "manage=a-long-enough-token-1") as client:
            link = link_to(client, "checkout", "a-long-enough-token-1")
        with browsing(storage, "view=another-token-of-length") as client:
            assert client.get(link).status_code == 200


def link_to(client, name, token):
    """A link to a study, made by somebody who may."""
    client.post("/login", data={"token": token, "name": "Ada"})
    assert post(client, f"{at(name)}/link", {"what": "make"}).status_code == 303
    return re.search(r"/shared/[^<\"]+", client.get(f"{at(name)}/report").text)[0]


def test_roles_see_what_they_may_do(tmp_path):
    storage = f"sqlite:///{tmp_path}/a.db"
    example(storage, rounds=1)
    tokens = {"view": "look-token-of-length", "upload": "hand-token-of-length", "manage": "change-token-of-length"}
    with browsing(storage, "\n".join(f"{role}={token}" for role, token in tokens.items())) as client:
        assert client.get("/", follow_redirects=False).headers["location"] == "/login"
        assert client.post("/login", data={"token": "wrong"}).status_code == 403
        for role, (hands_in, changes) in {
            "view": (False, False),
            "upload": (True, False),
            "manage": (True, True),
        }.items():
            client.cookies.clear()
            client.post("/login", data={"token": tokens[role], "name": "Ada"})
            text = client.get(at("checkout")).text
            assert ("Upload results" in text, "Take an arm out" in text) == (hands_in, changes)
            assert post(client, f"{at('checkout')}/change/note/effect").status_code == (200 if changes else 403)
            assert client.get("/new").status_code == (200 if changes else 403)
            assert f"Ada ({role})" in text
        assert post(client, "/leave").status_code == 303
        assert client.get("/", follow_redirects=False).status_code == 303


class TestKept:
    """Pages are made once for all who may do the same, and anew once something is recorded."""

    def test_everybody_has_a_secret_of_their_own(self, shown):
        with httpx.Client(base_url=shown.base_url, timeout=120) as other:
            other.get("/")
            texts = [each.get(at("checkout")).text for each in (shown, other, shown)]
        secrets = [
            set(re.findall(r'(?:name="form-secret" content|name="secret" value)="(\w*)"', each)) for each in texts
        ]
        assert [len(each) for each in secrets] == [1, 1, 1]
        assert secrets[0] == secrets[2] != secrets[1]
        (one,), (two,) = secrets[:2]
        assert len(one) == 64
        assert texts[0].replace(one, "") == texts[1].replace(two, "") == texts[2].replace(one, "")

    def test_what_is_recorded_is_seen(self, own):
        example(own.storage, "here", rounds=1)
        before = own.get("/").text, own.get(at("here")).text
        assert (own.get("/").text, own.get(at("here")).text) == before
        with load_study("here", own.storage) as study:
            study.end("no longer needed")
        after = own.get("/").text, own.get(at("here")).text
        assert "closed" not in before[0]
        assert "closed" in after[0]
        assert "no longer needed" in after[1]
        example(own.storage, "there", rounds=0)
        assert "there" in own.get("/").text
        assert own.get(at("there")).status_code == 200

    def test_a_name_is_on_ones_own_pages_only(self, own):
        example(own.storage, "here", rounds=1)
        own.get(at("here"))
        post(own, "/me", {"name": "Ada"})
        assert "Ada" in own.get(at("here")).text
        assert "Ada" in own.get("/").text
        with httpx.Client(base_url=own.base_url, timeout=120) as other:
            assert "Ada" not in other.get(at("here")).text + other.get("/").text


def test_past_results_fill_in_the_plan(own):
    """Baseline, spread, missing share, pace and model are taken from a file, which is read as by `tell`."""
    rows = ["visitor,day,value"] + [
        f"v{i},2026-05-{4 + i % 7:02d},{'' if i < 7 else (i % 10) * 12.5}" for i in range(140)
    ]
    fields = {
        "arms": "A\nB",
        "outcome_column": "value",
        "id_column": "visitor",
        "time_column": "day",
        "empty": "missing",
        "lead": "2 points",
    }
    sent = {"past": ("past.csv", "\n".join(rows).encode())}
    text = html.unescape(post(own, "/plan/pilot", fields, files=sent).text.replace("\N{NO-BREAK SPACE}", " "))
    for id_, value in {"missing": "5 %", "per_day": "20", "lead": "10 % of baseline"}.items():
        assert f'name="{id_}" value="{value}"' in text
    assert 'value="normal" selected' in text or 'value="large-sample" selected' in text
    assert "From past.csv (140 results): mean" in text
    wrong = post(own, "/plan/pilot", {"arms": "A\nB"})
    assert (wrong.status_code, "Choose a file of past results." in wrong.text) == (422, True)
