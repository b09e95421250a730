"""Guarded SQL in the page: statements, parameters, errors, and long answers of which the page keeps few rows."""

import csv
import io

from playwright.sync_api import expect


def answered(page):
    return page.get_by_role("region", name="Answer", exact=True).get_by_role("status").first


def test_a_statement_is_run_with_the_keyboard_and_kept_in_the_address(goldens, visit):
    page = visit(goldens).open("/sql")
    page.get_by_label("Statement").fill("SELECT status, count(*) AS n FROM conversations GROUP BY status ORDER BY n DESC")
    page.keyboard.press("Control+Enter")
    expect(answered(page)).to_contain_text("3 rows in")
    expect(page.get_by_role("cell", name="finished")).to_be_visible()
    page.reload()
    expect(answered(page)).to_contain_text("3 rows in")
    page.get_by_label("Statement").fill("SELECT 1 AS one")
    page.get_by_role("button", name="Run").click()
    expect(answered(page)).to_contain_text("1 row in")
    page.go_back()
    expect(answered(page)).to_contain_text("3 rows in")
    assert page.get_by_label("Statement").input_value().startswith("SELECT status")


def test_parameters_are_asked_for_and_bound_as_typed(goldens, visit):
    page = visit(goldens).open("/sql")
    page.get_by_label("Statement").fill("SELECT typeof(:a), typeof(:b), typeof(:c), ':no', \"x\" FROM (SELECT 1 AS x) -- :neither")
    expect(page.locator(".parameters label")).to_have_text([":a", ":b", ":c"])
    page.get_by_label(":a").fill("5")
    page.get_by_label(":b").fill("'5'")
    page.get_by_role("button", name="Run").click()
    expect(answered(page)).to_contain_text("1 row")
    assert page.locator(".answer tbody td").all_inner_texts()[1:4] == ["integer", "text", "null"]


def test_a_rejected_statement_is_answered_with_the_reason(goldens, visit):
    watched = visit(goldens)
    page = watched.open("/sql")
    for statement, message in [
        ("DELETE FROM conversations", "a query may only read"),
        ("SELECT * FROM event", "the view events"),
        ("SELECT nonesuch FROM conversations", "no such column"),
        ("SELECT 1; SELECT 2", "one statement"),
    ]:
        page.get_by_label("Statement").fill(statement)
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_role("alert")).to_contain_text(message)
    assert goldens.ask("/api/conversations/count") == 10
    watched.complaints[:] = [one for one in watched.complaints if "422" not in one]


def test_a_column_is_searched_and_inserted_into_the_statement(goldens, visit):
    page = visit(goldens).open("/sql")
    page.get_by_label("Statement").fill("SELECT ")
    page.get_by_label("Find a view or column").fill("exit_c")
    schema = page.get_by_role("complementary", name="Views and columns")
    schema.get_by_role("button", name="exit_code").first.click()
    assert page.get_by_label("Statement").input_value() == "SELECT exit_code"


def test_a_row_is_shown_whole_and_links_to_its_event(goldens, visit):
    page = visit(goldens).open("/sql?q=SELECT conversation_id, sequence, payload FROM events WHERE sequence = 1 LIMIT 2")
    page.get_by_role("button", name="Read row 1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text('"llm_message"')
    dialog.get_by_role("button", name="The next row").click()
    expect(dialog.get_by_role("heading")).to_have_text("Row 2")
    page.keyboard.press("Escape")
    address = page.get_by_role("cell").get_by_role("link").first.get_attribute("href")
    assert address.startswith("#/c/")


def test_a_long_answer_is_cut_with_a_note_and_few_rows_are_in_the_page(goldens, visit):
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i FROM n"
    page = visit(goldens).open("/sql")
    page.get_by_label("Statement").fill(numbers)
    page.keyboard.press("Control+Enter")
    expect(answered(page)).to_contain_text("10,000 rows")
    expect(page.get_by_text("The answer was cut at its rows")).to_be_visible()
    assert page.locator(".answer tbody tr").count() < 100
    page.locator(".answer").evaluate("(one) => { one.scrollTop = one.scrollHeight; }")
    expect(page.locator(".answer").get_by_role("cell", name="10000", exact=True)).to_be_visible()
    assert page.locator(".answer tbody tr").count() < 100
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.reader(io.StringIO(saved.value.path().read_text())))
    assert rows[0] == ["i"] and rows[-1] == ["10000"]


def test_a_view_is_drawn_only_after_its_style_sheets_are_loaded(goldens, visit):
    watched = visit(goldens)
    page, held = watched.page, []
    page.add_init_script("""
      new MutationObserver((_, observer) => {
        const view = document.querySelector('main .sql, main .report');
        if (!view) return;
        observer.disconnect();
        window.__sheets = [...document.styleSheets].map((sheet) => sheet.href.split('/').pop());
      }).observe(document, { childList: true, subtree: true });
    """)
    page.route("**/style/answer.css", lambda route: held.append(route))
    for place in ("/sql?q=SELECT 1 AS one", "/reports/errors"):
        held.clear()
        with page.expect_request("**/style/answer.css"):
            page.goto("about:blank")
            watched.open(place)
        page.wait_for_load_state("domcontentloaded")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        expect(page.locator("main .answer, main .report, main .sql")).to_have_count(0)
        held[0].fallback()
        expect(page.locator("main .report, main .sql").first).to_be_visible()
        assert {"answer.css", "sql.css"} <= set(page.evaluate("() => window.__sheets"))
