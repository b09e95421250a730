"""The actions of the page, with a scripted model: runs, approved and rejected calls, forks, branches, deletion."""

import re
import time

from playwright.sync_api import expect

from stage import items

# Records every state of the timeline that a user could have seen: the sequences of its cards after each change.
RECORD = """() => {
  window.__seen = [];
  const look = () => {
    const now = [...document.querySelectorAll('.pane .item')].map((one) => one.dataset.seqs.split(' ').map(Number));
    const text = JSON.stringify(now);
    if (window.__seen.at(-1) !== text) window.__seen.push(text);
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ['data-seqs'] });
  look();
}"""


def states(page):
    return page.evaluate("() => window.__seen.map((one) => JSON.parse(one))")


def echo(text):
    return {"text": f"Saying **{text}**", "calls": [("terminal", {"command": f"echo {text}", "security_risk": "LOW"})]}


def wait_for(condition, seconds=20):
    end = time.time() + seconds
    while not condition():
        assert time.time() < end, "the condition was not met in time"
        time.sleep(.05)


def kinds(annals, conversation):
    return [one["event"]["kind"] for one in annals.ask(f"/api/annals/conversations/{conversation}/events?limit=1000")["events"]]


def status(annals, conversation):
    return annals.ask(f"/api/conversations/{conversation}")["execution_status"]


def test_a_run_is_followed_without_a_gap_or_a_repetition(annals, model, visit):
    steps = 12
    model.play(*(echo(f"step-{number}") for number in range(steps)), {"hold": "last", "calls": [("finish", {"message": "All **done**"})]})
    conversation = annals.conversation(model)
    page = visit(annals).open(f"/c/{conversation}")
    expect(page.get_by_label("A message to the agent")).to_be_visible()
    page.evaluate(RECORD)
    page.get_by_label("A message to the agent").fill("Count the steps")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text(f"$ echo step-{steps - 1}")).to_be_visible(timeout=60_000)
    expect(page.get_by_text("The agent is at work")).to_be_visible()
    expect(page.locator(".talk-head .status")).to_have_text("running")
    model.release("last")
    expect(page.locator(".talk-head .status")).to_have_text("finished")
    expect(page.locator(".pane strong", has_text="done")).to_be_visible()
    count = len(kinds(annals, conversation))
    wait_for(lambda: max(sum(states(page)[-1], [-1])) == count - 1)
    for state in states(page):
        places = sum(state, [])
        assert len(places) == len(set(places)), f"twice: {state}"
        assert sorted(places) == list(range(min(places), max(places) + 1)) if places else True, f"a gap: {state}"
        assert [min(one) for one in state] == sorted(min(one) for one in state), f"out of order: {state}"
    assert sorted(sum(states(page)[-1], []))[-1] == count - 1
    # A reloaded page shows the same.
    last = states(page)[-1]
    page.reload()
    expect(page.locator(f".item[data-seqs~='{count - 1}']")).to_be_visible()
    assert items(page) == last


def test_events_appended_during_an_outage_are_shown_after_it(annals, model, visit):
    model.play(echo("before"))
    conversation = annals.conversation(model, text="Begin")
    watched = visit(annals)
    page = watched.open(f"/c/{conversation}")
    wait_for(lambda: status(annals, conversation) == "finished")
    expect(page.get_by_text("$ echo before")).to_be_visible()
    page.evaluate(RECORD)
    port = annals.url.rsplit(":", 1)[1]
    annals.end()
    # Another client appends events meanwhile.
    annals.serve()
    annals.append(conversation, [{"id": f"while-{n}", "kind": "MessageEvent", "source": "user", "timestamp": "2026-01-01T00:00:00",
                                  "llm_message": {"role": "user", "content": [{"type": "text", "text": f"while you were away {n}"}]}} for n in range(70)])
    annals.end()
    annals.serve(port)
    expect(page.locator(".time-text")).to_have_text("now, #80", timeout=30_000)
    page.keyboard.press("G")
    expect(page.get_by_text("while you were away 69", exact=True)).to_be_visible()
    for state in states(page):
        places = sum(state, [])
        assert len(places) == len(set(places)), f"twice: {state}"
    # The browser itself logs the requests that failed while there was no server.
    watched.complaints[:] = [one for one in watched.complaints if "ERR_CONNECTION" not in one and "WebSocket" not in one]


def test_a_call_is_rejected_with_a_reason_and_the_next_one_approved(annals, model, visit):
    model.play(
        {"calls": [("terminal", {"command": "rm -rf build", "security_risk": "HIGH"})]},
        {"calls": [("terminal", {"command": "ls", "security_risk": "HIGH"})]},
        {"calls": [("finish", {"message": "Finished as you wished", "security_risk": "LOW"})]},
        {"calls": [("finish", {"message": "Finished as you wished", "security_risk": "LOW"})]},
    )
    conversation = annals.conversation(model, text="Clean up", policy="AlwaysConfirm")
    page = visit(annals).open(f"/c/{conversation}")
    consent = page.get_by_role("group", name="Consent")
    expect(consent).to_contain_text("1 call waits for your consent")
    expect(consent.get_by_text("$ rm -rf build")).to_be_visible()
    page.get_by_label("The reason of a rejection").fill("Not the build folder")
    consent.get_by_role("button", name="Reject").click()
    expect(page.get_by_text("Not the build folder")).to_be_visible()
    wait_for(lambda: "UserRejectObservation" in kinds(annals, conversation))
    wait_for(lambda: status(annals, conversation) != "running")
    if status(annals, conversation) in ("idle", "paused"):
        page.get_by_role("button", name="Run", exact=True).click()
    expect(consent.get_by_text("$ ls")).to_be_visible()
    consent.get_by_role("button", name="Approve").click()
    wait_for(lambda: "ObservationEvent" in kinds(annals, conversation))
    refused = annals.ask(f"/api/annals/reports/confirmations?conversation={conversation}")["rows"]
    assert any("Not the build folder" in str(row) for row in refused)


def test_a_run_is_paused_and_continued(annals, model, visit):
    model.play({"hold": "first", **echo("one")}, {"calls": [("finish", {"message": "Well done"})]})
    conversation = annals.conversation(model, text="Go")
    page = visit(annals).open(f"/c/{conversation}")
    expect(page.locator(".talk-head .status")).to_have_text("running")
    page.get_by_role("button", name="Pause").click()
    model.release("first")
    expect(page.locator(".talk-head .status")).to_have_text("paused")
    expect(page.locator(".pane").get_by_text("Paused", exact=True)).to_be_visible()
    # The reply of the model is still recorded. The run that requested it ends only after that, and until then the
    # conversation cannot be run again.
    wait_for(lambda: "ActionEvent" in kinds(annals, conversation))
    wait_for(lambda: annals.runs() == 0)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".talk-head .status")).to_have_text("finished")
    expect(page.get_by_text("Well done")).to_be_visible()


def test_a_run_is_interrupted(annals, model, visit):
    model.play({"hold": "never", **echo("one")})
    conversation = annals.conversation(model, text="Go")
    page = visit(annals).open(f"/c/{conversation}")
    expect(page.locator(".talk-head .status")).to_have_text("running")
    wait_for(lambda: model.asked)
    page.get_by_role("button", name="Interrupt").click()
    expect(page.locator(".talk-head .status")).to_have_text("paused")
    assert "InterruptEvent" in kinds(annals, conversation)


def test_name_and_tags_are_changed(annals, model, visit):
    conversation = annals.conversation(model, text="Go")
    wait_for(lambda: status(annals, conversation) == "finished")
    page = visit(annals).open(f"/c/{conversation}")
    page.get_by_role("button", name="Name and tags").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").first.fill("A better name")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("A better name")
    assert annals.ask(f"/api/conversations/{conversation}")["title"] == "A better name"


def test_a_fork_begins_at_an_event_and_its_source_stays(annals, model, visit):
    model.play(echo("one"), echo("two"))
    conversation = annals.conversation(model, text="Go")
    wait_for(lambda: status(annals, conversation) == "finished")
    before = kinds(annals, conversation)
    page = visit(annals).open(f"/c/{conversation}")
    place = before.index("ObservationEvent") - 1
    page.get_by_role("button", name=f"More about event {place}", exact=True).click()
    page.get_by_role("menuitem", name="Fork from here").click()
    expect(page.get_by_role("link", name=f"fork of {conversation[:8]}")).to_be_visible()
    fork = re.search(r"/c/([0-9a-f-]+)", page.url)[1]
    assert fork != conversation
    assert annals.ask(f"/api/annals/conversations/{fork}")["forked_from"] == conversation
    assert kinds(annals, conversation) == before


def test_head_is_moved_and_the_rest_becomes_another_branch(annals, model, visit):
    model.play(echo("one"), echo("two"))
    conversation = annals.conversation(model, text="Go")
    wait_for(lambda: status(annals, conversation) == "finished")
    page = visit(annals).open(f"/c/{conversation}")
    before = kinds(annals, conversation)
    place = before.index("ObservationEvent") - 1
    page.get_by_role("button", name=f"More about event {place}", exact=True).click()
    page.get_by_role("menuitem", name="Move HEAD here").click()
    expect(page.get_by_role("status").filter(has_text="HEAD is moved")).to_be_visible()
    page.get_by_label("A message to the agent").fill("Another way")
    page.get_by_label("run", exact=True).uncheck()
    page.get_by_role("button", name="Send").click()
    wait_for(lambda: "MessageEvent" in kinds(annals, conversation)[len(before):])
    # The page has received its answer, and the message field is empty: keys are shortcuts again after Escape.
    expect(page.get_by_label("A message to the agent")).to_have_value("")
    expect(page.get_by_text("Another way")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("b")
    expect(page.get_by_role("heading", name="2 branches")).to_be_visible()


def test_a_conversation_is_deleted_after_a_confirmation(annals, model, visit):
    conversation = annals.conversation(model, text="Go")
    wait_for(lambda: status(annals, conversation) == "finished")
    page = visit(annals).open(f"/c/{conversation}")
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Keep it").click()
    assert annals.ask("/api/conversations/count") == 1
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_role("heading", name=re.compile("^Conversations"))).to_be_visible()
    assert annals.ask("/api/conversations/count") == 0


def test_a_view_asks_for_no_conversation_that_it_deletes(annals, model, visit):
    conversation = annals.conversation(model, text="Go")
    wait_for(lambda: status(annals, conversation) == "finished")
    watched, held = visit(annals), []

    def delete(route):
        if route.request.method != "DELETE":
            return route.continue_()
        answer = route.fetch()
        # The conversation is gone and the page does not know it yet. Now its other requests reach the server.
        for other in held:
            other.continue_()
        watched.page.wait_for_timeout(300)
        return route.fulfill(response=answer)

    watched.page.route("**/api/annals/conversations/*/state?*", lambda route: held.append(route))
    watched.page.route("**/api/conversations/*", delete)
    page = watched.open(f"/c/{conversation}")
    wait_for(lambda: page.wait_for_timeout(20) or held)
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_role("heading", name=re.compile("^Conversations"))).to_be_visible()
    assert annals.ask("/api/conversations/count") == 0
