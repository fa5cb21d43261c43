"""Check a built site: no dead internal link, and nothing that a reader's browser would fetch."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
}


class Page(HTMLParser):
    """The anchors a page has, the links it makes, and what it fetches."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: list[tuple[str, bool]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := found.get(key))}
        for key in ("href", "src"):
            if value := found.get(key):
                relation = found.get("rel") or ""
                fetched = (tag, key) in FETCHED and relation not in ("canonical", "next", "prev")
                self.links.append((value, fetched))


def main(site: Path) -> int:
    """Print every problem; return 1 if there is one."""
    html = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts)
    pages = {path: Page(path) for path in html}
    problems = []
    for path, page in pages.items():
        for link, fetched in page.links:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                if fetched and url.scheme != "data":
                    problems.append(f"{path.relative_to(site)} fetches {link}")
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            if not target.is_file():
                problems.append(f"{path.relative_to(site)}: no file {link}")
            elif target in pages and unquote(url.fragment) not in pages[target].anchors:
                problems.append(f"{path.relative_to(site)}: no anchor {link}")
    print("\n".join(problems) or f"{len(pages)} pages, all internal links lead somewhere")
    return 1 if problems or not pages else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
