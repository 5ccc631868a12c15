"""What commands print and write: nothing steers a terminal, no file is lost, what is recorded is said to be."""

import csv
import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

import commands
import roundwise
from roundwise import (
    BestArm,
    Binary,
    InputError,
    Statements,
    Study,
    _start,
    create_study,
    export_study,
    import_study,
    list_studies,
    load_study,
    study_log,
    verify_study,
)
from roundwise.cli import loaded, main
from roundwise.cli.output import check_output, record_name, write_file
from roundwise.errors import StoreError
from roundwise.messages import visible
from roundwise.report.export import MARK
from roundwise.store.database import parse_url, translate_errors

GRID = """
runs = 5
[[question]]
name = "best-arm"
[[instance]]
means = [1.0, 0.0]
[[policy]]
name = "pet"
"""
ESCAPE = "\x1b]0;owned\x07\x1b[31mred\x1b[0m\u202e"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a study that was asked and half told."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROUNDWISE_STORAGE", raising=False)
    with create_study(
        "checkout", question=BestArm(), arms=["red", "green"], noise=Binary(), budget=500, seed=1
    ) as study:
        study.ask()
        (tmp_path / "first.csv").write_text("arm,count,successes\nred,30,10\n")
        study.tell(tmp_path / "first.csv")
    return tmp_path


def shell(here, *words):
    """A command there."""
    with chdir(here):
        return commands.shell(*words)


def process(here, *words, **changes):
    """A command in a process of its own."""
    env = {**os.environ, "PYTHONPATH": str(Path(roundwise.__file__).parents[1]), **changes.pop("env", {})}
    given = {"env": env, "cwd": here, "capture_output": "stdout" not in changes, "text": True, **changes}
    if "stdout" in given:
        given["stderr"] = subprocess.PIPE
    return subprocess.run([sys.executable, "-m", "roundwise", *map(str, words)], **given)


class TestScreens:
    def test_visible(self):
        assert visible(ESCAPE) == "\\x1b]0;owned\\x07\\x1b[31mred\\x1b[0m\\u202e"
        assert visible("Grüße, 東京 \N{SNOWMAN}\n\u00a0") == "Grüße, 東京 \N{SNOWMAN}\n\u00a0"
        assert visible("a\x9bb\x85\x00\t\r") == "a\\x9bb\\x85\\x00\\t\\r"
        assert len(visible("x" * 10_000_000, 200)) < 250

    @pytest.mark.parametrize("command", ["status", "log", "list"])
    def test_nothing_that_users_wrote_steers_a_terminal(self, here, command):
        with load_study("checkout") as study:
            study.tell({"arm": ["green"], "count": [3], "successes": [1], ESCAPE: ["x"]}, round_over=ESCAPE)
            study.end(ESCAPE * 100)
        found = shell(here, command, *([] if command == "list" else ["checkout"]))
        assert (found.returncode, found.stderr) == (0, "")
        assert not set("\x1b\x07\u202e") & set(found.stdout)
        assert command == "list" or "\\x1b]0;owned" in found.stdout
        with load_study("checkout") as study:
            report = study.report()
        for form in (report.text(), report.markdown(), report.html(), report._repr_html_(), report.csv("files")):
            assert not set("\x1b\x07\u202e") & set(form)

    def test_nor_do_errors(self, here):
        (here / "bad.csv").write_text(f"arm,count,successes\n{ESCAPE}{'y' * 100_000},3,1\n")
        found = shell(here, "tell", "checkout", "bad.csv")
        assert (found.returncode, found.stdout) == (2, "")
        assert not set("\x1b\x07\u202e") & set(found.stderr)
        assert len(found.stderr) < 3000
        assert shell(here, "tell", f"x{ESCAPE}", "bad.csv").returncode == 2


class TestOutputThatCannotBePrinted:
    """What is recorded is recorded: exit code 2 would say that nothing was changed."""

    def told(self, here):
        (here / "second.csv").write_text("arm,count,successes\ngreen,30,20\n")
        return ("tell", "checkout", "second.csv")

    @pytest.mark.long
    def test_full(self, here):
        with open("/dev/full", "w") as full:
            found = process(here, *self.told(here), stdout=full)
            assert (found.returncode, found.stderr) == (
                3,
                "roundwise: second.csv is recorded, but could not print (No space left on device).\n",
            )
            assert list_studies()[0]["results"] == 60
            found = process(here, "status", "checkout", stdout=full)
            assert (found.returncode, found.stderr) == (1, "roundwise: could not print (No space left on device).\n")
            assert process(here, "complexity", "-q", "best-arm", "--means", "1,0", stdout=full).returncode == 1

    @pytest.mark.long
    def test_closed(self, here):
        found = process(here, *self.told(here), preexec_fn=lambda: os.close(1), stdout=None)
        assert found.returncode == 3
        assert "second.csv is recorded, but could not print (it is closed)." in found.stderr
        assert list_studies()[0]["results"] == 60

    @pytest.mark.long
    def test_a_pipe_that_nobody_reads(self, here):
        read, write = os.pipe()
        os.close(read)
        found = process(here, *self.told(here), stdout=write)
        assert found.returncode == 3
        assert "second.csv is recorded, but could not print (Broken pipe)." in found.stderr
        found = process(here, "report", "checkout", stdout=write)
        assert (found.returncode, found.stderr) == (141, "")
        os.close(write)

    @pytest.mark.long
    def test_standard_error_that_is_full(self, here):
        with open("/dev/full", "w") as full:
            words = [sys.executable, "-m", "roundwise", "status", "nothing"]
            env = os.environ | {"PYTHONPATH": str(Path(roundwise.__file__).parents[1])}
            assert subprocess.run(words, cwd=here, env=env, stdout=subprocess.DEVNULL, stderr=full).returncode == 2

    @pytest.mark.long
    def test_few_letters(self, here):
        with create_study("größe", question=BestArm(), arms=["ä", "\N{SNOWMAN}"], noise=Binary()) as study:
            study.ask()
        found = process(here, "status", "größe", env={"PYTHONIOENCODING": "ascii"})
        assert found.returncode == 0
        assert "\\u2603" in found.stdout

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_interrupted(self, here, monkeypatch, capsys, when):
        """Quiet, unless something was recorded before."""

        def stop(*given, **words):
            raise KeyboardInterrupt

        monkeypatch.setattr(Study, "tell" if when == "before" else "_report", stop)
        monkeypatch.setattr(sys, "argv", ["roundwise", *self.told(here)])
        with pytest.raises(SystemExit) as end:
            main()
        said = "" if when == "before" else "roundwise: second.csv is recorded, but interrupted.\n"
        assert (end.value.code, *capsys.readouterr()) == (130, "", said)


class TestFiles:
    def test_what_is_not_a_plain_file_is_never_replaced(self, here):
        os.mkfifo(here / "fifo.html")
        (here / "target.html").write_text("mine")
        (here / "link.html").symlink_to("target.html")
        (here / "dangling.html").symlink_to("nothing.html")
        for name, kind in (("fifo.html", "a device or a pipe"), ("link.html", "a link"), ("dangling.html", "a link")):
            for words in (("report", "checkout"), ("export", "checkout"), ("ask", "checkout")):
                found = shell(here, *words, "--out", name)
                assert found.returncode == 2
                assert f"{name} is {kind}, not a plain file, and is not replaced." in found.stderr
        assert stat.S_ISFIFO((here / "fifo.html").lstat().st_mode)
        assert (here / "link.html").is_symlink()
        assert (here / "dangling.html").is_symlink()
        assert (here / "target.html").read_text() == "mine"
        with pytest.raises(InputError, match="pipe"):
            check_output(type(here)("/dev/null"))

    @pytest.mark.parametrize("name", ["results.csv", "results.json", "results.xlsx", "r.md", "page.html"])
    def test_a_file_of_the_users_is_not_replaced(self, here, name):
        import openpyxl

        book = openpyxl.Workbook()
        book.active.append(["arm", "outcome"])
        book.save(here / "results.xlsx")
        if not name.endswith("xlsx"):
            (here / name).write_text("arm,outcome\nred,1\n")
        before = (here / name).read_bytes()
        commands = [("report", "checkout")] + ([("ask", "checkout")] if name.endswith("csv") else [])
        for words in commands:
            found = shell(here, *words, "--out", name)
            assert found.returncode == 2
            assert f"{name} exists and is not as roundwise wrote it; it may hold results." in found.stderr
        assert (here / name).read_bytes() == before

    @pytest.mark.parametrize(
        ("name", "contents"),
        [
            ("asked.csv", "arm,remaining,successes\nred,10,4\n"),
            ("asked.csv", "arm,remaining\nred,10,4\n"),
            ("asked.csv", "arm,remaining\nred,4 of 10\n"),
            ("asked.csv", "arm;remaining\r\nred;10\r\n"),
            ("rounds.csv", "round,arm,asked,results,mean,counts,note\n1,red,5,5,.4,,ok\n"),
            ("mine.csv", "arm,outcome,experiment\nred,1,roundwise-1\n"),
            ("mine.txt", "results of roundwise\nred 1\n"),
            ("mine.json", '{"experiment": "roundwise", "rows": [["red", 1]]}'),
            ("r.md", "# What roundwise asked for\n| red | 1 |\n"),
        ],
    )
    def test_nor_one_of_ours_that_they_filled_in_nor_one_that_names_us(self, here, name, contents):
        (here / name).write_bytes(contents.encode())
        commands = [("report", "checkout")] + ([("ask", "checkout")] if name.endswith("csv") else [])
        for words in commands:
            found = shell(here, *words, "--out", name)
            assert (found.returncode, (here / name).read_bytes()) == (2, contents.encode())
            assert "exists and is not as roundwise wrote it" in found.stderr

    def test_nor_a_workbook_or_a_pdf_that_others_saved(self, here):
        import openpyxl

        assert shell(here, "report", "checkout", "--out", "r.xlsx").returncode == 0
        book = openpyxl.load_workbook(here / "r.xlsx")
        book.properties.lastModifiedBy = "Ada"
        book.save(here / "r.xlsx")
        (here / "r.pdf").write_bytes(b"%PDF-1.7\nmade by roundwise?\n%%EOF\n")
        for name in ("r.xlsx", "r.pdf"):
            with pytest.raises(InputError, match="not as roundwise wrote it"):
                check_output(here / name, theirs=False)
        (here / "r.pdf").write_bytes(b"%PDF-1.7\n%%EOF\n" + MARK)
        check_output(here / "r.pdf", theirs=False)

    @pytest.mark.parametrize("name", ["r.json", "r.txt"])
    def test_nor_does_a_plan_replace_results(self, here, name):
        words = ("plan", "--question", "best-arm", "--arms", "a,b", "--binary", "--baseline", "30%", "--runs", "20")
        for _ in range(2):
            assert shell(here, *words, "--out", f"plan.{name}").returncode == 0
        (here / name).write_text('[{"arm": "red", "outcome": 1}]')
        found = shell(here, *words, "--out", name)
        assert (found.returncode, (here / name).read_text()) == (2, '[{"arm": "red", "outcome": 1}]')

    @pytest.mark.parametrize("theirs", ["parquet", "csv"])
    def test_nor_do_simulations(self, here, theirs):
        duckdb = pytest.importorskip("duckdb")
        folder, rows = here / "out", "select 'red' as arm, 1 as outcome"
        folder.mkdir()
        once = ("simulate", "-q", "best-arm", "--means", "1,0", "--runs", 5, "--out", "out/runs.parquet")
        for _ in range(2):
            assert shell(here, *once).returncode == 0  # our own
        for words, names in (
            (once, ["runs.parquet"]),
            (("arena", "--runs", 1, "--out", "out"), ["arena.parquet", "arena.html"]),
            (("arena", "--runs", 1, "--out", "new", "--docs", "out"), ["arena.md"]),
        ):
            for name in names:
                path = folder / name
                duckdb.sql(f"copy ({rows}) to '{path}' (format {theirs})")
                before = path.read_bytes()
                found = shell(here, *words)
                assert (found.returncode, path.read_bytes()) == (2, before), name
                assert f"{name} exists and is not as roundwise wrote it" in found.stderr
                path.unlink()

    def test_nor_those_of_a_sweep(self, here):
        pytest.importorskip("duckdb")
        (here / "grid.toml").write_text(GRID)
        for _ in range(2):
            found = shell(here, "sweep", "grid.toml", "--out", "out")
            assert found.returncode == 0, found.stderr
        path = here / "out" / "summary.csv"
        whole = path.read_bytes().decode()
        for contents in ("arm,outcome\nred,1\n", whole.replace("caveat", "caveat,mine", 1), whole + "1,2\n"):
            path.write_bytes(contents.encode())
            found = shell(here, "sweep", "grid.toml", "--out", "out")
            assert (found.returncode, path.read_bytes()) == (2, contents.encode())
            assert "summary.csv exists and is not as roundwise wrote it" in found.stderr

    @pytest.mark.long
    def test_our_own_are(self, here):
        for name in ("r.html", "r.md", "r.json", "r.xlsx", "r.csv", "r.txt"):
            for _ in range(2):
                assert shell(here, "report", "checkout", "--out", name).returncode == 0, name
        for table in ("arms", "claims", "rounds", "files"):
            found = shell(here, "report", "checkout", "--out", "t.csv", "--table", table)
            assert found.returncode == 0, found.stderr
        for words in (("ask", "checkout", "--out", "b.csv"), ("export", "checkout")):
            for _ in range(2):
                assert shell(here, *words).returncode == 0
        assert not [path for path in here.iterdir() if path.name.endswith(".part")]

    def test_whole_or_not_at_all(self, here, monkeypatch):
        path = here / "r.txt"
        write_file(path, "before")
        path.chmod(0o640)
        monkeypatch.setattr(os, "fsync", lambda number: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(InputError, match="device"):
            write_file(path, "after")
        assert path.read_text() == "before"
        assert [each.name for each in here.iterdir() if "part" in each.name] == []
        monkeypatch.undo()
        write_file(path, "after")
        assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("after", 0o640)

    def test_names_do_not_leave_the_folder(self, here):
        inside = here / "inside"
        inside.mkdir()
        for name in ("../up", "/tmp/roundwise-elsewhere", "..", "a/b", "-rf"):
            with create_study(name, question=BestArm(), arms=["a", "b"], noise=Binary()):
                pass
            storage = ("--storage", f"sqlite:///{here}/roundwise.db")
            found = shell(inside, "export", *storage, "--", name)
            assert found.returncode == 0, found.stderr
        assert len(list(inside.iterdir())) == 5
        assert not (here / "up.jsonl").exists()
        assert record_name("con\x00/..\\x").name == "con__.._x.jsonl"

    def test_formulas_in_the_plan(self, here):
        with create_study("f", question=BestArm(), arms=["=cmd|' /C calc'!A0", "b"], noise=Binary()):
            pass
        assert shell(here, "ask", "f", "--out", "plan.csv").returncode == 0
        rows = list(csv.reader((here / "plan.csv").read_text().splitlines()))
        assert rows == [["arm", "remaining"], ["'=cmd|' /C calc'!A0", "30"], ["b", "30"]]


class TestPasswords:
    @pytest.mark.parametrize(
        ("url", "host", "password"),
        [
            ("postgresql://u:p@ss@host/db", "host", "p@ss"),
            ("postgresql://u:p@ss/w@host:5/db", "host", "p@ss/w"),
            ("postgresql://u:s@@@host/db", "host", "s@@"),
            ("postgresql://u:sec/ret@host/db", "host", "sec/ret"),
            ("postgresql://u:p%40ss@host/db", "host", "p@ss"),
            ("postgresql://u:pw@host/db?sslpassword=a@b", "host", "pw"),
            ("postgresql://u:p@ss@[::1]:5432/db", "::1", "p@ss"),
        ],
    )
    def test_raw_letters(self, url, host, password):
        found = parse_url(url)
        assert (found.url.host, found.url.password) == (host, password)
        assert not {"p@ss", "ss@", "s@@", "sec", "a@b"} & {
            part for part in (found.place, repr(found)) for part in [part]
        }
        assert "ss" not in found.place.replace("postgresql", "")
        assert "sec" not in found.place

    def test_on_the_screen(self, here):
        url = "postgresql://u:ge@heim/nis@127.0.0.1:9/db?connect_timeout=2"
        found = shell(here, "list", "--storage", url)
        assert found.returncode == 2
        assert "heim" not in found.stderr
        assert "nis" not in found.stderr


class TestListAndLog:
    def test_list(self, here):
        (found,) = json.loads(shell(here, "list", "--json").stdout)
        assert (found["name"], found["state"], found["answer_text"]) == ("checkout", "waiting", None)
        assert (found["results"], found["pending"], found["budget"]) == (0, 30, 500)
        assert found["waiting_since"] > found["created"][:10]
        out = shell(here, "list").stdout
        for words in ("waiting", "0 of 500", found["waiting_since"][:10]):
            assert words in out

    def test_a_study_that_cannot_be_read_does_not_hide_the_others(self, here):
        with create_study("other", question=BestArm(), arms=["a", "b"], noise=Binary()) as study:
            study.store.append("other", [("nonsense", {})], expected=0)
        found = {each["name"]: each for each in list_studies()}
        assert found["checkout"]["state"] == "waiting"
        out = shell(here, "log", "other").stdout
        assert "nonsense" in out

    def test_log(self, here):
        with load_study("checkout") as study:
            study.tell({"arm": ["green"], "count": [30], "successes": [2]})
            study.amend("first.csv", None, "not ours")
            study.end("enough")
            last = study.entries()[-1].digest
        found = study_log("checkout")
        kinds = [each.kind for each in found]
        assert [kind for kind in kinds if kind != "checkpoint"] == [
            "created",
            "asked",
            "told",
            "told",
            "amended",
            "closed",
        ]
        assert [(each.round, each.rows, each.results) for each in found][1:4] == [
            (1, None, 60),
            (1, 1, 30),
            (1, 1, 30),
        ]
        assert found[2].file.endswith("first.csv")
        assert any("withdrawn: not ours" in each.what for each in found)
        plain = json.loads(shell(here, "log", "checkout", "--json").stdout)
        assert plain["entries"] == [each.plain() for each in found]
        assert plain["guarantee"]["conditions"][0]["code"] == "amended"
        out = shell(here, "log", "checkout").stdout
        assert f"The record ends with {last}." in out
        assert "asked for 60 results" in out


class TestPython:
    def test_records(self, here):
        path = export_study("checkout", here / "x.jsonl")
        with import_study(path, storage="sqlite:///copy.db") as study:
            assert study.name == "checkout"
            assert study.report().plain() == load_study("checkout").report().plain()
        found = verify_study("checkout", "sqlite:///copy.db")
        assert (found.sound, found.plans, found.verdicts) == (True, 1, 0)
        assert study_log("checkout")[-1].digest == load_study("checkout").report().digest

    def test_reprs(self, here):
        study = load_study("checkout")
        assert repr(study) == "<Study 'checkout': Not decided yet. 30 results wait for the rest of their round>"
        assert study._repr_html_().startswith("<style>")
        (here / "roundwise.db").rename(here / "gone.db")
        assert repr(study) == "<Study 'checkout'>"

    def test_the_control_by_name(self):
        question = Statements.against_control(["placebo", "10mg", "20mg"], "placebo", 0.5)
        assert question.names == ("10mg beats placebo by more than 0.5", "20mg beats placebo by more than 0.5")
        assert question.control == 0
        assert Statements.against_control(3, 2).names == ("0 beats 2", "1 beats 2")
        assert Statements.ranking(3).control is None
        with pytest.raises(InputError, match=r"'placbo'.*'placebo'"):
            Statements.against_control(["placebo", "x"], "placbo")


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (["python", "-m", "roundwise", "list"], True),
        (["/usr/bin/python3", "/usr/local/bin/roundwise", "list"], True),
        (["python", "-m", "pytest", "roundwise"], False),
        (["python", "roundwise_jobs"], False),
        (["python"], False),
    ],
)
def test_ctrl_c_is_quiet_while_commands_are_loaded(words, ours, monkeypatch):
    """It ends the process by the signal itself; then it is an exception again. Other programs are left alone."""
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "orig_argv", words)
    try:
        for own in (signal.default_int_handler, signal.SIG_IGN):
            signal.signal(signal.SIGINT, own)
            _start.loading()
            changed = ours and own is signal.default_int_handler
            assert signal.getsignal(signal.SIGINT) is (signal.SIG_DFL if changed else own)
            loaded()
            assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("state", "said"), [("57014", "statement timeout"), ("25P03", "idle-in-transaction timeout")])
def test_timeouts_of_a_server_are_named(state, said):
    error = Exception(f"canceling statement due to {said}\nCONTEXT: of no use")
    error.sqlstate = state
    with pytest.raises(StoreError, match=rf"took too long or .*\(canceling statement due to {said}\). Nothing of this"):  # noqa: SIM117
        with translate_errors(parse_url("postgresql://u:secret@h/d")):
            raise DBAPIError("select", {}, error)
