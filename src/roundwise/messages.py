"""Messages as values: a code with fields, rendered for a surface from the tables at the end of this file. No code reads
rendered text, so a change of wording breaks nothing.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Self

Fields = Mapping[str, Any]
Entry = str | Callable[..., str]  # a template of `_Formatter`, or a function of the fields


LONGEST = 2000  # letters of one sentence on a screen
_CONTROL = re.compile(
    "[^\n -~\N{NO-BREAK SPACE}-\U0010ffff]|[\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: str, longest: int | None = None) -> str:
    r"""Text made safe for a terminal or a page: control characters are escaped, long text is cut.

    >>> visible("a\x1b[31mb"), visible("x" * 9, longest=5)
    ('a\\x1b[31mb', 'xxxxx... (9 letters)')
    """
    if longest is not None and len(text) > longest:
        text = f"{text[:longest]}... ({len(text)} letters)"
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class Surface(StrEnum):
    """Where a message is shown: in Python, on the command line, on a page, or in the API."""

    PYTHON = "python"
    SHELL = "shell"
    PAGE = "page"
    API = "api"


_SURFACE: ContextVar[Surface] = ContextVar("surface", default=Surface.PYTHON)


@contextmanager
def rendering_for(surface: Surface) -> Iterator[None]:
    """Render messages for a surface within this block."""
    before = _SURFACE.set(surface)
    try:
        yield
    finally:
        _SURFACE.reset(before)


class Message:
    """A code of a table and its fields, which are JSON values."""

    table: ClassVar[Mapping[str, Entry]] = {}
    __slots__ = ("code", "fields")

    def __init__(self, code: str, /, **fields: Any) -> None:
        self.code, self.fields = code, fields
        self.table[code]

    def __str__(self) -> str:
        return self.render(self.fields)

    def render(self, fields: Fields) -> str:
        """Return the text with these fields for the current surface."""
        entry = self.table[self.code]
        return _FORMATTER.vformat(entry, (), fields) if isinstance(entry, str) else entry(**fields)

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.fields.items())
        return f"{type(self).__name__}({self.code!r}{given})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def values(self) -> dict[str, Any]:
        """Return the code and the fields as JSON, from which `from_values` makes the message again."""
        return {"code": self.code, **self.fields}

    @classmethod
    def from_values(cls, values: Fields) -> Self:
        """Return the message with these values; a KeyError, TypeError or ValueError if it is none."""
        found = cls(values["code"], **{name: each for name, each in values.items() if name not in ("code", "message")})
        str(found)  # every field that its text needs is there
        return found

    def plain(self) -> dict[str, Any]:
        """Return the message as JSON for programs and people: code, message, fields."""
        return {"code": self.code, "message": str(self), **self.fields}


class GuaranteeStatus(StrEnum):
    """The status of the guarantee of a study."""

    KEPT = "kept"
    APPROXIMATE = "approximate"  # it holds in large samples
    CONDITIONAL = "conditional"  # it holds if something is true that the record cannot show
    VOID = "void"


class Doubt(Message):
    """A doubt about the guarantee: an approximation, a condition or a reason."""

    __slots__ = ()
    before: ClassVar[str]  # what its text follows in a caveat

    @property
    def caveat(self) -> str:
        """The status that it implies."""
        return f"{self.before} {self}"


class Approximation(Doubt):
    """Why the guarantee holds in large samples only; its text can follow "approximate:"."""

    __slots__ = ()
    before = "approximate:"


class Condition(Doubt):
    """Something that must be true for the guarantee to hold; its text can follow "that"."""

    __slots__ = ()
    before = "conditional on the assumption that"


class Reason(Doubt):
    """Something that voids the guarantee; its text can follow "because"."""

    __slots__ = ()
    before = "no guarantee:"


@dataclass(frozen=True)
class Guarantee:
    """Whether the error probability of a study stands after everything that happened in it.

    Attributes:
        conditions: what must be true in addition to the noise model, and cannot be seen in the record.
        reasons: what voids it.
        approximations: why it holds in large samples only.
        shapes: laws that the results are assumed to have, which no number of rows confirms: "normal", "poisson".
    """

    conditions: tuple[Doubt, ...] = ()
    reasons: tuple[Doubt, ...] = ()
    approximations: tuple[Doubt, ...] = ()
    shapes: tuple[str, ...] = ()

    @classmethod
    def of(cls, doubts: Sequence[Doubt], shapes: Sequence[str] = ()) -> Guarantee:
        conditions, reasons, approximations = (
            tuple(each for each in doubts if isinstance(each, kind)) for kind in (Condition, Reason, Approximation)
        )
        return cls(conditions, reasons, approximations, tuple(shapes))

    @property
    def status(self) -> GuaranteeStatus:
        """Kept, approximate, conditional or void: the worst that applies."""
        if self.reasons:
            return GuaranteeStatus.VOID
        if self.conditions:
            return GuaranteeStatus.CONDITIONAL
        return GuaranteeStatus.APPROXIMATE if self.approximations else GuaranteeStatus.KEPT

    @property
    def kept(self) -> bool:
        """Whether it holds without conditions."""
        return self.status is GuaranteeStatus.KEPT

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of all approximations, conditions and reasons."""
        return tuple(each.code for each in (*self.approximations, *self.conditions, *self.reasons))

    def __str__(self) -> str:
        """The status in words, to follow "The guarantee is".

        >>> str(Guarantee((Condition("rule", text="a holds"), Condition("rule", text="b holds"))))
        'conditional on the assumption that a holds; and that b holds'
        >>> str(Guarantee(reasons=(Reason("rule", text="c failed"),)))
        'void because c failed'
        >>> str(Guarantee(shapes=("normal",)))
        'kept if results are normal'
        """
        if self.reasons:
            return f"void because {'; and because '.join(map(str, self.reasons))}"
        said = [f"conditional on the assumption that {self.provided}"] if self.conditions else []
        said += [each.caveat for each in self.approximations]
        return "; and ".join(said) or f"kept{self.proviso}"

    @property
    def proviso(self) -> str:
        """What it rests on where nothing is said against it: " if results are normal"; empty without a shape."""
        said = " and ".join(_ASSUMPTIONS[each][0] for each in self.shapes)
        return f" if {said}" if said and self.kept else ""

    @property
    def provided(self) -> str:
        """All conditions, to be read after "that"."""
        return "; and that ".join(map(str, self.conditions))

    def plain(self) -> dict[str, Any]:
        return {
            "status": self.status.value,
            "conditions": [each.plain() for each in self.conditions],
            "reasons": [each.plain() for each in self.reasons],
            "approximations": [each.plain() for each in self.approximations],
            "shapes": list(self.shapes),
        }


class Remedy:
    """What to do about an error: a template with fields, in which `{@name}` is an option or a command of `OPTIONS`.

    >>> remedy = Remedy("Use {@new}, or {@close_round}.", study="checkout")
    >>> remedy.options
    ('new', 'close_round')
    >>> print(remedy)
    Use `new=True`, or `study.close_round(REASON)`.
    >>> with rendering_for(Surface.SHELL):
    ...     print(remedy)
    Use --new, or `roundwise tell checkout --round-over REASON`.
    """

    __slots__ = ("fields", "template")

    def __init__(self, template: str, /, **fields: Any) -> None:
        self.template, self.fields = template, fields

    def __str__(self) -> str:
        return _FORMATTER.vformat(self.template, (), self.fields)

    @property
    def options(self) -> tuple[str, ...]:
        """The options and commands that it names."""
        names = (name for _, name, _, _ in _FORMATTER.parse(self.template) if name)
        return tuple(name[1:] for name in names if name[:1] == "@")


class Severity(StrEnum):
    """Whether a note endangers the guarantee or is informative."""

    DANGER = "danger"
    INFO = "info"


class Note(Message):
    """A note for readers of a report."""

    __slots__ = ()
    severity: ClassVar[Severity] = Severity.INFO

    def plain(self) -> dict[str, Any]:
        return {"code": self.code, "severity": self.severity.value, "message": str(self), **self.fields}


class FileNote(Note):
    """A note on a file: the field `file` is its name, and `others` is how many other files it applies to."""

    __slots__ = ()

    @property
    def kind(self) -> tuple[str, ...]:
        """What it is about, whatever the file and the numbers."""
        return (self.code, *(str(self.fields.get(name)) for name in ("role", "column", "columns")))

    @property
    def text(self) -> str:
        """The note without the name of the file."""
        fields = {name: value for name, value in self.fields.items() if name not in ("file", "others")}
        return self.render(fields)

    def __str__(self) -> str:
        others = self.fields.get("others", 0)
        return f"{self.fields['file']}: {self.text}" + (f" Likewise {several(others, 'other file')}." if others else "")


class Danger(Note):
    """A note on something that endangers the guarantee."""

    __slots__ = ()
    severity = Severity.DANGER

    @classmethod
    def of(cls, doubt: Doubt) -> Danger | None:
        """Return the note about a doubt; None if the doubt itself says enough."""
        code = doubt.fields["about"]["code"] if doubt.code == "metric" else doubt.code
        return cls(doubt.code, **doubt.fields) if code in cls.table else None


# --- numbers and names in sentences


def count(value: float) -> str:
    """Return a number of things: 12 345."""
    if not math.isfinite(value):
        return "\N{INFINITY}" if value > 0 else "?"
    return f"{int(value):,}".replace(",", "\N{NO-BREAK SPACE}")


def number(value: float) -> str:
    """Return a number as people write it: 12 345, 0.0523, infinite."""
    if math.isinf(value):
        return "infinite"
    if value == int(value) or abs(value) >= 1000:
        return count(round(value))
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def several(number: float, what: str) -> str:
    """Return how many there are of something.

    >>> several(1, "result"), several(2500, "result")
    ('1 result', '2\\xa0500 results')
    """
    return f"{count(number)} {what}{'' if number == 1 else 's'}"


def few(names: Sequence[object], most: int = 8, last: str = "and") -> str:
    """Return names, or numbers, in a row.

    >>> few(["a"]), few(["a", "b"], last="or"), few(["a", "b", "c"]), few(list("abcdefghijk"), 3)
    ('a', 'a or b', 'a, b and c', 'a, b, c and 8 more')
    """
    words = [str(each) for each in names]
    if len(words) > most:
        return f"{', '.join(words[:most])} and {count(len(words) - most)} more"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else "none"


def day(stamp: str | None) -> str:
    """Return a time as people write it: 3 Nov 2026, 08:02 UTC."""
    if stamp is None:
        return "?"
    at = datetime.fromisoformat(stamp).astimezone(UTC)
    return f"{at.day} {at:%b %Y, %H:%M} UTC"


def p_value(chance: float) -> str:
    """Return a small probability.

    >>> p_value(0.000123), p_value(1e-9)
    ('p = 0.00012', 'p < 1e-6')
    """
    return "p < 1e-6" if chance < 1e-6 else f"p = {chance:.2g}"


LETTERS = 40  # of a cell or title that are shown


def shown(text: object, most: int = LETTERS) -> str:
    r"""Return a few letters of a text, none of which moves the cursor of a terminal.

    >>> shown("a\x1b[2Jb" + "c" * 10**7, most=14)
    'a\\x1b[2Jbcccc…'
    """
    try:
        whole = text if isinstance(text, str) else str(text)
    except (ValueError, RecursionError):  # an integer of thousands of digits; a table in itself
        whole = f"<{type(text).__name__}>"
    start = whole[: most + 1].strip() if len(whole) > most else whole.strip()
    plain = "".join(each if _harmless(each) else each.encode("unicode_escape").decode() for each in start)
    return plain if len(plain) <= most and len(whole.strip()) <= most else plain[: most - 1] + "…"


def quoted(text: object, most: int = LETTERS) -> str:
    """Return a few letters of a text in quotes."""
    return f"'{shown(text, most)}'"


def list_quoted(names: Iterable[object], most: int = 8) -> str:
    """Return some names in quotes, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(quoted(name) for name in every[:most]) + more


def list_by_arm(counts: Mapping[str, int]) -> str:
    """Return how many there are of each arm.

    >>> list_by_arm({"placebo": 2, "25mg": 1})
    'placebo 2, 25mg 1'
    """
    found = [f"{shown(arm)} {number}" for arm, number in counts.items()]
    return ", ".join(found[:6]) + (f" and {len(found) - 6} more" if len(found) > 6 else "")


def _harmless(letter: str) -> bool:
    """Printable (no control, no change of direction), and not one of many marks piled on one letter."""
    return letter.isprintable() and unicodedata.category(letter) not in ("Mn", "Me")


FORMATS: dict[str, Callable[[Any], str]] = {
    "count": count,
    "p": p_value,
    "few": few,
    "quoted": quoted,
    "s": lambda number: "" if number == 1 else "s",
    "is": lambda number: "is" if number == 1 else "are",
    "was": lambda number: "was" if number == 1 else "were",
}


class _Formatter(string.Formatter):
    """Templates with `{name:format}` for a field and `{@name}` for an option or a command."""

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Fields) -> Any:
        return option(str(key)[1:], **kwargs) if str(key)[:1] == "@" else super().get_value(key, args, kwargs)

    def format_field(self, value: Any, format_spec: str) -> str:
        made = FORMATS.get(format_spec)
        return made(value) if made is not None else str(format(value, format_spec))


_FORMATTER = _Formatter()


# --- the tables


def _repeated(*, column: str, repeated: int, values: int, exact: bool, several_arms: int) -> str:
    about = "" if exact else "about "
    return f"{about}{count(repeated)} of {count(values)} values have several rows"


def _repeated_condition(*, column: str, several_arms: int, **fields: Any) -> str:
    arms = f", {count(several_arms)} of them in several arms" if several_arms else ""
    found = _repeated(column=column, several_arms=several_arms, **fields)
    return f"rows with the same {quoted(column)} are independent of each other ({found}{arms})"


def _repeated_danger(*, column: str, **fields: Any) -> str:
    return (
        f"{quoted(column)} looks like an identifier, and {_repeated(column=column, **fields)}. Results of one user or "
        "item usually depend on each other, and then the error may be far larger than promised. Record one row for "
        f"each, or create the study with {option('id_column')} and {option('id_result')}; if arms were tried on the "
        f"same items, create it with {option('item_column')}."
    )


def _surplus(added: float, rounds: Sequence[int]) -> str:
    which = f"round{'' if len(rounds) == 1 else 's'} {few(rounds)}"
    return f"{several(added, 'result')} beyond the request for their arms ({which})"


def _surplus_condition(*, added: float, rounds: Sequence[int], **totals: float) -> str:
    late = f"{_surplus(added, rounds)} that arrived after others of the same round"
    return f"the {late} were not added because of the earlier ones"


def _surplus_danger(*, added: float, rounds: Sequence[int], **totals: float) -> str:
    return (
        f"{_surplus(added, rounds)} arrived after others of the same round. If they were added because of what those "
        "showed, the guarantee does not hold. Record surplus results in one call with the rest of the round, or in the "
        "next round."
    )


def _refutation(*, spreading: bool, moving: str | None, false_alarm: float) -> str:
    found = ["they vary more than sigma allows"] if spreading else []
    found += [] if moving is None else [f"no single mean of each arm fits all rounds ({moving} least of all)"]
    return ", and ".join(found)


_ASSUMPTIONS = {  # what rows may contradict, and what to do about it
    "normal": (
        "results are normal",
        "To continue without this assumption, use {@relax}; or start a new study with {@cap} if single large values "
        "should not decide.",
    ),
    "equal_variances": ("all arms vary alike", "Start a new study without {@equal_variances}."),
    "sigma": (
        "sigma is the standard deviation of the results",
        "To continue without this assumption, use {@relax}; or start a new study with {@normal}, which takes no sigma.",
    ),
    "poisson": (
        "counts vary as Poisson counts do",
        "If most counts are above 20, start a new study with {@normal}; else, to continue without this assumption, use "
        "{@relax}.",
    ),
}
_ROW_FINDINGS: dict[str, str] = {
    "skewness": "skewness {size:.1f}",
    "kurtosis": "kurtosis {size:.1f} in place of 3",
    "repeated": "value {value:g} in {size:.0%} of rows",
    "deviations": "{size:.1f} times the standard deviation of the others",
    "sigma": "{size:.1f} times the standard deviation that was given",
    "dispersion": "{size:.1f} times the variance of Poisson counts",
}


def _row_findings(findings: Sequence[Fields]) -> str:
    """The findings by arm: "premium (skewness 9.1, value 0 in 99 % of rows)"."""
    arms: dict[str, list[str]] = {}
    skewed = {each["arm"] for each in findings if each["check"] == "skewness"}  # of those the kurtosis says no more
    for each in findings:
        if each["check"] == "kurtosis" and each["arm"] in skewed:
            continue
        arms.setdefault(str(each["arm"]), []).append(_ROW_FINDINGS[each["check"]].format(**each).replace("%", " %"))
    return few([f"{arm} ({', '.join(found)})" for arm, found in arms.items()], 3)


def _rows_condition(*, assumption: str, findings: Sequence[Fields]) -> str:
    return f"{_ASSUMPTIONS[assumption][0]}, which the rows of {_row_findings(findings)} contradict"


def _rows_danger(*, assumption: str, findings: Sequence[Fields]) -> str:
    said, advice = _ASSUMPTIONS[assumption]
    return (
        f"The rows of {_row_findings(findings)} contradict the assumption that {said}: if it held, this would happen "
        f"in at most 1 of 1\N{NO-BREAK SPACE}000 studies. The error may be far larger than promised. {Remedy(advice)}"
    )


def _short_condition(*, rounds: Sequence[Fields], more: int) -> str:
    which = few([each["round"] for each in rounds], 20)
    others = f" and {count(more)} more" if more else ""
    return (
        f"the results missing from round{'' if len(rounds) == 1 else 's'} {which}{others} are missing for reasons "
        "unrelated to their values"
    )


def _short_danger(*, rounds: Sequence[Fields], more: int) -> str:
    found = [
        f"round {each['round']} ({count(each['missing'])} of {count(each['asked'])} results missing: {each['why']})"
        for each in rounds
    ]
    others = f" and {count(more)} more rounds" if more else ""
    return (
        f"Closed early: {', '.join(found)}{others}. The guarantee holds if the results are missing for reasons "
        "unrelated to their values."
    )


def _amended_danger(*, name: str, round: int, withdrawn: bool, why: str) -> str:
    return (
        f"{name} of round {round} was {'withdrawn' if withdrawn else 'corrected'}: {why}. The guarantee holds if the "
        "results did not prompt this change, and is void if they did."
    )


def _disagreement(*, arm: str, round: int, chance: float, shifts: bool) -> str:
    beyond = " by more than a shift common to all arms" if shifts else ""
    return (
        f"The rounds do not agree: means of the same arm differ between rounds{beyond} ({p_value(chance)}), {arm} in "
        f"round {round} most of all. If something other than chance moved "
        f"{'single arms' if shifts else 'the results'}, or rows depend on each other (several of one user), the "
        "guarantee does not hold."
    )


def _arm_changed(verb: str) -> Entry:
    def render(*, arm: str, after: int, why: str, removed: bool) -> str:
        when = f"after round {after}" if after else "before the first round"
        gone = f" Results of {arm} stay in the record and do not count." if removed else ""
        return f"{arm} was {verb} {when}{f': {why}' if why else ''}".rstrip(".") + "." + gone

    return render


def _moved_together(*, intervals: bool) -> str:
    effect = "means and their intervals mix the rounds and do not hold"
    return (
        "All arms moved together between rounds (a season, another grader). The decision compares arms within rounds, "
        f"so it is unaffected; {effect if intervals else 'means mix the rounds, and their intervals are not shown'}."
    )


def _after_decision(*, results: float, recounted: bool, claims: bool) -> str:
    how = " (by the decision after recounting)" if recounted else ""
    use = "means and bounds, and the verdict stands"
    if claims:
        use = "means and their intervals; the findings on the claims and their bounds stand"
    return f"{several(results, 'result')} arrived after the decision{how}; used for {use}."


def _design(budget: int | None, lead: str | None) -> str:
    if budget is None:
        return "to continue until it is decided"
    return f"for {count(budget)} results{'' if lead is None else f' and a lead of {lead}'}"


def _joint_bounds(*, times: int, changed: bool) -> str:
    since = ", counted from the last change of the claims," if changed else ""
    often = {2: "twice", 3: "three times"}.get(times, f"{times} times")
    return (
        "What is shown stays shown: the probability that any of it is false is at most the error above. All lower "
        f"bounds{since} hold jointly with an error of at most {often} that, and so "
        "do all upper bounds; the forecast is not covered."
    )


_CONTRADICTIONS = {
    "outcome": "another outcome",
    "arm": "another arm",
    "late": "an outcome where none was recorded",
    "gone": "no outcome where one is recorded",
}


def _contradicts(*, kinds: Mapping[str, int], lines: Sequence[int], files: Sequence[str], unit: str, key: str) -> str:
    rows = sum(kinds.values())
    each = ", ".join(_CONTRADICTIONS[kind] + (f" ({n})" if len(kinds) > 1 else "") for kind, n in kinds.items())
    where = f"{unit}{'' if rows == 1 else 's'} {', '.join(map(str, lines))}{', ...' if rows > len(lines) else ''}"
    return (
        f"{several(rows, 'row')} {'has' if rows == 1 else 'have'} an {key} seen before but {each} ({where}; recorded "
        f"by {few(files, 3)}). Skipped: the record stands. To correct it, use {option('amend')}."
    )


def _collecting(
    *, arm: str, has: int, rows: int, skewness: float | None, budget: int | None = None, over: bool = False
) -> str:
    """What an arm still needs before it is bet on, why, and the ways out."""
    if has:
        said = f"Collecting: {arm} has {count(has)} of the roughly {count(rows)} results that are needed before "
        why = "" if skewness is None else f": single values make up much of its total (skewness {skewness:.2g})"
        said += f"anything is concluded about it{why}."
    else:
        said = f"Collecting: about {count(rows)} results of each arm are needed before anything is concluded about it"
        said += ", and more if they are skewed (32 times the squared skewness)."
    if budget is not None:
        said += f" The budget of {count(budget)} does not allow that, so the study will hardly be decided."
        if skewness is None:
            said += f" With few results, create a study with {option('normal')} if they are bell-shaped."
        elif not over:
            said += " Extend it, or leave the arm out."
    if budget is None and skewness is None:
        return said
    return f"{said} If single large values should not decide, create a study with {option('cap')}, which need not wait."


Note.table = {
    "this_run": lambda *, chance, repeats: (
        "The answer is about this run. How likely another run of the list would have another winner "
        + (
            f"is not known{' without repeats' if repeats == 1 else ''}."
            if chance is None
            else f"is about {100 * chance:.2g} %, judged by the {repeats} repeats (a rough figure, no guarantee)."
        )
    ),
    "few_rows": lambda *, arm, rows, enough: (
        f"{several(rows, 'result')} of {arm} in a round say little about its spread. Make rounds larger, so that each "
        f"arm has {count(enough)} or more; or, if all arms are known to have the same spread, say so in a new study "
        f"({option('equal_variances')})."
    ),
    "collecting": _collecting,
    "rule": "{text}",  # in the words of a stopping rule
    "exact_rounds": (
        "{policy} stops by its own rule, which requires every round to be exactly as planned: with fewer or more "
        "results the study ends undecided."
    ),
    "arm_dropped": _arm_changed("dropped"),
    "arm_added": _arm_changed("added"),
    "levels": lambda *, levels, rounds: (
        "Level left (a statement is shown when it reaches 1): "
        + few([f"{words} {f'{level:.2g}' if level >= 0.001 else 'below 0.001'}" for words, level in levels], 6)
        + "."
        + (f" At most {several(rounds, 'more round')}." if rounds else "")
    ),
    "relaxed": (
        "After round {after} the noise model {noise} was given up ({why}): the study continued as large-sample, with "
        "nothing shown or ruled out. Earlier rounds only estimate the variance; evidence and intervals use later ones."
    ),
    "budget_changed": "The budget was {before:count} results at first and is {now:count} now.",
    "redesigned": lambda *, before, now: (
        f"The study was designed {_design(**before)} at first and is designed {_design(**now)} now. Each round is "
        "judged by the design that was in force before its results."
    ),
    "remark": lambda *, by, at, text: f"Remark by {by}, {day(at)}: {text}",
    "more_remarks": "{number:count} earlier remark{number:s} {number:is} in the record.",
    "ended": "The study ended because {why}.",
    "within_rounds": "Differences are within rounds: changes common to all arms between rounds are not part of them.",
    "joint_bounds": _joint_bounds,
    "moved_together": _moved_together,
    "widened": (
        "* The interval of {arms:few} was extended to include its mean. Bounds are built up round by round and keep "
        "the tightest value reached, whereas a mean weighs all results alike. This may be chance, or a sign that an "
        "assumption does not hold."
    ),
    "sums_only": "Some results were recorded as sums. Only their range can be used, so more results are needed.",
    "covariate": lambda *, column, explained: (
        f"Results are adjusted for {quoted(column)}, which explains {100 * explained:.0f} % of their variance; means "
        "are those of adjusted results, without intervals: a round moves all arms by as much as its center is off."
    ),
    "ratio": lambda *, numerator, denominator, arms: (
        f"Total {quoted(numerator)} over total {quoted(denominator)}: "
        + few([f"{arm} {x:.6g} / {y:.6g} = {x / y:.4g}" for arm, (x, y) in arms.items()])
        + ". The table has linearized ratios, whose last digits can differ. A first round without earlier data sets "
        "their scale and is not evidence."
    ),
    "rows_unchecked": (
        "Some results were recorded as sums, so their single values were not checked against the assumptions."
    ),
    "rows_skewed": lambda *, findings: (
        f"The results are skewed: {_row_findings(findings)}. Every round has enough rows for this not to matter."
    ),
    "cap_cut": lambda *, shares: (
        "The cap cut " + few([f"{100 * share:.3g} % of the total of {arm}" for arm, share in shares.items()]) + "."
    ),
    "rows_at_end": lambda *, arm, share, end: (
        f"{100 * share:.0f} % of the rows of {arm} are {end:g}, an end of the range. If values were cut off there, the "
        "answer is about the truncated values."
    ),
    "incomplete_round": (
        "Round {round} was incomplete when the study was closed: its {results:count} result{results:s} do not count."
    ),
    "earlier_data": "{results:count} earlier result{results:s} ({name}) guide the allocation and are not evidence.",
    "after_decision": _after_decision,
}
COMBINED = {  # what becomes of several rows of an id
    "sum": "their sum",
    "mean": "their mean",
    "max": "the largest of them",
    "any": "whether any of them is not 0",
}
FileNote.table = {
    "unused_columns": lambda *, columns: f"not used: {list_quoted(columns, 20)}.",
    "guessed_column": lambda *, column, role: (
        f"{quoted(column)} was taken for the {role}, judging by its contents. To be certain, use "
        f"{option(f'{role}_column')}."
    ),
    "consecutive": (
        "the runs of one arm were made one after another on one machine, so what drifts meanwhile can look like a "
        "difference between arms. Tell several short sessions rather than one long one."
    ),
    "possibly_cut": "the last line has no line end; check that the file was not cut.",
    "first_sheet": "only the first of {sheets} sheets, {sheet:quoted}, was read.",
    "number_read": "{text:quoted} was read as {value:.15g}.",
    "combined": lambda *, rows, ids, rule: (
        f"{count(rows)} rows were combined into the results of {count(ids)} ids ({COMBINED.get(rule, rule)})."
    ),
    "several_arms": "{ids:count} id{ids:s} with rows of several arms {ids:was} left out.",
    "after_window": "{rows:count} row{rows:s} after the window of {window} {rows:was} left out.",
    "waiting": (
        "{ids:count} id{ids:s} {ids:is} waiting: the window of {window} is still open. Tell a later file with all rows."
    ),
    "empty_zero": "{rows:count} empty outcome{rows:s} {rows:was} read as 0.",
    "skipped": "{rows:count} row{rows:s} {rows:was} recorded before and {rows:was} skipped.",
    "contradicts": _contradicts,
    "ids_in_two_files": lambda *, rule, window: (
        "the result of an id is that of its rows in the file that tells it first. "
        + (
            f"If ids can have rows in later files, create the study with {option('id_window')}: an id is then told "
            "when its window has closed."
            if window is None
            else "Tell files with all rows since the study began, so that windows begin with the first row of an id."
        )
    ),
    "asked_again": lambda *, arms: (
        f"rows without an outcome are asked for again ({list_by_arm(arms)}). If they keep failing, give them up with "
        f"{option('failed')}."
    ),
    "failed_count": lambda *, arms, value: (
        f"{several(sum(arms.values()), 'failed request')} counted as {value:g} ({list_by_arm(arms)})."
    ),
    "given_up": lambda *, arms, why: (
        f"{several(sum(arms.values()), 'failed request')} given up ({list_by_arm(arms)}; {shown(why, 200)}): each "
        "counts against every statement that is to be shown."
    ),
    "empty_cells": lambda *, arms: (
        f"empty cells were taken for items that an arm was not tried on ({list_by_arm(arms)}). To count them as "
        f"missing, use {option('missing')}."
    ),
    "missing_outcomes": lambda *, arms, why: (
        f"{several(sum(arms.values()), 'outcome')} missing ({list_by_arm(arms)}): {shown(why, 200)}."
    ),
    "other_arms": lambda *, arms: (
        f"{several(sum(arms.values()), 'row')} of other arms {FORMATS['was'](sum(arms.values()))} left out "
        f"({list_by_arm(arms)})."
    ),
    "teaches_only": (
        "sums cannot be partitioned at random, so this first round only guides the allocation. It counts if every "
        "result is a row of its own."
    ),
    "running_total": "a running total: {recorded:count} result{recorded:s} of it recorded before, {new:count} new.",
    "possible_total": lambda *, results, new: (
        f"no arm has fewer results than are recorded, so this could be a running total. It counts as {count(results)} "
        f"new results; as a running total ({option('cumulative')}) it would bring {count(new)}."
    ),
    "same_contents": lambda *, round: (
        "identical to a file recorded "
        + (f"in round {round}" if round else "after the decision")
        + ", and recorded as new results."
    ),
}
Approximation.table = {
    "metric": lambda *, metric, about: f"{metric}: {Approximation.from_values(about)}",
    "large_sample": lambda *, rows: (
        f"the first results of each arm (at least {count(rows)}) only estimate its spread, and a value too rare to "
        "have appeared can overturn the answer"
    ),
}
Condition.table = {
    "metric": lambda *, metric, about: f"{Condition.from_values(about)} (metric {metric})",
    "covariate_differs": "{column:quoted} was known before the study and differs between arms by chance",
    "rule": "{text}",  # in the words of a stopping rule
    "rows_contradict": _rows_condition,
    "short_rounds": _short_condition,
    "missing_outcomes": lambda *, number: (
        f"the {several(number, 'missing outcome')} {'is' if number == 1 else 'are'} missing for reasons unrelated to "
        f"{'its value' if number == 1 else 'their values'}"
    ),
    "given_up": "which request{number:s} {number:was} given up does not depend on results at later places of the list",
    "amended": lambda *, name, round, withdrawn, why: (
        f"the {'withdrawal' if withdrawn else 'correction'} of {name} in round {round} was not prompted by its results"
    ),
    "contradicted": "the recorded results of {ids:count} id{ids:s} are right, although later files differ",
    "arm_dropped": "{arm} was dropped for a reason unrelated to any result",
    "arm_added": "{arm} was added for a reason unrelated to any result",
    "recounted": "the rules by which earlier rounds were recounted were not chosen because of their results",
    "shared_items": "results of different arms on the same item are independent",
    "repeated_ids": _repeated_condition,
    "surplus": _surplus_condition,
    "seed_chosen": (
        "the order of the rows is unrelated to their values (the seed of the random partition was chosen, not drawn)"
    ),
    "order_chosen": lambda *, given: (
        "the order of the list is unrelated to the results ("
        + ("it is that of the file" if given else "its seed was chosen, not drawn")
        + ")"
    ),
    "same_list": lambda *, studies: (
        f"no result that was known from {few(list(map(quoted, studies)), 3)} (the same list) is told here: in another "
        "order the same results are no new evidence"
    ),
    "rounds_differ": "the rounds differ only by chance",
    "arms_moved": "what changed between rounds changed all arms alike",
}
Reason.table = {
    "metric": lambda *, metric, about: f"{Reason.from_values(about)} (metric {metric})",
    "rule": "{text}",  # in the words of a stopping rule
    "unproved_rule": "the policy stops by its own rule, for which no proof is stated",
    "unproved_threshold": "the threshold {threshold} has no proof",
    "normal_only": "this threshold is proved for normal rewards with known sigma",
    "shared_items": "arms share items, and this rule requires independent results of different arms",
    "wrong_noise_model": "the noise model does not hold for these rewards",
    "sigma_too_small": "the assumed sigma is smaller than the true one",
    "out_of_range": "results leave the assumed range",
    "without_replacement": "results drawn without replacement depend on each other",
    "answer_not_reproduced": "the recorded answer does not follow from the counted results",
    "all_rejected": (
        "every answer has been ruled out, which happens with at most the error probability if the assumptions hold"
    ),
    "refuted": lambda **fields: f"the results refute the assumptions: {_refutation(**fields)}",
    "unreadable": "the record cannot be replayed: {error}",
}
Danger.table = {
    "metric": lambda *, metric, about: f"{metric}: {Danger.from_values(about)}",
    "covariate_differs": (
        "The covariate {column:quoted} differs between arms ({chance:p}), which random assignment does not do. If arms "
        "can change it, or units were not assigned at random, adjusting for it is biased."
    ),
    "cap_differs": lambda *, most, least, cut, of: (
        f"The cap cut {100 * cut:.3g} % of the total of {most}, but {100 * of:.3g} % of that of {least}. The answer is "
        "about capped results, and may be another without the cap. For a higher cap, start a new study."
    ),
    "list_contradicts": "The whole list is now known, and the answer is wrong: {words}.",
    "rows_contradict": _rows_danger,
    "short_rounds": _short_danger,
    "amended": _amended_danger,
    "contradicted": lambda *, ids: (
        f"Later files differ from the record (ids: {count(ids)}). The recorded results stand and count. If they were "
        f"recorded before they were final, correct them with {option('amend')}; the notes name them."
    ),
    "repeated_ids": _repeated_danger,
    "surplus": _surplus_danger,
    "all_rejected": (
        "Every answer has been ruled out. If the assumptions hold, the right one is ruled out with at most the error "
        "probability. Check the noise model, and look for dependent rows and for results selected by their values."
    ),
    "refuted": lambda **fields: (
        f"The results refute the assumptions: {_refutation(**fields)}. If the assumptions hold, this happens in at "
        f"most 1 of {count(round(1 / fields['false_alarm']))} studies, however often you look. Look for a "
        "sigma that is too small, a mean that drifted, dependent rows, and outliers. No bounds are shown, because they "
        "rest on the same assumptions."
    ),
    "rounds_differ": _disagreement,
    "missing_differ": (
        "The share of missing outcomes differs between arms ({chance:p}), {arm} most of all: outcomes may be missing "
        "because of the arm, and then comparisons are biased."
    ),
    "sample_ratio_mismatch": (
        "Sample-ratio mismatch: the allocation differs from the plan ({chance:p}). {arm} has {returned:count} results, "
        "{expected:count} were expected. Look for whatever assigns, loses or filters results by arm: if it depends on "
        "their values, comparisons are biased."
    ),
}
OPTIONS: dict[str, tuple[str, str, str]] = {  # what to write in Python and at the command line, what to use on the page
    "amend": ("`study.amend`", "`roundwise amend`", "“Correct a file”"),
    "new": ("`new=True`", "--new", "“all of it is new” under “What is in it”"),
    "empty": ('`empty="zero"`', "--empty zero", "the menu “Rows without a result”"),
    "id_result": ("`Reading(id_result=...)`", "--id-result RULE", "the menu “several rows of one id”"),
    "id_window": ("`Reading(id_window=...)`", "--id-window TIME", "the field “within”"),
    "mixed_ids": ('`Reading(mixed_ids="left-out")`', "--mixed-ids left-out", "the menu “an id in several arms”"),
    "binary": ("`Binary()`", "--binary", "“yes or no”"),
    "cumulative": ("`cumulative=True`", "--cumulative", "“a running total” under “What is in it”"),
    "ignore_arms": ("`ignore_arms=NAMES`", "--ignore-arms NAMES", "the box “leave out other arms”"),
    "missing": ("`missing=REASON`", "--missing REASON", "the menu “Rows without a result”"),
    "failed": ("`failed=True`", "--failed", "the menu “Rows without a result”"),
    "failed_is": ("`Reading(failed_is=...)`", "--failed-is NUMBER", "the command line"),
    "arm_column": ("`columns=Columns(arm=...)`", "--arm-column NAME", "“Column of arms”"),
    "outcome_column": ("`columns=Columns(outcome=...)`", "--outcome-column NAME", "“Column of results”"),
    "id_column": ("`columns=Columns(id=...)`", "--id-column NAME", "“Column of ids”"),
    "time_column": ("`columns=Columns(time=...)`", "--time-column NAME", "“Column of times”"),
    "arm_names": ("`arm_names={{theirs: arm}}`", "--arm-names THEIRS=ARM", "`--arm-names` on the command line"),
    "item_column": ("`columns=Columns(item=...)`", "--item-column NAME", "“Column of items”"),
    "covariate_column": ("`columns=Columns(covariate=...)`", "--covariate-column NAME", "the column of a covariate"),
    "denominator_column": (
        "`columns=Columns(denominator=...)`",
        "--denominator-column NAME",
        "the field “divided by the column”",
    ),
    "cost_column": ("`columns=Columns(cost=...)`", "--cost-column NAME", "the command line"),
    "arms_example": ('arms=["a", "b", "c"]', "--arms a,b,c", "a, b, c"),
    "baseline_example": ("`baseline=0.3`", "--baseline 30%", "“The usual result”"),
    "deviation": ("`deviation`", "--deviation", "“The spread (standard deviation)”"),
    "pilot": ("`pilot` with a past file", "--pilot with a past file", "“File of past results”"),
    "items_or_column": ("`with_items(noise)` or a column of items", "--items or --item-column", "“Column of items”"),
    "range": ("Bounded({low:g}, {high:g})", "--range {low:g} {high:g}", "scores from {low:g} to {high:g}"),
    "range_or_sigma": (
        "Bounded(low, high) or SubGaussian(sigma)",
        "--range or --sigma",
        "whose results are scores or measurements",
    ),
    "normal": ("`Normal()`", "--normal", "“bell-shaped”"),
    "equal_variances": ("`EqualVariances()`", "--equal-variances", "`--equal-variances` on the command line"),
    "cap": ("`Capped(X)`", "--cap X", "“large values count as a cap at most”"),
    "large_sample": ("`LargeSample()`", "--large-sample", "“money, times, counts of any shape”"),
    "unrelated": ("`unrelated=True`", "--unrelated", "the box “the reason does not depend on any result”"),
    "unsound": ("`unsound=True`", "--unsound", "`roundwise import --unsound`"),
    "wager": ("`policy=Wager()`", "--policy wager", "the policy Wager"),
    "ask": ("`study.ask()`", "roundwise ask {study}", "“Begin the next round”"),
    "tell": ("`study.tell(...)`", "roundwise tell {study} FILE", "“Upload results”"),
    "close_round": ("`study.close_round(REASON)`", "roundwise tell {study} --round-over REASON", "“Close the round”"),
    "end": ("`study.end(REASON)`", "roundwise close {study} --why REASON", "“End the study”"),
    "report": ("`study.report()`", "roundwise report {study}", "“Report”"),
    "report_file": ("`study.report().html()`", "roundwise report {study} --out report.html", "“Report”"),
    "status": ("`study.status()`", "`roundwise status`", "the page of the study"),
    "create": ("`create_study`", "`roundwise new`", "“New study”"),
    "import_past": ("`import_past`", "`roundwise import-past`", "“Import earlier data”"),
    "extend": ("`study.extend(N)`", "`roundwise extend`", "“Change the budget”"),
    "relax": ("`study.relax(REASON)`", "`roundwise relax NAME --why REASON`", "“Continue as large-sample”"),
    "import": ("`import_study`", "`roundwise import`", "`roundwise import`"),
    "export": ("`export_study`", "`roundwise export`", "`roundwise export`"),
    "plan": ("`plan`", "`roundwise plan`", "`roundwise plan`"),
    "plan_file": ("`plan(...).json()`", "`roundwise plan ... --out plan.json`", "`roundwise plan ... --out plan.json`"),
    "simulate": ("`simulate`", "`roundwise simulate`", "`roundwise simulate`"),
    "paper": ("`reproduced`", "`roundwise paper`", "`roundwise paper`"),
    "serve": ("the server", "the server (`roundwise serve`)", "the server"),
    "own": ("`import {module}`", "`roundwise --own {module} ...`, in Python `import {module}`", "`import {module}`"),
    "round_size": ("`round_size`", "--round-size", "“Results per round”"),
    "budget": ("`budget`", "--budget", "“At most in all”"),
    "split": ("`split`", "--split", "“Shares”"),
}
IN_REQUESTS: dict[str, str] = {  # what to send to the API; without an entry, the field of that name
    **{name: f'`"{name}": true`' for name in ("new", "cumulative", "unrelated", "failed")},
    **{
        f"{role}_column": f'`"columns": {{{{"{role}": NAME}}}}`'
        for role in ("arm", "outcome", "id", "time", "item", "covariate", "denominator", "cost")
    },
    **{name: f'`"reading": {{{{"{name}": ...}}}}`' for name in ("id_result", "id_window", "mixed_ids", "failed_is")},
    "empty": '`"empty": "zero"`',
    "binary": '`"noise": {{"name": "binary"}}`',
    "normal": '`"noise": {{"name": "normal"}}`',
    "equal_variances": '`"noise": {{"name": "equal-variances"}}`',
    "large_sample": '`"noise": {{"name": "large-sample"}}`',
    "cap": '`"noise": {{"name": "capped", "cap": X}}`',
    "pilot": "a past file to `POST .../plan/pilot`",
    "items_or_column": '`"columns": {{"item": NAME}}`',
    "arms_example": '`"arms": ["a", "b", "c"]`',
    "baseline_example": '`"baseline": 0.3`',
    "range": '`"noise": {{"name": "bounded", "low": {low:g}, "high": {high:g}}}`',
    "range_or_sigma": "the noise model bounded or sub-gaussian",
    "wager": '`"policy": {{"name": "wager"}}`',
    "own": "`roundwise --own {module} serve`",
    "serve": "the server",
    "simulate": "`roundwise simulate`",
    "paper": "`roundwise paper`",
    "unsound": "`roundwise import --unsound`",
    "tell": "`POST .../results`",
    "report": "`GET .../report`",
    "report_file": "`GET .../report?format=html`",
    "status": "`GET .../studies/NAME`",
    "create": "`POST .../studies`",
    "import": "`POST .../records`",
    "export": "`GET .../record`",
    "plan": "`roundwise plan`",  # named where the server refuses large files
    "plan_file": "`POST .../plan`",
    **{
        name: f"`POST .../{name.replace('_', '-')}`"
        for name in ("amend", "ask", "close_round", "end", "extend", "relax", "import_past")
    },
}


def option(name: str, **fields: object) -> str:
    """Return what an option or a command is called where the message is read; settings of a study need no entry."""
    if _SURFACE.get() is Surface.API:
        return IN_REQUESTS.get(name, f'`"{name}"`').format(**fields)
    dashes = name.replace("_", "-")
    found = OPTIONS.get(name, (f"`{name}`", f"--{dashes}", f"“{name.replace('_', ' ')}”"))
    text = found[list(Surface).index(_SURFACE.get())].format(**fields)
    return shell_command(text.removeprefix("roundwise ")) if text.startswith("roundwise ") else text


_FLAGS: ContextVar[Mapping[str, str]] = ContextVar("flags", default=MappingProxyType({}))


def keep_flags(**flags: str) -> None:
    """Let the commands in messages have these flags: `own` after the program's name, `storage` at the end."""
    _FLAGS.set({**_FLAGS.get(), **flags})


def shell_command(words: str) -> str:
    """Return a command on a study in backticks, with the flags of the command that is running."""
    flags = _FLAGS.get()
    return f"`roundwise {flags.get('own', '')}{words}{flags.get('storage', '')}`"


def current_surface() -> Surface:
    """Return the surface for which messages are rendered here."""
    return _SURFACE.get()
