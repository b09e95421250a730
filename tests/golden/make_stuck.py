"""Writes tests/golden/stuck: the answers of the real SDK's stuck detector after each event of a log.

    python make_stuck.py          rewrites every case
    python make_stuck.py --check  names the cases that would change, and fails if there are any

Needs openhands-sdk and openhands-tools 1.58.0. Members of a case:

    events      the branch
    thresholds  the detector's thresholds, if they are not the defaults
    stuck       a pattern or null, after each event
    nudges      the nudge's text or null, after each event; one detector gets all events in turn
"""

import random
import sys
from pathlib import Path

from build_events import *  # noqa: F403
from build_events import Log, dump, mcp_action, mcp_result, think, thought_logged, write
from openhands.sdk.conversation.stuck_detector import StuckDetector
from openhands.sdk.conversation.types import StuckDetectionThresholds
from openhands.sdk.llm import ImageContent, TextContent
from openhands.tools.terminal.definition import TerminalObservation
from openhands.tools.terminal.metadata import CmdOutputMetadata

HERE = Path(__file__).parent / "stuck"
PATTERNS = {
    "_is_stuck_repeating_action_observation": "action_observation",
    "_is_stuck_repeating_action_error": "action_error",
    "_is_stuck_monologue": "monologue",
    "_is_stuck_alternating_action_observation": "alternating",
    "_is_stuck_context_window_error": "context_window",
}


class State:
    """Stands for a conversation's state. The detector reads only the branch's tail."""

    events = ()

    def active_branch(self, limit=None):
        return list(self.events[-limit:]) if limit else list(self.events)


class Detector(StuckDetector):
    found = None


for method, name in PATTERNS.items():

    def wrapped(self, *args, _method=method, _name=name):
        hit = getattr(StuckDetector, _method)(self, *args)
        if hit:
            self.found = _name
        return hit

    setattr(Detector, method, wrapped)


def case(log, thresholds=None):
    config = StuckDetectionThresholds(**(thresholds or {}))
    state = State()
    detector = Detector(state, config)
    stuck, nudges = [], []
    for length in range(1, len(log.events) + 1):
        state.events = log.events[:length]
        detector.found = None
        is_stuck = detector.is_stuck()
        assert is_stuck == (detector.found is not None)
        stuck.append(detector.found)
        nudges.append(detector.get_action_error_nudge())
    result = {"events": [dump(event) for event in log.events]}
    if thresholds:
        result["thresholds"] = thresholds
    return {**result, "stuck": stuck, "nudges": nudges}


CASES = {}


def built(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


def opening(number):
    log = Log(number)
    log.system()
    log.user("task")
    return log



def pair(log, command="ls", text="same", **fields):
    action = log.action(f"c{len(log.events)}", command=command, **fields)
    log.result(action, text)
    return action


def invalid(log, text="no such tool", tool="terminal", **fields):
    action = log.action(f"c{len(log.events)}", tool=tool, action=None, **fields)
    log.error(action, text)
    return action


@built
def same_call_same_result(n):
    log = opening(n)
    for _ in range(5):
        pair(log)
    return case(log)


@built
def same_call_three_times_then_finish(n):
    log = opening(n)
    for _ in range(3):
        pair(log)
    log.finish()
    return case(log)


@built
def same_call_other_thoughts(n):
    log = opening(n)
    for number in range(6):
        pair(log, thought=f"thought {number}")
    return case(log)


@built
def same_call_other_results(n):
    log = opening(n)
    for number in range(6):
        pair(log, text=f"result {number}")
    return case(log)


@built
def same_call_other_summary_and_risk(n):
    log = opening(n)
    for number in range(4):
        pair(log, summary=f"summary {number}", security_risk=["LOW", "MEDIUM", "HIGH", "UNKNOWN"][number])
    return case(log)


@built
def results_differ_in_what_the_shell_says_of_itself(n):
    made = []
    for field in ("working_dir", "pid", "exit_code"):
        log = opening(n)
        for number in range(5):
            action = log.action(f"c{number}", command="ls")
            metadata = CmdOutputMetadata(**{field: f"/{number}" if field == "working_dir" else number})
            log.result(action, observation=TerminalObservation(command="ls", content=[TextContent(text="o")], metadata=metadata))
        made.append(case(log))
    return tuple(made)


@built
def results_differ_in_cache_flag_or_error_flag(n):
    made = []
    for flags in ({"cache_prompt": True}, {}):
        log = opening(n)
        for number in range(5):
            action = log.action(f"c{number}", command="ls")
            content = [TextContent(text="o", **(flags if number == 2 else {}))]
            log.result(action, observation=TerminalObservation(command="ls", content=content, is_error=number == 2 and not flags))
        made.append(case(log))
    return tuple(made)


@built
def invalid_call_is_nudged_then_stuck(n):
    log = opening(n)
    for _ in range(3):
        invalid(log)
    log.note("You've called it")
    invalid(log)
    invalid(log)
    return case(log)


@built
def invalid_calls_with_other_arguments_and_other_errors(n):
    log = opening(n)
    for number in range(5):
        action = log.action(f"other{number}", tool="terminal", action=None)
        log.error(action, f"error {number}")
    return case(log)


@built
def invalid_calls_of_two_tools(n):
    log = opening(n)
    for number in range(8):
        invalid(log, tool=["terminal", "editor"][number % 2])
    return case(log)


@built
def valid_calls_that_fail(n):
    log = opening(n)
    for _ in range(5):
        action = log.action(f"c{len(log.events)}", command="ls")
        log.error(action, "Error executing tool 'terminal': boom")
    return case(log)


@built
def a_new_streak_is_nudged_again(n):
    log = opening(n)
    for turn in range(2):
        for _ in range(3):
            invalid(log)
        log.note("nudge")
        pair(log, command=f"other {turn}")
    for _ in range(4):
        invalid(log, text="third")
    return case(log)


@built
def empty_answers_do_not_break_a_streak(n):
    log = opening(n)
    for _ in range(3):
        invalid(log)
    log.note("nudge")
    log.agent("", "r")
    log.note("use a tool")
    invalid(log)
    return case(log)


@built
def two_calls_in_turn(n):
    log = opening(n)
    for number in range(16):
        pair(log, command="ab"[number % 2], text="ab"[number % 2])
    return case(log)


@built
def three_calls_in_turn(n):
    log = opening(n)
    for number in range(15):
        pair(log, command="abc"[number % 3], text="abc"[number % 3])
    return case(log)


@built
def two_calls_in_turn_but_one_result_differs(n):
    log = opening(n)
    for number in range(14):
        pair(log, command="ab"[number % 2], text="odd" if number == 5 else "ab"[number % 2])
    return case(log)


@built
def calls_in_turn_with_errors(n):
    log = opening(n)
    for number in range(14):
        if number % 2:
            pair(log, command="a", text="a")
        else:
            invalid(log)
    return case(log)


@built
def rejections_never_match(n):
    log = opening(n)
    for number in range(7):
        action = log.action(f"c{number}", command="ls")
        log.reject(action)
    for number in range(7):
        action = log.action(f"d{number}", command="ls")
        if number % 2:
            log.reject(action, "hook")
        else:
            log.result(action, "same")
    return case(log)


@built
def monologue_of_empty_answers(n):
    log = opening(n)
    for number in range(4):
        log.agent("", f"r{number}")
        log.note("use a tool")
    return case(log)


@built
def monologue_of_different_texts(n):
    log = opening(n)
    for number in range(4):
        log.agent(f"text {number}", f"r{number}")
    return case(log)


@built
def monologue_across_a_stored_summary(n):
    log = opening(n)
    log.agent("one")
    log.summary("so far")
    log.agent("two")
    log.note("env")
    log.summary("so far")
    log.agent("three")
    return case(log)


@built
def monologue_interrupted(n):
    made = []
    for name in ("user", "pause", "hook", "update", "request", "tokens", "security", "condense", "failure", "turn", "acp"):
        log = opening(n)
        log.agent("one")
        log.agent("two")
        arguments = {"security": [[]], "condense": [[]], "turn": ["c"]}.get(name, [])
        getattr(log, name)(*arguments)
        log.agent("three")
        log.agent("four")
        made.append(case(log))
    return tuple(made)


@built
def one_answer_with_four_parallel_calls(n):
    log = opening(n)
    actions = [log.action(f"p{number}", "r", command="ls") for number in range(4)]
    for action in actions:
        log.result(action, "same")
    return case(log)


@built
def a_user_message_opens_a_new_window(n):
    log = opening(n)
    for _ in range(4):
        pair(log)
    log.user("go on")
    for _ in range(4):
        pair(log)
    log.user("", sender="framework")
    for _ in range(2):
        invalid(log)
    log.user("x")
    invalid(log)
    return case(log)


@built
def the_window_is_twenty_events(n):
    log = opening(n)
    for number in range(3):
        invalid(log)
    for number in range(12):
        log.hook()
        log.pause()
        invalid(log, text=f"late {number}") if number % 6 == 5 else None
    for number in range(4):
        for _ in range(6):
            log.tokens()
        pair(log)
    return case(log)


@built
def actions_without_results(n):
    log = opening(n)
    actions = [log.action(f"p{number}", f"r{number}", command="ls") for number in range(6)]
    log.result(actions[0], "same")
    log.result(actions[1], "same")
    log.result(actions[2], "same")
    log.error(actions[3], "same")
    log.error(actions[4], "same")
    log.error(actions[5], "same")
    return case(log)


@built
def condensations_between_the_calls(n):
    log = opening(n)
    for number in range(5):
        pair(log)
        log.request()
        log.condense([log.events[1]], "S", 1)
    return case(log)


@built
def no_user_message_at_all(n):
    log = Log(n)
    log.system()
    for _ in range(4):
        pair(log)
    return case(log)


@built
def values_of_free_form_arguments(n):
    made = []
    for values in (
        [1, 1.0, True, 1],
        [0, 0.0, False, -0.0],
        [[1, 2], [1, 2.0], [True, 2], [1, 2]],
        [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1.0, "b": 2}, {"b": 2.0, "a": True}],
        ["1", "1", "1", "1"],
        ["1", 1, "1", 1],
        [None, None, None, None],
        [2**70, 2**70, 2**70, 2**70],
        [2**53 + 1, 2**53 + 1, float(2**53), 2**53 + 1],
        ["é", "e\u0301", "é", "é"],
    ):
        log = opening(n)
        for number, value in enumerate(values):
            action = log.action(f"c{number}", tool="fetch", action=mcp_action({"value": value}))
            log.result(action, observation=mcp_result("same"))
        made.append(case(log))
    return tuple(made)


@built
def results_with_images(n):
    made = []
    for second in ("data:image/png;base64,AA", "data:image/png;base64,AB"):
        log = opening(n)
        for number in range(4):
            action = log.action(f"c{number}", tool="fetch", action=mcp_action({}))
            observation = mcp_result("same")
            url = second if number == 1 else "data:image/png;base64,AA"
            observation = observation.model_copy(update={"content": [*observation.content, ImageContent(image_urls=[url])]})
            log.result(action, observation=observation)
        made.append(case(log))
    return tuple(made)


@built
def one_tool_name_two_kinds_of_action(n):
    log = opening(n)
    for number in range(5):
        action = think("x") if number % 2 else mcp_action({"thought": "x"})
        event = log.action(f"c{number}", tool="think", action=action)
        log.result(event, observation=thought_logged())
    for number in range(4):
        event = log.action(f"d{number}", tool="think", action=think("x"))
        log.result(event, observation=thought_logged())
    return case(log)


@built
def one_action_two_tool_names_or_sources(n):
    log = opening(n)
    for number in range(5):
        event = log.action(f"c{number}", tool="think" if number != 2 else "thinking", action=think("x"))
        log.result(event, observation=thought_logged())
    log.user("next")
    for number in range(5):
        event = log.action(f"d{number}", action=think("x"), source="agent" if number != 2 else "user")
        log.result(event, observation=thought_logged(), source="environment" if number != 4 else "hook")
    return case(log)


def custom(events, **thresholds):
    def make(n):
        log = opening(n)
        events(log)
        return case(log, thresholds)

    return make


def mixed(log):
    pair(log)
    invalid(log)
    pair(log)
    pair(log)
    log.agent("one")
    log.agent("two")
    pair(log, command="a")
    pair(log, command="b")
    invalid(log)
    invalid(log)
    pair(log, command="a")
    pair(log, command="a")
    log.agent("three")


for index, thresholds in enumerate(
    [
        dict(action_observation=1, action_error=1, monologue=1, alternating_pattern=1),
        dict(action_observation=2, action_error=1, monologue=2, alternating_pattern=2),
        dict(action_observation=2, action_error=2, monologue=9, alternating_pattern=3),
        dict(action_observation=9, action_error=9, monologue=2, alternating_pattern=4),
        dict(action_observation=9, action_error=2, monologue=9, alternating_pattern=9),
        dict(action_observation=30, action_error=30, monologue=30, alternating_pattern=2),
        dict(action_observation=30, action_error=30, monologue=30, alternating_pattern=1),
        dict(action_observation=3, action_error=30, monologue=30, alternating_pattern=30),
    ],
    1,
):
    CASES[f"thresholds-{index}"] = custom(mixed, **thresholds)


def random_case(seed):
    def make(n):
        rng = random.Random(seed)
        log = opening(n)
        period = rng.choice([1, 1, 2, 2, 3])
        step = 0
        while len(log.events) < 60:
            roll = rng.random()
            if roll < 0.80:
                kind = "ab"[step % period % 2] if rng.random() < 0.93 else "z"
                step += 1
                if rng.random() < 0.25 or (seed % 3 == 0 and kind == "a"):
                    invalid(log)
                else:
                    pair(log, command=kind, text=kind)
            elif roll < 0.88:
                rng.choice([log.hook, log.pause, log.note, log.tokens, log.update, log.summary])()
            elif roll < 0.97:
                log.agent(rng.choice(["", "text"]))
            else:
                log.user()
        return case(log)

    return make


for seed in range(1, 9):
    CASES[f"random-{seed}"] = random_case(seed)


def main():
    texts = {}
    for number, (name, make) in enumerate(CASES.items(), 1):
        made = make(number)
        for part, value in enumerate(made if isinstance(made, tuple) else (made,)):
            suffix = chr(ord("a") + part) if isinstance(made, tuple) else ""
            texts[HERE / f"{number:02d}{suffix}-{name}.json"] = write(value)
    changed = [path for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    stale = [path for path in HERE.glob("*.json") if path not in texts]
    for path in [*changed, *stale]:
        print("differs:" if "--check" in sys.argv else "written:", path.name)
    if "--check" in sys.argv:
        sys.exit(bool(changed or stale))
    HERE.mkdir(exist_ok=True)
    for path in stale:
        path.unlink()
    for path in changed:
        path.write_text(texts[path], encoding="utf-8")
    print(len(texts), "cases")


if __name__ == "__main__":
    main()
