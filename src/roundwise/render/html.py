"""Pages from templates: one Jinja2 environment that escapes everything it shows."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roundwise.errors import InputError
from roundwise.messages import visible
from roundwise.render.svg import Svg, escape, read_style

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


def build_environment(*folders: Path) -> Environment:
    """Build an environment with the templates of these folders and of this package."""
    try:
        from jinja2 import Environment, FileSystemLoader
    except ImportError:
        raise InputError("HTML pages need Jinja2: pip install 'roundwise[store]'.") from None
    environment = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,  # control characters are written out
    )
    environment.filters |= {  # escaped; units stay with numbers, odds on one line; **these** are bold
        "keep_units": lambda text: Svg(escape(text).replace(" %", "&nbsp;%").replace(" : ", "&nbsp;:&nbsp;")),
        "bold": lambda text: Svg(re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escape(text))),
    }
    return environment


@cache
def _environment() -> Environment:
    return build_environment()


def render_page(template: str, **values: Any) -> str:
    """Render a page that stands alone: its styles are inside, nothing is loaded from elsewhere."""
    return _environment().get_template(template).render(style=Svg(_styles()), **values)


def render_card(template: str, **values: Any) -> str:
    """Render a piece for a notebook; its styles concern nothing outside of it."""
    style = ".roundwise{" + re.sub(r"(:root|\bbody)(?=\{)", "&", _styles()) + "}"
    text = _environment().get_template(template).render(**values)
    return f'<style>{style}</style><div class="roundwise">{text}</div>'


def render_markdown(template: str, **values: Any) -> str:
    """Render a page in Markdown."""
    environment = build_environment()
    environment.autoescape = False
    return environment.get_template(template).render(**values) + "\n"


@cache
def _styles() -> str:
    return read_style("base.css") + read_style("chart.css")
