"""What a user does in Agent Canvas: begins and follows conversations, approves and rejects calls, changes settings."""

import json
import re
import time
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import expect

from stage import KEY

BOX = "[contenteditable=true]"


@pytest.fixture
def begun(canvas, annals, model):
    """Opens the application with a model, and answers its first questions."""
    llm = {"model": "openai/gpt-4o", "base_url": model.url, "api_key": "sk-test", "num_retries": 0}
    annals.ask("/api/profiles/quick", {"llm": llm})
    annals.ask("/api/profiles/quick/activate", {})

    def begin(path="/"):
        page = canvas.open()
        page.get_by_role("button", name="Confirm preferences").click(timeout=120_000)
        page.get_by_text("Skip for now").click()
        expect(page.get_by_text("Let's Start Building!")).to_be_visible()
        if path != "/":
            page.goto(annals.url + path)
        return page

    return begin


def say(page, text):
    page.locator(BOX).first.click()
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def toggle(page, switch):
    """Toggles a switch, whose checkbox is hidden behind its picture."""
    switch = page.get_by_test_id(switch)
    switch.wait_for(state="attached")
    switch.evaluate("(box) => box.click()")


def save(page):
    with page.expect_response(lambda answer: answer.request.method == "PATCH" and answer.url.endswith("/api/settings")) as response:
        page.get_by_test_id("save-button").click()
    assert response.value.ok, response.value.text()


def wait_for(condition, seconds=20):
    end = time.time() + seconds
    while not condition():
        assert time.time() < end, "the condition was not met in time"
        time.sleep(.05)


def call(command, risk="LOW"):
    return {"text": "Looking.", "calls": [("terminal", {"command": command, "security_risk": risk})]}


def test_a_conversation_is_begun_followed_and_found_again(begun, canvas, annals, model):
    model.play(call("echo from-canvas"), {"hold": "last", "text": "Finished."})
    page = begun()
    say(page, "Say hello")
    page.wait_for_url(re.compile(r"/conversations/[0-9a-f-]{36}"))
    expect(page.get_by_text("Ran echo from-canvas")).to_be_visible()
    model.release("last")
    expect(page.get_by_text("Finished.")).to_be_visible()
    identifier = page.url.rsplit("/", 1)[-1]
    info = annals.ask(f"/api/conversations/{identifier}")
    assert [tool["name"] for tool in info["agent"]["tools"]][:3] == ["terminal", "file_editor", "task_tracker"], info["agent"]
    model.play({"text": "Resumed."})
    say(page, "Again")
    expect(page.get_by_text("Resumed.")).to_be_visible()
    page.goto(annals.url)
    page.locator(f"a[href*='{identifier}']").first.click()
    expect(page.get_by_text("Ran echo from-canvas")).to_be_visible()
    expect(page.get_by_text("Resumed.")).to_be_visible()
    assert ("POST", "/api/conversations", 201) in canvas.asked


@pytest.mark.parametrize("button, shown", [("action-confirm-button", "Ran echo asked"), ("action-reject-button", None)])
def test_a_call_waits_for_the_user(begun, annals, model, button, shown):
    model.play(call("echo asked", "HIGH"), {"text": "Agreed."})
    identifier = annals.conversation(model, policy="AlwaysConfirm")
    page = begun(f"/conversations/{identifier}")
    say(page, "Ask me first")
    page.get_by_test_id(button).click()
    if shown:
        expect(page.get_by_text(shown)).to_be_visible()
        expect(page.get_by_text("Agreed.")).to_be_visible()
    else:
        expect(page.get_by_test_id(button)).to_have_count(0)
        events = f"/api/annals/conversations/{identifier}/events?limit=100"
        wait_for(lambda: "UserRejectObservation" in [event["event"]["kind"] for event in annals.ask(events)["events"]])


def test_settings_are_changed_and_kept(begun, annals, model):
    page = begun("/settings/verification")
    toggle(page, "sdk-settings-confirmation_mode")
    save(page)
    assert annals.ask("/api/settings")["conversation_settings"]["confirmation_mode"] is True
    page.reload()
    expect(page.get_by_test_id("sdk-settings-confirmation_mode")).to_be_checked()
    page.goto(annals.url + "/settings/condenser")
    toggle(page, "sdk-settings-condenser.enabled")
    save(page)
    assert annals.ask("/api/settings")["agent_settings"]["condenser"]["enabled"] is False
    for path, text in [("agents", "Available Profiles"), ("llm", "Provider connections"), ("app", "Git Username")]:
        page.goto(f"{annals.url}/settings/{path}")
        expect(page.get_by_text(text).first).to_be_visible()


# The addresses in the application's program that have no parts of their own, and what it reads of each answer. A member
# in FILLED has to have something in it: a form without fields or a choice without choices would be shown as an empty page.
ROUTES = {
    "/api/agent-profiles": {"profiles", "active_agent_profile_id"},
    "/api/canvas-extensions/installed": {"canvas_extensions"},
    "/api/llm/provider-connections": [],
    "/api/llm/models": {"models"},
    "/api/llm/providers": {"providers"},
    "/api/llm/subscription/openai/models": {"vendor", "models"},
    "/api/llm/subscription/openai/status": {"vendor", "connected"},
    "/api/meta-profiles": {"meta_profiles", "active_meta_profile"},
    "/api/plugins/installed": {"plugins"},
    "/api/profiles": {"profiles", "active_profile"},
    "/api/settings/agent-schema": {"sections"},
    "/api/settings/conversation-schema": {"sections"},
    "/api/skills/installed": {"skills"},
    "/api/tools/": ["terminal", "file_editor", "task_tracker"],
    "/api/vscode/status": {"running", "enabled"},
    "/api/vscode/url": {"url"},
    "/api/workspaces": {"workspaces", "workspaceParents"},
}
FILLED = {
    ("/api/agent-profiles", "profiles"), ("/api/llm/models", "models"), ("/api/llm/providers", "providers"),
    ("/api/settings/agent-schema", "sections"), ("/api/settings/conversation-schema", "sections"),
}


def answered(annals, path):
    """The status, and the answer if it is no error."""
    request = urllib.request.Request(annals.url + path, headers={"X-Session-API-Key": KEY})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, None


@pytest.mark.parametrize("path", ROUTES)
def test_every_route_of_the_application_is_answered(annals, path):
    """No address in the application's program is answered with an error or with something else than it reads."""
    wanted = ROUTES[path]
    status, answer = answered(annals, path)
    assert status == 200
    if isinstance(wanted, list):
        assert isinstance(answer, list) and all(name in answer for name in wanted), answer
    else:
        assert wanted <= answer.keys(), answer
        for member in wanted:
            assert (path, member) not in FILLED or answer[member], (member, answer)


def test_an_unknown_route_is_refused(annals):
    assert answered(annals, "/api/no-such-route") == (404, None)
