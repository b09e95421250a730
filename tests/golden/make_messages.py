"""Writes tests/golden/messages: the messages that the real SDK makes of events, and their forms on the wire.

    python make_messages.py          rewrites every case
    python make_messages.py --check  names the cases that would change, and fails if there are any

Cases 01 to 55 keep their events and get new answers. The later cases are built here. Needs
openhands-sdk and openhands-tools 1.58.0. Members of a case:

    events            the log; the SDK gets only the events that a model sees
    error             the exception that making the messages raises; then the members below are missing
    messages          the messages
    chat              by flags (FLAGS): the request, the name of earlier flags with the same request, or {"error"}
    responses         each message in the form of the Responses API, with pictures
    responses_blind   the same without pictures, if it differs
    request           {"instructions", "input"}: all messages as one Responses request

In the SDK's answers, a text of more than 400 characters is replaced by its length in characters and the SHA-256
of its UTF-8 form: "<30000 characters, sha256 ..>".
"""

import copy
import hashlib
import json
import os
import random
import sys
import tempfile
from pathlib import Path

from build_events import *  # noqa: F403
from build_events import Log, dump, mcp_action, mcp_result, think, thought_logged, write
from openhands.sdk.event import Event, MessageEvent
from openhands.sdk.event.base import LLMConvertibleEvent
from openhands.sdk.llm import LLM, ImageContent, Message, MessageToolCall, ReasoningItemModel, TextContent, ThinkingBlock
from openhands.sdk.llm.message import RedactedThinkingBlock
from openhands.tools.browser_use.definition import BrowserGetStateAction, BrowserObservation
from openhands.tools.file_editor.definition import FileEditorObservation
from openhands.tools.glob.definition import GlobObservation
from openhands.tools.task.definition import TaskObservation
from openhands.tools.terminal.definition import TerminalObservation
from openhands.tools.terminal.metadata import CmdOutputMetadata
from openhands.tools.tom_consult.definition import ConsultTomObservation, SleeptimeComputeObservation

HERE = Path(__file__).parent / "messages"

# caching, vision, tool_calling, strings, reasoning
FLAGS = {
    "default": (False, True, True, False, False),
    "no_vision": (False, False, True, False, False),
    "string": (False, False, True, True, False),
    "reasoning": (False, True, True, False, True),
    "caching": (True, True, True, False, False),
    "plain": (False, False, False, False, False),
    "string_vision": (False, True, True, True, True),
    "string_caching": (True, False, True, True, False),
    "caching_no_vision": (True, False, False, False, False),
}
GIVEN_FLAGS = list(FLAGS)[:5]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="


def chat(messages, flags):
    caching, vision, tools, strings, reasoning = FLAGS[flags]
    try:
        messages = copy.deepcopy(messages)
        if caching:
            LLM._apply_prompt_caching(None, messages)
        return [
            message.to_chat_dict(
                cache_enabled=caching,
                vision_enabled=vision,
                function_calling_enabled=tools,
                force_string_serializer=strings,
                send_reasoning_content=reasoning,
            )
            for message in messages
        ]
    except (AssertionError, IndexError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def responses(messages, vision):
    return [message.to_responses_value(vision_enabled=vision) for message in messages]


class Vision:
    """Stands for a model with vision that is not used through a subscription."""

    is_subscription = False

    def vision_is_active(self):
        return True


def answers(values, flags):
    """Returns the SDK's answers for events. The SDK writes files meanwhile, so it works in a temporary folder."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            events = [Event.model_validate(copy.deepcopy(value)) for value in values]
            try:
                messages = LLMConvertibleEvent.events_to_messages([e for e in events if isinstance(e, LLMConvertibleEvent)])
            except AssertionError as error:
                return {"error": f"AssertionError: {error}"}
        finally:
            os.chdir(here)
    seen = {}
    requests = {}
    for name in flags:
        request = chat(messages, name)
        requests[name] = seen.setdefault(json.dumps(request), name)
        if requests[name] == name:
            requests[name] = request
    result = {
        "messages": [json.loads(message.model_dump_json(exclude_none=True)) for message in messages],
        "chat": requests,
        "responses": responses(messages, True),
    }
    if responses(messages, False) != result["responses"]:
        result["responses_blind"] = responses(messages, False)
    if flags is not GIVEN_FLAGS:
        instructions, items = LLM._build_responses_payload(Vision(), messages)
        result["request"] = {"instructions": instructions, "input": items}
    return result


def brief(value):
    """Returns the value with long texts replaced by their length and digest."""
    if isinstance(value, str) and len(value) > 400:
        return f"<{len(value)} characters, sha256 {hashlib.sha256(value.encode()).hexdigest()}>"
    if isinstance(value, dict):
        return {key: brief(entry) for key, entry in value.items()}
    return [brief(entry) for entry in value] if isinstance(value, list) else value


CASES = {}


def built(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


class Talk(Log):
    """A log that can have messages of any role and content."""

    def message(self, role, *parts, source="user", extended=(), **fields):
        own = {"sender": fields.pop("sender", None), "extended_content": [TextContent(text=text) for text in extended]}
        content = [TextContent(text=part) if isinstance(part, str) else part for part in parts]
        return self.add(MessageEvent, source=source, llm_message=Message(role=role, content=content, **fields), **own)

    def terminal(self, text, call="t", is_error=False, parts=None, folder=None, **metadata):
        observation = TerminalObservation(
            command="c",
            is_error=is_error,
            content=parts if parts is not None else [TextContent(text=text)],
            metadata=CmdOutputMetadata(**metadata),
            full_output_save_dir=folder,
        )
        return self.result(self.action(call), observation=observation)

    def answer(self, observation, call="t", tool="some_tool", **fields):
        return self.result(self.action(call, tool=tool, action=mcp_action({"call": call})), observation=observation, **fields)


def image(*urls, **fields):
    return ImageContent(image_urls=list(urls), **fields)


@built
def events_that_no_model_sees_join_what_they_stand_between(log):
    log.user("one")
    log.pause()
    log.update()
    log.user("two")
    a = log.action("a", "r")
    log.hook()
    log.security([a])
    log.tokens()
    b = log.action("b", "r")
    log.condense([a], "S", 1)
    log.result(a)
    log.request()
    log.result(b)


@built
def invalid_calls_anywhere_in_a_batch(log):
    first = log.action("a", "r", action=None, thought="try", tool="nope")
    second = log.action("b", "r")
    log.error(first, "no such tool")
    third = log.action("c", "r", action=None, tool="nope")
    log.error(third, "")
    log.result(second)


@built
def one_reply_split_by_a_summary_and_by_a_message(log):
    a = log.action("a", "r", thought="first")
    log.summary("so far")
    log.action("b", "r", thought="again")
    log.note("nudge")
    c = log.action("c", "r")
    log.result(c)
    log.result(a)


@built
def replies_without_a_name_are_one_reply(log):
    for call in "ab":
        action = log.action(call)
        log.events[-1] = action.model_copy(update={"llm_response_id": ""})
    log.action("c", "r2")


@built
def thinking_in_every_place(log):
    log.action("a", "r", thinking="plain", thought="t")
    log.action("b", "r", thinking="redacted")
    log.message("assistant", "said", source="agent", thinking_blocks=[ThinkingBlock(thinking=""), RedactedThinkingBlock(data="")])
    log.message("user", "odd", thinking_blocks=[ThinkingBlock(thinking="u", signature="s")])
    log.message("user", "merged", thinking_blocks=[ThinkingBlock(thinking="v", signature="s")], reasoning_content="gone")


@built
def reasoning_items_with_and_without_what_they_may_have(log):
    items = [
        ReasoningItemModel(id=None, summary=["no id"]),
        ReasoningItemModel(id="", summary=[]),
        ReasoningItemModel(id="rs_1", summary=["a", ""], content=[], encrypted_content="", status=""),
        ReasoningItemModel(id="rs_2", content=["x"], encrypted_content="enc", status="completed"),
    ]
    for number, item in enumerate(items):
        log.message("assistant", source="agent", responses_reasoning_item=item, reasoning_content="why" if number % 2 else "")
        log.action(f"c{number}", f"r{number}", responses_reasoning_item=item, reasoning_content="")


@built
def calls_by_every_name(log):
    calls = [
        MessageToolCall(id="fc_1", name="a", arguments="{}", origin="responses"),
        MessageToolCall(id="call_2", responses_item_id="", name="b", arguments="", origin="responses"),
        MessageToolCall(id="call_3", responses_item_id="fc_other", name="c", arguments="not json", origin="completion"),
        MessageToolCall(id="", name="", arguments='{"a": "é\\u00e9\\n"}', origin="completion"),
    ]
    log.message("assistant", " \t\n", "", "text", "\x1c\x1f\u00a0\u2003", source="agent", tool_calls=calls)
    log.message("assistant", "\x1c\x1f\u00a0\u2003\u3000\x85", source="agent", tool_calls=calls[:1])
    log.message("assistant", "\u200b", source="agent", tool_calls=calls[:1])
    log.message("assistant", source="agent", tool_calls=[])
    log.message("assistant", "", source="agent", tool_calls=[])
    log.message("user", "calls", tool_calls=calls[:1])
    log.message("system", "calls", tool_calls=calls[:1])


@built
def messages_in_any_role(log):
    log.message("user", "first")
    log.message("system", "second", "", image("data:image/png;base64,AA"))
    log.message("tool", "an answer", tool_call_id="c", name="t")
    log.message("tool", "no call", name="t")
    log.message("assistant", "mine", image("http://x/y.png"), source="agent")
    log.message("user", "named", name="bob")
    log.message("user", "answers", tool_call_id="c")
    log.message("user", source="environment")
    log.message("system", " \n ")
    log.message("system", " trimmed \n")


@built
def an_answer_without_the_name_of_its_tool(log):
    log.user()
    log.message("tool", "who?", tool_call_id="c")


@built
def cache_marks_on_a_system_prompt_of_two_parts(log):
    log.system(dynamic_context=TextContent(text="now", cache_prompt=True))
    log.message("user", TextContent(text="a", cache_prompt=True), "b")
    log.message("assistant", "c", source="agent")


@built
def cache_marks_where_the_system_prompt_is_not_first(log):
    log.message("assistant", "hello", source="agent")
    log.system()
    log.message("assistant", TextContent(text="c", cache_prompt=True), source="agent")


@built
def cache_marks_on_pictures(log):
    log.message("user", "look", image("u1", "u2", cache_prompt=True))
    log.message("assistant", "seen", source="agent")
    log.answer(mcp_result("here"))
    log.answer(log_picture("shot"), call="p")


def log_picture(text, **fields):
    result = mcp_result(text)
    return result.model_copy(update={"content": [*result.content, image("data:image/png;base64,AA", "u", **fields)]})


@built
def cache_marks_on_the_picture_of_a_tool(log):
    log.user()
    log.answer(log_picture("shot", cache_prompt=True))
    log.message("assistant", image("mine"), source="agent")


@built
def cache_marks_on_a_last_turn_without_content(log):
    log.system()
    log.message("assistant", "x", source="agent")
    log.message("user")


@built
def cache_marks_on_a_system_prompt_without_content(log):
    log.message("system")
    log.message("user", "x")


@built
def pictures_without_text(log):
    log.message("user", image())
    log.message("user", image("only"))
    log.message("assistant", image("own"), source="agent")
    log.answer(log_picture(""))


@built
def turns_of_the_user_from_everywhere(log):
    log.message("user", "agent says", source="agent", sender="a1")
    log.message("user", "hook says", source="hook", extended=["rule", ""])
    log.message("user", image("u"), source="environment", extended=["more"])
    log.summary("")
    log.message("user", "")
    log.message("assistant", "ok", source="agent", extended=["why not"])


@built
def answers_with_a_header_and_more(log):
    for number, (text, error) in enumerate([("", True), ("bad", True), ("good", False)]):
        log.answer(FileEditorObservation.from_text(text, is_error=error, command="view", path="/a"), call=f"f{number}")
        log.answer(GlobObservation.from_text(text, is_error=error, files=[], pattern="*", search_path="/"), call=f"g{number}")
        log.answer(mcp_result(text, error), call=f"m{number}", extended_content=[TextContent(text="rule", cache_prompt=True)])
        log.answer(thought_logged(), call=f"t{number}", extended_content=[])


@built
def refusals_with_any_reason(log):
    a, b, c = (log.action(call, "r") for call in "abc")
    log.reject(a)
    log.reject(b, "hook", rejection_reason="")
    log.reject(c, rejection_reason="no\nnever é")


@built
def tasks_of_sub_agents(log):
    facts = dict(task_id="t1", subagent="explorer", status="completed")
    log.answer(TaskObservation.from_text("found it", **facts), call="a")
    log.answer(TaskObservation.from_text("", is_error=True, **{**facts, "status": ""}), call="b")
    log.answer(TaskObservation(content=[image("u")], is_error=True, **facts), call="c")


@built
def guidance_and_study(log):
    for number, confidence in enumerate([None, 0.125, 0.375, 1.0, 0.005, 0.995, 0.5449999, 2.5]):
        why = "because" if number % 2 else ""
        log.answer(ConsultTomObservation.from_text("unread", suggestions=f"do {number}", confidence=confidence, reasoning=why), call=f"c{number}")
    log.answer(ConsultTomObservation(confidence=0.9, is_error=True), call="none")
    log.answer(SleeptimeComputeObservation(message="m", sessions_processed=3, is_error=True), call="s1")
    log.answer(SleeptimeComputeObservation.from_text("unread", message="", sessions_processed=-1), call="s2")


@built
def terminals_with_every_sort_of_metadata(log):
    log.terminal("out", "a", exit_code=-1, prefix="<", suffix=">", working_dir="", py_interpreter_path="")
    log.terminal("", "b", exit_code=0, working_dir="/w é")
    log.terminal("", "c", is_error=True, exit_code=137, py_interpreter_path="/p", username="u", hostname="h")
    log.terminal("", "d", parts=[TextContent(text="one"), image("lost"), TextContent(text="two", cache_prompt=True)])
    log.terminal("", "e", parts=[], exit_code=-2, prefix="", suffix="\n")


@built
def terminal_output_at_the_limit(log):
    for call, length in (("a", 29_999), ("b", 30_000), ("c", 30_001)):
        log.terminal("x" * length, call)
    log.terminal("é" * 14_000 + "z" * 16_100, "d", is_error=True)


@built
def terminal_output_kept_in_a_file(log):
    head = "line\r\n" * 1000 + "b\x0bc\x0cd\x1ce\x1df\x1eg\x85h\u2028i\u2029j\rk\n"
    log.terminal(head + "z" * 30_000, "a", folder="conversations/abc/observations", exit_code=0)
    log.terminal("short", "b", folder="conversations/abc/observations")
    log.terminal("é\n" * 16_000, "c", folder="a//b/./c/")
    log.terminal("y" * 30_001, "d", folder="")
    log.terminal("w" * 30_001, "e", folder=".")


@built
def browser_text_and_pictures(log):
    log.answer(BrowserObservation.from_text("state", screenshot_data=PNG), call="a", tool="browser_get_state")
    log.answer(BrowserObservation.from_text("", is_error=True, screenshot_data="R0lGODlhAQAB"), call="b")
    log.answer(BrowserObservation(content=[TextContent(text="a"), image("lost"), TextContent(text="b")], screenshot_data=""), call="c")
    log.answer(BrowserObservation(screenshot_data="UklGRgAA"), call="d")
    log.answer(BrowserObservation.from_text("x", screenshot_data="what is this"), call="e")
    log.answer(BrowserObservation(), call="f")


@built
def browser_pictures_kept_in_files(log):
    for number, data in enumerate([PNG, "/9j/4AAQ", "R0lGODlhAQAB", "UklGRgAA", "abc", "ab==", "a===", "abcd!é", "a!b c-d_e==", "=ab=cd", "!!!", "ab=c"]):
        log.answer(BrowserObservation.from_text("s", screenshot_data=data, full_output_save_dir="obs"), call=f"p{number}")
    log.answer(BrowserObservation.from_text("s" * 50_001, is_error=True, full_output_save_dir="./obs/"), call="long")


@built
def tool_text_at_the_limit_of_the_wire(log):
    log.answer(mcp_result("x" * 50_000), call="a")
    parts = [TextContent(text="y" * 25_000), TextContent(text="z" * 25_000, cache_prompt=True), image("u")]
    log.answer(mcp_result().model_copy(update={"content": parts}), call="b")
    log.answer(mcp_result("😀" * 25_001 + "é" * 25_000), call="c")


@built
def characters_of_every_sort(log):
    text = "\x00\x07\x7f\x85\u2028\u2029\ufeff\ud7ff\ue000\uffff\U0001f600\U0010ffff \"quoted\" \\ / </script>"
    log.user(text)
    log.action("a", thought=text)
    log.answer(mcp_result(text))
    log.message("assistant", text, source="agent", reasoning_content=text)


@built
def nothing_but_events_that_no_model_sees(log):
    log.pause()
    log.interrupt()
    log.failure()
    log.acp()
    log.completion()


def scramble(log, seed):
    """Fills a log that no agent would write, with events in random order."""
    rng = random.Random(seed)
    actions = []
    for number in range(40):
        roll = rng.random()
        if roll < 0.35 or not actions:
            blocks = rng.choice([None, None, "plain", "redacted"])
            thought = rng.choice(["", "", "hm"]) if not actions or rng.random() < 0.1 else ""
            reply = rng.choice(["r1", "r2", None])
            action = rng.choice([..., None, think("t"), mcp_action({"n": number})])
            actions.append(log.action(f"c{number}", reply, thinking=blocks, thought=thought, action=action))
        elif roll < 0.6:
            action = rng.choice(actions)
            rng.choice([log.result, log.error, log.reject])(action)
        elif roll < 0.9:
            rng.choice([log.user, log.note, log.agent, log.summary, log.pause, log.hook, log.update, log.request])()
        else:
            role = rng.choice(["user", "assistant", "system", "tool"])
            parts = rng.sample(["", "a", " ", TextContent(text="b", cache_prompt=True), image("u", "v"), image(cache_prompt=True)], rng.randint(0, 4))
            extra = rng.choice([{}, {"name": "n"}, {"tool_call_id": "c", "name": "n"}, {"tool_calls": []}])
            log.message(role, *parts, source=rng.choice(["user", "agent", "environment"]), **extra)


for seed in range(1, 7):
    CASES[f"random-log-{seed}"] = lambda log, seed=seed: scramble(log, seed)


def main():
    texts = {}
    for path in sorted(HERE.glob("*.json")):
        if path.name[2] == "-" and int(path.name[:2]) <= 55:
            events = json.loads(path.read_text(encoding="utf-8"))["events"]
            texts[path] = write({"events": events, **brief(answers(events, GIVEN_FLAGS))})
    for number, (name, build) in enumerate(CASES.items(), 56):
        log = Talk(number)
        build(log)
        events = [dump(event) for event in log.events]
        texts[HERE / f"{number:03d}-{name}.json"] = write({"events": events, **brief(answers(events, FLAGS))})
    changed = [path for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    stale = [path for path in HERE.glob("*.json") if path not in texts]
    for path in [*changed, *stale]:
        print("differs:" if "--check" in sys.argv else "written:", path.name)
    if "--check" in sys.argv:
        sys.exit(bool(changed or stale))
    for path in stale:
        path.unlink()
    for path in changed:
        path.write_text(texts[path], encoding="utf-8")
    print(len(texts), "cases")


if __name__ == "__main__":
    main()
