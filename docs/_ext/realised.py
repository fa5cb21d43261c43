"""Link what a page quotes to where it lives: code and tests to the line, examples to the gallery.

In the pages of ``LINKED`` a literal such as ``maxmargin.problems.soft_margin``,
``tests/test_solvers.py::test_reaches_the_oracle`` or ``examples/plot_margins.py`` becomes a link,
``lab/six?problem=nu&solver=ADMM`` one to the lab on the reader's own machine, with these settings.
A paragraph that begins with an arrow is set apart: it says where the formula above it is realised.
The listings that the links lead to are pages of this site.
"""

import functools
import importlib
import inspect
import re
from pathlib import Path

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename

ROOT = Path(__file__).resolve().parents[2]
LINKED = re.compile(r"notes$|theory/|architecture|start/")
ARROW = "→"
LAB = "http://127.0.0.1:8765/#preset="  # where `maxmargin lab` listens


def setup(app):
    app.connect("doctree-read", link_literals)
    app.connect("env-purge-doc", purge)
    app.connect("html-collect-pages", listings)
    return {"parallel_read_safe": False, "version": "1"}


def purge(app, env, docname):
    listed(env).pop(docname, None)


def listed(env):
    """The files that each page links to; kept with the environment, for incremental builds."""
    if not hasattr(env, "realised_listings"):
        env.realised_listings = {}
    return env.realised_listings


def link_literals(app, doctree):
    docname = app.env.docname
    if not LINKED.match(docname):
        return
    for literal in list(doctree.findall(nodes.literal)):
        if not isinstance(literal.parent, nodes.reference):
            link(app, docname, literal)
    for paragraph in doctree.findall(nodes.paragraph):
        if paragraph.astext().startswith(ARROW):
            paragraph["classes"].append("realised")


def link(app, docname, literal):
    text = literal.astext()
    if text.startswith("lab/"):
        preset, _, settings = text.removeprefix("lab/").partition("?")
        shown = nodes.literal(text, f"lab: {preset}")
        uri = LAB + preset + (f"&{settings}" if settings else "")
        title = ", ".join(["preset " + preset, *settings.split("&")]).rstrip(", ")
        literal.replace_self(nodes.reference("", "", shown, refuri=uri, reftitle=title))
        return
    if re.fullmatch(r"examples/plot_\w+\.py", text):
        page, anchor, shown = f"auto_examples/{Path(text).stem}", "", Path(text).stem
    elif found := place(text):
        path, line, shown = found
        listed(app.env).setdefault(docname, set()).add(path)
        page, anchor = f"listings/{path}", f"#L-{line}"
    else:
        return
    uri = app.builder.get_relative_uri(docname, page) + anchor
    short = nodes.literal(shown, shown)
    literal.replace_self(nodes.reference("", "", short, refuri=uri, internal=True, reftitle=text))


@functools.cache
def place(text):
    """Find the file, the line and a short form of what a literal names, or None."""
    if match := re.fullmatch(r"(tests/\w+\.py)::(\w+)", text):
        return match[1], line_of(match[1], rf"def {match[2]}\("), match[2]
    if re.fullmatch(r"(cpp|tests|src/maxmargin)/[\w/.]+", text) and (ROOT / text).is_file():
        return text, 1, text
    if re.fullmatch(r"maxmargin(\.\w+)+", text):
        return (*place_of_object(text), text.removeprefix("maxmargin."))
    return None


def place_of_object(dotted):
    """Walk from the package to the object; a field of a dataclass is found by its text."""
    at, path, rest = importlib.import_module("maxmargin"), "maxmargin", dotted.split(".")[1:]
    for part in rest:
        path += f".{part}"
        if part in getattr(at, "__dataclass_fields__", ()):
            source, first = inspect.getsourcelines(at)
            offset = next(i for i, line in enumerate(source) if re.match(rf"\s+{part}:", line))
            return relative(inspect.getsourcefile(at)), first + offset
        if not hasattr(at, part):
            importlib.import_module(path)
        at = getattr(at, part)
    if inspect.ismodule(at):
        return relative(at.__file__), 1
    at = inspect.unwrap(getattr(at, "fget", None) or getattr(at, "func", at))
    return relative(inspect.getsourcefile(at)), inspect.getsourcelines(at)[1]


def relative(path):
    return Path(path).resolve().relative_to(ROOT).as_posix()


def line_of(path, pattern):
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if re.search(pattern, line))


def listings(app):
    """Yield one page for each file that is linked to, every line with an anchor."""
    for path in sorted(set().union(*listed(app.env).values())):
        text = (ROOT / path).read_text(encoding="utf-8")
        form = HtmlFormatter(linenos="inline", lineanchors="L", anchorlinenos=True, wrapcode=True)
        body = highlight(text, get_lexer_for_filename(path), form)
        title = f"<h1><code>{path}</code></h1>"
        yield (
            f"listings/{path}",
            {"title": path, "body": f"{title}{body}", "parents": []},
            "page.html",
        )
