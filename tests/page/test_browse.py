"""The page as a whole: its start, its session key, its list of conversations, its shortcuts and its themes."""

import re

from playwright.sync_api import expect

from stage import KEY


def test_the_page_takes_the_key_from_its_address_and_removes_it_there(goldens, visit):
    page = visit(goldens).open("/conversations")
    expect(page.get_by_role("heading", name="Conversations")).to_be_visible()
    expect(page.get_by_role("link", name="Hello there")).to_be_visible()
    assert KEY not in page.evaluate("() => location.href")
    assert KEY not in page.evaluate("() => JSON.stringify(localStorage)")
    # A reloaded tab still has the key.
    page.reload()
    expect(page.get_by_role("link", name="Hello there")).to_be_visible()


def test_without_a_key_the_page_asks_for_one_and_reports_a_wrong_one(goldens, visit):
    watched = visit(goldens)
    page = watched.page
    page.goto(goldens.url)
    page.get_by_label("Session key").fill("a wrong one")
    page.get_by_label("Session key").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("does not know this key")
    page.get_by_label("Session key").fill(KEY)
    page.get_by_label("Session key").press("Enter")
    expect(page.get_by_role("link", name="Hello there")).to_be_visible()
    # The browser itself logs each refusal.
    refusals = [one for one in watched.complaints if "401" in one]
    assert refusals and watched.complaints == refusals
    watched.complaints.clear()


def test_filters_are_kept_in_the_address(goldens, visit):
    watched = visit(goldens)
    page = watched.open("/conversations")
    rows = page.locator("article.conversation")
    expect(rows).to_have_count(10)
    page.get_by_role("button", name="stuck").click()
    expect(rows).to_have_count(1)
    assert "status=stuck" in page.url
    page.reload()
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="stuck").click()
    page.get_by_role("searchbox").fill("hello")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Hello there")
    page.get_by_role("searchbox").fill("nothing is called so")
    expect(page.get_by_text("No conversation fits")).to_be_visible()


def test_keys_select_rows_show_the_help_and_change_the_view(goldens, visit):
    page = visit(goldens).open("/conversations")
    expect(page.locator("article.conversation")).to_have_count(10)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("article.conversation.selected")).to_have_count(1)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("The next conversation")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page.get_by_role("heading", name="SQL")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.get_by_role("heading", name="Conversations")).to_be_visible()


def test_an_unknown_place_shows_an_error_page(goldens, visit):
    page = visit(goldens).open("/nowhere")
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    page.get_by_role("link", name="Go to the conversations").click()
    expect(page.get_by_role("heading", name="Conversations")).to_be_visible()


def test_the_theme_is_the_systems_or_the_chosen_one(goldens, visit):
    page = visit(goldens, color_scheme="dark").open("/conversations")
    background = "() => getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.get_by_role("button", name=re.compile("^Colours")).click()
    light = page.evaluate(background)
    assert dark != light
    page.reload()
    expect(page.get_by_role("heading", name="Conversations")).to_be_visible()
    assert page.evaluate(background) == light
