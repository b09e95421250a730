"""One conversation: opening it from the search, its cards, stepping through time and branches, and comparing points."""

import re
import uuid

from playwright.sync_api import expect

from stage import items


def card(page, sequence):
    return page.locator(f".item[data-seqs~='{sequence}']")


def test_a_search_hit_leads_to_its_event(goldens, visit):
    page = visit(goldens).open("/search")
    page.get_by_role("searchbox").fill("fibonacci module")
    hits = page.get_by_role("list", name="Hits").get_by_role("listitem")
    expect(hits.first.locator("mark").first).to_have_text(re.compile("fibonacci", re.I))
    assert "q=fibonacci" in page.url
    wanted = goldens.ask("/api/annals/search?q=fibonacci%20module&limit=40")["hits"]
    expect(hits).to_have_count(len(wanted))
    hits.first.get_by_role("link").click()
    expect(page.locator(".item.selected")).to_be_visible()
    assert f"/c/{wanted[0]['conversation']}?event={wanted[0]['sequence']}" in page.url


def test_hits_stand_below_their_conversations_and_within_dates(goldens, visit):
    page = visit(goldens).open("/search?q=hello")
    found = page.locator(".found section")
    expect(found.first).to_be_visible()
    hits = goldens.ask("/api/annals/search?q=hello&limit=40")["hits"]
    assert found.count() == len({hit["conversation"] for hit in hits}) > 1
    for number in range(found.count()):
        links = found.nth(number).get_by_role("listitem").get_by_role("link")
        of = {re.search(r"/c/([^?]+)", links.nth(place).get_attribute("href"))[1] for place in range(links.count())}
        assert len(of) == 1
    days = sorted(hit["timestamp"][:10] for hit in hits if hit["timestamp"])
    page.get_by_label("to", exact=True).fill(days[0])
    expect(page.locator(".hit")).to_have_count(days.count(days[0]))
    page.get_by_label("From").fill("2100-01-01")
    expect(page.get_by_text("No event contains this.")).to_be_visible()
    page.get_by_label("From").fill("")
    page.get_by_label("to", exact=True).fill("")
    found.first.get_by_role("button").click()
    expect(found).to_have_count(1)


def test_every_event_has_a_card_in_the_order_of_the_log(goldens, visit):
    for name in ("coding-task", "agent-server-session", "errors-and-stuck", "hooks"):
        conversation = goldens.conversation_of(name)
        watched = visit(goldens, viewport={"width": 1280, "height": 20_000})
        page = watched.open(f"/c/{conversation}?event=0")
        count = goldens.ask(f"/api/annals/conversations/{conversation}")["event_count"]
        expect(page.locator(f".item[data-seqs~='{count - 1}']")).to_be_visible()
        shown = items(page)
        assert sorted(sum(shown, [])) == list(range(count)), name
        firsts = [min(one) for one in shown]
        assert firsts == sorted(firsts), name
        watched.page.close()


def test_cards_show_commands_output_and_exit_codes(goldens, visit):
    conversation = goldens.conversation_of("coding-task")
    page = visit(goldens).open(f"/c/{conversation}?event=24")
    failed = page.get_by_role("article", name="terminal, event 24")
    expect(failed).to_contain_text("$ false")
    expect(failed).to_contain_text("exit 1")
    # A long output shows its first and last lines, and the rest on demand.
    long = page.get_by_role("article", name="terminal, event 25")
    expect(long).to_contain_text("$ seq 1 12000")
    assert len(long.inner_text()) < 5000
    long.get_by_role("button", name=re.compile("more lines")).click()
    expect(long).to_contain_text("\n3000\n", use_inner_text=True)


def test_what_was_left_out_has_a_quiet_card_of_its_own(annals, visit):
    problems = [f"/work/.agents/skills/{number}.md: its front matter is no YAML" for number in range(7)]
    values = [
        {"problems": problems, "more": 3}, {"problems": [], "more": 0},
        # Values of unexpected types.
        {"problems": "none", "more": -1}, {"problems": [None, {"a": 1}], "more": "many"}, None, 7,
    ]
    updates = [("execution_status", "idle"), *(("left_out", value) for value in values), ("max_iterations", 500)]
    conversation = str(uuid.uuid4())
    annals.append(conversation, [
        {"id": f"e{number}", "timestamp": "2026-01-01T00:00:00", "source": "environment", "key": key, "value": value,
         "kind": "ConversationStateUpdateEvent"} for number, (key, value) in enumerate(updates)])
    page = visit(annals).open(f"/c/{conversation}?event=0")
    cards = page.get_by_role("note", name="Left out")
    expect(cards).to_have_count(len(values))
    expect(cards.nth(0)).to_contain_text("10 parts left out")
    expect(cards.nth(0).get_by_role("listitem")).to_have_text(problems[:5])
    cards.nth(0).get_by_text("2 more").click()
    expect(cards.nth(0).get_by_role("listitem")).to_have_text(problems)
    expect(cards.nth(0)).to_contain_text("3 of them are not named")
    for place in (1, 2, 4, 5):
        expect(cards.nth(place)).to_contain_text("nothing is left out any more")
    expect(cards.nth(3)).to_contain_text("2 parts left out")
    # No other notice is in its card.
    assert items(page) == [[number] for number in range(len(updates))]


def test_keys_go_from_card_to_card(goldens, visit):
    conversation = goldens.conversation_of("coding-task")
    page = visit(goldens).open(f"/c/{conversation}?event=4")
    expect(page.locator(".item.selected")).to_have_attribute("data-seqs", re.compile("^4 "))
    page.keyboard.press("j")
    expect(page.locator(".item.selected")).to_have_attribute("data-seqs", re.compile("^6 "))
    page.keyboard.press("k")
    expect(page.locator(".item.selected")).to_have_attribute("data-seqs", re.compile("^4 "))
    assert "event=4" in page.url


def test_the_raw_dialog_shows_the_stored_event(goldens, visit):
    conversation = goldens.conversation_of("coding-task")
    page = visit(goldens).open(f"/c/{conversation}?event=6")
    expect(card(page, 6)).to_be_visible()
    page.keyboard.press("r")
    dialog = page.get_by_role("dialog", name="Event 6")
    stored = goldens.ask(f"/api/annals/conversations/{conversation}/events?from=6&limit=1")["events"][0]["event"]
    expect(dialog.locator("pre")).to_contain_text(stored["id"])
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_stepping_through_time_shows_the_state_at_each_point(goldens, visit):
    conversation = goldens.conversation_of("coding-task")
    page = visit(goldens).open(f"/c/{conversation}?event=0")
    state = page.get_by_role("complementary", name=re.compile("^State"))
    expect(state).to_contain_text("finished")
    slider = page.get_by_role("slider", name="Point in time")
    slider.focus()
    for sequence in (20, 5):
        slider.fill(str(sequence))
        wanted = goldens.ask(f"/api/annals/conversations/{conversation}/state?at={sequence}")
        expect(state.get_by_role("heading", name=f"State at #{sequence}")).to_be_visible()
        expect(state.locator(".figure", has_text="Steps").locator("dd")).to_have_text(str(wanted["iteration"]))
        tokens = wanted["stats"]["combined"]["accumulated_token_usage"]["prompt_tokens"]
        expect(state.locator(".figure", has_text="Tokens in")).to_have_attribute("title", f"{tokens:,}")
        assert f"at={sequence}" in page.url
    # The keys step too. A reload stays at the same point.
    page.locator(".pane").focus()
    page.keyboard.press("[")
    expect(state.get_by_role("heading", name="State at #4")).to_be_visible()
    page.reload()
    expect(state.get_by_role("heading", name="State at #4")).to_be_visible()
    page.get_by_role("button", name="Now", exact=True).click()
    expect(state.get_by_role("heading", name="State now")).to_be_visible()


def test_the_messages_tab_shows_the_messages_of_the_model(goldens, visit):
    conversation = goldens.conversation_of("condense-rolling")
    wanted = goldens.ask(f"/api/annals/conversations/{conversation}/messages?live=true")
    watched = visit(goldens)
    page = watched.open(f"/c/{conversation}?tab=messages")
    sent = page.locator("article.sent")
    expect(sent.first).to_be_visible()
    assert sent.count() == len(wanted)
    roles = [one.split(", ")[1] for one in sent.evaluate_all("(all) => all.map((one) => one.getAttribute('aria-label'))")]
    assert roles == [one["role"] for one in wanted]


def test_branches_are_listed_and_can_be_opened_and_compared(goldens, visit):
    conversation = goldens.conversation_of("tree-navigate")
    wanted = goldens.ask(f"/api/annals/conversations/{conversation}/branches")["branches"]
    watched = visit(goldens)
    page = watched.open(f"/c/{conversation}?tab=branches")
    expect(page.get_by_role("heading", name=f"{len(wanted)} branches")).to_be_visible()
    live = next(one for one in wanted if one["live"])
    other = next(one for one in wanted if not one["live"])
    rows = page.locator("li.branch")
    expect(rows).to_have_count(len(wanted))
    expect(page.locator("li.branch.live")).to_contain_text(f"#{live['tip_sequence']}")
    page.get_by_role("button", name=f"Go to its tip, #{other['tip_sequence']}").click()
    expect(page.locator(".item.selected")).to_have_class(re.compile("aside"))
    watched.go(f"#/c/{conversation}?tab=branches")
    page.get_by_role("link", name="Compare with the live one").first.click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert "/compare" in page.url
    page.wait_for_load_state("networkidle")


def test_two_points_are_compared(goldens, visit):
    conversation = goldens.conversation_of("coding-task")
    wanted = goldens.ask(f"/api/annals/diff?left={conversation}@10&right={conversation}@20")
    page = visit(goldens).open(f"/compare?left={conversation}@10&right={conversation}@20")
    main = page.get_by_role("main")
    expect(main).to_contain_text(str(wanted["common_events"]))
    assert wanted["added"] and not wanted["lost"]
    expect(main).to_contain_text(f"#{wanted['added'][0]['sequence']}")
