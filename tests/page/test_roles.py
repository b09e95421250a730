"""What the caller may not do, and what cannot be done with a conversation, is not offered."""

import json
import shutil

from playwright.sync_api import expect

from stage import GOLDENS, KEY
from test_acting import status, wait_for

ACTIONS = ["Run", "Pause", "Interrupt", "Delete", "Name and tags", "Send", "Approve"]


def offered(page):
    return [name for name in ACTIONS if page.get_by_role("button", name=name, exact=True).count()]


def test_what_a_key_does_not_allow_is_not_offered(annals, model, visit):
    conversation = annals.conversation(model, text="Go")
    wait_for(lambda: status(annals, conversation) == "finished")
    for role, wanted in [
        ("read", []), ("approve", []), ("write", ["Run", "Name and tags", "Send"]),
        ("admin", ["Run", "Delete", "Name and tags", "Send"]),
    ]:
        key = annals.run("keys", "server", "add", role, "--role", role).strip()
        page = visit(annals).open(f"/c/{conversation}", key=key)
        expect(page.get_by_text("last active")).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert offered(page) == wanted, role
        page.goto(f"{annals.url}/#/conversations")
        expect(page.get_by_role("button", name="New")).to_have_count(1 if role in ("write", "admin") else 0)


def test_a_server_that_only_reads_offers_no_change(annals, model, visit, own):
    conversation = annals.conversation(model, text="Go")
    wait_for(lambda: status(annals, conversation) == "finished")
    reader = own()
    reader.serve(more=["--read-only"])
    page = visit(reader).open(f"/c/{conversation}", key=KEY)
    expect(page.get_by_text("last active")).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert offered(page) == []


def test_what_was_imported_while_it_ran_does_not_pretend_to_live(tmp_path, visit, own):
    source = tmp_path / "left" / "dc3e2801a35e500194a7d105aced297a"
    shutil.copytree(GOLDENS / "hello-two-turns" / "events", source / "events")
    base = json.loads((GOLDENS / "hello-two-turns" / "base_state.json").read_text())
    base["execution_status"] = "running"
    del base["agent"]
    (source / "base_state.json").write_text(json.dumps(base))
    annals = own()
    annals.run("import", str(source))
    annals.serve()
    page = visit(annals).open(f"/c/{base['id']}")
    expect(page.locator(".talk-head .status")).to_contain_text("was running")
    expect(page.get_by_text("names no agent")).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert page.get_by_text("The agent is at work").count() == 0
    assert offered(page) == ["Delete"]
    page.goto(f"{annals.url}/#/conversations")
    expect(page.locator(".conversation .status")).to_contain_text("was running")
