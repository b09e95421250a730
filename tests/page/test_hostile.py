"""A hostile transcript is shown. Nothing in it runs, sends a request elsewhere, or breaks the page."""

import uuid
from types import SimpleNamespace

import pytest
from playwright.sync_api import expect

from hostile import transcript
from stage import Annals, items

HARM = """() => ({
  ran: window.__ran ?? null,
  refused: window.__refused,
  links: [...document.querySelectorAll('a[href], area[href], form[action]')].map((one) => one.href ?? one.action)
    .filter((address) => !/^(https?|mailto):/.test(address) && !address.startsWith(location.origin)),
  elements: [...document.querySelectorAll('script, iframe, object, embed, base, meta[http-equiv], form[action], style')]
    .filter((one) => one.getAttribute('src') !== 'page/main.js').map((one) => one.outerHTML.slice(0, 100)),
  handlers: [...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames()).filter((name) => name.startsWith('on')),
  pictures: [...document.querySelectorAll('img')].map((one) => one.src.slice(0, 40)).filter((src) => !/^(data:image\\/(png|jpeg|gif|webp)|blob:)/.test(src)),
  unseen: (() => {
    // Direction marks, and control characters except tab and line ends, in all texts and in attributes that are read.
    const marks = /[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]/;
    const walk = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_ALL);
    const found = marks.test(document.title) ? ['the title of the window'] : [];
    for (let node = walk.currentNode; node; node = walk.nextNode()) {
      const read = node.nodeType === 3 ? [node.data] : ['title', 'aria-label', 'alt', 'placeholder'].map((name) => node.getAttribute?.(name) ?? '');
      if (read.some((text) => marks.test(text))) found.push((node.parentElement ?? node).outerHTML.slice(0, 120));
    }
    return found;
  })(),
  wide: Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth),
  origin: location.pathname,
})"""


# A hostile title, which is also the value of a tag.
NAME = "a \u202eturned\u202c \u009b31mname\u0085 \u2066of\u2069 it"


def check(page):
    assert page.evaluate(HARM) == {
        "ran": None, "refused": [], "links": [], "elements": [], "handlers": [], "pictures": [], "unseen": [], "wide": 0, "origin": "/"}


@pytest.fixture(scope="module")
def harmful(tmp_path_factory):
    annals = Annals(tmp_path_factory.mktemp("hostile")).serve()
    annals.id = str(uuid.uuid4())
    annals.events = transcript()
    try:
        # A conversation with hostile names and without events.
        no_model = SimpleNamespace(url="http://127.0.0.1:1")
        annals.named = annals.conversation(no_model, tags={"tag": NAME})
        annals.ask(f"/api/conversations/{annals.named}", {"title": NAME}, "PATCH")
        for first in range(0, len(annals.events), 20):
            annals.append(annals.id, annals.events[first:first + 20])
        yield annals
    finally:
        annals.end()


def unfold(page):
    """Opens all folded parts of the view."""
    page.evaluate("() => document.querySelectorAll('main details:not([open]) > summary').forEach((one) => one.click())")


def test_hostile_text_is_harmless_in_the_list_and_the_search(harmful, visit):
    watched = visit(harmful)
    page = watched.open("/conversations")
    expect(page.locator("article.conversation")).to_have_count(2)
    check(page)
    watched.go(f"#/c/{harmful.named}")
    expect(page.locator(".talk-head")).to_contain_text("U+202E")
    expect(page.locator(".link-live")).to_be_visible()
    check(page)
    for words in ["script", "javascript", '"<script>"', "red", "everything turned"]:
        watched.go(f"#/search?q={words}")
        page.wait_for_load_state("networkidle")
        check(page)


def test_hostile_text_is_harmless_in_the_whole_timeline(harmful, visit):
    watched = visit(harmful, viewport={"width": 1280, "height": 3000})
    page = watched.open(f"/c/{harmful.id}?event=0")
    pane = page.locator(".pane")
    # The test scrolls only after the requested event is shown, because scrolling decides which position is kept.
    expect(pane.locator('.item[data-seqs~="0"]').first).to_be_in_viewport()
    seen = set()
    pane.hover(position={"x": 5, "y": 5})
    page.mouse.wheel(0, 1)
    for _ in range(400):
        unfold(page)
        page.wait_for_timeout(30)
        check(page)
        seen.update(sum(items(page), []))
        moved = pane.evaluate("(one) => { const from = one.scrollTop; one.scrollTop += one.clientHeight; return one.scrollTop - from; }")
        page.wait_for_timeout(30)
        if moved < 1 and len(seen) == len(harmful.events):
            break
    assert sorted(seen) == list(range(len(harmful.events)))
    # The page still works.
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.locator("article.conversation")).to_have_count(2)


def test_hostile_text_is_harmless_in_raw_events_messages_and_branches(harmful, visit):
    watched = visit(harmful)
    page = watched.open(f"/c/{harmful.id}?event=0")
    expect(page.locator(".item").first).to_be_visible()
    page.get_by_role("button", name="More about event").first.click()
    page.get_by_role("menuitem", name="Raw JSON").click()
    expect(page.get_by_role("dialog").locator("pre")).to_be_visible()
    check(page)
    page.keyboard.press("Escape")
    for tab in ("messages", "branches"):
        watched.go(f"#/c/{harmful.id}?tab={tab}")
        page.wait_for_load_state("networkidle")
        unfold(page)
        check(page)
    # The server may answer with an error for such a log. That is not an error of the page.
    watched.complaints[:] = [one for one in watched.complaints if "Failed to load resource" not in one]


def test_hostile_text_is_harmless_in_numbers_reports_and_query_answers(harmful, visit):
    watched = visit(harmful)
    page = watched.open("/numbers")
    expect(page.locator(".totals")).to_be_visible()
    check(page)
    for report in harmful.ask("/api/annals/reports")["reports"]:
        watched.go(f"#/reports/{report['name']}")
        expect(page.get_by_role("heading", name=report["question"])).to_be_visible()
        page.wait_for_load_state("networkidle")
        check(page)
    watched.go("#/sql?q=SELECT sequence, kind, payload, json(payload) FROM events ORDER BY sequence")
    # The answer to a query may take long on a busy machine.
    expect(page.get_by_role("button", name="Read row 1", exact=True)).to_be_visible(timeout=60_000)
    check(page)
    for row in (1, 2, 3):
        page.get_by_role("button", name=f"Read row {row}", exact=True).click()
        expect(page.get_by_role("dialog").locator("pre").first).to_be_visible()
        check(page)
        page.keyboard.press("Escape")
