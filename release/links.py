"""Checks that every link of a folder of HTML leads to a file of it, and to an anchor of that file.

    release/links.py FOLDER
"""

import pathlib
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors.update(attrs[name] for name in ("id", "name") if attrs.get(name))
        self.links.extend(attrs[name] for name in ("href", "src") if attrs.get(name))


def main(folder):
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    wrong, checked = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            # What is elsewhere is not asked for. The page for what is not found has links from the root of a site.
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            checked += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            if not target.is_file():
                wrong.append(f"{path.relative_to(folder)}: {link} leads nowhere")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{path.relative_to(folder)}: {link} has no such anchor")
    print("\n".join(wrong) or f"ok    {len(pages)} pages, {checked} links")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
