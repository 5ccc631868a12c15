"""The order of the rooms: who may import whom, lazy imports included; CONTRIBUTING shows the same."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "roundwise"

# each may import what stands before it, and itself
ORDER = (
    "_version",
    "errors",
    "arrays",
    "state",
    "questions",
    "estimates",
    "dealing",
    "pairing",
    "noise",
    "problem",
    "stopping",
    "betting",
    "policies",
    "trial",
    "spec",
    "simulation",
    "studies",
    "theory",
    "arena",
    "planning",
    "web",
    "cli",
    "__main__",
)
MATHEMATICS = ORDER[: ORDER.index("simulation")]


def modules():
    return {
        ".".join(("roundwise", *path.relative_to(PACKAGE).with_suffix("").parts)): path
        for path in PACKAGE.rglob("*.py")
    }


def imported(name, path, known):
    """The modules of the package that a module imports anywhere in its code."""
    here = name.removesuffix(".__init__").split(".")
    package = here if path.name == "__init__.py" else here[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            base = ".".join(filter(None, (base, node.module)))
            for each in node.names:
                yield f"{base}.{each.name}" if {f"{base}.{each.name}", f"{base}.{each.name}.__init__"} & known else base


def room(name):
    return name.split(".")[1] if "." in name else "__init__"


EDGES = {
    (name.removesuffix(".__init__"), other)
    for name, path in modules().items()
    for other in imported(name, path, set(modules()))
    if other.split(".")[0] == "roundwise"
}


def test_every_module_has_a_place():
    assert {room(name) for name in modules()} - {"__init__"} == set(ORDER)


def test_imports_go_one_way():
    assert EDGES
    wrong = [
        (one, other)
        for one, other in EDGES
        if "." in one and room(one) != room(other) and ORDER.index(room(other)) > ORDER.index(room(one))
    ]
    assert wrong == []


def test_nobody_imports_the_whole_package():
    """`roundwise` itself imports everything, so nothing in it may import `roundwise`."""
    assert [one for one, other in EDGES if other == "roundwise" and "." in one] == []


def test_there_are_no_cycles_between_modules():
    left = {one: {other for first, other in EDGES if first == one and other != one} for one, _ in EDGES if "." in one}
    while left:
        free = [one for one, others in left.items() if not others & left.keys()]
        assert free, sorted(left)
        for one in free:
            del left[one]


@pytest.mark.parametrize("name", ["os", "pathlib", "tempfile", "sqlalchemy", "json", "csv"])
def test_the_mathematics_knows_no_files(name):
    for module, path in modules().items():
        if room(module) in MATHEMATICS:
            tree = ast.parse(path.read_text())
            found = {each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names}
            found |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
            assert name not in found, module


def test_contributing_shows_the_order():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    block = text.split("```")[1]
    places = [block.find(f"  {each}") for each in ORDER if each not in ("_version", "__main__")]
    assert -1 not in places
    assert places == sorted(places)
