"""The layers of the package: a module imports only from layers before its own; CONTRIBUTING shows the same order."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "roundwise"

# each may import what stands before it, and itself
ORDER = (
    "_start",
    "_version",
    "messages",
    "errors",
    "deadline",
    "arrays",
    "model.batch",
    "questions",
    "model.estimates",
    "noise",
    "model.problem",
    "rules",
    "thresholds",
    "policies",
    "model.spec",
    "contract",
    "formats",
    "render",
    "simulation",
    "environments",
    "ingest",
    "store",
    "study",
    "theory",
    "calibration",
    "arena",
    "planning",
    "inspect",
    "web",
    "cli",
    "__main__",
)
TOGETHER = {"solvers": "questions", "report": "study"}  # one layer in two packages, without cycles between modules
MATHEMATICS = ORDER[: ORDER.index("formats")]


def modules():
    return {
        ".".join(("roundwise", *path.relative_to(PACKAGE).with_suffix("").parts)): path
        for path in PACKAGE.rglob("*.py")
    }


def running(node):
    """All nodes of a tree, without what is under `if TYPE_CHECKING`."""
    yield node
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.If) and isinstance(each.test, ast.Name) and each.test.id == "TYPE_CHECKING":
            continue
        yield from running(each)


def imported(name, path, known):
    """The modules of the package that a module imports anywhere in its code, but for the types of annotations."""
    here = name.removesuffix(".__init__").split(".")
    package = here if path.name == "__init__.py" else here[:-1]
    for node in running(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            base = ".".join(filter(None, (base, node.module)))
            for each in node.names:
                yield f"{base}.{each.name}" if {f"{base}.{each.name}", f"{base}.{each.name}.__init__"} & known else base


def layer(name):
    """The layer of a module: the first entry of ORDER that its name begins with."""
    inside = name.removeprefix("roundwise").removeprefix(".")
    inside = TOGETHER.get(inside.split(".")[0], inside)
    return next((each for each in ORDER if inside == each or inside.startswith(each + ".")), inside or "__init__")


@cache
def edges():
    """All pairs of a module and another of the package that it imports."""
    known = modules()
    return {
        (name.removesuffix(".__init__"), other)
        for name, path in known.items()
        for other in imported(name, path, known.keys())
        if other.split(".")[0] == "roundwise"
    }


def test_every_module_has_a_place():
    assert {layer(name) for name in modules()} - {"__init__", "model.__init__"} == set(ORDER)


def test_imports_go_one_way():
    assert edges()
    wrong = [
        (one, other)
        for one, other in edges()
        if "." in one and other != "roundwise"  # which has a test of its own
        if layer(one) != layer(other) and ORDER.index(layer(other)) > ORDER.index(layer(one))
    ]
    assert wrong == []


def test_nobody_imports_the_whole_package():
    """`roundwise` itself imports everything, so nothing in it may import `roundwise`."""
    wrong = [one for one, other in edges() if other == "roundwise" and "." in one]
    assert wrong == [], "import a name from the module that defines it"


def test_there_are_no_cycles_between_modules():
    left = {
        one: {other for first, other in edges() if first == one and other != one} for one, _ in edges() if "." in one
    }
    while left:
        free = [one for one, others in left.items() if not others & left.keys()]
        assert free, sorted(left)
        for one in free:
            del left[one]


@pytest.mark.parametrize("name", ["os", "pathlib", "tempfile", "sqlalchemy", "json", "csv"])
def test_the_mathematics_knows_no_files(name):
    for module, path in modules().items():
        if layer(module) in MATHEMATICS:
            tree = parsed(path)
            found = {each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names}
            found |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
            assert name not in found, module


@cache
def parsed(path):
    return ast.parse(path.read_text())


@cache
def own_classes():
    every = (node for path in modules().values() for node in ast.walk(parsed(path)))
    return {node.name for node in every if isinstance(node, ast.ClassDef)}


def named(node):
    """The names in an expression, also of attributes."""
    each = list(ast.walk(node))
    return {n.id for n in each if isinstance(n, ast.Name)} | {n.attr for n in each if isinstance(n, ast.Attribute)}


def asks_for_a_class(node):
    """Whether a node asks of what class of ours something is: by isinstance, issubclass, type() or a pattern."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
        return bool(named(node.args[1]) & own_classes())
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        kinds = [each for each in sides if isinstance(each, ast.Call) and named(each.func) == {"type"}]
        return bool(kinds) and bool(set().union(*map(named, sides)) & own_classes())
    return isinstance(node, ast.MatchClass) and bool(named(node.cls) & own_classes())


def test_few_ask_for_a_class_of_ours():
    """A class has a method for what differs from class to class; each protocol is asked for in one place."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in modules().values()
        for node in ast.walk(parsed(path))
        if asks_for_a_class(node)
    ]
    assert len(found) <= 25, found


def test_what_asks_for_a_class_is_seen():
    """The control of the test above."""
    text = "isinstance(x, BestArm); issubclass(x, questions.TopK); type(x) is Binary\nmatch x:\n    case BestArm(): 1"
    assert sum(asks_for_a_class(node) for node in ast.walk(ast.parse(text))) == 4
    text = "isinstance(x, int | str); type(x) is int; x == BestArm()\nmatch x:\n    case str(): 1"
    assert not any(asks_for_a_class(node) for node in ast.walk(ast.parse(text)))


def test_contributing_shows_the_order():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    block = next(each for each in text.split("```") if each.startswith("\nsrc/roundwise/"))
    places = [block.find(f"  {each}") for each in ORDER if each not in ("_start", "_version", "__main__")]
    assert -1 not in places
    assert places == sorted(places)


def test_a_class_name_means_one_thing():
    found = Counter(
        node.name for path in modules().values() for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, times in found.items() if times > 1] == []
