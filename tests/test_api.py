"""The REST API as a service meets it: names, problems in one sentence, keys, tags, forms of reports, events, words."""

import asyncio
import gzip
import http.client
import inspect
import json
import re
import sys
import threading
from urllib.parse import urlsplit

import pytest

import serving
from roundwise import BestArm, Binary, create_study, list_studies, load_study, plan
from roundwise.cli import main
from roundwise.ingest import TellKeywords
from roundwise.web import events
from roundwise.web.bodies import FileBody, NewPlan, NewStudy
from serving import ask, form

ARMS = ["Control", "Big button", "Guest checkout"]
NEW = {"question": {"name": "best-arm"}, "arms": ARMS, "noise": {"name": "binary"}, "seed": 3}
ROWS = [{"arm": arm, "count": 30, "successes": n} for arm, n in zip(ARMS, (9, 12, 14), strict=True)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A server: its address, its application and its storage."""
    storage = f"sqlite:///{tmp_path_factory.mktemp('api')}/studies.db"
    with serving.serving(storage) as (url, app):
        yield url, app, storage


@pytest.fixture
def url(site):
    return site[0]


@pytest.fixture
def study(url, request):
    """The address of a new study with an open round."""
    name = re.sub(r"\W+", "-", request.node.name)
    assert ask(url, "POST", "/api/v1/studies", NEW | {"name": name})[0] == 201
    path = f"/api/v1/studies/{name}"
    assert ask(url, "POST", f"{path}/ask", {})[0] == 200
    return path


def entries(url, path, kind=None):
    found = ask(url, "GET", f"{path}/log")[2]
    return [each for each in found if kind in (None, each["kind"])]


class TestVerbs:
    def test_a_whole_study(self, url):
        status, headers, created = ask(url, "POST", "/api/v1/studies", NEW | {"name": "shop/1"})
        assert (status, headers["location"]) == (201, "/api/v1/studies/shop%2F1")
        assert created["arms"][0]["arm"] == "Control"
        path = headers["location"]
        _, _, asked = ask(url, "POST", f"{path}/ask")
        assert (asked["round"], asked["asked"]) == (1, dict.fromkeys(ARMS, 30))
        assert sum(asked["shares"].values()) == pytest.approx(1)
        _, _, told = ask(url, "POST", f"{path}/results", {"rows": ROWS[:2], "name": "monday"})
        assert told["remaining"] == {"Guest checkout": 30}
        assert ask(url, "POST", f"{path}/ask")[2]["shares"] == {"Control": 0, "Big button": 0, "Guest checkout": 1}
        _, _, told = ask(url, "POST", f"{path}/results", {"columns_of": {k: [v] for k, v in ROWS[2].items()}})
        assert (told["rounds"], told["results"]) == (1, 90)
        status, headers, found = ask(url, "GET", path)
        assert headers["etag"] == f'"{found["digest"]}"' == f'"{told["digest"]}"'
        assert "forecast" in ask(url, "GET", f"{path}/forecast")[2]
        assert [each["file"] for each in found["files"]] == ["monday", "rows"]
        assert [each["kind"] for each in entries(url, path)] == ["created", "asked", "told", "told", "checkpoint"]
        assert ask(url, "GET", f"{path}/verify")[2]["sound"] is True
        for verb, body in {
            "note": {"text": "hello"},
            "drop": {"arm": "Big button", "why": "dear"},
            "add": {"arm": "New", "why": "idea", "unrelated": True},
            "end": {"why": "enough"},
            "reopen": {"why": "more"},
        }.items():
            status, _, found = ask(url, "POST", f"{path}/{verb}", body)
            assert status == 200, found
        assert ask(url, "GET", f"{path}/effect?what=drop&arm=New")[2]["effect"].startswith(
            "This keeps the guarantee, at"
        )
        assert [each["name"] for each in ask(url, "GET", "/api/v1/studies")[2] if each["name"] == "shop/1"]

    def test_files_previews_and_amendments(self, url, study):
        table = "arm,count,successes\n" + "".join(f"{a},30,{n}\n" for a, n in zip(ARMS, (9, 12, 25), strict=True))
        for content, name in ((table.encode(), "a.csv"), (gzip.compress(table.encode()), "a.csv.gz")):
            body, headers = form(content, name)
            status, _, found = ask(url, "POST", f"{study}/files/preview", body, headers)
            assert status == 200, found
            assert found["files"][0]["results"] == dict.fromkeys(ARMS, 30)
            assert found["after"]["rounds"] == 1
        rows = [{"arm": arm, "count": 30, "successes": n} for arm, n in zip(ARMS, (9, 12, 25), strict=True)]
        status, _, same = ask(url, "POST", f"{study}/results/preview", {"rows": rows, "name": "a.csv"})
        assert status == 200, same
        assert {**same["after"], "files": 0} == {**found["after"], "files": 0}
        assert [each["results"] for each in same["files"]] == [each["results"] for each in found["files"]]
        assert entries(url, study, "told") == []
        body, headers = form(table.encode(), "C:\\data\\a.csv", options=json.dumps({"columns": {"arm": "arm"}}))
        assert ask(url, "POST", f"{study}/files", body, headers)[0] == 200
        assert entries(url, study, "told")[0]["file"] == "a.csv"
        body, headers = form(table.replace("25", "24").encode(), options='{"file": "a.csv", "why": "one too many"}')
        status, _, found = ask(url, "POST", f"{study}/amend", body, headers)
        assert status == 200, found
        assert found["arms"][0]["mean"] == pytest.approx(24 / 30)
        body, headers = form(options='{"round_over": "nothing more comes"}')
        assert ask(url, "POST", f"{study}/files", body, headers)[0] == 409  # no round is open
        ask(url, "POST", f"{study}/ask")
        assert ask(url, "POST", f"{study}/files", body, headers)[0] == 200
        assert entries(url, study, "round_closed")[0]["what"].endswith("nothing more comes")

    def test_what_is_taught(self, url):
        ask(url, "POST", "/api/v1/studies", NEW | {"name": "taught", "budget": 4000})
        body, headers = form(b"arm,count,successes\nControl,9,3\nBig button,9,4\n")
        assert ask(url, "POST", "/api/v1/studies/taught/import-past", body, headers)[0] == 200
        assert ask(url, "POST", "/api/v1/studies/taught/extend", {"budget": 5000})[2]["budget"] == 5000
        assert ask(url, "DELETE", "/api/v1/studies/taught")[0] == 204
        assert ask(url, "GET", "/api/v1/studies/taught")[0] == 404

    @pytest.mark.long
    def test_a_plan(self, url):
        body = {key: value for key, value in NEW.items() if key != "seed"}
        body |= {"baseline": "30%", "leads": "20%", "runs": 40, "budget": 5000}
        status, _, found = ask(url, "POST", "/api/v1/plan", body)
        assert status == 200, found
        assert found["command"].startswith("roundwise new study --question best-arm")
        assert ask(url, "POST", "/api/v1/plan", body)[2] == found
        status, _, found = ask(url, "POST", "/api/v1/plan", body | {"scenario": "/etc/passwd"})
        assert (status, found["detail"]) == (422, "scenario: extra inputs are not permitted.")
        rows = "".join(f"{i},{i % 7},{1 + i % 3}\n" for i in range(60)).encode()
        columns = {"outcome": "clicks", "denominator": "views", "id": "user"}
        said = {"question": {"name": "best-arm"}, "arms": ["a", "b"], "columns": columns, "quick": True}
        sent, headers = form(b"user,clicks,views\n" + rows, options=json.dumps(said))
        status, _, found = ask(url, "POST", "/api/v1/plan/pilot", sent, headers)
        assert status == 200, found
        assert found["pilot"]["mean"] == pytest.approx(sum(i % 7 for i in range(60)) / 120)

    @pytest.mark.parametrize(
        ("kind", "starts"),
        [
            ("json", b"{"),
            ("html", b"<!doctype html>"),
            ("md", b"[//]: # (a report of roundwise)"),
            ("txt", b"Not decided"),
            ("csv", b"arm,results"),
            ("xlsx", b"PK"),
        ],
    )
    def test_reports(self, url, study, kind, starts):
        status, headers, content = ask(url, "GET", f"{study}/report?format={kind}", raw=True)
        assert status == 200
        assert content.startswith(starts)
        assert ("attachment" in headers.get("content-disposition", "")) == (kind not in ("json", "html"))

    def test_every_word_of_python_is_there(self):
        assert FileBody.model_fields.keys() == TellKeywords.__annotations__.keys()
        words = inspect.signature(create_study).parameters.keys()
        assert NewStudy.model_fields.keys() == words - {"storage", "load_if_exists"}
        words = inspect.signature(plan).parameters.keys()
        assert NewPlan.model_fields.keys() == words - {
            "scenario",
            "pilot",
            "progress",
        }  # no files of the server, nobody to watch


class TestProblems:
    @pytest.mark.parametrize(
        ("command", "method", "path", "body", "status"),
        [
            (("status", "chekout"), "GET", "/chekout", None, 404),
            (("tell", "NAME", "FILE"), "POST", "/NAME/files", "FILE", 409),
            (
                ("drop", "NAME", "Red", "--why", "x", "--yes"),
                "POST",
                "/NAME/drop",
                {"arm": "Red", "why": "x"},
                422,
            ),
            (
                ("drop", "NAME", "Control", "--why", "", "--yes"),
                "POST",
                "/NAME/drop",
                {"arm": "Control"},
                422,
            ),
            (("note", "NAME", " "), "POST", "/NAME/note", {"text": " "}, 422),
            (("extend", "NAME", "--budget", "9", "--yes"), "POST", "/NAME/extend", {"budget": 9}, 422),
            (("reopen", "NAME", "--why", "x", "--yes"), "POST", "/NAME/reopen", {"why": "x"}, 422),
        ],
    )
    def test_are_the_sentences_of_the_command_line(
        self, site, capsys, monkeypatch, tmp_path, command, method, path, body, status
    ):
        url, _, storage = site
        ask(url, "POST", "/api/v1/studies", NEW | {"name": "wrong"})
        monkeypatch.chdir(tmp_path)
        (tmp_path / "file.csv").write_text("arm,outcome\nControl,1\n")
        words = [{"NAME": "wrong", "FILE": "file.csv"}.get(each, each) for each in command]
        monkeypatch.setattr(sys, "argv", ["roundwise", *words, "--storage", storage])
        with pytest.raises(SystemExit):
            main()
        said = capsys.readouterr().err.removeprefix("roundwise: ").strip().replace(f" --storage {storage}", "")
        headers = {"X-Roundwise-Surface": "shell"}
        if body == "FILE":
            body, sent = form((tmp_path / "file.csv").read_bytes(), "file.csv")
            headers |= sent
        found = ask(url, method, f"/api/v1/studies{path.replace('NAME', 'wrong')}", body, headers)
        assert found[1]["content-type"] == "application/problem+json"
        assert (found[0], found[2]["status"], found[2]["detail"]) == (status, status, said)
        assert found[2]["error"] in ("UnknownStudyError", "StudyStateError", "InputError")

    def test_in_the_words_of_python_for_those_who_use_it(self, url):
        ask(url, "POST", "/api/v1/studies", NEW | {"name": "words"})
        body, headers = form(b"arm,outcome\nControl,1\n")
        assert "`POST .../ask`" in ask(url, "POST", "/api/v1/studies/words/files", body, headers)[2]["detail"]
        headers |= {"X-Roundwise-Surface": "python"}
        assert "`study.ask()`" in ask(url, "POST", "/api/v1/studies/words/files", body, headers)[2]["detail"]

    def test_what_is_not_there(self, url, study):
        assert "lists what there is" in ask(url, "GET", "/api/v1/nothing")[2]["detail"]
        status, headers, found = ask(url, "PUT", study)
        assert (status, found["title"]) == (405, "not done this way")
        assert headers["allow"]


class TestOnce:
    def test_the_same_key_records_once(self, url, study):
        key = {"Idempotency-Key": "key 1"}
        answers = [ask(url, "POST", f"{study}/results", {"rows": ROWS}, key) for _ in range(3)]
        assert [each[0] for each in answers] == [200] * 3
        assert len({each[2]["digest"] for each in answers}) == 1
        assert len(entries(url, study, "told")) == 1
        assert ask(url, "POST", f"{study}/results", {"rows": ROWS})[0] == 409  # the same rows without a key

    def test_all_at_once_with_one_key(self, url, study):
        said = []
        work = [
            threading.Thread(
                target=lambda: said.append(
                    ask(url, "POST", f"{study}/results", {"rows": ROWS}, {"Idempotency-Key": "k"})[0]
                )
            )
            for _ in range(6)
        ]
        for each in work:
            each.start()
        for each in work:
            each.join()
        assert said == [200] * 6
        assert len(entries(url, study, "told")) == 1

    def test_every_verb_has_keys(self, url, study):
        for verb, body in (("note", {"text": "x"}), ("drop", {"arm": ARMS[1], "why": "x"}), ("end", {"why": "x"})):
            for _ in range(2):
                assert ask(url, "POST", f"{study}/{verb}", body, {"Idempotency-Key": verb})[0] == 200
        assert [each["kind"] for each in entries(url, study)[2:]] == ["noted", "dropped", "checkpoint", "closed"]

    @pytest.mark.parametrize(
        ("verb", "body"),
        [
            ("results", {"rows": ROWS[1:]}),  # other contents
            ("results", {"rows": ROWS, "new": True}),  # other options
            ("note", {"text": "x"}),  # another verb
            ("end", {"why": "x"}),
        ],
    )
    def test_a_key_that_was_used_for_another_request(self, url, study, verb, body):
        key = {"Idempotency-Key": "once"}
        assert ask(url, "POST", f"{study}/results", {"rows": ROWS}, key)[0] == 200
        before = entries(url, study)
        status, _, found = ask(url, "POST", f"{study}/{verb}", body, key)
        assert (status, found["error"]) == (422, "InputError")
        assert "was used for another request" in found["detail"]
        assert entries(url, study) == before
        assert ask(url, "POST", f"{study}/results", {"rows": ROWS}, key)[0] == 200

    def test_the_same_file_in_another_wrapping_is_the_same_request(self, url, study):
        content = "\n".join([",".join(ROWS[0]), *(",".join(map(str, each.values())) for each in ROWS)]).encode()
        for border in (b"border", b"another"):
            body, headers = form(content)
            headers = {"Content-Type": headers["Content-Type"].replace("border", border.decode())}
            body = body.replace(b"--border", b"--" + border)
            sent = ask(url, "POST", f"{study}/files", body, headers | {"Idempotency-Key": "file"})
            assert sent[0] == 200, sent
        assert len(entries(url, study, "told")) == 1
        body, headers = form(content + b"\n\n")
        assert ask(url, "POST", f"{study}/files", body, headers | {"Idempotency-Key": "file"})[0] == 422

    def test_only_what_was_seen(self, url, study):
        tag = ask(url, "GET", study)[1]["etag"]
        assert ask(url, "POST", f"{study}/note", {"text": "meanwhile"}, {"If-Match": "*"})[0] == 200
        status, _, found = ask(url, "POST", f"{study}/results", {"rows": ROWS}, {"If-Match": tag})
        assert (status, found["error"]) == (409, "ConflictError")
        assert "has moved on: " in found["detail"]
        tag = ask(url, "GET", study)[1]["etag"]
        for _ in range(2):  # a request that is repeated is answered, although the study has moved on by itself
            headers = {"If-Match": tag, "Idempotency-Key": "seen"}
            assert ask(url, "POST", f"{study}/results", {"rows": ROWS}, headers)[0] == 200
        assert len(entries(url, study, "told")) == 1


class TestEvents:
    def listen(self, url, path, heard, enough):
        found = urlsplit(url)
        connection = http.client.HTTPConnection(found.hostname, found.port, timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.headers["content-type"].startswith("text/event-stream")
        while len(heard) < enough:
            line = answer.readline().decode()
            if line.startswith("data: "):
                heard.append(json.loads(line[6:]))
                if len(heard) == 1 and enough > 1:
                    self.began.set()
        connection.close()

    def test_a_change_by_another_process_is_heard(self, site, study, monkeypatch):
        url, app, storage = site
        monkeypatch.setattr(app.state.changes, "_pause", 0.05)
        heard, self.began = [], threading.Event()
        name = study.rpartition("/")[2]
        thread = threading.Thread(target=self.listen, args=(url, f"{study}/events", heard, 2))
        thread.start()
        assert self.began.wait(60)
        while thread.is_alive():  # the first look may come after a change: then there is another
            with load_study(name, storage) as mine:  # not by way of the server
                mine.note("a change")
            thread.join(0.3)
        assert heard[0]["entries"] == 2
        assert heard[1]["study"] == name
        assert heard[1]["entries"] > 2
        assert len(heard[1]["digest"]) == 64

    def test_one_look_serves_all_and_nobody_listening_costs_nothing(self, tmp_path):
        storage = f"sqlite:///{tmp_path}/studies.db"
        create_study("a", question=BestArm(), arms=["x", "y"], noise=Binary(), storage=storage).close()

        async def work():
            changes = events.ChangeFeed(storage, pause=0.01)
            assert changes._looking is None
            async with changes.queue("a") as one, changes.queue(None) as every, changes.queue("b") as other:
                while changes.looks < 2:
                    await asyncio.sleep(0.01)
                before = changes.looks
                with load_study("a", storage) as study:
                    study.note("x")
                create_study("b", question=BestArm(), arms=["x", "y"], noise=Binary(), storage=storage).close()
                found = [await one.get(), await every.get(), await every.get(), await other.get()]
                looks = changes.looks - before
            assert changes._looking is None
            return found, looks

        found, looks = asyncio.run(work())
        assert [(each.study, each.entries) for each in found] == [("a", 2), ("a", 2), ("b", 1), ("b", 1)]
        assert looks >= 1

    def test_only_so_many_may_listen(self, site, monkeypatch):
        url, _, _ = site
        monkeypatch.setattr(events, "MOST", 0)
        assert ask(url, "GET", "/api/v1/events")[0] == 503


class TestWords:
    def test_the_page_of_the_api_lists_everything_and_loads_nothing_from_elsewhere(self, url):
        described = ask(url, "GET", "/api/v1/openapi.json")[2]
        status, headers, page = ask(url, "GET", "/api/v1/docs", raw=True)
        assert status == 200
        assert "default-src 'none'" in headers["content-security-policy"]
        text = page.decode()
        for path, verbs in described["paths"].items():
            for verb in verbs:
                assert f"{verb.upper()} {path}</code>" in text
        assert "http://" not in text.replace("http://this-server", "").replace("http://www.w3.org", "")
        assert "https://" not in text
        assert "<script>" not in text
        assert " style=" not in text

    def test_storage_lists_are_the_same(self, site):
        url, _, storage = site
        assert ask(url, "GET", "/api/v1/studies")[2] == list_studies(storage)
