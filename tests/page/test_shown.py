"""What is shown is complete and true: on narrow screens, for old logs and logs of other programs, in charts."""

import json

from playwright.sync_api import expect

from stage import ROOT

CLAUDE = ROOT / "tests/golden/foreign/claude-code/-home-ada-engine"

# Which of the elements are cut by the window or by what they are in, or lie over each other.
CUT = """(all) => {
  const boxes = all.map((one) => one.getBoundingClientRect());
  const cut = all.filter((one, at) => boxes[at].left < 0 || boxes[at].right > innerWidth + .5
    || boxes[at].right > one.parentElement.getBoundingClientRect().right + 1);
  const over = all.filter((_, at) => at > 0 && boxes[at].top < boxes[at - 1].bottom && boxes[at].left < boxes[at - 1].right - 1);
  return [...cut, ...over].map((one) => one.textContent.trim());
}"""


def test_a_narrow_screen_shows_every_view_and_every_tab(goldens, visit):
    conversation = goldens.conversation_of("coding-task")
    page = visit(goldens, viewport={"width": 390, "height": 800}).open(f"/c/{conversation}")
    expect(page.locator(".tabs")).to_be_visible()
    for selector, names in ((".bar nav a", ["Conversations", "Search", "Numbers", "Reports", "SQL"]),
                            (".tabs > :is(button, a)", ["Timeline", "Messages", "Branches", "Find", "Compare", "State"])):
        found = page.locator(selector)
        assert found.all_text_contents() == names
        assert found.evaluate_all(CUT) == [], selector
    figures = page.locator(".talk-head .under > *")
    assert figures.evaluate_all(CUT) == []


def test_a_list_shows_figures_in_one_line_and_ids_that_differ(annals, visit):
    for name in ("local-mj00aaaa0001", "local-mj00aaaa0002"):
        annals.append(name, [{"id": "e1", "kind": "PauseEvent", "source": "user", "timestamp": "2026-01-01T10:00:00"}])
    page = visit(annals).open("/conversations")
    ids = page.locator(".conversation code")
    expect(ids).to_have_count(2)
    assert sorted(ids.all_text_contents()) == ["local…aa0001", "local…aa0002"]
    # No usage is no zero.
    expect(page.locator(".conversation dd").nth(1)).to_have_text("unknown")
    heights = page.locator(".conversation dd").evaluate_all("(all) => all.map((one) => one.getClientRects().length)")
    assert set(heights) == {1}


def test_tools_of_2025_have_their_names(annals, visit):
    tool = {"type": "function", "function": {"name": "execute_bash", "description": "Runs a command."}}
    prompt = {"type": "text", "text": "You are careful."}
    annals.append("old", [{"id": "s1", "kind": "SystemPromptEvent", "source": "agent", "timestamp": "2025-09-25T10:00:00",
                           "system_prompt": prompt, "tools": [tool]}])
    page = visit(annals).open("/c/old")
    expect(page.get_by_text("1 tool: execute_bash")).to_be_visible()


def test_a_log_of_claude_code_has_no_empty_card_and_no_new_beginning_after_notices(annals, visit):
    annals.run("import", str(CLAUDE))
    listed = annals.ask("/api/annals/conversations?source=claude-code")["conversations"]
    assert listed
    for one in listed:
        page = visit(annals).open(f"/c/{one['id']}")
        expect(page.locator(".pane .item").first).to_be_visible()
        first = page.locator(".pane .item").evaluate_all("""(all) => {
          const at = all.findIndex((one) => one.querySelector('.card'));
          return at < 0 ? '' : all[at].querySelector('.branches-from')?.textContent ?? '';
        }""")
        assert first == ""
        empty = page.locator(".pane .card").evaluate_all(
            "(all) => all.filter((one) => one.textContent.trim() === one.querySelector('header').textContent.trim()).map((one) => one.ariaLabel)")
        assert empty == []


def test_a_reply_without_text_is_a_notice_and_events_without_a_time_are_counted(annals, visit, tmp_path):
    def record(number, content, **more):
        kind = "user" if number == 0 else "assistant"
        message = {"role": kind, "content": content, "id": f"msg_{number}", "model": "claude-opus-4-6"}
        return {"type": kind, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "sessionId": "blank",
                "timestamp": f"2026-02-11T16:16:2{number}.000Z", "cwd": "/w", "message": message, **more}
    blank = [{"type": "text", "text": "\n\n"}]
    records = [record(0, "Look."), record(1, blank), record(2, [{"type": "text", "text": "I look."}]),
               {"type": "file-history-snapshot", "messageId": "u0", "snapshot": {}}]
    path = tmp_path / "blank.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in records))
    annals.run("import", str(path))
    page = visit(annals).open("/c/blank")
    expect(page.locator(".pane .card")).to_have_count(2)
    expect(page.get_by_text("a reply without text")).to_be_visible()
    expect(page.get_by_text("No text.")).to_have_count(0)
    page = visit(annals).open("/numbers")
    expect(page.locator("dl.totals div", has_text="Events").get_by_text("4", exact=True)).to_be_visible()
    expect(page.get_by_text("4 events in all; 1 at unknown times")).to_be_visible()


def test_what_other_writers_of_openhands_logs_name_otherwise_is_shown(annals, visit):
    def called(number, observation):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}
        common = {"tool_name": "terminal", "tool_call_id": f"c{number}", "timestamp": f"2025-12-14T01:04:0{number}.000Z"}
        return [{"id": f"a{number}", "kind": "ActionEvent", "source": "agent", "thought": [], "llm_response_id": f"r{number}",
                 "action": {"command": f"run {number}"}, "tool_call": call, **common},
                {"id": f"o{number}", "kind": "ObservationEvent", "source": "environment", "action_id": f"a{number}",
                 "observation": observation, **common}]
    annals.append("other", [
        {"id": "s1", "kind": "ConversationStateUpdateEvent", "source": "agent", "agent_status": "RUNNING", "timestamp": "2025-12-14T01:03:58Z"},
        *called(1, {"command": "run 1", "stdout": "printed here", "stderr": "and there", "exit_code": 0}),
        *called(2, {"rows": [17, 18]}),
        *called(3, {"kind": "TerminalObservation", "content": [], "exit_code": 0}),
        *called(4, {"stdout": "", "stderr": "", "exit_code": 0})])
    page = visit(annals).open("/c/other")
    for text in ("now running", "printed here", "and there", '"rows"'):
        expect(page.locator(".pane").get_by_text(text).first).to_be_visible()
    expect(page.get_by_text("No output.")).to_have_count(1)


def test_neighbouring_charts_have_one_axis_with_years(annals, visit):
    def message(number, when):
        return {"id": f"m{number}", "kind": "MessageEvent", "source": "user", "timestamp": when,
                "llm_message": {"role": "user", "content": [{"type": "text", "text": "Go"}]}}

    annals.append("talk", [message(0, "2025-03-01T10:00:00"), message(1, "2026-02-10T10:00:00")])
    # A cost of one day within that time.
    metrics = {"model_name": "m", "accumulated_cost": 1175.86, "costs": [{"model": "m", "cost": 1175.86, "timestamp": 1_760_000_000.0}],
               "accumulated_token_usage": {"model": "m", "prompt_tokens": 12_345_678, "completion_tokens": 1},
               "token_usages": [{"model": "m", "prompt_tokens": 12_345_678, "completion_tokens": 1, "response_id": "r"}]}
    state = {"id": "u1", "kind": "ConversationStateUpdateEvent", "source": "environment", "timestamp": "2025-10-09T10:00:00",
             "key": "stats", "value": {"usage_to_metrics": {"agent": metrics}}}
    annals.append("talk", [state])
    page = visit(annals).open("/numbers")
    charts = page.locator("figure.columns")
    expect(charts).to_have_count(2)
    titles = charts.locator("h2").all_text_contents()
    assert [title.split(" by ")[1] for title in titles] == ["week", "week"]
    axes = [chart.locator(".span text.mark").all_text_contents() for chart in charts.all()]
    assert axes[0] == axes[1]
    assert axes[0][0].endswith("2025") and axes[0][-1].endswith("2026")
    totals = page.locator(".totals")
    expect(totals).to_contain_text("$1,175.86")
    expect(totals).to_contain_text("12.3M")


def test_an_error_page_leads_back_and_offers_only_what_can_help(goldens, visit):
    watched = visit(goldens)
    page = watched.open("/c/no-such-conversation")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)
    page.get_by_role("link", name="Go to the conversations").click()
    expect(page.get_by_role("heading", level=1, name="Conversations")).to_be_visible()
    # The browser itself complains about the answers 404.
    page.wait_for_load_state("networkidle")
    watched.complaints[:] = [one for one in watched.complaints if "404" not in one]


def test_tables_of_reports_use_the_window(goldens, visit):
    page = visit(goldens, viewport={"width": 1800, "height": 900}).open("/reports/commands")
    expect(page.locator(".answer")).to_be_visible()
    assert page.locator(".answer").evaluate("(one) => one.getBoundingClientRect().width") > 1700


def test_the_help_lists_every_key_of_a_view(goldens, visit):
    """The list is what is bound: each listed key of the list of conversations does something."""
    page = visit(goldens).open("/conversations")
    expect(page.locator(".conversation").first).to_be_visible()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog").locator("th")
    expect(keys.first).to_be_visible()
    listed = keys.all_text_contents()
    assert {"j", "k", "Enter", "n", "/", "?"} <= {one.strip() for one in listed}, listed
