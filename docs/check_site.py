"""Is the site whole?  Every link leads somewhere, every picture has words, nothing is fetched from elsewhere.

    python docs/check_site.py build/docs/html

What is checked: links and sources to files that exist and anchors that exist, `alt` on pictures, one heading of the
first rank a page, scripts and styles from the site alone, a search index.  Links to other sites are listed by
--external; they are not asked for, so that the site builds without a network.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass
class Page(HTMLParser):
    """What a page points to, and what can be pointed to in it."""

    links: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    silent_pictures: list[str] = field(default_factory=list)
    n_titles: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "img" and "alt" not in given:
            self.silent_pictures.append(given.get("src", ""))
        if tag in ("img", "script") and "src" in given:
            self.sources.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "icon"):
            self.sources.append(given.get("href", ""))
        self.n_titles += tag == "h1"


def read_pages(folder: Path) -> dict[Path, Page]:
    """All pages of the site, by path."""
    pages = {}
    for path in sorted(folder.rglob("*.html")):
        if "_static" not in path.relative_to(folder).parts:
            pages[path] = Page()
            pages[path].feed(path.read_text(encoding="utf-8"))
    return pages


def outside(address: str) -> bool:
    """Whether an address leaves the site."""
    parts = urlsplit(address)
    return bool(parts.scheme or parts.netloc)


def faults_of(path: Path, page: Page, pages: dict[Path, Page]) -> list[str]:
    """What is wrong with one page, in words."""
    faults = [f"a picture without alt: {source}" for source in page.silent_pictures]
    faults += [
        f"fetched from elsewhere: {source}" for source in page.sources if outside(source) and source[:5] != "data:"
    ]
    if page.n_titles != 1 and path.name not in ("search.html", "genindex.html"):
        faults.append(f"{page.n_titles} headings of the first rank")
    for address in [link for link in [*page.links, *page.sources] if not outside(link)]:
        parts = urlsplit(address)
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
        target = target / "index.html" if target.is_dir() else target
        if not target.is_file():
            faults.append(f"leads nowhere: {address}")
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
            faults.append(f"no such place in the page: {address}")
    return faults


def main() -> int:
    """Print what is wrong; 1 where anything is."""
    parser = argparse.ArgumentParser(description="Check a built site.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--external", action="store_true", help="list links to other sites")
    arguments = parser.parse_args()
    pages = {path.resolve(): page for path, page in read_pages(arguments.folder.resolve()).items()}
    faults = {path: found for path, page in pages.items() if (found := faults_of(path, page, pages))}
    for path, found in faults.items():
        for fault in sorted(set(found)):
            print(f"{path.relative_to(arguments.folder.resolve())}: {fault}")
    if not (arguments.folder / "searchindex.js").is_file():
        faults[arguments.folder] = ["no search index"]
        print("no search index")
    if arguments.external:
        elsewhere: dict[str, int] = defaultdict(int)
        for page in pages.values():
            for link in set(filter(outside, page.links)):
                elsewhere[link] += 1
        print(*sorted(elsewhere), sep="\n")
    n_links = sum(len(page.links) for page in pages.values())
    print(f"{len(pages)} pages, {n_links} links: {'whole' if not faults else f'{len(faults)} pages with faults'}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
