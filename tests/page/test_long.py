"""A conversation of 50,000 events is opened and scrolled to the end, and the page keeps few of its events."""

import uuid

import pytest
from playwright.sync_api import expect

from stage import KEY, Annals

EVENTS = 50_000
# The maximum number of elements in the page, and of bytes that scripts hold beyond those for the first screen.
ELEMENTS_MAX = 20_000
HEAP_MAX = 60 << 20


def turn(number):
    at = f"2026-01-{1 + number // 2400:02}T{number // 100 % 24:02}:{number % 60:02}:00"
    call = f"call_{number}"
    return [
        {"id": f"a{number}", "kind": "ActionEvent", "source": "agent", "timestamp": at, "thinking_blocks": [],
         "thought": [{"type": "text", "text": f"Step **{number}** of many"}], "tool_name": "terminal", "tool_call_id": call,
         "action": {"kind": "TerminalAction", "command": f"make step-{number}", "is_input": False, "reset": False},
         "tool_call": {"id": call, "name": "terminal", "arguments": f'{{"command": "make step-{number}"}}', "origin": "completion"},
         "llm_response_id": f"r{number}", "security_risk": "LOW"},
        {"id": f"o{number}", "kind": "ObservationEvent", "source": "environment", "timestamp": at, "tool_name": "terminal",
         "tool_call_id": call, "action_id": f"a{number}",
         "observation": {"kind": "TerminalObservation", "is_error": False, "command": f"make step-{number}", "exit_code": 0, "timeout": False,
                         "content": [{"type": "text", "text": "".join(f"line {line} of {number}\n" for line in range(number % 9))}]}},
    ]


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    annals = Annals(tmp_path_factory.mktemp("long")).serve()
    annals.id = str(uuid.uuid4())
    events = [event for number in range(EVENTS // 2) for event in turn(number)]
    try:
        for first in range(0, EVENTS, 5000):
            annals.append(annals.id, events[first:first + 5000])
        yield annals
    finally:
        annals.end()


# Both run in the page. FETCH measures how long the server takes for a first page of events, PAINT how long it takes
# until the first cards of a conversation are drawn.
FETCH = """async ([path, key]) => {
  const began = performance.now();
  const answer = await fetch(path, { headers: { 'X-Session-API-Key': key }, cache: 'no-store' });
  await answer.json();
  return performance.now() - began;
}"""
PAINT = """async (place) => {
  const began = performance.now();
  location.hash = place;
  await new Promise((done) => {
    const watch = new MutationObserver(look);
    function look() {
      if (!document.querySelector('.pane .item')) return;
      watch.disconnect();
      requestAnimationFrame(() => setTimeout(done));
    }
    watch.observe(document.body, { childList: true, subtree: true });
    look();
  });
  return performance.now() - began;
}"""


def test_a_long_conversation_opens(long, visit, record_property):
    watched = visit(long)
    page = watched.open("/conversations")
    expect(page.locator("article.conversation")).to_have_count(1)
    path = f"/api/conversations/{long.id}/events/search?limit=100"
    first = sorted(page.evaluate(FETCH, [path, KEY]) for _ in range(7))[3]
    paints = []
    for _ in range(5):
        paints.append(page.evaluate(PAINT, f"#/c/{long.id}"))
        expect(page.locator(".link-live")).to_be_attached()
        watched.go("#/conversations")
        expect(page.locator("article.conversation")).to_have_count(1)
    # The times are printed and not asserted, because they depend on the load of the machine. The first paint should
    # take less than ten times as long as the first page of events. PAINT already requires that cards are shown.
    paint = min(paints)
    print(f"\n50,000 events: first page of events {first:.1f} ms, first paint {paint:.1f} ms ({paint / first:.1f} times), the first time {paints[0]:.1f} ms")


# Returns whether there is a card in the middle of the visible part.
SEEN = """() => {
  const box = document.querySelector('.pane').getBoundingClientRect();
  return document.elementFromPoint(box.left + 40, box.top + box.height / 2)?.closest('.item') !== null;
}"""


def heap(page, session):
    session.send("HeapProfiler.collectGarbage")
    return page.evaluate("() => performance.memory.usedJSHeapSize")


def test_scrolling_to_the_end_keeps_few_elements_and_little_memory(long, visit):
    watched = visit(long)
    page = watched.open(f"/c/{long.id}?event=0")
    pane = page.locator(".pane")
    expect(pane.locator(".item").first).to_be_visible()
    session = page.context.new_cdp_session(page)
    before, most = heap(page, session), 0
    pane.hover(position={"x": 5, "y": 5})
    page.mouse.wheel(0, 1)
    for step in range(1, 31):
        pane.evaluate("(one, share) => { one.scrollTop = one.scrollHeight * share; }", step / 30)
        page.wait_for_function(SEEN)
        most = max(most, page.evaluate("() => document.querySelectorAll('*').length"))
    page.keyboard.press("G")
    expect(pane.locator(f"[data-seqs~='{EVENTS - 1}']")).to_be_visible()
    after = heap(page, session)
    print(f"\n50,000 events: at most {most} elements; scripts hold {before / 1e6:.1f} MB at first, {after / 1e6:.1f} MB at the end")
    assert most < ELEMENTS_MAX
    assert after - before < HEAP_MAX


def test_the_page_is_small(long, visit):
    watched = visit(long)
    page = watched.page
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    received = {}
    types = {}
    session.on("Network.responseReceived", lambda event: types.update({event["requestId"]: event["response"]["url"]}))
    session.on("Network.loadingFinished", lambda event: received.update({event["requestId"]: event["encodedDataLength"]}))
    watched.open(f"/c/{long.id}?event=0")
    expect(page.locator(".item").first).to_be_visible()
    for place, title in (("conversations", "Conversations"), ("search", "Search"), ("numbers", "Numbers"), ("reports", "Reports"), ("sql", "SQL")):
        watched.go(f"#/{place}")
        expect(page.get_by_role("heading", level=1, name=title)).to_be_visible()
    expect(page.get_by_role("complementary", name="Views and columns")).to_contain_text("tool_calls")
    own = {url: received.get(name, 0) for name, url in types.items() if "/page/" in url or url.split("#")[0] == long.url + "/"}
    print(f"\nthe page with all its views: {sum(own.values()) / 1e3:.0f} kB in {len(own)} files")
    assert len(own) > 20
    assert sum(own.values()) < 300_000
