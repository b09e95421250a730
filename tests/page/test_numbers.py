"""Numbers and reports: the charts match the reports, and the address holds the parameters."""

import csv
import io

from playwright.sync_api import expect


def test_the_totals_and_the_charts_match_the_reports(goldens, visit):
    page = visit(goldens).open("/numbers")
    models = goldens.ask("/api/annals/reports/cost-by-model")["rows"]
    tools = goldens.ask("/api/annals/reports/tools")["rows"]
    totals = page.locator(".totals")
    expect(totals).to_contain_text(f"${sum(row[8] for row in models):.3f}")
    expect(totals.locator(".figure", has_text="Tool calls").locator("dd")).to_have_text(str(sum(row[1] for row in tools)))
    commands = totals.locator(".figure", has_text="Commands that failed").locator("dd")
    expect(commands).to_contain_text(str(sum(row[5] for row in tools)))
    table = page.get_by_role("region", name="Tool calls and how they ended")
    for name, calls, _, ok, errors, failed, rejected, pending in tools:
        row = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))
        assert row.get_by_role("cell").all_inner_texts()[-6:] == [str(one) for one in (calls, ok, errors, failed, rejected, pending)]
    widths = table.locator("svg").evaluate_all(
        "(all) => all.map((one) => [...one.querySelectorAll('rect')].reduce((sum, part) => sum + Number(part.getAttribute('width')), 0))")
    calls = [row[1] for row in tools]
    assert [round(width) for width in widths] == [round(100 * one / calls[0]) for one in calls]


def test_a_chart_can_be_read_with_keys_and_has_a_table(goldens, visit):
    page = visit(goldens).open("/numbers?by=tokens")
    chart = page.get_by_label("Tokens by day: left and right")
    chart.focus()
    page.keyboard.press("ArrowRight")
    days = goldens.ask("/api/annals/reports/cost-by-day")["rows"]
    figure = page.locator("figure", has_text="Tokens by day")
    expect(figure.locator("figcaption p strong")).to_contain_text(days[0][0][:4])
    page.keyboard.press("Escape")
    expect(figure.locator("figcaption p")).to_contain_text("in all")
    figure.get_by_text("As a table").click()
    assert figure.locator("tbody tr").count() == len(days)
    expect(figure.locator("tbody tr").first).to_contain_text(f"{days[0][2]:,}")


def test_a_time_without_events_shows_a_notice_and_is_in_the_address(goldens, visit):
    page = visit(goldens).open("/numbers")
    expect(page.locator(".totals")).to_be_visible()
    page.get_by_label("to", exact=True).fill("2001-01-01")
    expect(page.get_by_text("Nothing happened in that time")).to_be_visible()
    assert "until=2001-01-01" in page.url
    page.get_by_role("button", name="All", exact=True).click()
    expect(page.locator(".totals")).to_be_visible()
    assert "until" not in page.url


def test_a_report_takes_parameters_and_is_saved_as_csv(goldens, visit):
    page = visit(goldens).open("/reports")
    page.get_by_role("link", name="Which shell commands were run").click()
    table = page.get_by_role("region", name="Which shell commands were run")
    expect(table.get_by_role("row").nth(1)).to_be_visible()
    page.get_by_label("failed").select_option("yes")
    page.get_by_role("button", name="Ask").click()
    wanted = goldens.ask("/api/annals/reports/commands?failed=yes")
    expect(page.get_by_role("status").filter(has_text="row")).to_have_text(f"{len(wanted['rows'])} rows")
    assert "failed=yes" in page.url
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    assert saved.value.suggested_filename == "commands.csv"
    rows = list(csv.reader(io.StringIO(saved.value.path().read_text())))
    assert rows[0] == wanted["columns"] and len(rows) == len(wanted["rows"]) + 1

    # The same report as SQL has as many rows.
    page.get_by_role("link", name="Open as SQL").click()
    expect(page.get_by_role("status").filter(has_text=" in ")).to_contain_text(f"{len(wanted['rows'])} rows")
    assert ":failed" in page.get_by_label("Statement").input_value()


def test_a_report_that_is_cut_at_its_limit_shows_a_notice(goldens, visit):
    page = visit(goldens).open("/reports/cost-by-conversation?limit=3")
    notices = page.get_by_role("region", name="Answer", exact=True).get_by_role("status")
    expect(notices).to_have_text(["The first 3 rows", "There are more rows: raise the parameter limit to see them."])
    page.get_by_label("limit").fill("1000")
    page.get_by_role("button", name="Ask").click()
    rows = goldens.ask("/api/annals/reports/cost-by-conversation?limit=1000")["rows"]
    expect(notices).to_have_text([f"{len(rows)} rows"])
    page.get_by_label("limit").fill("0")
    page.get_by_role("button", name="Ask").click()
    expect(notices).to_have_text(["0 rows", "There are more rows: raise the parameter limit to see them."])
    expect(page.get_by_text("Nothing fits")).to_have_count(0)


def test_every_report_opens(goldens, visit):
    watched = visit(goldens)
    page = watched.open("/reports")
    for report in goldens.ask("/api/annals/reports")["reports"]:
        watched.go(f"#/reports/{report['name']}")
        expect(page.get_by_role("heading", name=report["question"])).to_be_visible()
        expect(page.get_by_role("region", name="Answer").get_by_role("status").first).to_contain_text("row")


def test_an_invalid_parameter_is_named_in_the_error(goldens, visit):
    watched = visit(goldens)
    page = watched.open("/reports/commands?since=soon")
    expect(page.get_by_role("alert")).to_contain_text("soon")
    watched.complaints[:] = [one for one in watched.complaints if "422" not in one]
