"""Makes the pictures of docs/page/ from the goldens: `python tests/page/screenshots.py`. Needs requirements.txt.

All goldens were recorded within minutes. They are copied to several days, so that the list and the charts look as they
do in use. Their texts stay the same.

    --to DIR        a folder other than docs/page
    --width N       a width other than 1280
    --dark          the dark theme
    --png           PNG, which is several times as large, for programs without WebP
"""

import argparse
import base64
import datetime
import json
import re
import shutil
import tempfile
import uuid
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from stage import GOLDENS, ROOT, Annals, Watched, chromium

DAYS = 24
TIME = re.compile(r"2026-\d\d-\d\d(?=T\d\d:\d\d)")
SECONDS = re.compile(r'(?<="timestamp":)\d{10}\.\d+')
NAMESPACE = uuid.UUID("a11a15a1-0000-4000-8000-000000000000")
# The number of days on which each golden appears.
AGAIN = {"coding-task": 9, "confirm-reject": 4, "condense-rolling": 5, "hello-two-turns": 12, "errors-and-stuck": 4, "hooks": 5, "tree-navigate": 3}


def copies(folder):
    """Writes copies of the goldens, each moved to another day. Each copy has an id of its own."""
    for name, often in AGAIN.items():
        for number in range(1, often):
            days = datetime.timedelta(days=(number * 7 + len(name) * 3) % DAYS)
            target = folder / f"{name}-{number}"
            shutil.copytree(GOLDENS / name, target)
            own = json.loads((target / "base_state.json").read_text())["id"]
            new = str(uuid.uuid5(NAMESPACE, f"{own} {number}"))

            def moved(found, days=days):
                return (datetime.date.fromisoformat(found[0]) - days).isoformat()

            def earlier(found, days=days):
                return str(float(found[0]) - days.total_seconds())

            for path in target.rglob("*.json"):
                text = TIME.sub(moved, path.read_text())
                path.write_text(SECONDS.sub(earlier, text).replace(own, new))


def views(annals):
    """Returns each view: its name, its address, and the selector that must be visible before the picture is taken."""
    coding, tree = annals.conversation_of("coding-task"), annals.conversation_of("tree-navigate")
    condensed, waiting = annals.conversation_of("condense-rolling"), annals.conversation_of("confirm-reject")
    question = ("SELECT tool, count(*) AS calls, count(*) FILTER (WHERE outcome = 'error') AS failed,\n"
                "       round(avg(duration_ms)) AS mean_ms\nFROM tool_calls\nGROUP BY tool\nORDER BY calls DESC")
    return [
        ("conversations", "/conversations", "article.conversation"),
        ("search", "/search?q=fibonacci", ".hit"),
        ("timeline", f"/c/{coding}?event=18", ".item.selected"),
        ("time", f"/c/{coding}?at=20&event=20", ".item.later, .item.selected"),
        ("consent", f"/c/{waiting}", ".item"),
        ("messages", f"/c/{condensed}?tab=messages", "article.sent"),
        ("branches", f"/c/{tree}?tab=branches", "li.branch"),
        ("compare", f"/compare?left={coding}@10&right={coding}@20", "main h1"),
        ("numbers", "/numbers", ".bars"),
        ("reports", "/reports/commands?failed=yes", ".answer"),
        ("sql", "/sql?q=" + question.replace("\n", "%0A"), ".answer"),
    ]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--to", type=Path, default=ROOT / "docs/page")
    arguments.add_argument("--width", type=int, default=1280)
    arguments.add_argument("--dark", action="store_true")
    arguments.add_argument("--png", action="store_true")
    wanted = arguments.parse_args()
    wanted.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        copies(Path(folder) / "copies")
        annals = Annals(folder)
        annals.run("import", str(GOLDENS), str(Path(folder) / "copies"))
        annals.serve()
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-lcd-text"])
        try:
            for name, place, selector in views(annals):
                context = browser.new_context(
                    viewport={"width": wanted.width, "height": 800}, color_scheme="dark" if wanted.dark else "light", reduced_motion="reduce")
                watched = Watched(context, annals)
                page = watched.open(place)
                expect(page.locator(selector).first).to_be_visible()
                page.wait_for_load_state("networkidle")
                page.wait_for_timeout(400)
                form = {"format": "png"} if wanted.png else {"format": "webp", "quality": 82}
                taken = context.new_cdp_session(page).send("Page.captureScreenshot", form)
                picture = wanted.to / f"{name}.{form['format']}"
                picture.write_bytes(base64.b64decode(taken["data"]))
                watched.check()
                context.close()
                print(f"{picture} {picture.stat().st_size // 1000} kB")
        finally:
            annals.end()
            browser.close()


if __name__ == "__main__":
    main()
