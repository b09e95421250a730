"""docs/watching.md: each step of the page for people is done in a browser."""

import re

from playwright.sync_api import expect

from stage import GOLDENS, ROOT

PAGE = ROOT / "docs/watching.md"


def steps():
    """The steps of the page: a verb and the rest of the line."""
    blocks = re.findall(r"```page\n(.*?)```", PAGE.read_text(), re.S)
    return [line.split(" ", 1) for block in blocks for line in block.splitlines()]


def named(page, name):
    """The first of what has this in its name and can be clicked."""
    found = page.get_by_role("button", name=name)
    for role in ("link", "tab"):
        found = found.or_(page.get_by_role(role, name=name))
    return found.first


def test_a_person_at_the_page_sees_what_the_document_says(annals, model, visit):
    annals.run("import", str(GOLDENS))
    watched = visit(annals)
    page = watched.open("/conversations")
    seen = set()
    for verb, rest in steps():
        seen.add(verb)
        if verb == "open":
            watched.go(rest)
        elif verb == "press":
            page.keyboard.press(rest)
        elif verb == "type":
            page.keyboard.type(rest)
        elif verb == "write":
            text, field = rest.split(" in ")
            page.get_by_label(field).or_(page.get_by_placeholder(field)).last.fill(text)
        elif verb == "click":
            named(page, rest).click()
        elif verb == "see":
            expect(page.get_by_text(rest).filter(visible=True).first, f"see {rest}").to_be_visible(timeout=60_000)
        elif verb == "gone":
            expect(page.get_by_text(rest).filter(visible=True), f"gone {rest}").to_have_count(0)
        elif verb == "agent":
            text, command = rest.split(", ")
            model.play({"calls": [("terminal", {"command": command, "security_risk": "HIGH"})]},
                       {"calls": [("finish", {"message": "Finished"})]})
            watched.go(f"/c/{annals.conversation(model, text=text, policy='AlwaysConfirm')}")
        else:
            raise AssertionError(f"no verb: {verb} {rest}")
    assert seen >= {"open", "press", "write", "click", "see", "gone", "agent"}
