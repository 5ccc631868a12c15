"""The commands of live studies as a user meets them: what they print, JSON, and one sentence for a mistake."""

import html.parser
import json
import re

import pytest

import postgres
from roundwise.cli import app
from roundwise.store import open_store
from roundwise.study import load_study

NEW = ("new", "checkout", "--question", "best-arm", "--arms", "red,green,blue")


@pytest.fixture
def works(roundwise):
    """Run a command that must succeed and end by saying what to do next; what it printed."""

    def call(*words):
        code, out, err = roundwise(*words)
        assert (code, err) == (0, "")
        if "--json" in words:
            return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert "Next: " in out.rstrip().splitlines()[-1]
        return out

    return call


@pytest.fixture
def refused(roundwise):
    """Run a command that must fail with one sentence and change nothing; the sentence."""

    def entries():
        try:
            with open_store(create=False) as store:
                return {each.name: store.read(each.name) for each in store.studies()}
        except ValueError:
            return {}

    def call(*words):
        before = entries()
        code, out, err = roundwise(*words)
        assert (code, out) == (2, "")
        assert err.startswith("roundwise: ")
        assert "Traceback" not in err
        assert err.count("\n") <= 2  # what was found, and what to do
        assert entries() == before
        return err

    return call


@pytest.fixture
def checkout(works):
    works(*NEW, "--binary")


def table(path, *rows):
    path.write_text("arm,count,successes\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


@pytest.fixture
def first(works, checkout, tmp_path):
    """The first batch, told."""
    works("ask", "checkout")
    file = table(tmp_path / "first.csv", ("red", 30, 15), ("green", 30, 24), ("blue", 30, 3))
    return works("tell", "checkout", file)


@pytest.fixture
def decided(works, first, tmp_path):
    works("ask", "checkout")
    file = table(tmp_path / "second.csv", ("red", 200, 90), ("green", 200, 160), ("blue", 200, 20))
    return works("tell", "checkout", file, "--new")


class TestCommands:
    @pytest.mark.long
    def test_a_whole_study(self, works, tmp_path):
        out = works(*NEW, "--binary", "--delta", 0.1)
        assert "Created 'checkout': Which of 3 arms has the highest rate? Error at most 0.1" in out
        assert "`roundwise ask checkout`" in out
        out = works("ask", "checkout", "--out", "batch.csv")
        assert "round 1: collect 90 results." in out
        assert "written to batch.csv" in out
        assert (tmp_path / "batch.csv").read_text().split() == ["arm,remaining", "red,30", "green,30", "blue,30"]
        table(tmp_path / "1.csv", ("red", 30, 15), ("green", 30, 24))
        out = works("tell", "checkout", "1.csv")
        assert "Recorded 1.csv" in out
        assert "Still to come: blue 30." in out
        assert "30 results of round 1 are still to come" in out
        assert "blue 30" in works("status", "checkout")
        works("ask", "checkout", "--out", "batch.csv")
        assert (tmp_path / "batch.csv").read_text().split() == ["arm,remaining", "blue,30"]
        out = works("tell", "checkout", "--round-over", "blue was sold out")
        assert "blue was sold out" in out
        for week in (2, 3):
            works("ask", "checkout")
            table(tmp_path / f"{week}.csv", ("red", 200, 90), ("green", 200, 150 + week), ("blue", 200, 20))
            out = works("tell", "checkout", f"{week}.csv", "--new")
        assert "green is best: 7" in out
        assert "`roundwise report checkout --out report.html`" in out
        assert "green is best: " in works("ask", "checkout")
        assert "and the verdict were recomputed" in works("verify", "checkout")
        assert "checkout" in works("list")

    @pytest.mark.long
    def test_a_budget_ends_undecided_with_what_is_open(self, works, refused, tmp_path):
        works(*NEW, "--binary", "--budget", 100, "--policy", "wager")
        works("ask", "checkout")
        table(tmp_path / "1.csv", ("red", 30, 10), ("green", 30, 11), ("blue", 30, 1))
        works("tell", "checkout", "1.csv")
        assert "round 2: collect 10 results" in works("ask", "checkout", "--out", "batch.csv")
        rows = [line.split(",") for line in (tmp_path / "batch.csv").read_text().split()[1:]]
        assert sum(int(pulls) for _, pulls in rows) == 10
        table(tmp_path / "2.csv", *((arm, int(pulls), 1) for arm, pulls in rows))
        out = works("tell", "checkout", "2.csv")
        assert "Undecided within the budget of 100 results. " in out
        assert "may" in out
        assert "Undecided within the budget of 100 results. " in works("ask", "checkout")
        table(tmp_path / "3.csv", ("red", 5, 5))
        assert "is over, undecided: the budget of 100 results is used up. Nothing was changed." in refused(
            "tell", "checkout", "3.csv"
        )
        assert "2 plans, 2 checkpoints and no verdict were recomputed" in works("verify", "checkout")
        assert "is 0" in refused("new", "other", "-q", "best-arm", "--arms", "a,b", "--binary", "--budget", 0)

    def test_names_with_blanks_can_be_pasted(self, works):
        works("new", "my study", "-q", "best-arm", "--arms", "a b, c d ", "--binary")
        assert "`roundwise tell 'my study' FILE`" in works("ask", "my study")
        assert works("ask", "my study", "--json")["asked"] == {"a b": 30, "c d": 30}

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("words", "assumed"),
        [
            (("--binary",), "Results are 0 or 1."),
            (("--range", 1, 3), "Every result lies between 1 and 3."),
            (("--sigma", 2), "tails no heavier than normal with standard deviation 2"),
            (("--sigma", 2, "--normal"), "normal with standard deviation 2, exactly"),
            (("--normal",), "an unknown mean and standard deviation for each arm"),
            (("--normal", "--equal-variances"), "the same, unknown standard deviation"),
            (("--counts",), "Poisson counts"),
            (("--sigmas", "1,2,0.5"), "normal with standard deviations 1, 2, 0.5, exactly"),
        ],
    )
    def test_every_noise_model(self, works, words, assumed):
        assert ("Forecast: " in works(*NEW, *words)) == ("--counts" not in words)  # which depend on the baseline
        assert assumed in works("status", "checkout")

    @pytest.mark.long
    @pytest.mark.parametrize(
        "words",
        [
            ("top-k", "--k", 2),
            ("above", "--level", 0.5),
            ("minimum-below", "--level", 0.5),
            ("any-above", "--level", 0.5),
            ("best-arm", "--tolerance", 0.1),
            ("statements", "--control", "red", "--margin", 0.1),
        ],
    )
    def test_every_question(self, works, tmp_path, words):
        works("new", "x", "--arms", "red,green,blue", "--binary", "-q", *words)
        works("ask", "x")
        file = table(tmp_path / "1.csv", ("red", 30, 3), ("green", 30, 20), ("blue", 30, 28))
        works("tell", "x", file)
        assert works("report", "x", "--json")["results"] == 90

    def test_control_is_named(self, works):
        works("new", "x", "--arms", "red,green,blue", "--binary", "-q", "statements", "--control", "red")
        claims = [each["claim"] for each in works("status", "x", "--json")["claims"]]
        assert [re.sub(": (yes|no)", "", claim) for claim in claims] == ["green beats red", "blue beats red"]

    def test_statements_and_largest_from_files(self, works, tmp_path):
        (tmp_path / "s.csv").write_text("name,red,green,blue,above\ngreen leads,-1,1,0,0.1\n")
        (tmp_path / "l.csv").write_text("name,red,green,blue\nfirst,1,1,0\nlast,0,1,1\n")
        for question, file in (("statements", "s.csv"), ("largest", "l.csv")):
            works("new", question, "--arms", "red,green,blue", "--binary", "-q", question, "--file", file)
            works("ask", question)
            works("verify", question)

    @pytest.mark.long
    @pytest.mark.parametrize("policy", ["wager", "pet:guess=4", "track-and-stop", "opt-bbai:c=4", "tri-bbai"])
    def test_every_policy_before_and_after_results(self, works, tmp_path, policy):
        works(*NEW, "--binary", "--policy", policy, "--max-round-size", 3000, "--min-per-arm", 10)
        for name in ("html", "md", "json"):
            works("report", "checkout", "--out", f"before.{name}")
        pulls = works("ask", "checkout", "--json")["asked"]
        assert sum(pulls.values()) <= 3000
        table(tmp_path / "1.csv", *((arm, n, n // 2) for arm, n in pulls.items()))
        works("tell", "checkout", "1.csv", "--json")
        for name in ("html", "md", "json"):
            works("report", "checkout", "--out", f"after.{name}")
        assert json.loads((tmp_path / "after.json").read_text()) == works("report", "checkout", "--json")

    def test_arms_from_a_file(self, works, tmp_path):
        (tmp_path / "arms.txt").write_bytes(b"\xef\xbb\xbfred\r\n\r\nblue one\r\n")
        works("new", "x", "-q", "best-arm", "--arms-file", "arms.txt", "--binary")
        assert works("ask", "x", "--json")["remaining"] == {"red": 30, "blue one": 30}

    def test_many_arms_are_shown_in_part(self, works, tmp_path):
        (tmp_path / "arms.txt").write_text("\n".join(f"arm {i}" for i in range(100)))
        works("new", "x", "-q", "best-arm", "--arms-file", "arms.txt", "--binary")
        assert "... and 40 more arms; --out FILE writes them all." in works("ask", "x", "--out", "b.csv")
        assert len((tmp_path / "b.csv").read_text().splitlines()) == 101
        assert "arm 29 30, ..." in works("status", "x")

    @pytest.mark.long
    def test_json_of_every_command(self, works, tmp_path):
        """With what became of the guarantee in each; nothing but JSON is printed."""
        seen = set()

        def json_of(command, *words):
            found = works(command, *words, "--json")
            seen.add(command)
            for each in found if isinstance(found, list) else [found]:
                stands = each["guarantee"]
                assert [stands["status"], *(condition["code"] for condition in stands["conditions"])] == guarantee
            return found

        guarantee = ["kept"]
        found = json_of(*NEW, "--binary")
        assert (found["study"], found["arms"], found["delta"]) == ("checkout", ["red", "green", "blue"], 0.05)
        assert json_of("ask", "checkout", "--out", "batch.csv")["round"] == 1
        table(tmp_path / "first.csv", ("red", 30, 15), ("green", 30, 24), ("blue", 30, 3))
        assert json_of("tell", "checkout", "first.csv")["results"] == 90
        works("ask", "checkout")
        table(tmp_path / "second.csv", ("red", 200, 90), ("green", 200, 160), ("blue", 200, 20))
        assert json_of("tell", "checkout", "second.csv", "--new")["status"] == "decided"
        assert json_of("report", "checkout", "--out", "report.md")["answer"] == "green"
        table(tmp_path / "third.csv", ("red", 200, 100), ("green", 200, 101), ("blue", 200, 20))
        guarantee = ["conditional", "amended"]
        found = json_of("amend", "checkout", "second.csv", "--with", "third.csv", "--why", "wrong week")
        assert (found["status"], found["answer"]) == ("undecided", None)
        assert json_of("ask", "checkout")["round"] == 3
        assert json_of("status", "checkout")["remaining"]
        found = json_of("verify", "checkout")
        assert found.pop("guarantee")["conditions"][0]["name"] == "second.csv"
        assert found.pop("digest") == load_study("checkout").entries()[-1].digest
        assert found == {
            "study": "checkout",
            "entries": 11,
            "plans": 3,
            "checkpoints": 3,
            "decided": False,
            "sound": True,
            "differences": [],
        }
        assert [each["name"] for each in json_of("list")] == ["checkout"]
        assert json_of("export", "checkout")["file"] == "checkout.jsonl"
        assert json_of("import", "checkout.jsonl", "--storage", "sqlite:///copy.db")["entries"] == 11
        assert json_of("report", "checkout")["remaining"]
        assert len(json_of("log", "checkout")["entries"]) > 8
        assert json_of("close", "checkout", "--why", "enough")["status"] == "closed"
        assert json_of("ask", "checkout")["status"] == "closed"
        assert json_of("reopen", "checkout", "--why", "more money", "--yes")["status"] == "undecided"
        assert json_of("note", "checkout", "all is well")["status"] == "undecided"
        assert json_of("drop", "checkout", "blue", "--why", "sold out", "--yes")["status"] == "undecided"
        assert json_of("add", "checkout", "pink", "--yes")["status"] == "undecided"
        guarantee = ["kept"]
        works("new", "prices", "--question", "best-arm", "--arms", "a,b", "--binary", "--budget", "90")
        table(tmp_path / "past.csv", ("a", 20, 10), ("b", 20, 12))
        assert json_of("import-past", "prices", "past.csv", "--yes")["status"] == "undecided"
        assert json_of("extend", "prices", "--budget", "200", "--yes")["status"] == "undecided"
        assert json_of("redesign", "prices", "--budget", "300", "--yes")["status"] == "undecided"
        works("remove", "prices", "--yes")
        works("new", "money", "--question", "best-arm", "--arms", "a,b", "--normal")
        works("ask", "money")
        rows = [f"{arm},{100 * (i % 10 == 0)}" for i in range(100) for arm in "ab"]
        (tmp_path / "baskets.csv").write_text("\n".join(["arm,outcome", *rows]))
        works("tell", "money", "baskets.csv", "--new")
        guarantee = ["approximate"]
        assert json_of("relax", "money", "--why", "baskets", "--yes")["status"] == "undecided"
        works("log", "checkout", "--json")
        seen |= {"remove", "log"}
        assert {each["name"] for each in works("list", "--json")} == {"checkout", "money"}
        ours = [each for each in app.registered_commands if each.callback.__module__.startswith("roundwise.cli.study.")]
        unseen = {each.name or each.callback.__name__ for each in ours} - seen
        assert not unseen, 'call each of them here: its JSON says under "guarantee" what became of the guarantee'

    def test_a_rule_of_its_own_promises_nothing_when_it_is_chosen(self, works):
        out = works(*NEW, "--binary", "--policy", "opt-bbai")
        assert "Error aimed at 0.05." in out
        assert "at most" not in out
        assert "The guarantee is conditional on the assumption that the constants and the check step" in out

    @pytest.mark.long
    def test_every_command_works_on_a_study_of_another_version(self, works, roundwise, monkeypatch, decided):
        monkeypatch.setattr("roundwise.policies.wager.SMALLEST", 1.5)
        (found,) = works("list", "--json")
        assert (found["guarantee"]["status"], found["state"], found["answer_text"]) == (
            "kept",
            "decided",
            "green is the best arm",
        )
        for command in ("status", "report", "export"):
            assert works(command, "checkout", "--json")["guarantee"]["status"] == "kept"
        code, out, _ = roundwise("verify", "checkout")
        assert (code, "'checkout' is NOT sound" in out) == (2, True)  # the same rules should plan the same
        monkeypatch.setattr("roundwise.study.audit.RULES", 9)
        monkeypatch.setattr("roundwise.study.fold.RULES", 9)
        assert "All of them were recorded under other rules" in works("verify", "checkout")

    @pytest.mark.long
    def test_reports(self, works, decided, tmp_path):
        assert "green is best: 80.0 %, ahead of red by at least " in works("report", "checkout")
        for name in ("r.html", "r.md", "r.json", "deep/er/R.HTML"):
            out = works("report", "checkout", "--out", name)
            assert f"The report is in {name}" in out
        html.parser.HTMLParser().feed((tmp_path / "deep/er/R.HTML").read_text())
        assert (tmp_path / "r.md").read_text().startswith("[//]: # (a report of roundwise)\n\n# checkout")

    @pytest.mark.long
    def test_export_and_import(self, works, refused, decided, tmp_path):
        out = works("export", "checkout")
        assert "`roundwise import checkout.jsonl --storage URL`" in out
        works("export", "checkout", "--out", "copy.jsonl")
        assert (tmp_path / "copy.jsonl").read_text() == (tmp_path / "checkout.jsonl").read_text()
        there = ("--storage", f"sqlite:///{tmp_path}/other.db")
        assert "Imported 'checkout' with 8 entries" in works("import", "copy.jsonl", *there)
        copied, original = works("report", "checkout", "--json", *there), works("report", "checkout", "--json")
        assert copied | {"next": ""} == original | {"next": ""}  # the next command names its storage
        works("verify", "checkout", *there)
        assert "already a study called 'checkout'" in refused("import", "copy.jsonl", *there)
        lines = (tmp_path / "copy.jsonl").read_text().splitlines(keepends=True)
        lines[6] = lines[6].replace("160", "161")  # the first line is a head, so this is entry 5
        (tmp_path / "copy.jsonl").write_text("".join(lines))
        assert "was changed: entry 5" in refused("import", "copy.jsonl", "--storage", f"sqlite:///{tmp_path}/third.db")

    @pytest.mark.long
    def test_amend_and_close(self, works, decided, tmp_path):
        out = works("amend", "checkout", "second.csv", "--why", "not ours")
        assert "second.csv of round 2 was withdrawn: not ours. The guarantee holds if" in out
        assert "Not decided yet" in out
        out = works("close", "checkout", "--why", "no budget")
        assert "Closed undecided (no budget)" in out

    @pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
    def test_the_storage_of_the_environment(self, works, tmp_path, monkeypatch, kind):
        url = f"sqlite:///{tmp_path}/elsewhere.db" if kind == "sqlite" else postgres.server().fresh()
        monkeypatch.setenv("ROUNDWISE_STORAGE", url)
        works(*NEW, "--binary")
        assert not (tmp_path / "roundwise.db").exists()
        works("ask", "checkout")
        monkeypatch.delenv("ROUNDWISE_STORAGE")
        works("ask", "checkout", "--storage", url)


class TestMistakes:
    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            ((), "Say what a result is: --binary (yes or no), --range LOW HIGH"),
            (("--binary", "--sigma", 1), "--sigma and --binary are different noise models: give one"),
            (("--binary", "--counts"), "--binary and --counts are different noise models"),
            (("--binary", "--normal"), "--normal and --binary are different noise models"),
            (("--range", 3, 1), "The range [3, 1] is empty"),
            (("--sigma", -1), "`sigma` is -1, but must be a positive number"),
            (("--binary", "--delta", 5), "`delta` is 5, but must lie strictly between 0 and 1. For 5 % write"),
            (("--binary", "--policy", "pett"), "There is no policy called 'pett'. Did you mean 'pet'?"),
            (("--counts", "--policy", "pet"), "has no sigma"),
            (("--binary", "--max-round-size", 2), "arms"),
            (("--binary", "--k", 2), "'best-arm'"),
            (("--binary", "--margin", 2), "go with --question claims"),
            (("--binary", "--control", "red"), "go with --question claims"),
            (("--binary", "--arms-file", "x"), "--arms"),
            (("--binary", "--question", "best"), "'best'"),
            (("--binary", "--question", "top-k"), "'top-k'"),
            (("--binary", "--question", "top-k", "--k", 3), "k"),
            (("--binary", "--budget", "1.5"), "is 1.5, but must be a whole number of at least 1"),
            (("--binary", "--round-size", "many"), "is 'many', but must be a number"),
            (
                ("--binary", "--question", "above", "--level", 30),
                "between 0 and 1, so the answer is certain without any. For 30 % write 0.3.",
            ),
            (("--binary", "--arms", "red"), "arms"),
            (("--binary", "--arms", "red,,blue"), "arm"),
            (("--binary", "--arms", "red,red"), "two arms called 'red'"),
            (("--binary", "--storage", "mysql://x"), "'mysql://'"),
            (("--binary", "--colour", "x"), "No such option: --colour"),
            (
                ("--binary", "--round-over", "x"),
                "`roundwise new` has no option --round-over; it is one of `roundwise tell`",
            ),
            (("--binary", "--question", "fastest"), "claims (which beat a control)"),
            (("--binary", "--budget", "140.000"), "is '140.000': write whole numbers without a point"),
        ],
    )
    def test_new(self, refused, words, sentence):
        assert sentence in refused(*NEW, *words)

    def test_budgets_as_people_write_them(self, works):
        for i, text in enumerate(("20 000", "20,000", "2e4", "20000")):
            works(*NEW[:1], f"s{i}", *NEW[2:], "--binary", "--budget", text)
            assert works("status", f"s{i}", "--json")["budget"] == 20_000

    def test_new_with_files_that_are_not_there(self, refused, tmp_path):
        words = ("new", "x", "-q", "best-arm", "--binary", "--arms-file")
        assert "nothing.txt: cannot be read as a list of names" in refused(*words, "nothing.txt")
        (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
        assert "binary: cannot be read as a list of names" in refused(*words, "binary")
        control = ("new", "x", "-q", "statements", "--arms", "red,blue", "--binary", "--control")
        assert "no arm called 'rad'. Did you mean 'red'?" in refused(*control, "rad")
        assert "Give either --arms" in refused("new", "x", "-q", "best-arm", "--binary")

    def test_a_direction_that_may_be_forgotten(self, works):
        assert "then create it with --lower-is-better" in works(*NEW, "--large-sample", "--unit", "s")
        said = works("new", "fast", *NEW[2:], "--large-sample", "--unit", "s", "--lower-is-better")
        assert "lowest mean" in said
        assert "Longer times" not in said

    def test_a_name_that_is_taken(self, refused, checkout):
        assert "already a study called 'checkout'" in refused(*NEW, "--binary")

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("contents", "sentence"),
        [
            (
                b"arm,count,successes\nrad,3,1\nred,3,1\n",
                "line 2",
            ),
            (b"arm,count,successes\nA,3,1\nB,3,1\n", "file"),
            (b"arm,outcome\nred,1.7\n", "line 2"),
            (b"arm,outcome\nred,\n", "results.csv"),
            (b"arm,count,successes\nred,3,4\n", "'red'"),
            (b"colour,clicks\nred,3\n", "line 1"),
            (b"arm,outcome\n", "results.csv"),
            (b"", "results.csv is empty"),
            (b"\x00\x01\x02", "results.csv"),
            (b"PK\x03\x04nonsense", "workbook"),
            (b"PAR1nonsense", "Parquet"),
            (b"arm,outcome\nred,\xff\n", "this is not text in UTF-8"),
        ],
    )
    def test_a_wrong_file(self, works, refused, checkout, tmp_path, contents, sentence):
        works("ask", "checkout")
        (tmp_path / "results.csv").write_bytes(contents)
        assert sentence in refused("tell", "checkout", "results.csv")

    @pytest.mark.long
    def test_tell(self, refused, first, works, tmp_path):
        assert "`roundwise ask checkout`" in refused("tell", "checkout", table(tmp_path / "x.csv", ("red", 3, 1)))
        assert "first.csv is already recorded as round 1 (identical contents). Nothing changed." in refused(
            "tell", "checkout", "first.csv"
        )
        works("ask", "checkout")
        assert "nothing.csv" in refused("tell", "checkout", "nothing.csv")
        assert str(tmp_path) in refused("tell", "checkout", tmp_path)
        assert "first.csv is already recorded as round 1" in refused("tell", "checkout", "first.csv")
        assert "x.csv is given twice" in refused("tell", "checkout", "x.csv", "x.csv")
        assert "--round-over REASON" in refused("tell", "checkout")
        assert "The reason is empty" in refused("tell", "checkout", "--round-over", "")
        assert "--why" in refused("close", "checkout")
        assert "The reason is empty" in refused("close", "checkout", "--why", " ")

    @pytest.mark.long
    def test_what_changes_a_study_must_be_agreed_to(self, works, refused, first, monkeypatch):
        """Where nobody can answer, the sentence and `--yes`; on a terminal it is asked."""
        changes = {
            ("drop", "checkout", "blue", "--why", "sold out"): "cut to what was won against blue",
            ("add", "checkout", "pink"): "pink starts with the least evidence",
            ("remove", "empty"): "There is no guarantee to keep",
        }
        works("new", "empty", "--question", "best-arm", "--arms", "a,b", "--binary")
        for words, effect in changes.items():
            said = refused(*words)
            assert effect in said
            assert "Nothing was changed; to confirm, add --yes." in said
        assert "a record with results is never erased" in refused("remove", "checkout")
        assert "A note does not affect the guarantee." in works("note", "checkout", "a remark", "--yes")
        out = works("drop", "checkout", "blue", "--why", "sold out", "--yes")
        assert "This keeps the guarantee, at a price" in out
        works("close", "checkout", "--why", "enough")  # nothing is lost by it
        assert "you may always look at results and continue" in refused("reopen", "checkout", "--why", "x")

    def test_closing_says_what_is_not_counted(self, works, refused, first, tmp_path):
        works("ask", "checkout")
        works("tell", "checkout", table(tmp_path / "x.csv", ("red", 3, 1)))
        assert "The 3 results told of round 2 are not counted." in refused("close", "checkout", "--why", "enough")
        works("close", "checkout", "--why", "enough", "--yes")

    def test_after_the_decision(self, refused, decided):
        assert "The study 'checkout' is decided" in refused("tell", "checkout", "--round-over", "late")

    def test_after_closing(self, works, refused, first, tmp_path):
        works("close", "checkout", "--why", "no money")
        table(tmp_path / "x.csv", ("red", 3, 1))
        for words in (
            ("tell", "checkout", "x.csv"),
            ("close", "checkout", "--why", "again"),
            ("amend", "checkout", "first.csv", "--why", "wrong"),
        ):
            assert re.search(r"is closed.*\(no money\)", refused(*words))
        assert "Closed undecided (no money)" in works("ask", "checkout")

    @pytest.mark.long
    @pytest.mark.parametrize(
        "words",
        [
            ("ask",),
            ("tell", "--round-over", "x"),
            ("status",),
            ("report",),
            ("export",),
            ("verify",),
            ("amend", "x.csv", "--why", "x"),
            ("close", "--why", "x"),
        ],
        ids=lambda words: words[0],
    )
    def test_a_study_that_is_not_there(self, refused, checkout, words, tmp_path):
        command, *rest = words
        assert "no study called 'chekout'. Did you mean 'checkout'?" in refused(command, "chekout", *rest)
        assert not (tmp_path / "chekout.jsonl").exists()
        empty = f"sqlite:///{tmp_path}/empty.db"
        assert "There are no studies in" in refused(command, "checkout", *rest, "--storage", empty)
        assert not (tmp_path / "empty.db").exists()

    def test_list_where_nothing_is(self, refused):
        assert "There are no studies in" in refused("list")

    def test_where_nothing_can_be_written(self, works, refused, checkout, tmp_path):
        (tmp_path / "folder").mkdir()
        (tmp_path / "plain").write_text("")
        assert "must end in .html, .md, .pdf, .xlsx" in refused("report", "checkout", "--out", "report.docx")
        for words in (("report", "checkout"), ("ask", "checkout"), ("export", "checkout")):
            assert "cannot be written" in refused(*words, "--out", "plain/report.html")
        assert "is a folder" in refused("ask", "checkout", "--out", "folder")
        assert works("ask", "checkout", "--json")["round"] == 1  # and not 2: nothing was asked before

    @pytest.mark.long
    def test_amend(self, refused, decided):
        assert "No file 'third.csv' was told. Told so far: " in refused(
            "amend", "checkout", "third.csv", "--why", "wrong"
        )
        assert "third.csv" in refused("amend", "checkout", "second.csv", "--with", "third.csv", "--why", "wrong")
        assert "is already recorded as round 1" in refused(
            "amend", "checkout", "second.csv", "--with", "first.csv", "--why", "wrong"
        )

    def test_import(self, refused, tmp_path):
        assert "nothing.jsonl cannot be read" in refused("import", "nothing.jsonl")
        (tmp_path / "x.jsonl").write_text("{}\n")
        assert "this is not the log of a study" in refused("import", "x.jsonl")
        (tmp_path / "old.jsonl").write_text('{"roundwise": "study", "format": 1, "study": "old", "entries": 0}\n')
        assert "old.jsonl was exported before the first release" in refused("import", "old.jsonl")
