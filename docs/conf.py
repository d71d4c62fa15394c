"""The site: the pages of this folder, and a reference made from the docstrings.

sphinx-build -W docs site
"""

import inspect
import re
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from pkgutil import iter_modules

import labelset

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
    """The links of a page of contents as a table of contents that only the site shows."""
    if docname in CONTENTS:
        linked = re.findall(r"\]\(([\w./+-]+)\.md\)", source[0])
        linked += ["api/index"] if docname == "index" else []
        source[0] += "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(linked) + "\n```\n"


def plain_text(app, what, name, obj, options, lines):
    """Docstrings are plain text: what is indented is a formula, `>>>` begins an example."""
    shown, kind = [], None
    for line in lines:
        before = kind
        if line.startswith(">>>"):
            kind = "pycon"
        elif line.startswith("    ") and kind is None:
            kind = "text"
        elif not line.strip() and kind == "pycon":
            kind = None  # an example ends at an empty line
        elif line.strip() and not line.startswith("    ") and kind == "text":
            kind = None
        if kind and kind != before:
            shown += ["", f".. code-block:: {kind}", ""]
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
    app.connect("autodoc-process-docstring", plain_text)
