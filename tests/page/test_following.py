"""A run is followed to its end, and consent is given only to calls that were seen whole."""

from playwright.sync_api import expect

from stage import KEY, items
from test_acting import echo

# How far the view is from the end of the log, in pixels.
FROM_END = "() => { const pane = document.querySelector('.pane'); return pane.scrollHeight - pane.clientHeight - pane.scrollTop; }"
SCROLLS = "() => { const pane = document.querySelector('.pane'); return pane.scrollHeight > pane.clientHeight + 500; }"

FINISH = {"calls": [("finish", {"message": "All **done**"})]}


def long_echo(number):
    return echo("; echo ".join(f"{number}-{line}" for line in range(30)))


def test_a_run_that_the_page_started_is_followed(annals, model, visit):
    model.play(*(long_echo(number) for number in range(8)), FINISH)
    conversation = annals.conversation(model)
    page = visit(annals, viewport={"width": 1280, "height": 520}).open(f"/c/{conversation}")
    page.get_by_label("A message to the agent").fill("Count")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".talk-head .status")).to_have_text("finished", timeout=60_000)
    expect(page.locator(".pane strong", has_text="done")).to_be_in_viewport()
    page.wait_for_function(SCROLLS)
    page.wait_for_function(f"() => ({FROM_END})() < 60")


def test_a_new_conversation_is_followed_from_its_beginning(annals, model, visit):
    model.play(*(long_echo(number) for number in range(8)), {**FINISH, "hold": "last"})
    conversation = annals.conversation(model)
    page = visit(annals, viewport={"width": 1280, "height": 520}).open(f"/c/{conversation}")
    expect(page.get_by_label("A message to the agent")).to_be_visible()
    # Another program starts the run.
    body = {"role": "user", "content": [{"type": "text", "text": "Count"}], "run": True}
    annals.ask(f"/api/conversations/{conversation}/events", body)
    expect(page.get_by_text("7-29", exact=False).last).to_be_in_viewport(timeout=60_000)
    page.wait_for_function(f"() => ({FROM_END})() < 60")
    # Who scrolls up stays there.
    page.locator(".pane").hover()
    page.mouse.wheel(0, -2000)
    page.wait_for_function(f"() => ({FROM_END})() > 500")
    model.release("last")
    expect(page.locator(".talk-head .status")).to_have_text("finished")
    assert page.evaluate(FROM_END) > 500


def test_a_call_is_approved_only_after_it_was_seen_whole(annals, model, visit):
    lines = "\n".join(f"echo {number}" for number in range(80))
    model.play({"calls": [("terminal", {"command": f"rm -rf build\n{lines}\necho the-end", "security_risk": "HIGH"})]}, FINISH)
    conversation = annals.conversation(model, text="Clean up", policy="AlwaysConfirm")
    page = visit(annals).open(f"/c/{conversation}")
    consent = page.get_by_role("group", name="Consent")
    approve = consent.get_by_role("button", name="Approve")
    expect(consent.get_by_text("$ rm -rf build")).to_be_in_viewport()
    expect(consent).to_contain_text("terminal")
    expect(approve).to_be_disabled()
    expect(consent.get_by_role("status")).to_have_text("Scroll to the end of the calls to approve them.")
    # With keys, as without a mouse.
    asked = consent.get_by_role("list", name="The calls that wait")
    asked.focus()
    page.keyboard.press("End")
    expect(approve).to_be_enabled()
    expect(consent.get_by_text("echo the-end")).to_be_in_viewport()
    approve.click()
    expect(page.locator(".pane").get_by_text("the-end").last).to_be_visible()


def test_every_waiting_call_is_named(annals, model, visit):
    calls = [("terminal", {"command": f"echo call-{number}", "security_risk": "HIGH"}) for number in range(2)]
    calls.append(("file_editor", {"command": "create", "path": "/tmp/made.txt", "file_text": "What is\nwritten", "security_risk": "HIGH"}))
    model.play({"calls": calls}, FINISH)
    conversation = annals.conversation(model, text="Begin", policy="AlwaysConfirm")
    page = visit(annals, viewport={"width": 1280, "height": 1000}).open(f"/c/{conversation}")
    consent = page.get_by_role("group", name="Consent")
    expect(consent).to_contain_text("3 calls wait for your consent.")
    for text in ("$ echo call-0", "$ echo call-1", "path: /tmp/made.txt", "file_text: What is\nwritten"):
        expect(consent).to_contain_text(text)
    consent.get_by_role("button", name="Reject").click()
    expect(page.locator(".talk-head .status")).not_to_have_text("waiting for confirmation")
    assert KEY not in page.url and items(page)
