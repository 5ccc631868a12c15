"""Results from a query: SQLite, DuckDB, files, PostgreSQL."""

import sqlite3
from contextlib import closing

import pytest

from roundwise import BestArm, Binary, DataError, InputError, create_study
from roundwise.formats.query import query_file

CREATE = "create table results (variant text, ok integer, note text)"
INSERT = "insert into results values ('a', 1, 'x, \"y\"'), ('b', 0, null), ('b', 1, 'line\nbreak')"
SQL = "select variant as arm, ok as outcome, note from results"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(database, sql=SQL):
    with create_study(f"{database} {hash(sql)}", question=BestArm(), arms=["a", "b"], noise=Binary()) as study:
        study.ask()
        with query_file(sql, database) as source:
            (results,), _ = study.preview(source)
    assert not source.path.exists()
    return results.name, results.counts.tolist(), results.totals.tolist()


EXPECTED = ("the query", [1, 2], [1, 1])


def test_sqlite(folder):
    with closing(sqlite3.connect("r.db")) as database:
        database.execute(CREATE)
        database.execute(INSERT)
        database.commit()
    assert read("r.db") == EXPECTED
    with pytest.raises(DataError, match="The query failed: .*readonly"), query_file("delete from results", "r.db"):
        pass
    with (
        pytest.raises(DataError, match="The query failed: no such table: other"),
        query_file("select 1 from other", "r.db"),
    ):
        pass
    with pytest.raises(DataError, match="no column 'arm'"):
        read("r.db", "select ok as outcome from results")


def test_duckdb_and_files(folder):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect("r.duckdb") as database:
        database.execute(CREATE)
        database.execute(INSERT)
        database.execute("copy results to 'r.parquet' (format parquet)")
    assert read("r.duckdb") == EXPECTED
    assert read(None, SQL.replace("results", "'r.parquet'")) == EXPECTED
    with pytest.raises(DataError, match="The query failed"), query_file("select 1 from nowhere", None):
        pass
    (folder / "no.db").write_text("hello")
    with pytest.raises(DataError, match="The query failed"), query_file("select 1", "no.db"):
        pass
    with pytest.raises(DataError, match=r"There is no file none\.db"), query_file("select 1", "none.db"):
        pass


@pytest.mark.long
def test_postgresql(folder):
    from postgres import server

    running = server()
    if running is None:
        pytest.skip("there is no PostgreSQL")
    url = running.fresh()
    schema = url.rpartition("%3D")[2]
    running.sql(CREATE.replace("results", f"{schema}.results"))
    running.sql(INSERT.replace("results", f"{schema}.results"))
    assert read(url.partition("&options")[0], SQL.replace("results", f"{schema}.results")) == EXPECTED
    with pytest.raises(DataError, match="read-only"), query_file(f"drop table {schema}.results", url.partition("&")[0]):
        pass


def test_the_command(folder, roundwise):
    with closing(sqlite3.connect("r.db")) as database:
        database.execute(CREATE)
        database.execute(INSERT)
        database.commit()
    roundwise("new", "s", "--question", "best-arm", "--arms", "a,b", "--binary")
    roundwise("ask", "s")
    query = ["tell", "s", "--sql", SQL, "--database", "r.db"]
    code, said, _ = roundwise(*query)
    assert code == 0
    assert said.startswith("Recorded the query.")
    code, _, error = roundwise(*query)  # the same rows again
    assert code == 2
    assert "is already recorded" in error
    for wrong in (["--database", "r.db"], ["x.csv", "--sql", SQL]):
        assert roundwise("tell", "s", *wrong)[0] == 2
    code, _, error = roundwise("tell", "s", "--sql", "select * from events", "--database", "roundwise.db")
    assert code == 2


def test_a_store_that_is_open_is_not_queried(folder):
    with (
        create_study("s", question=BestArm(), arms=["a", "b"], noise=Binary(), storage="sqlite:///own.db"),
        pytest.raises(InputError, match="in which the studies are kept"),
        query_file("select 1", "own.db"),
    ):
        pass
