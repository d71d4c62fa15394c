"""The site: the pages of this folder, and a reference made from the docstrings.

sphinx-build -W docs site
"""

import inspect
import re
import sys
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from pkgutil import iter_modules

from docutils import nodes

import labelset

sys.path.insert(0, str(Path(__file__).parent))
import typeset

project = "labelset"
version = release = labelset.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"labelset {version}"
html_show_copyright = False
highlight_language = "none"  # what is indented in the pages is formulas
myst_heading_anchors = 3
autodoc_member_order = "bysource"
suppress_warnings = ["ref.python"]  # names that two rooms have, such as build
exclude_patterns = ["_build"]
html_static_path = ["static"]
html_search_scorer = str(Path(__file__).parent / "static" / "scorer.js")
html_css_files = ["site.css"]

CONTENTS = ("index", "losses/README", "api/index")
"""Pages whose links, in their order, are the navigation."""


def public_modules():
    """labelset and its public rooms; what needs a package that is missing is left out."""
    for name in ["labelset", *(f"labelset.{m.name}" for m in iter_modules(labelset.__path__))]:
        if "._" not in name and name != "labelset.cli":
            try:
                yield import_module(name)
            except ImportError as error:
                print(f"left out of the reference: {name}: {error}")


def write_reference(app):
    """A page for each public module, in api/; they are not kept."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    lines = ["# Reference", "", "All public names, from their docstrings.", ""]
    known = set()
    for module in public_modules():
        (folder / f"{module.__name__}.md").write_text(reference(module, known))
        about = module.__doc__.splitlines()[0]
        lines.append(f"- [{module.__name__}]({module.__name__}.md): {about}")
    (folder / "index.md").write_text("\n".join(lines) + "\n")


def reference(module, known):
    """The page of a module: what it says of itself, then every name that it offers."""
    name, told = module.__name__, []
    for member in getattr(module, "__all__", []):
        found = getattr(module, member)
        kind = "class" if inspect.isclass(found) else "function" if callable(found) else "data"
        if not inspect.ismodule(found):
            told += [f".. auto{kind}:: {name}.{member}", *["   :members:"] * (kind == "class")]
            told += ["   :no-index:"] * (kind == "class" and found in known) + [""]
            known |= {found} if kind == "class" else set()
    listed = "\n".join([f".. automodule:: {name}", "   :no-members:", "", *told])
    return f"# {name}\n\n```{{eval-rst}}\n{listed}\n```\n"


def add_navigation(app, docname, source):
    """The links of a page of contents as tables of contents that only the site shows: one for each
    of its sections, under the section's name."""
    if docname in CONTENTS:
        for section in re.split(r"^## ", source[0], flags=re.M):
            caption, _, text = section.partition("\n")
            linked = re.findall(r"^(?:-|\|) .*?\]\(([\w./+-]+)\.md\)", text, flags=re.M)
            if docname == "index" and caption == "Background":
                linked += ["api/index"]
            if linked:
                head = "" if caption.startswith("#") or docname != "index" else caption
                named = f":caption: {head}\n" if head else ""
                listed = "\n".join(linked)
                source[0] += f"\n\n```{{toctree}}\n:hidden:\n{named}\n{listed}\n```\n"


def typeset_formulas(app, doctree):
    """What is indented in pages and docstrings, and reads as formulas, becomes MathML."""
    if app.builder.format != "html":
        return
    for block in list(doctree.findall(nodes.literal_block)):
        if block.get("language", "none") in ("none", "formula", "default"):
            parts = re.split(r"\n\s*\n", block.astext())
            made = [typeset.formula(part) for part in parts]
            if made[0] is not None:
                rest = [
                    nodes.raw("", html, format="html") if html else nodes.literal_block(part, part)
                    for part, html in zip(parts, made, strict=True)
                ]
                block.replace_self(rest)


def plain_text(app, what, name, obj, options, lines):
    """Docstrings are plain text: what is indented is a formula, `>>>` begins an example."""
    shown, kind = [], None
    for line in lines:
        before = kind
        if line.startswith(">>>"):
            kind = "pycon"
        elif line.startswith("    ") and kind is None:
            kind = "formula"
        elif not line.strip() and kind == "pycon":
            kind = None  # an example ends at an empty line
        elif line.strip() and not line.startswith("    ") and kind == "formula":
            kind = None
        if kind and kind != before:
            shown += ["", f".. code-block:: {'none' if kind == 'formula' else kind}", ""]
        shown.append(f"   {line}" if kind else ("" if not before else "\n") + marked(line))
    lines[:] = "\n".join(shown).split("\n")


def marked(line):
    """A line of text for reStructuredText: code in backticks, nothing else means anything."""
    parts = line.split("`")
    text = [re.sub(r"([\\*_|])", r"\\\1", part) for part in parts[::2]]
    codes = [f"``{code}``" if code else "" for code in parts[1::2]]
    return "".join(t + code for t, code in zip_longest(text, codes, fillvalue=""))


def setup(app):
    """Connect all of it."""
    app.connect("builder-inited", write_reference)
    app.connect("source-read", add_navigation)
    app.connect("doctree-read", typeset_formulas)
    app.connect("autodoc-process-docstring", plain_text)
