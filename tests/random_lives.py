"""Studies that lead random lives, by command and from Python, with a record beside them of what was done."""

import gzip
import json
import random
import shlex
from pathlib import Path

import numpy as np

from commands import shell
from roundwise import export_study, import_study, load_study
from roundwise.errors import RoundwiseError

QUESTIONS = {
    "best": "best-arm",
    "near": "best-arm --tolerance 0.05",
    "top": "top-k --k 2",
    "above": "above --level 0.4",
    "any above": "any-above --level 0.4",
    "minimum": "minimum-below --level 0.4",
    "largest": "largest --file FOLDER/scores.csv",
    "features": "best-arm --features FOLDER/features.csv",
    "features, level": "above --level 0.4 --features FOLDER/features.csv",
    "statements": "statements --control a --margin 0.01",
    "claims": "claims --control a",
    "by a margin": "claims --control a --margin 0.02",
    "two-sided": "claims --control a --two-sided",
    "futility": "claims --control a --margin 0.02 --futility 0.1",
    "controls": "claims --control a,b",
    "level": "claims --level 0.4",
    "odds": "claims --control a --margin-is odds-ratio --margin 1.1",
    "odds, futility": "claims --control a --margin-is odds-ratio --margin 1.1 --futility 2",
    "ratio": "claims --control a --margin-is ratio --margin 1.05",
}
NOISES = ("--binary", "--range 0 1", "--sigma 0.5", "--sigma 0.5 --normal", "--normal", "--counts", "--large-sample",
          "--cap 0.7", "--max-variance 0.3", "--normal --equal-variances")  # fmt: skip
CAP = 0.7
NAMES = {"binary": "--binary", "bounded": "--range 0 1", "normal": "--normal", "poisson": "--counts"}
KEYS = {"none": "", "id": "--id-column key", "item": "--item-column key", "wide": "--items"}


class Life:
    """A study, and what was done with it: `rows` by file, arms that left, and what the guarantee must mention."""

    def __init__(self, seed, folder, storage=None):
        self.random, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.folder, self.storage = Path(folder), storage or f"sqlite:///{folder}/studies.db"
        self.name, self.number, self.script = "s", 0, []
        self.rows, self.gaps, self.late, self.base = {}, set(), set(), {}
        self.gone, self.noted, self.doubted = set(), set(), False
        self.shown, self.answer = set(), None
        self.anew = False  # whether all may have been counted anew since the last look

    def begun(self, question=None, noise=None, keys=None):
        """Settings are drawn until some are accepted: not every question goes with every noise model."""
        draw = self.random.choice
        for _ in range(200):
            arms = list("abcde")[: draw([3, 3, 4, 5])]
            self._tables(arms)
            self.question, self.noise = question or draw(list(QUESTIONS)), noise or draw(NOISES)
            self.keys = keys or draw(["none", "none", "id", "id", "item", "wide"])
            self.lower = draw([False, False, True])
            self.means = {arm: draw([0.4, 0.4, 0.1, 0.25, 0.55, 0.7]) for arm in "abcdefgh"}
            words = f"--question {QUESTIONS[self.question]} {self.noise} {KEYS[self.keys]} --delta {draw(['5%', 0.2])}"
            words += " --lower-is-better" if self.lower else ""
            words += draw(["", " --budget 300", " --budget 900", " --budget 900 --lead 0.2 --looks 3"])
            words += draw(["", " --round-size 60", " --round-size 151"])
            words += draw(["", " --split equal", " --split " + ":".join(draw("123") for _ in arms)])
            words += draw(["", "", " --max-round-size 90", " --min-per-arm 5"])
            if self.keys == "id":
                words += draw(
                    ["", "", " --id-result mean", " --id-result sum", " --id-result max --mixed-ids left-out"]
                )
            if self.does(f"new s --arms {','.join(arms)} --seed {draw(range(99))} {words}"):
                return self
        raise AssertionError(f"no such study: {self.script[-1]}")

    def resumed(self, log):
        """One that was kept goes on: `log` is the file."""
        record = self.folder / "kept.jsonl"
        record.write_bytes(gzip.decompress(log.read_bytes()))
        with import_study(record, storage=self.storage) as study:
            self.name, settings, report = study.name, study.state.spec, study.report()
        self.noise = NAMES.get(settings.noise.name, "--sigma 0.5")
        self.question, self.keys, self.lower = settings.question.name, "none", settings.question.lower_is_better
        self.means = dict.fromkeys("abcdefgh", 0.4)
        self.doubted |= not report.guarantee.kept
        for arm in report.arm_rows:
            waiting = arm.pending * (arm.pending_mean or 0)
            self.base[arm.name] = (arm.results + arm.pending, arm.results * (arm.mean or 0) + waiting)
        return self

    def _tables(self, arms):
        (self.folder / "scores.csv").write_text(_csv([("name", *arms), *((f"s{i}", *row) for i, row in _unit(arms))]))
        features = [("arm", "x", "y"), *((arm, 1 + i % 2, i) for i, arm in enumerate(arms))]
        (self.folder / "features.csv").write_text(_csv(features))

    def does(self, command, work=None):
        """Whether something was recorded: by a command, or by the same from Python, whichever is drawn."""
        before, by_hand = self.digest(), work is not None and self.random.random() < 0.5
        self.script.append(f"{command}{' (Python)' if by_hand else ''}")
        code, said = self.outcome(shlex.split(command.replace("FOLDER", str(self.folder))), work if by_hand else None)
        self.script[-1] += f" -> {code} {said[:200]}"
        assert code in (0, 2), said
        changed = self.digest() != before
        assert not (changed and code), f"refused, but recorded: {said}"
        return changed

    def outcome(self, words, work):
        """The exit code, or what it would be, and what was said."""
        if work is None:
            ended = shell(*(self.name if each == "s" else each for each in words), "--storage", self.storage)
            assert not ended.returncode or ended.stderr.startswith("roundwise: "), ended.stderr
            return ended.returncode, ended.stderr
        try:
            self.looked(work)
        except RoundwiseError as error:
            return 2, str(error)
        return 0, ""

    def digest(self):
        """Of the last entry; None before the first."""
        try:
            return self.looked(lambda study: study.entries()[-1].digest)
        except RoundwiseError:
            return None

    def looked(self, at):
        with load_study(self.name, storage=self.storage) as study:
            return at(study)

    def step(self):
        """Something happens."""
        if self.random.random() < 0.7 and self.looked(lambda study: study.state.open_round) is None:
            self.does("ask s", lambda study: study.ask())
        kinds = {"tell": 12, "change": 3, "amend": 2, "over": 1.5, "extend": 1, "redesign": 1}
        kinds |= {"end": 1, "past": 1, "move": 1, "relax": 1}
        self.anew = False
        getattr(self, self.random.choices(list(kinds), list(kinds.values()))[0])()

    def tell(self):
        """What was asked for comes back: all, half or more of it, with gaps, with rows told before, or told twice."""
        draw, state = self.random.choice, self.looked(lambda study: study.state)
        late, asked, arms = state.decided is not None, state.open_round, state.spec.arms
        wanted = (
            dict.fromkeys(arms, 5) if asked is None else dict(zip(arms, asked.outstanding.astype(int), strict=True))
        )
        scale = min(1, 3000 / max(1, sum(wanted.values()))) * draw([1, 1, 1, 1, 0.5, 1.1])
        rows = self.fresh({arm: int(np.ceil(each * scale)) for arm, each in wanted.items()})
        kind = draw(["", "", "", "gaps", "grown", "twice", "unknown"])
        keyed = self.keys in ("id", "item")
        if kind == "gaps":
            lost = {i for i in range(len(rows)) if self.random.random() < 0.1}
            name = self.file([(*row[:2], "") if i in lost else row for i, row in enumerate(rows)])
            rows = [row for i, row in enumerate(rows) if i not in lost]
            if self.told(name, rows, late, "--missing left", {"missing": "left"}) and lost and not late:
                self.gaps.add(name)
        elif kind == "grown" and self.keys in ("none", "id"):
            old = [row for name in self.rows for row in self.rows[name] if row[1] in arms]
            if self.keys == "id" or (old and not self.base and not self.gaps):
                cumulative = ("--cumulative", {"cumulative": True}) if self.keys == "none" else ()
                self.told(self.file(old + rows), rows, late, *cumulative)
        elif kind == "unknown":
            name = self.file([*rows, ("strange", "zebra", 1)]) if self.keys != "wide" else self.file(rows)
            assert self.keys == "wide" or not self.does(f"tell s {self.folder / name}")
            self.told(name, rows, late, "--ignore-arms *", {"ignore_arms": "*"})
        else:
            name = self.file(rows, sums=not (keyed or self.keys == "wide") and draw([True, False]))
            if self.told(name, rows, late, "" if keyed else "--new", {} if keyed else {"new": True}) and kind:
                assert not self.does(f"tell s {self.folder / name}"), "the same file counts twice"

    def told(self, name, rows, late, flags="", words=None):
        """Whether rows were recorded."""
        source = self.folder / name
        if self.does(f"tell s {source} {flags}", lambda study: study.tell(source, **(words or {}))):
            self.rows[name] = rows
            self.late |= {name} if late else set()
        return name in self.rows

    def change(self):
        """An arm leaves or joins."""
        draw, before = self.random.choice, self.looked(lambda study: study.state)
        unrelated, arms = draw([True, False]), before.spec.arms
        verb, arm = draw([("drop", draw(arms)), ("add", draw("efgh"))])
        flag = " --unrelated" if unrelated else ""
        work = lambda study: getattr(study, verb)(arm, "dear", unrelated=unrelated)  # noqa: E731
        if self.does(f"{verb} s {arm} --why dear --yes{flag}", work):
            self.gone = self.gone | {arm} if verb == "drop" else self.gone - {arm}
            self.anew = True
            if unrelated and before.spec.question.name != "claims":
                self.noted.add("arm_dropped" if verb == "drop" else "arm_added")

    def amend(self):
        """A file is withdrawn, or corrected."""
        if not (names := [name for name in self.rows if name not in self.late]):
            return
        name, by = self.random.choice(names), None
        if self.random.random() < 0.5 and self.keys != "wide":
            wanted = {arm: sum(row[1] == arm for row in self.rows[name]) for _, arm, _ in self.rows[name]}
            rows = self.fresh(wanted)
            by = self.file(rows)
        words = f"amend s {name} --why typo" + (f" --with {self.folder / by}" if by else "")
        if self.does(words, lambda study: study.amend(name, by and self.folder / by, "typo")):
            del self.rows[name]
            self.gaps.discard(name)
            if by:
                self.rows[by] = rows
            self.anew = True
            self.noted.add("amended")

    def over(self):
        """The rest of a round does not come."""
        asked = self.looked(lambda study: study.state.open_round)
        if self.does("tell s --round-over nobody", lambda study: study.close_round("nobody")):
            self.noted |= {"short_rounds"} if asked.missing else set()

    def end(self):
        """It ends, and mostly goes on."""
        self.does("close s --why enough --yes", lambda study: study.end("enough"))
        if self.random.random() < 0.9:
            self.does("reopen s --why more --yes", lambda study: study.reopen("more"))

    def extend(self):
        """Another budget."""
        budget = self.random.choice([100, 600, 2000])
        self.anew |= self.does(f"extend s --budget {budget} --yes", lambda study: study.extend(budget))

    def relax(self):
        """It goes on as large-sample, which is refused unless rows contradict its noise model."""
        self.anew |= self.does("relax s --why skewed --yes", lambda study: study.relax("skewed"))

    def redesign(self):
        """Another design, or none."""
        budget, lead, looks = self.random.choice([(None, None, None), (900, 0.2, None), (2000, 0.1, 2), (600, None, 4)])
        words = "" if budget is None else f" --budget {budget}"
        words += "" if lead is None else f" --lead {lead}"
        words += "" if looks is None else f" --looks {looks}"
        self.does(f"redesign s{words} --yes", lambda study: study.redesign(budget, lead, looks))

    def past(self):
        """Earlier data teach, and are never told."""
        arms = self.looked(lambda study: study.state.spec.arms)
        name = self.file(self.fresh({arm: self.random.randrange(1, 30) for arm in arms}))
        source = self.folder / name
        if self.does(f"import-past s {source} --yes", lambda study: study.import_past(source)):
            self.does("ask s")
            assert not self.does(f"tell s {source}"), "earlier data were told"

    def move(self):
        """It goes on in another storage."""
        if self.storage.startswith("sqlite"):
            self.number += 1
            record, storage = self.folder / f"{self.number}.jsonl", f"sqlite:///{self.folder}/{self.number}.db"
            export_study(self.name, record, storage=self.storage)
            import_study(record, storage=storage).close()
            self.storage = storage

    def fresh(self, wanted):
        """New rows: key, arm, outcome. Items are shared, and an arm is tried on the first of them."""
        start = self.number = self.number + 10_000
        rows, shared = [], self.keys in ("item", "wide")
        luck = self.rng.random(max(wanted.values(), default=0) or 1)
        for place, (arm, count) in enumerate(wanted.items()):
            for i in range(count):
                key = start + i if shared else start + place + len(wanted) * i
                rows.append((f"k{key}", arm, self.value(self.means[arm], luck[i] if shared else self.rng.random())))
        self.random.shuffle(rows)
        return rows or [(f"k{start}", next(iter(wanted)), 1)]

    def value(self, mean, luck):
        """A result of an arm, given its luck in [0, 1]."""
        if self.noise == "--binary":
            return int(luck < mean)
        if self.noise == "--counts":
            return int(self.rng.poisson(mean))
        if self.noise == "--range 0 1":
            return round(float(np.clip(mean + (luck - 0.5) * 2 * min(mean, 1 - mean), 0, 1)), 3)
        return round(float(mean + self.rng.normal(0, 0.3) + 1.2 * (luck - 0.5)), 3)

    def file(self, rows, sums=False):
        """A new file with rows in one form or the other; its name."""
        self.number += 1
        kind = self.random.choice(["csv", "json", "csv.gz", "tsv"])
        head, lines = ("key", "arm", "outcome"), rows
        if self.keys == "none":
            head, lines = head[1:], [row[1:] for row in rows]
        if self.keys == "wide":
            arms = sorted({row[1] for row in rows} | set(self.looked(lambda study: study.state.spec.arms)))
            cells = {row[:2]: row[2] for row in rows}
            head, lines = (
                arms,
                [[cells.get((key, arm), "") for arm in arms] for key in sorted({row[0] for row in rows})],
            )
        if sums:
            values = {arm: [row[2] for row in rows if row[1] == arm] for _, arm, _ in rows}
            head = ("arm", "count", "successes" if self.noise == "--binary" else "total", "squares")
            lines = [(arm, len(each), sum(each), sum(x * x for x in each)) for arm, each in values.items()]
            head, lines = (head, lines) if self.noise == "--normal" else (head[:3], [line[:3] for line in lines])
        table = [tuple(head), *lines]
        text = json.dumps([dict(zip(head, line, strict=True)) for line in lines]) if kind == "json" else _csv(table)
        text = text.replace(",", "\t") if kind == "tsv" else text
        name = f"{self.number}.{kind}"
        (self.folder / name).write_bytes(gzip.compress(text.encode()) if kind == "csv.gz" else text.encode())
        return name


def _unit(names):
    return [(i, [float(i == j) for j in range(len(names))]) for i in range(len(names))]


def _csv(table):
    return "".join(",".join(map(str, row)) + "\n" for row in table)
