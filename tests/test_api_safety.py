"""The server against those who mean harm, and those who only slip: hosts, sites, tokens, sizes, names, bodies."""

import gzip
import io
import json
import logging
import socket
import struct
import threading
import time
import zipfile
from contextlib import closing
from urllib.parse import quote, urlsplit

import pytest
from starlette.datastructures import Headers

import serving
from roundwise import InputError, list_studies, load_study, verify_study
from roundwise.errors import UnknownStudyError
from roundwise.web import security, workers
from roundwise.web.security import build_access, parse_tokens
from serving import TOKENS, ask, form

NEW = {"question": {"name": "best-arm"}, "arms": ["a", "b"], "noise": {"name": "binary"}}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    storage = f"sqlite:///{tmp_path_factory.mktemp('safety')}/studies.db"
    with serving.serving(storage) as (url, app):
        ask(url, "POST", "/api/v1/studies", NEW | {"name": "safe"})
        ask(url, "POST", "/api/v1/studies/safe/ask")
        yield url, app, storage


@pytest.fixture
def url(site):
    return site[0]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that others reach, under a name and under numbers."""
    storage = f"sqlite:///{tmp_path_factory.mktemp('guarded')}/studies.db"
    tokens = ",".join(f"{role}={token}" for role, token in TOKENS.items())
    with serving.serving(storage, tokens, "0.0.0.0", ["studies.example.org"]) as (url, app):
        yield url, app


def raw(url, request):
    """The answer to bytes as they are."""
    found = urlsplit(url)
    with closing(socket.create_connection((found.hostname, found.port), timeout=60)) as connection:
        connection.sendall(request)
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def unharmed(site):
    """Whether nothing was recorded but what the fixture did."""
    url, _, storage = site
    assert [(each["name"], each["entries"]) for each in list_studies(storage)] == [("safe", 2)]
    assert ask(url, "GET", "/health", raw=True)[2] == b"ok"


class TestHosts:
    @pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil:80", "", "[::1", "a@b"])
    def test_another_name_is_refused(self, url, host):
        """A name that somebody else lets point to this machine is not ours (DNS rebinding)."""
        for path in ("/", "/api/v1/studies"):
            assert ask(url, "GET", path, headers={"Host": host})[0] == 421

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000"])
    def test_its_own_names_are_not(self, url, host):
        assert ask(url, "GET", "/api/v1/studies", headers={"Host": host})[0] == 200

    def test_two_names_are_refused(self, url):
        answer = raw(url, b"GET /api/v1/studies HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\nConnection: close\r\n\r\n")
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 421"))

    def test_a_server_for_others(self, guarded):
        url, _ = guarded
        for host, status in (("studies.example.org", 401), ("10.0.0.7:8000", 401), ("evil.example", 421)):
            assert ask(url, "GET", "/api/v1/studies", headers={"Host": host})[0] == status

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
    def test_needs_tokens(self, host):
        with pytest.raises(InputError, match="tokens"):
            build_access(host, [], "")

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.5.5.5"])
    def test_this_machine_needs_none(self, host):
        assert build_access(host, [], "").tokens == ()


class TestSites:
    """What a page of another site makes a browser send (CSRF)."""

    CHANGES = (
        ("POST", "/api/v1/studies", NEW | {"name": "forged"}),
        ("POST", "/api/v1/studies/safe/note", {"text": "forged"}),
        ("DELETE", "/api/v1/studies/safe", None),
        ("POST", "/studies/safe/ask", None),
        ("POST", "/login", None),
    )

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://127.0.0.1:1"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ],
        ids=str,
    )
    @pytest.mark.parametrize(("method", "path", "body"), CHANGES, ids=[each[1] for each in CHANGES])
    def test_changes_nothing(self, site, headers, method, path, body):
        status, _, found = ask(site[0], method, path, body, headers)
        assert status == 403
        assert "comes from another site" in (found if isinstance(found, dict) else {"detail": found.decode()})["detail"]
        unharmed(site)

    def test_reads_nothing_by_the_api(self, url):
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
            assert ask(url, "GET", "/api/v1/studies", headers=headers)[0] == 403
        answer = ask(url, "OPTIONS", "/api/v1/studies", headers={"Access-Control-Request-Method": "POST"})
        assert not any(name.lower().startswith("access-control") for name in answer[1])

    def test_a_form_without_its_secret_is_refused(self, site):
        """A browser that says nothing of where a form comes from: the secret of the session does."""
        for body in (b"", b"secret=guess"):
            headers = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": "roundwise=guess"}
            assert ask(site[0], "POST", "/studies/safe/ask", body, headers)[0] == 403
        unharmed(site)

    def test_a_body_that_needs_no_question_beforehand_is_no_json(self, site):
        """A form may send text/plain across sites without asking: it is not taken for JSON."""
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            body = json.dumps({"text": "forged"}).encode()
            assert ask(site[0], "POST", "/api/v1/studies/safe/note", body, {"Content-Type": kind})[0] == 422
        unharmed(site)

    def test_its_own_pages_may(self, site):
        host = urlsplit(site[0]).netloc
        headers = {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        assert ask(site[0], "POST", "/api/v1/studies/safe/ask", {}, headers)[0] == 200
        unharmed(site)


class TestTokens:
    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"Basic {TOKENS['manage']}"},
            {"Authorization": TOKENS["manage"]},
            {"Authorization": f"Bearer {TOKENS['manage']}x"},
            {"Authorization": f"Bearer {TOKENS['manage'][:-1]}"},
            {"Authorization": "Bearer "},
            {"Authorization": "Bearer \xff\xfe"},
            {"Cookie": f"roundwise={TOKENS['manage']}"},
            {"Cookie": 'roundwise="; \\'},
        ],
        ids=str,
    )
    def test_wrong_ones_open_nothing(self, guarded, given):
        url, _ = guarded
        for path in ("/api/v1/studies", "/api/v1/openapi.json", "/api/v1/docs", "/api/v1/events"):
            status, headers, found = ask(url, "GET", path, headers=given)
            assert (status, found["title"]) == (401, "a token is needed")
            assert headers["www-authenticate"] == "Bearer"
        status, headers, _ = ask(url, "GET", "/", headers=given)
        assert (status, headers["location"]) == (303, "/login")

    def test_not_in_an_address(self, guarded):
        url, _ = guarded
        for query in ("token", "access_token", "authorization"):
            assert ask(url, "GET", f"/api/v1/studies?{query}={TOKENS['manage']}")[0] == 401

    def test_each_role_does_what_it_may(self, guarded):
        url, _ = guarded
        bearer = {role: {"Authorization": f"Bearer {token}"} for role, token in TOKENS.items()}
        assert ask(url, "POST", "/api/v1/studies", NEW | {"name": "roles"}, bearer["manage"])[0] == 201
        allowed = {
            "view": [("GET", "/api/v1/studies", None), ("GET", "/api/v1/studies/roles/record", None)],
            "upload": [
                ("POST", "/api/v1/studies/roles/ask", {}),
                ("POST", "/api/v1/studies/roles/note", {"text": "x"}),
            ],
            "manage": [
                ("POST", "/api/v1/studies/roles/extend", {"budget": 5}),
                ("DELETE", "/api/v1/studies/roles", None),
            ],
        }
        for place, (needed, requests) in enumerate(allowed.items()):
            for rank, role in enumerate(TOKENS):
                for method, path, body in requests:
                    status = ask(url, method, path, body, bearer[role])[0]
                    assert (status == 403) == (rank < place), (needed, role, path, status)

    def test_every_operation_asks_for_a_role(self, guarded):
        """No door was forgotten: whoever may only look is refused by everything that records."""
        url, app = guarded
        look = {"Authorization": f"Bearer {TOKENS['view']}"}
        for path, verbs in app.openapi()["paths"].items():
            for method in verbs:
                if method != "get":
                    status = ask(url, method.upper(), path.replace("{name}", "x"), {}, look)[0]
                    assert status in (403, 422), (method, path, status)
                assert ask(url, method.upper(), path.replace("{name}", "x"), {} if method != "get" else None)[0] == 401

    def test_secrets_are_in_no_log(self, guarded, caplog, capfd):
        url, app = guarded
        caplog.set_level(logging.DEBUG)
        bearer = {"Authorization": f"Bearer {TOKENS['manage']}", "Cookie": "roundwise=secret-cookie-value"}
        ask(url, "GET", "/api/v1/studies/nothing", headers=bearer)
        ask(url, "POST", "/api/v1/studies", b"{", bearer | {"Content-Type": "application/json"})
        out, err = capfd.readouterr()
        for secret in (*TOKENS.values(), "secret-cookie-value"):
            assert secret not in caplog.text + out + err + repr(app.state.access)

    @pytest.mark.parametrize(
        "text", ["manage", "boss=0123456789abcdef", "view=short", "view=0123456789abcdé0", "view=0123456789 abcdef"]
    )
    def test_lines_that_are_none(self, text):
        with pytest.raises(InputError) as error:
            parse_tokens(f"# tokens\n\n{text}")
        assert "0123456789" not in str(error.value)

    def test_a_role_may_have_several_but_no_token_two_roles(self):
        text = "view=0123456789abcdef\nview=1123456789abcdef\nupload=2123456789abcdef"
        access = build_access("127.0.0.1", [], text)
        assert [access.role_of(f"{i}123456789abcdef") for i in range(4)] == ["view", "view", "upload", None]
        with pytest.raises(InputError, match="given twice"):
            parse_tokens("view=0123456789abcdef,manage=0123456789abcdef")


class TestSizes:
    @pytest.fixture(autouse=True)
    def small(self, site, monkeypatch):
        monkeypatch.setattr(site[1].state.access, "most", 100_000)
        monkeypatch.setattr(security, "IDLE", 0.1)

    def test_announced(self, site):
        head = f"POST /api/v1/studies/safe/note HTTP/1.1\r\nHost: {urlsplit(site[0]).netloc}\r\nConnection: close\r\n"
        answer = raw(site[0], f"{head}Content-Length: 100001\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"Nothing was changed" in answer
        unharmed(site)

    @pytest.mark.parametrize("path", ["/api/v1/studies/safe/note", "/api/v1/studies/safe/files", "/login", "/"])
    def test_not_announced(self, site, path):
        """In chunks, which nobody announces, and of which small ones cost 100 times what they cost to send."""
        head = f"POST {path} HTTP/1.1\r\nHost: {urlsplit(site[0]).netloc}\r\nContent-Type: application/json\r\n"
        answer = raw(site[0], f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + b"1\r\nx\r\n" * 1000)
        assert answer.startswith(b"HTTP/1.1 411"), answer[:300]
        assert b"Content-Length" in answer
        unharmed(site)

    def test_a_form_without_a_file_is_small(self, site, monkeypatch):
        monkeypatch.setattr(security, "FIELDS", 50_000)
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        assert ask(site[0], "POST", "/me", b"&" * 50_001, kind)[0] == 413
        assert ask(site[0], "POST", "/me", b"&" * 50_000, kind)[0] == 403  # it was read, and has no secret
        unharmed(site)

    @pytest.mark.parametrize("path", ["/login", "/shared/x/y", "/api/v1/studies", "/"])
    def test_before_a_token_even_less_is_taken(self, guarded, path):
        body = b"token=" + b"x" * security.UNKNOWN
        status, _, found = ask(guarded[0], "POST", path, body, {"Content-Type": "application/x-www-form-urlencoded"})
        assert status == 413
        assert found["detail"].startswith("The request is larger than 16 KB.")

    @pytest.mark.parametrize("length", ["-1", "1e3", "99999999999999999999999", "\u00b2", "0x10"])
    def test_nonsense(self, site, length):
        head = f"POST /api/v1/studies/safe/note HTTP/1.1\r\nHost: {urlsplit(site[0]).netloc}\r\nConnection: close\r\n"
        answer = raw(site[0], f"{head}Content-Length: {length}\r\n\r\n".encode("latin-1"))
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 413"))
        unharmed(site)


class TestCharsets:
    """A form may name any codec of Python: some take quadratic time (punycode, 12 s for 1 MB), some fail oddly."""

    BODY = b'--x\r\nContent-Disposition: form-data; name="token"\r\n\r\nxn--\xff\r\n--x--\r\n'

    @pytest.mark.parametrize(
        "charset",
        [
            "punycode",
            "idna",
            "utf-7",
            "UTF-16",
            "unicode_escape",
            "latin-1",
            '"punycode"',
            "utf-8-sig",
            "utf-8; charset=idna",
        ],
    )
    @pytest.mark.parametrize("path", ["/login", "/api/v1/studies/safe/files"])
    def test_others_are_refused(self, site, charset, path):
        for name in ("charset", "CharSet", "charset ", "charset*"):
            kind = {"Content-Type": f"multipart/form-data; boundary=x; {name}={charset}"}
            status, _, found = ask(site[0], "POST", path, self.BODY, kind)
            assert status == 415, (name, status)
            assert "UTF-8" in found["detail"]
        unharmed(site)

    @pytest.mark.parametrize("charset", ["utf-8", "UTF-8", "utf8", '"utf-8"', "utf-8 ; x=y"])
    def test_utf_8_is_not(self, site, charset):
        kind = {"Content-Type": f"multipart/form-data; boundary=x; charset={charset}"}
        assert ask(site[0], "POST", "/login", self.BODY, kind)[0] == 403  # it was read, and is no token


class TestCookies:
    def test_are_found(self):
        headers = Headers({"cookie": 'a=1; roundwise-name="Ada%20L" ;roundwise=x=y; roundwise=z; lost'})
        found = [security.cookie(headers, each) for each in ("roundwise", "roundwise-name", "a", "b")]
        assert found == ["x=y", "Ada%20L", "1", ""]

    @pytest.mark.parametrize("value", ['"' + "\\" * 60_000 + '"', "=" * 60_000, ";" * 60_000, '"' * 60_000])
    def test_a_long_one_costs_little(self, value):
        """`http.cookies` of Python 3.11.7 and 3.12.1 took 12 s of CPU."""
        access, begun = build_access("127.0.0.1", [], "manage=0123456789abcdef"), time.process_time()
        assert access.who(Headers({"cookie": f"roundwise={value}"})) is None
        assert time.process_time() - begun < 1.0


def workbook(rows):
    """An Excel workbook with so many rows of nothing much."""
    sheet = b"<worksheet><sheetData>" + b'<row><c t="inlineStr"><is><t>a</t></is></c><c><v>1</v></c></row>' * rows
    parts = {
        "xl/workbook.xml": b'<workbook xmlns:r="r"><sheets><sheet name="s" r:id="1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": b'<Relationships><Relationship Id="1" Target="s.xml"/></Relationships>',
        "xl/s.xml": sheet + b"</sheetData></worksheet>",
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as book:
        for name, content in parts.items():
            book.writestr(name, content)
    return file.getvalue()


def parquet(kind):
    """A small Parquet file with one long text in every row, one longer text, a long list, or many rows."""
    arrow, writer = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = {
        "texts": lambda: {"arm": arrow.array(["a" * 100_000] * 1000).dictionary_encode()},
        "text": lambda: {"arm": ["a" * 40_000_000]},
        "rows": lambda: {"arm": arrow.nulls(200_000, arrow.string()), "outcome": arrow.nulls(200_000, arrow.int8())},
    }[kind]()
    file = io.BytesIO()
    writer.write_table(arrow.table({"outcome": [1] * len(table["arm"])} | table), file, compression="zstd")
    return file.getvalue()


class TestBombs:
    """Small files that unpack to large ones."""

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("content", "name", "said"),
        [
            (lambda: b"arm,outcome\n" + b"a,1\n" * 5_000_000, "x.csv.gz", "too large when it is unpacked|rows"),
            (lambda: b'[{"arm": "a"' + b" " * 20_000_000 + b"}]", "x.json.gz", "too large when it is unpacked|MB"),
            (lambda: b"x" * 20_000_000, "x.csv.gz", "too large when it is unpacked|a line of over"),
            (lambda: workbook(200_000), "x.xlsx", "a sheet of over 8 MB"),
            (lambda: b"arm,outcome\n" + b"a,1\n" * 200_000, "x.csv.gz", "has over 100000 rows"),
        ],
        ids=["gzip", "json", "line", "xlsx", "rows"],
    )
    def test_are_refused(self, site, monkeypatch, content, name, said):
        data = gzip.compress(content(), 1) if name.endswith(".gz") else content()
        self.refused(site, monkeypatch, data, name, said)

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("kind", "said"),
        [
            ("texts", "too large when it is unpacked"),
            ("text", "too large when it is unpacked"),
            ("rows", "has over 100000 rows"),
        ],
    )
    def test_parquet_is_refused(self, site, monkeypatch, kind, said):
        self.refused(site, monkeypatch, parquet(kind), "x.parquet", said)

    def refused(self, site, monkeypatch, content, name, said):
        from roundwise.formats.sheet import Limits
        from roundwise.web import uploads

        monkeypatch.setattr(uploads.Upload, "limits", Limits(8 << 20, 100_000))
        monkeypatch.setattr(uploads.Upload.__init__, "__defaults__", (None, Limits(8 << 20, 100_000)))
        body, headers = form(content, name)
        assert len(body) < 300_000
        for verb in ("files/preview", "files"):
            status, _, found = ask(site[0], "POST", f"/api/v1/studies/safe/{verb}", body, headers)
            assert status == 422, found
            assert any(each in found["detail"] for each in said.split("|")), found["detail"]
        unharmed(site)

    def test_an_upload_has_limits(self):
        from roundwise.web.uploads import UNPACKED, Upload

        assert Upload("x", "x", "x", 1).limits == UNPACKED
        assert UNPACKED.unpacked <= 1 << 28


NAMES = [
    "a/b",
    "..",
    ".",
    "../../etc/passwd",
    "a%2Fb",
    "%",
    "~",
    "~x",
    "a?b#c",
    "a b",
    "ü 文 🎯",
    "'; drop table study; --",
    '<script>alert(1)</script>"',
    "x" * 200,
    "docs",
    "a\\b",
    "a;b=c",
    "{name}",
]


class TestNames:
    @pytest.mark.long
    @pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
    def test_odd_ones_are_names(self, tmp_path_factory, site, name):
        from roundwise.store.remote import segment

        url, _, _ = site
        arms = [name, "b"]
        status, headers, found = ask(url, "POST", "/api/v1/studies", NEW | {"name": name, "arms": arms})
        assert status == 201, found
        try:
            path = f"/api/v1/studies/{segment(name)}"
            assert headers["location"] == path
            assert ask(url, "GET", path)[2]["study"] == name
            assert name in ask(url, "POST", f"{path}/ask")[2]["asked"]
            for page in (f"/studies/{segment(name)}", "/", f"{path}/report?format=html"):
                status, _, text = ask(url, "GET", page, raw=True)
                assert status == 200
                assert b"<script>alert" not in text
            status, headers, _ = ask(url, "GET", f"{path}/report?format=csv", raw=True)
            assert status == 200
            assert headers["content-disposition"].isascii()
        finally:
            assert ask(url, "DELETE", path)[0] == 204

    @pytest.mark.parametrize("name", ["", " x", "x\n", "x" * 201, "x" * 10_000, "a\0b", "\ud800", "a\u202eb\u2028"])
    def test_what_is_none(self, site, name):
        status, _, found = ask(site[0], "POST", "/api/v1/studies", NEW | {"name": name})
        assert status == 422, found
        assert (
            ask(site[0], "GET", f"/api/v1/studies/{quote(name.encode('utf-8', 'surrogatepass'), safe='')}x")[0] == 404
        )
        unharmed(site)


BODIES = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"3",
    b'"x"',
    b"\xff\xfe",
    b'{"text": NaN}',
    b'{"text": 3}',
    b'{"text": "x", "more": 1}',
    b'{"text": "\\ud800"}',
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"text": ' + b"9" * 10_000 + b"}",
]


def test_bytes_of_a_shell_that_are_not_text(tmp_path):
    """A note of another character set was recorded, and then no request about its study was answered."""
    storage = f"sqlite:///{tmp_path}/studies.db"
    with serving.serving(storage) as (url, _):
        ask(url, "POST", "/api/v1/studies", NEW | {"name": "s"})
        with load_study("s", storage) as study:
            study.note("caf\udce9")
            study.end("\ud83d\ude00 caf\udce9")
        status, _, found = ask(url, "GET", "/api/v1/studies/s")
        assert (status, found["headline"]) == (200, "Closed undecided (\U0001f600 caf?). No results yet")
        assert ask(url, "POST", "/api/v1/studies/s/ask")[2]["round"] is None
        status, _, refused = ask(url, "POST", "/api/v1/studies/s/results", {"rows": [{"arm": "a", "outcome": 1}]})
        assert (status, "caf?" in refused["detail"]) == (422, True)
    assert verify_study("s", storage).sound
    with pytest.raises(UnknownStudyError, match="no study called"):
        load_study("caf\udce9", storage)


class TestBodies:
    @pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
    def test_malformed(self, site, body):
        for verb in ("note", "drop", "end", "results"):
            status, headers, found = ask(
                site[0], "POST", f"/api/v1/studies/safe/{verb}", body, {"Content-Type": "application/json"}
            )
            assert status in (400, 422), (verb, found)
            assert headers["content-type"] == "application/problem+json"
            assert len(found["detail"]) < 2000
            assert "Traceback" not in found["detail"]
        unharmed(site)

    @pytest.mark.parametrize(
        "rows",
        [
            [],
            [{}],
            [{"arm": "a"}],
            [{"arm": "a", "outcome": 2}],
            [{"arm": "a", "outcome": "1e999"}],
            [{"arm": None, "outcome": None}],
            [{"arm": "nobody", "outcome": 1}],
            [{"x" * 5000: 1}],
        ],
        ids=range(8),
    )
    def test_rows_that_are_no_results(self, site, rows):
        status, _, found = ask(site[0], "POST", "/api/v1/studies/safe/results", {"rows": rows})
        assert status == 422, found
        assert len(found["detail"]) < 2000
        unharmed(site)

    @pytest.mark.parametrize(
        "changed",
        [
            {"question": {}},
            {"question": {"name": "os:system"}},
            {"question": {"name": "nothing"}},
            {"question": {"name": "top-k", "k": 99}},
            {"noise": {"name": "bounded", "low": 1, "high": 0}},
            {"policy": {"name": "subprocess:Popen", "args": "id"}},
            {"delta": 2},
            {"delta": 1e400},
            {"budget": -1},
            {"arms": ["a", "a"]},
            {"arms": ["a"]},
            {"split": "1:2:3"},
            {"columns": {"arm": ""}},
            {"seed": -1},
            {"max_round_size": -5},
        ],
        ids=str,
    )
    def test_studies_that_cannot_be(self, site, changed):
        body = json.dumps(NEW | {"name": "cannot"} | changed).replace("Infinity", "1e400").encode()
        status, _, found = ask(site[0], "POST", "/api/v1/studies", body, {"Content-Type": "application/json"})
        assert status == 422, found
        unharmed(site)

    @pytest.mark.parametrize(
        "text", ["", "x", '{"roundwise": "log"}', '{"roundwise": "log", "format": 1, "study": "s", "entries": 0}']
    )
    def test_records_that_are_none(self, site, text):
        assert ask(site[0], "POST", "/api/v1/records", text.encode())[0] == 422
        unharmed(site)

    def test_forms_that_are_none(self, site):
        for body, headers in (
            (b"nonsense", {"Content-Type": "multipart/form-data; boundary=b"}),
            (b"nonsense", {"Content-Type": "multipart/form-data"}),
            form(b"arm,outcome\na,1\n", options="{"),
            form(b"arm,outcome\na,1\n", options='{"sudo": true}'),
            form(b"", "empty.csv"),
            form(b"\0\1\2", "../../../etc/cron.d/x"),
            form(b"PK\3\4 not a workbook", "x.xlsx"),
            form(b"PAR1 not parquet PAR1", "x.parquet"),
        ):
            status, _, found = ask(site[0], "POST", "/api/v1/studies/safe/files", body, headers)
            assert status in (400, 422), found
            assert "/tmp" not in found["detail"]
        unharmed(site)


def test_a_fault_of_the_server_shows_no_trace(site, monkeypatch, caplog):
    """What nobody foresaw is one sentence for the user, and a trace in the server's log only."""
    monkeypatch.setattr("roundwise.web.api.list_studies", lambda _: 1 / 0)
    status, headers, found = ask(site[0], "GET", "/api/v1/studies")
    assert (status, headers["content-type"]) == (500, "application/problem+json")
    assert found["detail"] == "Something went wrong here, and was written to the server's log."
    assert "ZeroDivisionError" in caplog.text


def test_every_answer_has_the_headers_that_protect(site):
    for path in ("/", "/api/v1/studies", "/api/v1/nothing", "/static/style.css", "/api/v1/docs", "/login"):
        _, headers, _ = ask(site[0], "GET", path, raw=True)
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["referrer-policy"] in ("same-origin", "no-referrer")
        assert "server" not in {name.lower() for name in headers} or headers["server"] == "uvicorn"


def test_no_request_leaves_this_machine(site, monkeypatch):
    """Whatever is asked, the server opens no connection but those that come to it."""
    left = []
    real = socket.socket.connect

    def connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] != "127.0.0.1":
            left.append(address)
            raise OSError("nothing leaves")
        return real(self, address)

    def looked_up(host, *rest, **words):
        if host not in ("127.0.0.1", "localhost", None):
            left.append(host)
        return found(host, *rest, **words)

    found = socket.getaddrinfo
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    url = site[0]
    paths = ["/", "/plan", "/help", "/api/v1/docs", "/api/v1/openapi.json", "/studies/safe", "/api/v1/studies/safe"]
    paths += [f"/api/v1/studies/safe/{each}" for each in ("report?format=html", "log", "verify", "record")]
    for path in paths:
        assert ask(url, "GET", path, raw=True)[0] == 200, path
    assert left == []


def test_half_a_request_holds_nobody_up(site):
    """Connections that send nothing, or half of a request, or break off: the others are answered meanwhile."""
    found = urlsplit(site[0])
    open_ = [socket.create_connection((found.hostname, found.port)) for _ in range(60)]
    for each in open_[:30]:
        each.sendall(b"POST /api/v1/studies/safe/note HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
    assert ask(site[0], "GET", "/api/v1/studies")[0] == 200
    for each in open_:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        each.close()
    unharmed(site)


def test_fifty_readers_hold_up_no_result(site, monkeypatch):
    """All threads that look are busy until the result is recorded: it has threads of its own."""
    url, _, _ = site
    ask(url, "POST", "/api/v1/studies", NEW | {"name": "busy"})
    ask(url, "POST", "/api/v1/studies/busy/ask")
    done, busy = threading.Event(), threading.Semaphore(0)

    def slow(_):
        busy.release()
        done.wait(60)
        return []

    monkeypatch.setattr("roundwise.web.api.list_studies", slow)
    readers = [threading.Thread(target=ask, args=(url, "GET", "/api/v1/studies")) for _ in range(50)]
    for each in readers:
        each.start()
    try:
        for _ in range(workers.READERS):
            assert busy.acquire(timeout=60)
        status, _, found = ask(url, "POST", "/api/v1/studies/busy/results", {"rows": [{"arm": "a", "outcome": 1}]})
        assert status == 200, found
        assert not done.is_set()
    finally:
        done.set()
        for each in readers:
            each.join()
