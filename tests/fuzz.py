"""Inputs that are nearly right: tables of every form and format, damaged at random. A seed is one input, for ever."""

import functools
import gzip
import io
import json
import zipfile

import numpy as np

ARMS = ["red", "blue", "green one"]
FORMATS = ("csv", "semicolon", "tsv", "lines", "json", "xlsx", "parquet", "gz")
TOKENS = [
    *(b'"', b"'", b"\n", b"\r", b"\r\n", b",", b";", b"\t", b"\0", b"\xff", b"\xef\xbb\xbf", b"%", b"-", b"e999"),
    *(b"{", b"}", b"[", b"]", b":", b"\\u0000", b"null", b"true", b"1" * 5000, b"[" * 2000, b"\x1b[2J", b"nan"),
    *(b"arm", b"outcome", b"count", b"total", b"successes", b"squares", b"red", b"1e308", b"-1e-320", b"1,000"),
    *(b"<c r='ZZZ1'>", b"</row>", b"<!DOCTYPE x [<!ENTITY a 'b'>]>", b"&a;", b"t='s'", b"<v>-1</v>", b"PK\x03\x04"),
    *(b"PAR1", b"31%", b"\xe2\x80\xae", b"\xcc\x81" * 50, b"_", b"\xd9\xa1"),
]  # fmt: skip


def table(rng):
    """A table that can be read: its columns."""
    size = int(rng.integers(1, 12))
    arms = [ARMS[i] for i in rng.integers(0, 3, size)]
    form = rng.integers(0, 5)
    if form == 0:
        columns = {"arm": ARMS, "count": [5, 4, 3], "total": [2, 1, 0], "squares": [2, 1, 0]}
    elif form == 1:
        columns = {"arm": ARMS[:2], "count": [5, 4], "successes": [int(rng.integers(0, 5)), 2]}
    elif form == 2:
        columns = {"item": [f"q{i}" for i in range(size)], **{arm: rng.integers(0, 2, size).tolist() for arm in ARMS}}
    else:
        values = rng.integers(0, 2, size).tolist() if form == 3 else np.round(rng.random(size), 3).tolist()
        columns = {"user": [f"u{i}" for i in range(size)], "arm": arms, "outcome": values}
    return columns


def written(columns, kind):
    """The table as a file of this format."""
    rows = list(zip(*columns.values(), strict=True))
    if kind in ("csv", "semicolon", "tsv", "gz"):
        delimiter = {"semicolon": ";", "tsv": "\t"}.get(kind, ",")
        text = "".join(delimiter.join(map(str, row)) + "\n" for row in (tuple(columns), *rows)).encode()
        return gzip.compress(text, 1, mtime=0) if kind == "gz" else text
    objects = [dict(zip(columns, row, strict=True)) for row in rows]
    if kind == "lines":
        return "".join(json.dumps(each) + "\n" for each in objects).encode()
    if kind == "json":
        return json.dumps(objects, indent=1).encode()
    return _book(columns, rows) if kind == "xlsx" else _parquet()


def fuzzed(kind, seed):
    """The bytes of one input."""
    rng = np.random.default_rng([FORMATS.index(kind), seed])
    columns = table(rng)
    if kind == "gz" and rng.random() < 0.7:  # inside
        return gzip.compress(_damaged(written(columns, "csv"), rng), 1, mtime=0)
    whole = written(columns, kind)
    return _book_damaged(whole, rng) if kind == "xlsx" and rng.random() < 0.8 else _damaged(whole, rng)


def _damaged(data, rng):
    body = bytearray(data)
    for _ in range(int(rng.integers(0, 5))):
        at, length = int(rng.integers(0, len(body) + 1)), int(rng.integers(0, 9))
        way = rng.integers(0, 5)
        if way == 0:
            body[at : at + length] = TOKENS[int(rng.integers(len(TOKENS)))]
        elif way == 1:
            body[at : at + length] = rng.bytes(int(rng.integers(0, 5)))
        elif way == 2:
            body[at : at + length] = b""
        elif way == 3:
            body[at:at] = body[int(rng.integers(0, len(body) + 1)) :][: 4 * length]
        elif at < len(body):
            body[at] ^= 1 << int(rng.integers(8))
    return bytes(body[: int(rng.integers(0, len(body) + 1))] if rng.random() < 0.1 else body)


def _book(columns, rows):
    cells = []
    for number, row in enumerate((tuple(columns), *rows), 1):
        own = []
        for place, cell in enumerate(row):
            at = f"{chr(65 + place)}{number}"
            text = f't="inlineStr"><is><t>{cell}</t></is>' if isinstance(cell, str) else f"><v>{cell}</v>"
            own.append(f'<c r="{at}" {text}</c>')
        cells.append(f'<row r="{number}">{"".join(own)}</row>')
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    sheets, link = '<sheets><sheet name="A" r:id="x"/></sheets>', '<Relationship Id="x" Target="worksheets/s.xml"/>'
    return _zipped(
        {
            "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="r">{sheets}</workbook>',
            "xl/_rels/workbook.xml.rels": f"<Relationships>{link}</Relationships>",
            "xl/sharedStrings.xml": f'<sst xmlns="{main}"><si><t>red</t></si></sst>',
            "xl/worksheets/s.xml": f'<worksheet xmlns="{main}"><sheetData>{"".join(cells)}</sheetData></worksheet>',
        }
    )


def _zipped(parts):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as book:
        for name, text in parts.items():
            book.writestr(zipfile.ZipInfo(name), text)
    return target.getvalue()


def _book_damaged(data, rng):
    """The XML is damaged and zipped again, so that no checksum saves the reader."""
    with zipfile.ZipFile(io.BytesIO(data)) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    name = list(parts)[int(rng.choice(len(parts), p=[0.1, 0.1, 0.1, 0.7]))]
    parts[name] = _damaged(parts[name], rng)
    if rng.random() < 0.05:
        del parts[list(parts)[int(rng.integers(4))]]
    return _zipped(parts)


@functools.cache
def _parquet():
    import tempfile
    from pathlib import Path

    import duckdb

    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        path = Path(folder) / "r.parquet"
        connection.execute(
            "copy (select ['red', 'blue'][1 + i % 2] as arm, i % 2 as outcome, i as \"user\" from range(20) r(i)) "
            f"to '{path}' (format parquet)"
        )
        return path.read_bytes()


# --- what is not results: records, plans, sweeps, tables of forms, features, outcomes and scenarios, names, addresses

SWEEP = b"""runs = 60
delta = [0.1, 0.01]
seed = 3
[[question]]
name = "top-k"
k = 2
[[instance]]
name = "fixed"
means = [1.0, 0.5, 0.0]
[[instance]]
random = { arms = 4, low = 0.0, high = 0.5 }
sigma = [1, 2]
[[policy]]
name = "pet"
guess = 4
"""
OTHERS = {
    "sweep": SWEEP,
    "forms": b"name,red,blue,green one,above\nfirst,1,-1,0,0.5\nsecond,1,0,-1,0\n",
    "outcomes": b"instance,arm,outcome,count\nx,red,0,5\nx,red,1,7\nx,blue,0,3\nx,blue,1,2\n",
    "scenarios": b"name,red,blue,green one\ngood,10%,12%,0.3\nbad,0.1,0.1,0.1\n",
    "features": b"arm,u,v\nred,1,-0.5\nblue,0,2\ngreen one,1e-3,0\n",
    "wide": b"item,red,blue\n1,0,1\n2,,1\n3,1,0.5\n",
    "semicolons": b'sep=;\narm;outcome;count\nred;0,5;5\nred;1;7\nblue;0;3\n"blue";1,0;2\n',
    "objects": b'{"name": "x", "red": 1, "blue": -1, "above": 0.5}\n{"name": "y", "red": 0, "blue": 1, "above": 0}\n',
    "arms": b"red\nblue\ngreen one\n",
    "address": b"postgresql://user:pass@word@host:5432/database?sslmode=require",
    "file address": b"sqlite:////tmp/some/where.db",
}


def other(kind, seed, examples=()):
    """The bytes of one input that is not a table of results; `examples` are of kinds that are not among `OTHERS`."""
    rng = np.random.default_rng([hash_of(kind), seed])
    if kind == "book":
        return _book_damaged(_book(("name", *ARMS), [("good", 0.1, 0.12, 0.3), ("bad", "10%", "1", 0)]), rng)
    return _damaged(OTHERS[kind] if kind in OTHERS else examples[seed % len(examples)], rng)


def hash_of(kind):
    return sum(ord(letter) * 31**i for i, letter in enumerate(kind)) % 2**32
