"""axe-core finds no serious problem in any view, light and dark, wide and narrow."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

VIEWS = {
    "conversations": "/conversations",
    "no conversation": "/conversations?title=nonesuch",
    "search": "/search?q=fibonacci",
    "a timeline": "/c/{coding-task}?event=18",
    "a state": "/c/{coding-task}?at=20",
    "errors": "/c/{errors-and-stuck}",
    "hooks": "/c/{hooks}",
    "consent": "/c/{confirm-reject}",
    "messages": "/c/{condense-rolling}?tab=messages",
    "branches": "/c/{tree-navigate}?tab=branches",
    "a comparison": "/compare?left={coding-task}@10&right={coding-task}@20",
    "numbers": "/numbers",
    "reports": "/reports",
    "a report": "/reports/commands",
    "sql": "/sql",
    "an answer": "/sql?q=SELECT * FROM tool_calls LIMIT 7",
    "a refusal": "/sql?q=SELECT * FROM nonesuch",
}
GRAVE = ("serious", "critical")


def findings(page):
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['help']}: {node['html'][:200]}" for one in found if one["impact"] in GRAVE for node in one["nodes"]]


@pytest.mark.parametrize("scheme, width", [("light", 1280), ("dark", 390)])
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_has_no_serious_finding(goldens, visit, name, scheme, width):
    watched = visit(goldens, color_scheme=scheme, viewport={"width": width, "height": 800})
    page = watched.open(re.sub(r"\{(.*?)\}", lambda found: goldens.conversation_of(found[1]), VIEWS[name]))
    expect(page.get_by_role("heading").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert findings(page) == []
    # No content is wider than the window.
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    if name == "a refusal":
        watched.complaints[:] = [one for one in watched.complaints if "422" not in one]


def test_axe_finds_a_button_without_a_name(goldens, visit):
    page = visit(goldens).open("/sql")
    expect(page.get_by_label("Statement")).to_be_visible()
    page.evaluate("() => { const one = document.createElement('button'); document.querySelector('main').append(one); }")
    assert any(one.startswith("button-name") for one in findings(page))


def test_a_screen_reader_can_list_open_read_and_approve(annals, model, visit):
    """Only roles and names are used, and only keys."""
    model.play(
        {"text": "I clean up", "calls": [("terminal", {"command": "rm -rf build", "security_risk": "HIGH"})]},
        {"calls": [("finish", {"message": "Finished"})]},
    )
    conversation = annals.conversation(model, text="Clean up", policy="AlwaysConfirm")
    page = visit(annals).open("/conversations")
    row = page.get_by_role("list", name="Conversations").get_by_role("listitem").first
    expect(row.get_by_role("link", name="Clean up")).to_be_visible()
    expect(row).to_contain_text("waiting for confirmation")
    # Every figure of a row has its name.
    terms = row.get_by_role("term")
    expect(terms).to_have_text(["Events", "Tokens", "Cost"])
    row.get_by_role("link", name="Clean up").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Clean up")).to_be_visible()
    timeline = page.get_by_role("region", name="Timeline")
    expect(timeline.get_by_role("article", name="User, event")).to_contain_text("Clean up")
    expect(timeline.get_by_role("article", name="terminal, event")).to_contain_text("rm -rf build")
    consent = page.get_by_role("group", name="Consent")
    asked = consent.get_by_role("list", name="The calls that wait")
    expect(asked.get_by_role("listitem")).to_contain_text("$ rm -rf build")
    approve = consent.get_by_role("button", name="Approve")
    expect(approve).to_be_enabled()
    # The list of calls comes before the buttons in the order of the Tab key.
    asked.focus()
    for _ in range(10):
        page.keyboard.press("Tab")
        if approve.evaluate("(one) => one === document.activeElement"):
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("article", name="finish, event")).to_contain_text("Finished")
    assert annals.ask(f"/api/conversations/{conversation}")["execution_status"] == "finished"
