"""The site that `make docs` builds: pages in Markdown, mathematics as MathML, the reference from the docstrings.

The source folder is the repository, so that links between pages are the same on the site and in a clone.
"""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

import roundwise

project = "roundwise"
release = roundwise.__version__
project_copyright = "the authors of roundwise"
root_doc = "docs/index"
include_patterns = ["docs/**.md", "examples/README.md", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
exclude_patterns = [".*", "src", "tests", "benchmarks", "results", "site"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
napoleon_use_ivar = True  # named tuples list their fields once
suppress_warnings = ["myst.header"]

myst_enable_extensions = ["dollarmath"]
myst_dmath_double_inline = True
myst_heading_anchors = 4

highlight_language = "text"
html_theme = "furo"
html_title = "roundwise"
html_math_renderer = "mathml"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_additional_pages = {"index": "redirect.html"}
templates_path = ["templates"]
html_copy_source = False

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ("ArrayLike", "Answer", "Bools", "Floats", "Cluster", "Means", "Needs")}
autodoc_default_options = {"members": True}


def mathematics(translator: HTML5Translator, node: nodes.Element) -> None:
    """A formula as MathML, which browsers draw by themselves: no script, nothing from another host."""
    block = isinstance(node, nodes.math_block)
    written = re.sub(r"\\math(bb|cal) (\w)", r"\\math\1{\2}", node.astext())  # braces: the letter itself, not a style
    formula = convert(written, display="block" if block else "inline")
    translator.body.append(f'<div class="formula">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def plain(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text with `code` in them: whatever else has a meaning in reStructuredText loses it."""
    for i, line in enumerate(lines):
        parts = line.split("`")
        if len(parts) % 2 and not line.lstrip().startswith(">>>"):
            parts[::2] = [re.sub(r"([\\*|_])", r"\\\1", part) for part in parts[::2]]
            lines[i] = "``".join(parts)


def setup(app: Sphinx) -> None:
    """What Sphinx calls."""
    app.add_html_math_renderer("mathml", (mathematics, None), (mathematics, None))
    app.connect("autodoc-process-docstring", plain)
