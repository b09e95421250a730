"""The page as a whole: it opens, asks for a key, has its list, its keys and its themes, and loads little."""

import re

from playwright.sync_api import expect

from stage import KEY


def test_the_page_opens_with_the_key_of_its_address_and_forgets_the_address(goldens, visit):
    page = visit(goldens).open("/conversations")
    expect(page.get_by_role("heading", name="Conversations")).to_be_visible()
    expect(page.get_by_role("link", name="Hello there")).to_be_visible()
    assert KEY not in page.evaluate("() => location.href")
    assert KEY not in page.evaluate("() => JSON.stringify(localStorage)")
    # A tab that is loaded again still has it.
    page.reload()
    expect(page.get_by_role("link", name="Hello there")).to_be_visible()


def test_without_a_key_it_asks_once_and_says_when_it_is_wrong(goldens, visit):
    watched = visit(goldens)
    page = watched.page
    page.goto(goldens.url)
    page.get_by_label("Session key").fill("a wrong one")
    page.get_by_label("Session key").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("does not know this key")
    page.get_by_label("Session key").fill(KEY)
    page.get_by_label("Session key").press("Enter")
    expect(page.get_by_role("link", name="Hello there")).to_be_visible()
    # The browser itself says of each refusal that there was one.
    refusals = [one for one in watched.complaints if "401" in one]
    assert refusals and watched.complaints == refusals
    watched.complaints.clear()


def test_filters_live_in_the_address(goldens, visit):
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


def test_keys_move_open_and_help(goldens, visit):
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


def test_an_unknown_place_says_so(goldens, visit):
    page = visit(goldens).open("/nowhere")
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    page.get_by_role("link", name="Go to the conversations").click()
    expect(page.get_by_role("heading", name="Conversations")).to_be_visible()


def test_light_and_dark_are_the_systems_or_as_chosen(goldens, visit):
    page = visit(goldens, color_scheme="dark").open("/conversations")
    background = "() => getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.get_by_role("button", name=re.compile("^Colours")).click()
    light = page.evaluate(background)
    assert dark != light
    page.reload()
    expect(page.get_by_role("heading", name="Conversations")).to_be_visible()
    assert page.evaluate(background) == light
