"""What can be kept as a file: reports in all their forms, tables, plans."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from roundwise.studies.report import Report

KINDS = {  # of files, by their endings
    "json": "application/json",
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "pdf": "application/pdf",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "csv": "text/csv; charset=utf-8",
}


def written(report: Report, form: str, table: str = "arms") -> str | bytes:
    """A report in one of its forms; `table` says which one a CSV file has."""
    forms: dict[str, Callable[[], str | bytes]] = {
        "json": report.json,
        "html": report.html,
        "md": report.markdown,
        "txt": report.text,
        "pdf": report.pdf,
        "xlsx": report.xlsx,
        "csv": lambda: report.csv(table),
    }
    return forms[form]()


def attached(content: str | bytes, name: str, ending: str) -> Response:
    """A file to keep, under a name that any system takes."""
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_ ") else "_" for letter in name)
    disposition = f'attachment; filename="{plain.strip()[:80] or "study"}.{ending}"'
    return Response(content, media_type=KINDS[ending], headers={"content-disposition": disposition})
