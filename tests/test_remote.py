"""A study behind a server behaves as a local one: the same reports, rounds and errors; requests are recorded once."""

import http.client
import json
import os
import re
import signal
import threading
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

import serving
from roundwise import (
    Above,
    BestArm,
    Binary,
    Bounded,
    Claims,
    Columns,
    DataError,
    InputError,
    StoreError,
    TopK,
    create_study,
    export_study,
    import_study,
    list_studies,
    load_study,
    study_log,
    verify_study,
)
from roundwise.errors import ConflictError, StudyExistsError, StudyStateError, UnknownStudyError
from roundwise.store import open_store, remote
from roundwise.study.study import RemoteStudy, Study

ARMS = ["red", "green", "blue/1"]
FIRST = {"arm": ARMS, "count": [30, 30, 30], "successes": [12, 21, 3]}


@pytest.fixture(scope="module")
def server_at(tmp_path_factory):
    """The address of a server with a storage of its own."""
    with serving.serving(f"sqlite:///{tmp_path_factory.mktemp('remote')}/studies.db") as (url, _):
        yield url


@pytest.fixture
def both(server_at, tmp_path):
    """A storage here, and the same behind a server."""
    return f"sqlite:///{tmp_path}/here.db", server_at


def outcome(work):
    """What something comes to: a report as JSON (without times, accounts and digests), or an error in words."""
    try:
        found = work()
    except (InputError, DataError, StoreError) as error:
        return type(error), re.sub(r"[0-9a-f]{64}", "", str(error))
    if found is None or isinstance(found, bool | str | int):
        return found
    if hasattr(found, "table"):
        return found.number, found.table
    times = {"created", "changed", "waiting_since", "by", "digest", "reproduce"}
    plain = found.plain()
    if plain["created"] is None or plain["changed"] is None:  # a brief report has only those rounds that are at hand
        times |= {"by_round", "files"}
    return {key: value for key, value in plain.items() if key not in times}


def table(path, *rows):
    path.write_text("arm,outcome\n" + "".join(f"{arm},{value}\n" for arm, value in rows))
    return path


def course(study, tmp_path):
    """Every verb of a study, in an order in which each does something, and what each comes to."""
    rows = [(arm, int(i % 7 < 4)) for i in range(40) for arm in ARMS]
    first, wrong = table(tmp_path / "first.csv", *rows), table(tmp_path / "wrong.csv", ("purple", 1))
    second = {"arm": [*ARMS[:2]], "outcome": [1.0, 0]}
    yield lambda: study.import_past({"arm": ARMS, "count": [9, 9, 9], "successes": [3, 5, 1]})
    yield lambda: study.tell(first)  # no round is open
    yield study.ask
    yield lambda: study.tell(wrong)
    yield lambda: study.tell(wrong, ignore_arms="*")
    yield lambda: study.tell(tmp_path / "not there.csv")
    yield lambda: study.tell(tmp_path)
    yield lambda: study.tell(3)
    yield lambda: study.tell()
    yield lambda: study.preview(first)[1]
    yield lambda: study.tell(first, columns=Columns(arm="arm"))
    yield lambda: study.tell(first)
    yield study.status
    yield study.report
    yield study.ask
    yield lambda: study.tell(second, missing="they left")
    yield lambda: study.amend("data frame", {"arm": ARMS[:2], "outcome": [1, 1]}, "misread")
    yield lambda: study.amend("nothing.csv", None, "misread")
    yield lambda: study.drop("red", "")
    yield lambda: study.close_round("")
    yield lambda: study.close_round("a holiday")
    yield lambda: study.effect("drop", arm="red", why="dear")
    yield lambda: study.drop("red", "dear")
    yield lambda: study.drop("purple", "dear")
    yield lambda: study.add("grey", unrelated=True)
    yield lambda: study.add("pink")
    yield lambda: study.extend(5)
    yield lambda: study.extend(90_000)
    yield lambda: study.note(" ")
    yield lambda: study.note("looks fine\nreally")
    yield lambda: study.end("no money")
    yield lambda: study.end("no money")
    yield study.ask
    yield lambda: study.reopen("money")
    yield study.ask
    yield study.remove
    yield study.report


@pytest.mark.long
@pytest.mark.parametrize(
    ("question", "noise"),
    [
        (BestArm(), Binary()),
        (Claims.against_control(ARMS, "red"), Binary()),
        (TopK(2), Bounded(0, 1)),
        (Above(0.4), Binary()),
    ],
    ids=lambda each: each.name,
)
def test_every_verb_comes_to_the_same(both, tmp_path, question, noise):
    name = f"a/b % {question.name} ü?#"
    words = {"question": question, "arms": ARMS, "noise": noise, "seed": 5, "budget": 50_000}
    words |= {"round_size" if question.name == "claims" else "max_round_size": 300}
    here, there = (create_study(name, storage=each, **words) for each in both)
    assert type(here) is Study
    assert type(there) is RemoteStudy
    errors = 0
    for number, (mine, theirs) in enumerate(zip(course(here, tmp_path), course(there, tmp_path), strict=True)):
        expected = outcome(mine)
        found = outcome(theirs)
        if isinstance(expected, tuple) and isinstance(expected[0], type):  # the name of a file without its folder
            expected = (expected[0], expected[1].replace(f"{tmp_path}/first.csv", "first.csv"))
            expected = (expected[0], expected[1].replace(f"{tmp_path}/wrong.csv", "wrong.csv"))
            errors += 1
        else:
            expected, found = (
                json.loads(json.dumps(each, default=str).replace(f"{tmp_path}/", "")) for each in (expected, found)
            )
            for each in (expected, found):
                if isinstance(each, dict):
                    for file in each.get("files", ()):
                        file["sha256"] = file["at"] = file["by"] = None
                    for note in each.get("notes", ()):
                        note.pop("at", None)
        if isinstance(found, dict) and isinstance(expected, dict):
            found = {key: value for key, value in found.items() if value != expected[key]}  # few, if they differ
            expected = {key: value for key, value in expected.items() if key in found}
        assert (number, found) == (number, expected)
    assert errors > 8
    with here, there:
        assert there.state.spec.to_json() == here.state.spec.to_json()
        assert [each.kind for each in there.entries()] == [each.kind for each in here.entries()]
        assert str(there.rounds()) == str(here.rounds())
    assert verify_study(name, both[1]).sound


def test_every_verb_of_a_study_goes_through_the_two_methods_that_are_requests():
    """What `Study` records, `RemoteStudy` sends: nothing else in it may write to the store."""
    writers = {name for name, each in vars(Study).items() if callable(each) and "_write" in each.__code__.co_names}
    assert writers == {"asking", "_record"} <= vars(RemoteStudy).keys()


class TestCreated:
    def test_by_the_same_words(self, both):
        words = {
            "question": BestArm(tolerance=0.02),
            "arms": ARMS,
            "noise": Bounded(0, 5),
            "delta": 0.01,
            "round_size": 60,
        }
        words |= {"split": "2:1:1", "columns": Columns(arm="variant", id="user"), "min_per_arm": 5, "seed": 9}
        payloads = []
        for storage in both:
            with create_study("words", storage=storage, **words) as study:
                payloads.append(study.state.spec.to_json())
            with create_study("words", storage=storage, load_if_exists=True, **words) as again:
                assert again.state.spec.to_json() == payloads[-1]
            with create_study("items", storage=storage, **words | {"columns": Columns(item="plate")}) as shared:
                payloads.append(shared.state.spec.to_json())
            with pytest.raises(StudyExistsError, match="'words'"):
                create_study("words", storage=storage, **words)
            with pytest.raises(InputError, match="with other settings"):
                create_study("words", storage=storage, load_if_exists=True, **words | {"delta": 0.02})
        assert payloads[:2] == payloads[2:]

    def test_what_is_refused_here_is_refused_there(self, both):
        for storage in both:
            with pytest.raises(InputError, match="' x'"):
                create_study(" x", question=BestArm(), arms=ARMS, noise=Binary(), storage=storage)
            with pytest.raises(
                UnknownStudyError, match="There is no study called 'wrods'|There are no studies|no study"
            ):
                load_study("wrods", storage)

    def test_listed_and_brought_elsewhere(self, both, tmp_path):
        here, there = both
        with create_study("moved", question=BestArm(), arms=ARMS, noise=Binary(), storage=here) as study:
            study.ask()
            study.tell(FIRST)
        export_study("moved", tmp_path / "moved.jsonl", here)
        with import_study(tmp_path / "moved.jsonl", there) as study:
            assert study.entries() == load_study("moved", here).entries()
        create_study("moved", question=BestArm(), arms=ARMS, noise=Binary(), storage=f"{here}2").close()
        export_study("moved", tmp_path / "other.jsonl", f"{here}2")
        for again in ("moved.jsonl", "other.jsonl"):
            with pytest.raises(StudyExistsError):
                import_study(tmp_path / again, there)
        mine, theirs = (next(each for each in list_studies(url) if each["name"] == "moved") for url in both)
        assert mine == theirs
        assert study_log("moved", there) == study_log("moved", here)
        export_study("moved", tmp_path / "back.jsonl", there)
        assert (tmp_path / "back.jsonl").read_text() == (tmp_path / "moved.jsonl").read_text()


class TestAddresses:
    @pytest.mark.parametrize("url", ["http://", "http://host:99999", "http://host?token=x", "https://host/#x"])
    def test_that_are_none(self, url):
        with pytest.raises(InputError, match="names no server"):
            open_store(url)

    def test_a_token_in_an_address_is_refused_and_not_repeated(self):
        with pytest.raises(InputError, match="ROUNDWISE_TOKEN") as error:
            open_store("http://user:geheim0123456789@host:8000")
        assert "geheim" not in str(error.value)

    def test_nobody_there(self):
        with pytest.raises(StoreError, match=r"http://127.0.0.1:9 cannot be reached .*Nothing was changed"):
            load_study("x", "http://127.0.0.1:9")

    def test_somebody_else_there(self, stranger):
        with pytest.raises(StoreError, match="server"):
            load_study("x", stranger)


@pytest.fixture
def stranger():
    """A server that knows nothing of roundwise, and sends everybody elsewhere."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:9/")
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{other.server_port}"
        other.shutdown()
        thread.join()


def cut_once(monkeypatch, when):
    """Connections are lost once: before the request is sent, or after it was answered but before anybody read it."""
    left = [1]
    real = http.client.HTTPConnection.getresponse

    def lost(self):
        if left and self.sock is not None and when(self):
            left.pop()
            answer = real(self)
            answer.read()
            raise ConnectionResetError(104, "Connection reset by peer")
        return real(self)

    def request(self, method, url, *rest):
        self.asked = method, url
        return sent(self, method, url, *rest)

    sent = http.client.HTTPConnection.request
    monkeypatch.setattr(http.client.HTTPConnection, "request", request)
    monkeypatch.setattr(http.client.HTTPConnection, "getresponse", lost)
    monkeypatch.setattr(remote, "WAITS", (0.0, 0.0))
    return left


VERBS = {
    "files": lambda study: study.tell(FIRST),
    "ask": lambda study: study.ask(),
    "note": lambda study: study.note("once"),
    "end": lambda study: study.end("once"),
    "drop": lambda study: study.drop("red", "once"),
    "add": lambda study: study.add("grey"),
    "extend": lambda study: study.extend(70_000),
    "amend": lambda study: study.amend("data frame", None, "once"),
}


class TestLost:
    @pytest.mark.parametrize("verb", VERBS)
    def test_what_was_recorded_before_the_answer_was_lost_is_recorded_once(self, server_at, monkeypatch, verb):
        name = f"lost {verb}"
        study = create_study(name, question=BestArm(), arms=ARMS, noise=Binary(), budget=9000, storage=server_at)
        if verb in ("files", "amend"):
            study.ask()
        if verb == "amend":
            study.tell(FIRST)
        before = len(study.entries())
        kinds = {"files": "told", "drop": "dropped", "add": "added", "end": "closed", "note": "noted", "ask": "asked"}
        kind = kinds.get(verb, f"{verb}ed".replace("amended", "amended"))
        left = cut_once(monkeypatch, lambda connection: connection.asked[1].endswith(f"/{verb}"))
        VERBS[verb](study)
        assert not left  # the answer was lost
        assert [each.kind for each in study.entries()[before:]].count(kind) == 1

    def test_a_study_whose_creation_was_not_answered_is_there(self, server_at, monkeypatch):
        left = cut_once(monkeypatch, lambda connection: connection.asked == ("POST", "/api/v1/studies"))
        with create_study("lost", question=BestArm(), arms=ARMS, noise=Binary(), storage=server_at) as study:
            assert not left
            assert len(study.entries()) == 1

    def test_reading_is_tried_again(self, server_at, monkeypatch):
        create_study("read", question=BestArm(), arms=ARMS, noise=Binary(), storage=server_at)
        left = cut_once(monkeypatch, lambda connection: connection.asked[0] == "GET")
        assert load_study("read", server_at).report().study == "read"
        assert not left

    def test_a_connection_that_stays_lost_is_said(self, server_at, monkeypatch):
        study = create_study("gone", question=BestArm(), arms=ARMS, noise=Binary(), storage=server_at)
        monkeypatch.setattr(remote, "WAITS", (0.0,))

        def never(self):
            raise http.client.RemoteDisconnected("Remote end closed connection without response")

        monkeypatch.setattr(http.client.HTTPConnection, "getresponse", never)
        with pytest.raises(StoreError, match=r"All or nothing of this was recorded.*`study.status\(\)`, then repeat"):
            study.note("perhaps")

    @pytest.mark.long
    def test_a_server_that_is_killed_between_record_and_answer(self, tmp_path, monkeypatch):
        """The server is killed once the results are in its storage, and before it answers; another takes its place."""
        storage = f"sqlite:///{tmp_path}/studies.db"
        (tmp_path / "sitecustomize.py").write_text(
            "import os, signal\n"
            "if os.environ.get('DIES'):\n"
            "    import roundwise.store.database as database\n"
            "    real = database.Store.append\n"
            "    def append(self, name, new, *rest, **words):\n"
            "        found = real(self, name, new, *rest, **words)\n"
            "        if any(kind == 'told' for kind, _ in new):\n"
            "            os.kill(os.getpid(), signal.SIGKILL)\n"
            "        return found\n"
            "    database.Store.append = append\n"
        )
        path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
        back = threading.Event()  # nothing here depends on the clock: the client tries again when the other is up
        monkeypatch.setattr(remote, "time", SimpleNamespace(sleep=lambda _: back.wait(300)))
        with serving.process(storage, PYTHONPATH=path, DIES="1") as (first, url):
            study = create_study("killed", question=BestArm(), arms=ARMS, noise=Binary(), storage=url)
            study.ask()
            failed = []

            def tell():
                try:
                    study.tell(FIRST)
                except Exception as error:
                    failed.append(error)

            thread = threading.Thread(target=tell)
            thread.start()
            assert first.wait(300) == -signal.SIGKILL
            with serving.process(storage, port=urlsplit(url).port):
                back.set()
                thread.join(300)
                assert failed == []
                assert [each.kind for each in study.entries()].count("told") == 1
                assert study.status().results == 90


class TestTogether:
    def test_two_who_tell_at_once(self, server_at, tmp_path):
        """One round is recorded, and one clear message."""
        create_study("two", question=BestArm(), arms=ARMS, noise=Binary(), storage=server_at).ask()
        said, ready = [], threading.Barrier(2)

        def tell(successes):
            study = load_study("two", server_at)
            ready.wait()
            try:
                said.append(study.tell({"arm": ARMS, "count": [30] * 3, "successes": successes}).rounds)
            except StudyStateError as error:
                said.append(str(error))

        threads = [threading.Thread(target=tell, args=(each,)) for each in ([15, 16, 14], [14, 15, 16])]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        number, sentence = sorted(said, key=str)
        assert number == 1
        assert sentence.startswith("No round is open: round 1 is complete.")
        assert [each.kind for each in load_study("two", server_at).entries()].count("told") == 1

    def test_what_was_seen_must_still_be_so(self, both):
        for storage in both:
            with create_study("seen", question=BestArm(), arms=ARMS, noise=Binary(), storage=storage) as study:
                study.ask()
                study.expected = study.store.head("seen").digest
                load_study("seen", storage).note("meanwhile")
                with pytest.raises(ConflictError, match="'noted'"):
                    study.tell(FIRST)
                with pytest.raises(ConflictError):
                    study.remove()
                study.expected = study.store.head("seen").digest
                study.tell(FIRST)
                assert study.status().results == 90


@pytest.fixture
def guarded(tmp_path):
    """The address of a server that asks for tokens."""
    tokens = "\n".join(f"{role}={token}" for role, token in serving.TOKENS.items())
    with serving.serving(f"sqlite:///{tmp_path}/studies.db", tokens) as (url, _):
        yield url


class TestTokens:
    def test_each_may_do_what_it_may(self, guarded, monkeypatch, tmp_path):
        monkeypatch.delenv("ROUNDWISE_TOKEN_FILE", raising=False)
        monkeypatch.setenv("ROUNDWISE_USER", "ada")
        monkeypatch.delenv("ROUNDWISE_TOKEN", raising=False)
        with pytest.raises(InputError, match="Send a token.*ROUNDWISE_TOKEN"):
            list_studies(guarded)
        monkeypatch.setenv("ROUNDWISE_TOKEN", "wrong-0123456789abcdef")
        with pytest.raises(InputError, match="Send a token"):
            list_studies(guarded)
        monkeypatch.setenv("ROUNDWISE_TOKEN", serving.TOKENS["upload"])
        with pytest.raises(InputError, match="token"):
            create_study("mine", question=BestArm(), arms=ARMS, noise=Binary(), storage=guarded)
        monkeypatch.delenv("ROUNDWISE_TOKEN")
        (tmp_path / "token").write_text(serving.TOKENS["manage"] + "\n")
        monkeypatch.setenv("ROUNDWISE_TOKEN_FILE", str(tmp_path / "token"))
        create_study("mine", question=BestArm(), arms=ARMS, noise=Binary(), storage=guarded)
        monkeypatch.setenv("ROUNDWISE_TOKEN", serving.TOKENS["upload"])
        study = load_study("mine", guarded)
        study.ask()
        study.tell(FIRST)
        assert [each.by for each in study.entries()][:2] == ["ada (manage)", "ada (upload)"]
        for verb in ("end", "drop", "extend"):
            with pytest.raises(InputError, match="yours may upload"):
                VERBS[verb](study)
        monkeypatch.setenv("ROUNDWISE_TOKEN", serving.TOKENS["view"])
        assert load_study("mine", guarded).report().results == 90
        for verb in ("ask", "note", "files"):
            with pytest.raises(InputError, match="token"):
                VERBS[verb](study)
        monkeypatch.setenv("ROUNDWISE_TOKEN", "line\nend-0123456789")
        with pytest.raises(InputError, match="token") as error:
            list_studies(guarded)
        assert "0123456789" not in str(error.value)


class TestCommandLine:
    @pytest.fixture
    def roundwise(self, roundwise):
        def call(*words):
            code, out, err = roundwise(*words)
            dates = r"\d+ [A-Z][a-z]{2} 20\d\d[0-9:, ]*(UTC)?|20\d\d-[0-9:. +-]*|[0-9a-f]{64}"
            return code, re.sub(dates, "", out), err

        return call

    @pytest.mark.long
    def test_every_command_prints_the_same(self, both, roundwise, tmp_path, monkeypatch):
        monkeypatch.setattr("roundwise.study.study.secrets.randbits", lambda _: 5)
        rows = [(arm, int(i % 7 < 4)) for i in range(40) for arm in ("red", "green")]
        table(tmp_path / "1.csv", *rows)
        table(tmp_path / "2.csv", *rows[::-1])
        commands = [
            ("new", "shop", "--question", "best-arm", "--arms", "red,green", "--binary", "--budget", "900"),
            ("tell", "shop", "1.csv"),
            ("ask", "shop", "--out", "round.csv"),
            ("tell", "shop", "1.csv"),
            ("tell", "shop", "1.csv"),
            ("status", "shop"),
            ("extend", "shop", "--budget", "1000", "--yes"),
            ("drop", "shop", "green", "--why", "dear", "--yes"),
            ("add", "shop", "blue", "--why", "new", "--yes"),
            ("note", "shop", "a remark"),
            ("amend", "shop", "1.csv", "--with", "2.csv", "--why", "wrong file"),
            ("ask", "shop"),
            ("close", "shop", "--why", "enough", "--yes"),
            ("reopen", "shop", "--why", "more", "--yes"),
            ("report", "shop"),
            ("report", "shop", "--out", "report.md"),
            ("log", "shop"),
            ("verify", "shop"),
            ("export", "shop", "--out", "shop.jsonl"),
            ("remove", "shop", "--yes"),
            ("list",),
            ("status", "shpo"),
        ]
        codes = set()
        for words in commands:
            said = []
            for storage in both:  # not by an option, which the commands in messages would repeat
                monkeypatch.setenv("ROUNDWISE_STORAGE", storage)
                said.append(roundwise(*words))
            mine, theirs = said
            if words == ("list",):
                theirs = (theirs[0], "\n".join(each for each in theirs[1].split("\n") if "shop" in each), theirs[2])
                mine = (mine[0], "\n".join(each for each in mine[1].split("\n") if "shop" in each), mine[2])
                mine, theirs = ((code, out.split(), err) for code, out, err in (mine, theirs))
            if words[:2] == ("status", "shpo"):
                assert "There is no study called 'shpo'. Did you mean 'shop'?" in mine[2]
            assert theirs == mine, words
            codes.add(mine[0])
        assert codes == {0, 2}
