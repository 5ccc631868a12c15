"""Tables written to a file and read as results: what the tests of files share."""

from roundwise import Binary
from roundwise.ingest import Columns, RecordedFiles, TellOptions, read_results

ARMS = ["placebo", "25mg", "Big button"]
WITH_IDS = Columns(id="user")


def reader(folder):
    """Write contents to a file in a folder, the current one, and read it."""

    def call(contents, noise=Binary(), name="results.csv", told=(), waiting=None, past=(), **words):  # noqa: B008
        (folder / name).write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        columns, reading = words.pop("study", None), words.pop("reading", None)
        earlier = RecordedFiles(told, waiting, past=past)
        said = {"columns": columns, "reading": reading, "options": TellOptions(**words)}
        return read_results(name, ARMS, noise, **said, recorded=earlier, seed=3)

    return call


def table(*rows, header="arm,outcome"):
    """A CSV text."""
    return "".join(f"{row}\n" for row in (header, *rows))


def users(*rows):
    """The same with a column of ids."""
    return table(*rows, header="user,arm,outcome")
