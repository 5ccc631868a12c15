"""What every store owes, on SQLite and on a real PostgreSQL server; versions; messages."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import postgres
import roundwise
from roundwise import DataError, InputError
from roundwise.errors import ConflictError, DamagedError, StoreError, StudyExistsError, UnknownStudyError
from roundwise.store import check_chain, database, log_lines, open_store, read_log, write_log
from roundwise.store.log import Head, chain_entries, encode_payload


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """A storage URL under which there is nothing yet."""
    return f"sqlite:///{tmp_path}/studies.db" if request.param == "sqlite" else postgres.server().fresh()


@pytest.fixture
def store(url):
    with open_store(url) as store:
        yield store


HISTORY = [
    ("created", {"arms": ["a", "b"]}),
    ("asked", {"pulls": [5, 5]}),
    ("told", {"file": "1.csv", "totals": [1.5, 2]}),
    ("asked", {"pulls": [9, 1]}),
    ("told", {"file": "2.csv", "totals": [3.25, 0]}),
]


@pytest.fixture
def study(store):
    """The store with a study of five entries, called 'checkout'."""
    store.create("checkout", HISTORY[0][1])
    store.append("checkout", HISTORY[1:], 0)
    return store


@pytest.fixture
def log():
    """The entries of such a study, without a store."""
    return chain_entries(
        "checkout", Head(), [(kind, encode_payload(payload)) for kind, payload in HISTORY], datetime.now(UTC)
    )


def sql(url, *statements):
    """Run statements past roundwise."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.close()
    else:
        name = url.rpartition("%3D")[2]
        postgres.server().sql(f"set search_path to {name}; " + "; ".join(statements))


def clock(*times):
    """A clock that says these times, one after the other."""
    left = iter(times)

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return next(left).astimezone(tz)

    return Clock


class TestLog:
    def test_what_was_recorded_is_read(self, store, monkeypatch):
        monkeypatch.setenv("ROUNDWISE_USER", "Zoë")
        now = datetime(2026, 5, 4, 9, 13, tzinfo=UTC)
        monkeypatch.setattr(database, "datetime", clock(now, now + timedelta(hours=1)))
        first = store.create("checkout", {"arms": ["a", "b"]})
        second, third = store.append("checkout", [("asked", {"pulls": [5, 5]}), ("told", {"x": 0.1})], expected=0)
        assert store.read("checkout") == [first, second, third]
        assert [entry.seq for entry in (first, second, third)] == [0, 1, 2]
        assert [entry.kind for entry in (first, second, third)] == ["created", "asked", "told"]
        assert (first.payload, third.payload) == ({"arms": ["a", "b"]}, {"x": 0.1})
        assert (first.study, first.by, first.version) == ("checkout", "Zoë", roundwise.__version__)
        assert (first.at, second.at, third.at) == (now, now + timedelta(hours=1), now + timedelta(hours=1))
        check_chain(store.read("checkout"))

    def test_it_is_there_after_closing(self, url):
        with open_store(url) as store:
            store.create("checkout", {})
            (told,) = store.append("checkout", [("told", {"x": 1})], 0)
        with open_store(url, create=False) as store:
            assert store.read("checkout")[1] == told
            assert store.read("checkout", after=0) == [told]
            assert store.read("checkout", after=1) == []

    def test_after_an_entry_that_is_not_there(self, study):
        with pytest.raises(InputError, match="Study 'checkout' has no entry 5; its last is 4"):
            study.read("checkout", after=5)

    def test_order_of_keys_is_kept(self, store):
        store.create("checkout", {"z": 1, "a": {"y": 2, "b": 3}})
        assert store.read("checkout")[0].text == '{"z":1,"a":{"y":2,"b":3}}'

    @pytest.mark.long
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.dictionaries(
            st.text(),
            st.recursive(
                st.none()
                | st.booleans()
                | st.integers()
                | st.floats(allow_nan=False, allow_infinity=False)
                | st.text(),
                lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
                max_leaves=10,
            ),
        )
    )
    def test_any_json_comes_back_as_it_was(self, store, payload):
        names = [each.name for each in store.studies()]
        name = f"study {len(names)}"
        store.create(name, payload)
        assert store.read(name)[0].payload == payload

    def test_letters_that_databases_dislike(self, store, tmp_path):
        for text in ["\x00", "\ud800", "\u2028", "😀", '", "payload": {}', "\\", "''"]:
            name = f"study {len(store.studies())}"
            store.create(name, {text: [text]})
            (entry,) = store.read(name)
            assert entry.payload == {text: [text]}
            write_log(tmp_path / "log", [entry])
            assert read_log(tmp_path / "log") == [entry]

    def test_what_is_not_json_is_refused_and_nothing_is_recorded(self, study):
        itself = {}
        itself["me"] = itself
        for value in [float("nan"), float("inf"), {1, 2}, np.int64(3), np.zeros(2), b"x", object(), itself]:
            with pytest.raises(InputError, match="numbers"):
                study.append("checkout", [("asked", {}), ("told", {"x": [value]})], 4)
        assert len(study.read("checkout")) == 5

    @pytest.mark.long
    def test_twenty_megabytes(self, store):
        arms = {"arms": [f"arm number {i}" for i in range(100_000)], "text": "x" * 18_500_000}
        store.create("large", arms)
        store.append("large", [("asked", arms), ("told", {})], 0)
        entries = store.read("large")
        assert len(entries[1].text) > 20_000_000
        assert entries[0].text == entries[1].text
        assert entries[1].payload == arms

    def test_nothing_new_is_nothing(self, study):
        assert study.append("checkout", [], 4) == []
        assert len(study.read("checkout")) == 5


class TestNames:
    def test_taken(self, study):
        with pytest.raises(StudyExistsError, match="already a study called 'checkout' in .*Nothing was changed"):
            study.create("checkout", {"other": 1})
        assert study.read("checkout")[0].payload == {"arms": ["a", "b"]}

    def test_unknown(self, study):
        with pytest.raises(UnknownStudyError, match=r"'chekout'.*'checkout'"):
            study.read("chekout")
        with pytest.raises(UnknownStudyError, match="Did you mean 'checkout'?"):
            study.append("checkout2", [("told", {})], 0)

    def test_unknown_in_an_empty_store(self, store):
        with pytest.raises(UnknownStudyError, match="create_study"):
            store.read("checkout")

    def test_impossible(self, store):
        for name in ["", " a", "a\n", "a\x00b", "\ud800", "x" * 201]:
            with pytest.raises(InputError, match="A study cannot be called .* 1 to 200 printable letters"):
                store.create(name, {})
        assert store.studies() == []

    def test_possible(self, store):
        names = [
            "a",
            "Größe & Preis",
            "x/y",
            "'; drop table roundwise_study; --",
            "%s",
            "%(a)s",
            ":a",
            "日本語",
            "x" * 200,
        ]
        for name in names:
            store.create(name, {})
            assert store.read(name)[0].study == name
        assert [each.name for each in store.studies()] == sorted(names)

    def test_list(self, study):
        study.create("a", {})
        first, second = study.studies()
        entries = study.read("checkout")
        assert (first.name, first.entries, first.created) == ("a", 1, first.changed)
        assert (second.name, second.entries) == ("checkout", 5)
        assert (second.created, second.changed) == (entries[0].at, entries[-1].at)


class TestConflict:
    def test_the_second_writer_is_refused(self, url, study, monkeypatch):
        monkeypatch.setenv("ROUNDWISE_USER", "ann")
        with open_store(url) as other:
            other.append("checkout", [("told", {"x": 1})], 4)
        before = study.read("checkout")
        with pytest.raises(
            ConflictError,
            match="moved",
        ):
            study.append("checkout", [("told", {"x": 2})], 4)
        assert study.read("checkout") == before

    def test_ahead_of_the_log(self, study):
        with pytest.raises(ConflictError, match="Study 'checkout' ends with entry 4, not 7"):
            study.append("checkout", [("told", {})], 7)

    def test_threads_share_a_store(self, study):
        def tell(who):
            for i in range(10):
                while True:
                    last = study.read("checkout")[-1].seq
                    try:
                        study.append("checkout", [("one", {"who": who, "i": i}), ("two", {"who": who, "i": i})], last)
                        break
                    except ConflictError:
                        pass

        threads = [threading.Thread(target=tell, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told = study.read("checkout", after=4)
        assert len(told) == 80
        assert all(one.payload == two.payload for one, two in zip(told[::2], told[1::2], strict=True))
        assert len({(one.payload["who"], one.payload["i"]) for one in told[::2]}) == 40


class TestClock:
    def test_a_clock_that_goes_back_stands_still(self, study, monkeypatch):
        last = study.read("checkout")[-1]
        tomorrow = last.at + timedelta(days=1)
        monkeypatch.setattr(database, "datetime", clock(last.at - timedelta(days=1), tomorrow))
        (told,) = study.append("checkout", [("told", {})], 4)
        assert told.at == last.at
        (later,) = study.append("checkout", [("told", {})], 5)
        times = [entry.at for entry in study.read("checkout")]
        assert times == sorted(times)
        assert later.at == tomorrow
        assert study.studies()[0].changed == later.at


class TestReadersAndWriters:
    def test_a_writer_does_not_block_readers(self, url, study):
        before = study.read("checkout")
        with open_store(url) as other, other.reached().writing() as connection:
            number, _ = other._head(connection, "checkout", lock=True)
            connection.execute(database.STUDY.update().where(database.STUDY.c.id == number).values(entries=99))
            with open_store(url) as reader:  # opening is reading, too
                assert reader.read("checkout") == before
                assert reader.studies()[0].entries == 5

    def test_readers_do_not_block_a_writer(self, url, study):
        with open_store(url) as other, other.reached().reading() as connection:
            assert other._head(connection, "checkout")[1].entries == 5
            study.append("checkout", [("told", {})], 4)
            study.create("new", {})
            assert other._head(connection, "checkout")[1].entries == 5  # one moment, to its end
        assert len(study.read("checkout")) == 6

    def test_a_writer_waits_for_another_but_not_for_ever(self, url, study, monkeypatch):
        monkeypatch.setattr(database, "PATIENCE", 1)
        study.close()  # connections are opened with it
        with open_store(url) as other, study.reached().writing() as connection:
            study._head(connection, "checkout", lock=True)
            with pytest.raises(StoreError, match="being written by another process .* Nothing was changed; repeat"):
                other.append("checkout", [("told", {})], 4)


EDITS = {
    "payload": ("update roundwise_entry set payload = '{\"pulls\":[9,2]}' where seq = 3", "entry 3 .'asked'.* is not"),
    "kind": (
        "update roundwise_entry set kind = 'amended' where seq = 2",
        "entry 2 .'amended'.* is not what was recorded",
    ),
    "who": ("update roundwise_entry set recorded_by = 'nobody' where seq = 0", "entry 0 .* is not what was recorded"),
    "time": (
        "update roundwise_entry set recorded_at = '2020-01-01T00:00:00.000000+00:00' where seq = 1",
        "entry 1 .* is",
    ),
    "no time": ("update roundwise_entry set recorded_at = 'soon' where seq = 1", "entry 1 cannot be read"),
    "version": ("update roundwise_entry set version = '9' where seq = 4", "entry 4 .* is not what was recorded"),
    "digest": ("update roundwise_entry set digest = '' where seq = 1", "entry 1 .* is not what was recorded"),
    "one lost": ("delete from roundwise_entry where seq = 2", "entry 2 is missing .entry 3 is in its place"),
    "first lost": ("delete from roundwise_entry where seq = 0", "entry 0 is missing"),
    "last lost": ("delete from roundwise_entry where seq = 4", "should end with entry 4, .* entry 3"),
    "all lost": ("delete from roundwise_entry", "should end with entry 4"),
    "count": ("update roundwise_study set entries = 4", "should end with entry 3, .* entry 4"),
    "end": ("update roundwise_study set digest = ''", "should end with entry 4"),
    "renamed": ("update roundwise_study set name = 'checkout2'", "study 'checkout2' was changed: entry 0"),
}


@pytest.mark.long
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_log_is_noticed_and_the_first_wrong_entry_named(url, study, edit):
    statement, message = EDITS[edit]
    sql(url, statement)
    with pytest.raises(DamagedError, match=f"(?s){message}.*import_study"):
        study.read("checkout2" if edit == "renamed" else "checkout")


class TestFiles:
    def test_export_and_import_into_the_other_kind_of_store(self, url, study, tmp_path):
        write_log(tmp_path / "checkout.jsonl", study.read("checkout"))
        entries = read_log(tmp_path / "checkout.jsonl")
        assert entries == study.read("checkout")
        elsewhere = postgres.server().fresh() if url.startswith("sqlite") else f"sqlite:///{tmp_path}/other.db"
        with open_store(elsewhere) as other:
            listing = other.put(entries)
            assert [listing] == other.studies() == study.studies()
            assert other.read("checkout") == entries
            other.append("checkout", [("told", {})], 4)
            with pytest.raises(StudyExistsError, match="already a study called 'checkout'"):
                other.put(entries)
        assert sorted(path.suffix for path in tmp_path.glob("checkout*")) == [".jsonl"]

    def test_the_file_is_json_lines(self, log):
        first, *rest = map(json.loads, log_lines(log))
        assert first == {"roundwise": "log", "format": 1, "study": "checkout", "entries": 5}
        assert list(rest[2]) == ["seq", "kind", "at", "by", "version", "digest", "payload"]
        assert rest[2]["payload"] == {"file": "1.csv", "totals": [1.5, 2]}

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda text: text.replace("9,1", "9,2"), "entry 3 .* is not what was recorded"),
            (lambda text: text.replace('"checkout"', '"other"'), "entry 0 .* is not what was recorded"),
            (lambda text: "".join(text.splitlines(True)[:-1]), "holds 4 entries of study 'checkout', .* announces 5"),
            (lambda text: "".join(text.splitlines(True)[:2] + text.splitlines(True)[3:]), "holds 4 entries"),
            (lambda text: text[:-20], "log.jsonl.*line 6"),
            (lambda text: text + "\n", "line 7"),
            (lambda text: text.replace('"seq": 2', '"seq": "2"'), "line 4"),
            (lambda text: text.replace('"kind": "told"', '"kind": "to\\u0000ld"'), "line 4"),
            (lambda text: text.replace('{"pulls":[5,5]}', "[" * 100_000), "line 3"),
            (lambda text: text.partition("\n")[2], "line 1"),
            (lambda text: "arm,outcome\na,1\n", "line 1"),
            (lambda text: "", "line 1"),
            (lambda text: text.replace('"format": 1', '"format": 2'), "has format 2, .* reads 1. Upgrade"),
        ],
    )
    def test_a_file_that_was_changed(self, log, tmp_path, change, message):
        path = tmp_path / "log.jsonl"
        write_log(path, log)
        path.write_text(change(path.read_text()))
        with pytest.raises(DataError, match=message):
            read_log(path)

    def test_a_file_that_passed_through_windows(self, log, tmp_path):
        path = tmp_path / "log.jsonl"
        write_log(path, log)
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
        assert read_log(path) == log

    def test_a_binary_file_no_file_and_no_place(self, log, tmp_path):
        path = tmp_path / "log.jsonl"
        path.write_bytes(bytes(range(256)))
        with pytest.raises(DataError, match=r"log.jsonl.*export_study"):
            read_log(path)
        with pytest.raises(InputError, match=r"none.jsonl"):
            read_log(tmp_path / "none.jsonl")
        with pytest.raises(InputError, match=r"x.jsonl"):
            write_log(tmp_path / "none" / "x.jsonl", log)

    def test_logs_that_are_none(self, study):
        entries = study.read("checkout")
        with pytest.raises(InputError, match="without entries"):
            study.put([])
        with pytest.raises(DamagedError, match="entry 0 is missing"):
            study.put(entries[1:])


class TestLinks:
    def test_it_goes_with_its_study(self, url):
        with open_store(url) as store:
            store.create("checkout", {})
            store.make_link("checkout")
            store.remove("checkout", 0)
            store.create("checkout", {})
            assert store.link("checkout") is None


class TestVersions:
    def test_a_newer_store_is_refused(self, url):
        with open_store(url) as store:
            store.create("checkout", {})
        sql(url, "update roundwise_schema set version = 5")
        with pytest.raises(DataError, match="version"):
            open_store(url)

    @pytest.mark.parametrize("change", ["update roundwise_schema set version = 0", "delete from roundwise_schema"])
    def test_a_store_without_a_version(self, url, store, change):
        sql(url, change)
        with pytest.raises(DamagedError, match="version"):
            open_store(url)

    def test_a_store_without_its_tables(self, url, store):
        sql(url, *(f"drop table roundwise_{each}" for each in ("link", "key", "entry", "study")))
        with pytest.raises(DamagedError, match="is damaged|does not hold the tables of roundwise"):
            store.studies()


class TestOpening:
    def test_where_nothing_is_and_nothing_may_be_made(self, url, tmp_path):
        with pytest.raises(InputError, match="storage"):
            open_store(url, create=False)
        assert list(tmp_path.iterdir()) == []

    def test_the_default(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("ROUNDWISE_STORAGE", raising=False)
        with open_store() as store:
            store.create("checkout", {})
            monkeypatch.chdir("/")  # the file stays where it was opened
            assert len(store.read("checkout")) == 1
        monkeypatch.setenv("ROUNDWISE_STORAGE", f"sqlite:///{tmp_path}/roundwise.db")
        with open_store(create=False) as store:
            assert len(store.studies()) == 1
        assert "roundwise.db" in repr(store)

    def test_an_empty_file_is_a_new_store(self, tmp_path):
        (tmp_path / "new.db").touch()
        with open_store(f"sqlite:///{tmp_path}/new.db") as store:
            store.create("checkout", {})

    def test_durable_settings(self, tmp_path):
        with (
            open_store(f"sqlite:///{tmp_path}/x.db") as store,
            store.reached().reading() as connection,
        ):
            found = {
                name: connection.exec_driver_sql(f"pragma {name}").scalar()
                for name in ("journal_mode", "synchronous", "fullfsync", "foreign_keys", "busy_timeout")
            }
        assert found == {
            "journal_mode": "wal",
            "synchronous": 2,
            "fullfsync": 1,
            "foreign_keys": 1,
            "busy_timeout": 10_000,
        }

    def test_commits_wait_for_the_disk_even_where_the_server_says_no(self):
        url = postgres.server().fresh().replace("options=", "options=-csynchronous_commit%3Doff%20")
        with open_store(url) as store:
            for transaction, expected in ((store.reached().reading, "off"), (store.reached().writing, "on")):
                with transaction() as connection:
                    assert connection.exec_driver_sql("show synchronous_commit").scalar() == expected

    def test_a_database_shared_with_other_programs(self):
        url = postgres.server().fresh()
        sql(url, "create table trials (id integer)")
        with open_store(url) as store:
            store.create("checkout", {})

    def test_a_store_forgotten_is_closed(self, url):
        open_store(url).create("checkout", {})  # a ResourceWarning would be an error

    def test_import_is_light(self):
        heavy = "[name for name in ('sqlalchemy', 'psycopg') if name in sys.modules]"
        code = f"import sys, roundwise.store; print({heavy})"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


class TestAddresses:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("studies.db", "'studies.db'.*roundwise.db"),
            ("mysql://me:geheim@host/db", "'mysql://'"),
            ("postgresql+psycopg2://me:geheim@host/db", "begins with 'postgresql.psycopg2://'"),
            ("postgresql://me:geheim@host:port/db", "is not a storage URL"),
            ("sqlite://", "names"),
            ("sqlite:///:memory:", "names no file"),
            ("sqlite:///x.db?mode=ro", "names no file"),
            ("sqlite://x.db", "names no file"),
            ("postgresql://me:geheim@host/db?port=geheim", "cannot be used: Received non-integer port"),
            ("postgresql://me:geheim@host/db?connect_timeout=soon", "cannot be used: invalid literal"),
        ],
    )
    def test_not_an_address(self, text, message):
        with pytest.raises(InputError, match=message) as caught:
            open_store(text)
        assert "geheim" not in str(caught.value)

    @pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
    def test_ways_to_write_postgresql(self, scheme):
        with open_store(postgres.server().fresh().replace("postgresql", scheme, 1)) as store:
            assert store.studies() == []

    def test_relative_paths(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "folder").mkdir()
        open_store("sqlite:///folder/x.db").close()
        assert (tmp_path / "folder" / "x.db").exists()
        with pytest.raises(InputError, match=r"x.db"):
            open_store("sqlite:///none/x.db")
        with pytest.raises(InputError, match=r"roundwise.db"):
            open_store("sqlite:///folder")

    @pytest.mark.long
    @pytest.mark.parametrize("there", [False, True])
    def test_a_folder_that_may_not_be_written(self, there):
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            url = f"sqlite:///{folder}/x.db"
            if there:
                with open_store(url) as store:
                    store.create("checkout", {})
            os.chmod(folder, 0o555)
            code = f"""
import os, tempfile
from roundwise.errors import StoreError
from roundwise.store import open_store
with tempfile.TemporaryDirectory() as elsewhere:  # imports all it needs
    open_store(f"sqlite:///{{elsewhere}}/x.db").close()
if os.geteuid() == 0:
    os.setuid(65534)  # root may write everywhere
try:
    with open_store({url!r}) as store:
        store.append("checkout", [("told", {{}})], 0)
except StoreError as error:
    print(error)
"""
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/")
            os.chmod(folder, 0o755)
        assert done.stderr == ""
        wanted = "cannot be opened for writing. Give yourself the right" if there else "cannot be created: you may not"
        assert wanted in done.stdout

    @pytest.mark.parametrize("rows", [1, 1000])
    def test_not_a_database(self, tmp_path, rows):
        path = tmp_path / "results.csv"
        path.write_text("a,1\n" * rows)
        with pytest.raises(DataError, match=r"results.csv"):
            open_store(f"sqlite:///{path}")
        assert path.read_text() == "a,1\n" * rows

    def test_the_database_of_another_program_is_not_touched(self, tmp_path):
        path = tmp_path / "optuna.db"
        sql(f"sqlite:///{path}", "create table trials (id integer)")
        before = path.read_bytes()
        with pytest.raises(DataError, match=r"optuna.db.*'trials'"):
            open_store(f"sqlite:///{path}")
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize(
        ("address", "message"),
        [
            ("postgresql://me:geheim@127.0.0.1:1/db", r"postgresql://me@127.0.0.1:1/db cannot be reached \(.*refused"),
            (
                "postgresql://me:geheim@no-host.invalid/db",
                "server",
            ),
            ("postgresql://me:geheim@/db?host={folder}", 'cannot be reached .*role "me" does not exist'),
            ("postgresql://postgres:geheim@/none?host={folder}", "database"),
            ("postgresql://postgres@/db?host={folder}/none&password=geheim", "file"),
        ],
    )
    def test_a_server_that_does_not_let_us_in(self, address, message):
        with pytest.raises(StoreError, match=f"(?s){message}") as caught:
            open_store(address.format(folder=postgres.server().folder))
        assert "geheim" not in str(caught.value)
        assert "geheim" not in repr(caught.value.__cause__)
        assert "\n" not in str(caught.value)

    def test_a_user_without_rights(self):
        server = postgres.server()
        server.sql("drop role if exists guest; create role guest login password 'geheim'")
        with pytest.raises(StoreError, match="permission"):
            open_store(f"postgresql://guest:geheim@/postgres?host={server.folder}")

    def test_a_server_that_takes_no_writes(self):
        url = postgres.server().fresh()
        open_store(url).close()
        with open_store(url.replace("options=", "options=-cdefault_transaction_read_only%3Don%20")) as store:
            with pytest.raises(StoreError, match="primary"):
                store.create("checkout", {})
            assert store.studies() == []


@pytest.mark.long
def test_the_server_of_the_tests_ends_with_them():
    code = """
import os, signal, postgres
server = postgres.server()
print(server.pid(), server.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parent)
    pid, folder = done.stdout.split()
    for _ in range(10_000):
        if not Path(folder).exists() and not Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.05)
    assert not Path(folder).exists()
    assert not Path(f"/proc/{pid}").exists()


class TestCheckpoints:
    """What makes reading cheap: the last entry that holds all of the state, and what entries can be found by."""

    def test_a_study_is_read_from_its_last_checkpoint_on(self, store):
        store.create("s", {"x": 0})
        assert store.recent("s") == store.read("s")
        store.append("s", [("told", {"x": 1}), ("checkpoint", {"x": 2}), ("asked", {"x": 3})], 0)
        store.append("s", [("told", {"x": 4}), ("checkpoint", {"x": 5})], 3)
        store.append("s", [("noted", {"x": 6})], 5)
        assert [entry.seq for entry in store.recent("s")] == [0, 5, 6]
        assert store.recent("s") == [each for each in store.read("s") if each.seq in (0, 5, 6)]

    def test_a_log_that_is_taken_in_has_its_checkpoint(self, store):
        store.create("s", {})
        store.append("s", [("checkpoint", {}), ("asked", {})], 0)
        entries = store.read("s")
        store.remove("s", 2)
        assert store.studies() == []
        store.put(entries)
        assert [entry.seq for entry in store.recent("s")] == [0, 1, 2]

    def test_what_is_read_is_checked(self, url, store):
        store.create("s", {})
        store.append("s", [("told", {"x": 1}), ("checkpoint", {"x": 1}), ("asked", {"x": 1})], 0)
        sql(url, "update roundwise_entry set payload = '{}' where seq = 1")
        store.recent("s")  # what stands before the checkpoint is not read
        with pytest.raises(DamagedError, match="entry 1 "):
            store.read("s")
        sql(url, "update roundwise_entry set payload = '{}' where seq = 3")
        with pytest.raises(DamagedError, match="entry 3 "):
            store.recent("s")
        sql(url, "update roundwise_entry set payload = '{\"x\":1}' where seq = 0")
        with pytest.raises(DamagedError, match="entry 0 "):
            store.recent("s")

    def test_entries_are_found_by_file_and_request(self, store):
        store.create("s", {})
        told = [("told", {"results": {"digest": name}, "key": f"k{name}"}) for name in "abab"]
        store.append("s", [*told, ("amended", {"results": None}), ("told", {"results": {"digest": "c"}})], 0)
        assert [entry.seq for entry in store.find("s", "file a")] == [1, 3]
        assert [entry.seq for entry in store.find("s", "request kb")] == [2, 4]
        assert [entry.seq for entry in store.find("s", "file c")] == [6]
        assert store.find("s", "file d") == []

    def test_a_study_is_removed_only_where_it_was_seen(self, store):
        store.create("s", {})
        store.append("s", [("told", {"results": {"digest": "a"}})], 0)
        with pytest.raises(ConflictError):
            store.remove("s", 0)
        assert len(store.read("s")) == 2
        store.remove("s", 1)
        with pytest.raises(UnknownStudyError):
            store.read("s")
        store.create("s", {"again": 1})
        assert store.find("s", "file a") == []

    def test_overviews(self, store):
        store.create("s", {})
        assert store.studies()[0].overview == {}
        store.append("s", [("told", {})], 0, overview={"state": "open"})
        store.append("s", [("told", {})], 1)
        assert store.studies()[0].overview == {"state": "open"}
