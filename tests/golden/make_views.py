"""Writes tests/golden/views: what the real SDK's view holds for a list of events.

    python make_views.py          rewrites every case
    python make_views.py --check  says which cases would change, and fails if any would

Cases 01 to 38 keep their events, and only their answers are made again. Later cases are built here. Needs
openhands-sdk and openhands-tools 1.58.0. Members of a case:

    events, leaf          the log, and HEAD if it is not the last event of a plain list
    error                 the SDK's error if there is no path from HEAD to a root
    branch_ids            the path from the root to HEAD
    view_ids              the view of the branch after a reload (enforced)
    incremental_view_ids  the view of a process that never stopped
    snapshot_ids          the incremental view, enforced again (what ask_agent sends)
    reloaded_after        {place: ids}: reloaded after that place of the branch, then continued
    prefixes              both views after every place of the branch
    condense              condensers applied to the reloaded view, and their results
"""

import json
import random
import sys
from pathlib import Path

from build_events import *  # noqa: F403
from build_events import Log, dump, write
from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.context.condenser import llm_summarizing_condenser as summarizing
from openhands.sdk.context.condenser import utils as condenser_utils
from openhands.sdk.context.condenser.base import NoCondensationAvailableException
from openhands.sdk.context.view import View
from openhands.sdk.conversation.event_store import EventLog
from openhands.sdk.conversation.response_utils import get_agent_final_response
from openhands.sdk.conversation.state import ConversationState
from openhands.sdk.event import Event
from openhands.sdk.event.condenser import CondensationSummaryEvent
from openhands.sdk.io import InMemoryFileStore
from openhands.sdk.llm import LLM, Message, TextContent

HERE = Path(__file__).parent / "views"


def ids(view):
    return [event.id for event in view.events]


def fold(events, view=None):
    view = view or View()
    for event in events:
        view.append_event(event)
    return view


def branch(events, leaf):
    """Returns the path to `leaf`, made by the SDK's own log over a list that may be damaged."""
    log = EventLog(InMemoryFileStore())
    log._length = len(events)
    log._event_cache = dict(enumerate(events))
    log._idx_to_id = {index: event.id for index, event in enumerate(events)}
    log._id_to_idx = {}
    for index, event in enumerate(events):
        log._id_to_idx.setdefault(event.id, index)
    return log.path_to_root(leaf)


def answers(events):
    reloaded, live = View.from_events(events), fold(events)
    return {
        "view_ids": ids(reloaded),
        "unhandled_condensation_request": reloaded.unhandled_condensation_request,
        "manipulation_indices": sorted(reloaded.manipulation_indices),
        "incremental_view_ids": ids(live),
        "incremental_manipulation_indices": sorted(live.manipulation_indices),
        "snapshot_ids": ids(View.from_events(list(live.events))),
        "unmatched_action_ids": [event.id for event in ConversationState.get_unmatched_actions(events)],
        "agent_final_response": get_agent_final_response(events),
    }


def given(path):
    """Returns one of the first cases in its own layout, with its stored events and new answers."""
    old = json.loads(path.read_text(encoding="utf-8"))
    events = [Event.model_validate(event) for event in old["events"]]
    view = View.from_events(events)
    shown = []
    for event in view.events:
        value = dump(event)
        if isinstance(event, CondensationSummaryEvent) and event.id not in {e.id for e in events}:
            value["timestamp"] = "<generated>"
        shown.append(value)
    case = {
        "events": old["events"],
        "view": shown,
        "view_ids": ids(view),
        "unhandled_condensation_request": view.unhandled_condensation_request,
        "manipulation_indices": sorted(view.manipulation_indices),
        "incremental_view_ids": ids(fold(events)),
    }
    return json.dumps(case, indent=1, ensure_ascii=False) + "\n"


def case(events, leaf=None, reload_after=(), prefixes=False, condense=()):
    result = {"events": [dump(event) for event in events]}
    if leaf is not None:
        result["leaf"] = leaf
        try:
            events = branch(events, leaf)
        except (KeyError, ValueError) as error:
            return {**result, "error": type(error).__name__, "message": str(error.args[0])}
        result["branch_ids"] = [event.id for event in events]
    result.update(answers(events))
    if reload_after:
        result["reloaded_after"] = {
            str(place): ids(fold(events[place + 1 :], View.from_events(events[: place + 1]))) for place in reload_after
        }
    if prefixes:
        result["prefixes"] = [
            {
                "live": ids(fold(events[: length + 1])),
                "reloaded": ids(View.from_events(events[: length + 1])),
                "indices": sorted(View.from_events(events[: length + 1]).manipulation_indices),
                "unmatched": [e.id for e in ConversationState.get_unmatched_actions(events[: length + 1])],
            }
            for length in range(len(events))
        ]
    if condense:
        result["condense"] = [condensed(View.from_events(events), **asked) for asked in condense]
    return result


class Model:
    """Stands for the agent's model. Only its token limit is used."""

    def __init__(self, limit):
        self.effective_max_input_tokens = limit


def weight(event):
    """Returns the tokens of an event in these cases. They depend on its id, so that they differ."""
    return 10 + int(event.id.split("-")[-1][-6:], 10) % 7 if event.id[-1].isdigit() else 25


def condensed(view, limit=None, summarizer="answers", **config):
    """Returns what the SDK's condenser does with `view`. Its model answers, or fails a number of times first."""
    summarizing.get_total_token_count = condenser_utils.get_total_token_count = lambda events, llm: sum(
        weight(event) for event in events
    )
    fails = {"answers": 0, "fails once": 1, "fails": 10**6}[summarizer]
    asked = []
    cuts = []

    class Reply:
        id = "chatcmpl-cond"
        message = Message(role="assistant", content=[TextContent(text="S")])

    def generate(self, messages, **_):
        asked.append(len(messages))
        if len(asked) <= fails:
            raise RuntimeError("no summary")
        return Reply()

    def cut(text, truncate_after=None):
        if truncate_after not in cuts:
            cuts.append(truncate_after)
        return text

    summarizing.maybe_truncate = cut
    original = LLM.generate
    LLM.generate = generate
    model = Model(limit) if limit is not None or config.get("max_tokens") is not None else None
    result = {"config": config, "limit": limit, "summarizer": summarizer}
    try:
        condenser = LLMSummarizingCondenser(llm=LLM(model="openai/gpt-4o", api_key="x", usage_id="c"), **config)
        result["reasons"] = sorted(reason.value for reason in condenser.get_condensation_reasons(view, model))
        requirement = condenser.condensation_requirement(view, model)
        result["requirement"] = requirement.value if requirement else None
        try:
            answer = condenser.condense(view, agent_llm=model)
        except NoCondensationAvailableException as error:
            result["outcome"] = "none"
            result["why"] = str(error)
        except ValueError as error:
            result["outcome"] = "none"
            result["why"] = str(error)
        else:
            if isinstance(answer, View):
                result["outcome"] = "view"
            else:
                places = [n for n, event in enumerate(view.events) if event.id in answer.forgotten_event_ids]
                result["outcome"] = "condensation"
                result["forgotten"] = [places[0], places[-1] + 1]
                result["offset"] = answer.summary_offset
                assert places == list(range(places[0], places[-1] + 1))
    except ValueError:
        result["outcome"] = "refused"
    finally:
        LLM.generate = original
    result["longest"] = max((len(str(event)) for event in view.events), default=0)
    result["cuts"] = cuts
    result["weights"] = [weight(event) for event in view.events]
    return result


CASES = {}


def built(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


def opening(number):
    log = Log(number)
    return log, log.system(), log.user("task")


@built
def condensation_forgets_a_whole_batch(n):
    log, *_ = opening(n)
    batch = [log.action(call, "r") for call in "abc"]
    results = [log.result(action) for action in batch]
    log.condense(batch + results, "S", 2)
    log.user("more")
    return case(log.events, prefixes=True)


@built
def batch_forgotten_in_two_condensations(n):
    log, *_ = opening(n)
    batch = [log.action(call, "r") for call in "abc"]
    results = [log.result(action) for action in batch]
    log.condense([batch[0], results[0]], "S1", 2)
    log.condense(batch[1:] + results[1:], "S2", 3)
    return case(log.events, prefixes=True)


@built
def batch_interrupted_by_everything_but_a_message(n):
    log, *_ = opening(n)
    a = log.action("a", "r")
    log.security([a])
    b = log.action("b", "r")
    log.hook()
    log.pause()
    log.result(b)
    c = log.action("c", "r")
    log.tokens()
    log.result(a)
    log.result(c)
    return case(log.events, prefixes=True)


@built
def batch_whose_last_call_is_pending(n):
    log, *_ = opening(n)
    log.turn("before")
    batch = [log.action(call, "r") for call in "abc"]
    for action in batch[:2]:
        log.result(action)
    return case(log.events, reload_after=[6, 7], prefixes=True)


@built
def restart_with_pending_actions_then_approval(n):
    log, *_ = opening(n)
    batch = [log.action(call, "r") for call in "ab"]
    places = len(log.events)
    log.update("execution_status", "waiting_for_confirmation")
    for action in batch:
        log.result(action)
    log.turn("next")
    return case(log.events, reload_after=[places - 1, places, places + 1, places + 2], prefixes=True)


@built
def restart_in_a_thinking_loop(n):
    log, *_ = opening(n)
    log.turn("t1", thinking="plain")
    log.turn("t2")
    pending = log.action("t3")
    place = len(log.events) - 1
    log.result(pending)
    log.agent("bye")
    return case(log.events, reload_after=[place, place + 1], prefixes=True)


@built
def three_rolling_condensations(n):
    log, system, user = opening(n)
    turns = [event for call in "abcdef" for event in log.turn(call)]
    first = log.condense(turns[:4], "S1", 2)
    second = log.condense([f"{first.id}-summary", *turns[4:8]], "S2", 2)
    late = [event for call in "gh" for event in log.turn(call)]
    log.condense([f"{second.id}-summary", *turns[8:], late[0], late[1]], "S3", 2)
    log.agent("end")
    return case(log.events, prefixes=True)


@built
def summaries_pile_up_at_one_offset(n):
    log, *_ = opening(n)
    turns = [event for call in "abc" for event in log.turn(call)]
    for number in range(3):
        log.condense(turns[2 * number : 2 * number + 2], f"S{number}", 1)
    return case(log.events, prefixes=True)


@built
def offset_counts_the_earlier_summary(n):
    log, *_ = opening(n)
    turns = [event for call in "abcd" for event in log.turn(call)]
    log.condense(turns[:2], "S1", 2)
    log.condense(turns[2:4], "S2", 5)
    log.condense(turns[4:6], "S3", 4)
    return case(log.events, prefixes=True)


@built
def condensation_that_forgets_nothing(n):
    log, *_ = opening(n)
    log.turn("a")
    log.request()
    log.condense([], "S", 0)
    log.request()
    log.condense([])
    return case(log.events, prefixes=True)


@built
def garbage_among_forgotten_ids(n):
    log, *_ = opening(n)
    action, result = log.turn("a")
    own = "00000000-0000-4000-8999-000000000001"
    garbage = ["", "x-summary", "__root__", own, f"{own}-summary", "日本", " " + action.id, action.id.upper() + "x"]
    log.condense([action, result, *garbage], "S", 2, id=own)
    log.condense([f"{own}-summary-summary", "00000000"], "T", 2)
    return case(log.events, prefixes=True)


@built
def condensation_forgets_what_comes_later(n):
    log, *_ = opening(n)
    later = f"00000000-0000-4000-8{n:03d}-000000000005"
    log.turn("a")
    log.condense([later, log.events[2]], "S", 2, id=f"00000000-0000-4000-8{n:03d}-000000000099")
    assert log.user("later", id=later).id == later
    log.condense([later], None, None)
    return case(log.events, prefixes=True)


@built
def condensation_forgets_events_the_model_never_saw(n):
    log, *_ = opening(n)
    hidden = [log.pause(), log.hook(), log.update(), log.request(), log.tokens(), log.completion(), log.acp()]
    log.condense(hidden, None, 3)
    log.turn("a")
    return case(log.events, prefixes=True)


@built
def condensation_inside_a_batch(n):
    log, *_ = opening(n)
    a = log.action("a", "r")
    log.condense([log.events[1]], "S", 1)
    b = log.action("b", "r")
    log.result(a)
    log.result(b)
    return case(log.events, prefixes=True)


@built
def condensation_inside_a_thinking_loop(n):
    log, *_ = opening(n)
    log.turn("t1", thinking="plain")
    log.condense([log.events[1]], "S", 1)
    later = log.turn("t2")
    log.condense(later[:1])
    return case(log.events, prefixes=True)


@built
def result_forgotten_before_its_duplicate_arrives(n):
    log, *_ = opening(n)
    action = log.action("a")
    error = log.error(action, "restart")
    log.condense([error], "S", 2)
    log.result(action, "late")
    return case(log.events, prefixes=True)


@built
def late_result_after_a_crash_in_a_batch(n):
    log, *_ = opening(n)
    a, b = log.action("a", "r"), log.action("b", "r")
    log.error(a, "restart")
    log.result(a, "late")
    log.result(b)
    log.reject(b)
    return case(log.events, prefixes=True)


@built
def first_result_goes_with_its_loop_the_second_stays_gone(n):
    log, *_ = opening(n)
    action = log.action("a", thinking="plain")
    log.result(action)
    member = log.action("b")
    log.agent("between")
    log.error(action, "again")
    log.condense([member])
    return case(log.events, prefixes=True)


@built
def one_call_id_in_two_batches(n):
    log, *_ = opening(n)
    first = [log.action(call, "r1") for call in ("x", "y")]
    for action in first:
        log.result(action)
    log.user("again")
    second = [log.action(call, "r2") for call in ("x", "z")]
    for action in second:
        log.result(action)
    log.condense([first[1]])
    return case(log.events, prefixes=True)


@built
def errors_and_rejections_answer_a_batch(n):
    log, *_ = opening(n)
    a, b, c = (log.action(call, "r") for call in "abc")
    bad = log.action("d", "r", action=None)
    log.error(bad)
    log.reject(a)
    log.reject(b, "hook")
    log.error(c, "boom")
    return case(log.events, prefixes=True)


@built
def thinking_begins_inside_a_batch(n):
    log, *_ = opening(n)
    a = log.action("a", "r")
    b = log.action("b", "r", thinking="redacted")
    c = log.action("c", "r")
    for action in (a, b, c):
        log.result(action)
    log.agent("x")
    late = log.turn("d")
    log.condense([late[1]])
    return case(log.events, prefixes=True)


@built
def a_new_thinking_block_ends_the_loop_before_it(n):
    log, *_ = opening(n)
    log.turn("t1", thinking="plain")
    second = log.turn("t2", thinking="redacted")
    log.turn("u2")
    log.turn("t3", thinking="plain")
    log.condense([second[1]], "S", 2)
    return case(log.events, prefixes=True)


@built
def loops_ended_by_each_kind(n):
    log, *_ = opening(n)
    enders = [log.user, log.note, log.agent, log.pause, log.interrupt, log.update, log.failure, log.hook, log.request]
    enders += [log.tokens, log.completion, log.acp, log.summary, log.system, lambda: log.condense([])]
    for number, end in enumerate(enders):
        log.turn(f"t{number}", thinking="plain")
        end()
        tail = log.turn(f"u{number}")
        if number % 3 == 0:
            log.condense([tail[0]])
    return case(log.events)


@built
def cascade_along_batches_and_loops(n):
    log, *_ = opening(n)
    held = []
    for number in range(6):
        left = log.action(f"l{number}", f"r{number}", thinking="plain" if number % 2 else None)
        right = log.action(f"m{number}", f"r{number}")
        log.result(left)
        held.append(right)
        if number:
            log.result(held[number - 1])
        if number == 3:
            log.hook()
    return case(log.events, prefixes=True)


@built
def cascade_keeps_what_is_not_touched(n):
    log, *_ = opening(n)
    a, b = log.action("a", "r1"), log.action("b", "r1")
    log.result(a)
    c = log.action("c", "r2", thinking="plain")
    log.result(b)
    log.result(c)
    log.agent("kept")
    log.turn("d")
    log.condense([a], "S", 1)
    return case(log.events, prefixes=True)


@built
def stored_summary_with_a_generated_ones_id(n):
    log, *_ = opening(n)
    turns = [event for call in "ab" for event in log.turn(call)]
    first = log.condense(turns[:2], "S1", 2)
    log.summary("stored", id=f"{first.id}-summary")
    log.user("x")
    log.condense([f"{first.id}-summary"], "S2", 1)
    return case(log.events, prefixes=True)


@built
def only_results(n):
    log = Log(n)
    ghost = Log(n + 500)
    action = ghost.action("a")
    log.result(action)
    log.error(action)
    log.reject(action)
    return case(log.events, prefixes=True)


@built
def pending_calls_overlap(n):
    log, *_ = opening(n)
    a = log.action("a")
    b = log.action("b")
    log.result(a)
    c = log.action("c")
    log.result(b)
    log.user("while c runs")
    log.result(c)
    log.turn("d")
    log.action("e")
    return case(log.events, prefixes=True)


@built
def environment_messages_and_late_system_prompts(n):
    log = Log(n)
    log.hook()
    log.system()
    log.note("session started")
    log.user(None)
    log.agent("", "r0")
    log.note("corrective")
    log.system()
    log.finish()
    log.failure("MaxIterationsReached", "limit (3)")
    log.user("again")
    log.action("fin2", tool="finish", action=None)
    return case(log.events, prefixes=True)


def forked(n):
    """Returns a log whose branch `a` continues after a turn. The next event begins branch `b` after the same turn."""
    log = Log(n)
    log.parent = "__root__"
    log.system()
    log.user("task")
    log.turn("a1")
    fork = log.parent
    log.turn("a2")
    log.agent("end of a", "ra")
    tip = log.parent
    log.parent = fork
    return log, fork, tip


@built
def branch_leaves_the_other_branch_out(n):
    log, _, tip = forked(n)
    log.user("other way")
    log.turn("b1")
    return case(log.events, leaf=log.parent, prefixes=True), case(log.events, leaf=tip, prefixes=True)


@built
def branch_condensed_on_one_side_only(n):
    log, fork, tip = forked(n)
    log.condense([log.events[2], log.events[3]], "S", 2)
    log.turn("b1")
    side = log.parent
    return case(log.events, leaf=side, prefixes=True), case(log.events, leaf=tip), case(log.events, leaf=fork)


@built
def branch_whose_batch_was_answered_on_the_other(n):
    log = Log(n)
    log.parent = "__root__"
    log.system()
    log.user("task")
    a, b = log.action("a", "r"), log.action("b", "r")
    log.result(a)
    fork = log.parent
    log.result(b)
    tip = log.parent
    log.parent = fork
    log.user("meanwhile")
    return case(log.events, leaf=log.parent, prefixes=True), case(log.events, leaf=tip)


@built
def branch_from_inside_a_thinking_loop(n):
    log = Log(n)
    log.parent = "__root__"
    log.system()
    log.user("task")
    log.turn("t1", thinking="plain")
    fork = log.parent
    log.turn("t2")
    log.parent = fork
    pending = log.action("t3")
    return case(log.events, leaf=pending.id, prefixes=True), case(log.events, leaf=fork)


@built
def state_updates_hang_beside_the_branch(n):
    log = Log(n)
    log.update("hook_config", None)
    log.parent = "__root__"
    log.system()
    log.user("task")
    update = log.update("last_user_message_id", log.parent)
    log.turn("a")
    log.update("stats", {"usage_to_metrics": {}})
    log.finish()
    tip = log.parent
    return case(log.events, leaf=tip, prefixes=True), case(log.events, leaf=update.id)


@built
def head_on_a_condensation_and_on_a_request(n):
    log, _, _ = forked(n)
    request = log.request()
    condensation = log.condense([log.events[3]], "S", 9)
    return case(log.events, leaf=request.id, prefixes=True), case(log.events, leaf=condensation.id, prefixes=True)


@built
def second_root_after_an_empty_head(n):
    log, _, tip = forked(n)
    log.parent = "__root__"
    log.user("from nothing")
    log.turn("z")
    return case(log.events, leaf=log.parent), case(log.events, leaf=tip)


@built
def old_chain_with_a_named_parent_in_it(n):
    log, *_ = opening(n)
    turn = log.turn("a")
    log.user("left out")
    log.user("back", parent_id=turn[1].id)
    log.turn("b")
    return case(log.events, leaf=log.events[-1].id, prefixes=True), case(log.events, leaf=log.events[4].id)


@built
def one_id_at_two_places(n):
    log, system, user = opening(n)
    log.turn("a")
    log.user("same", id=user.id)
    log.turn("b")
    return case(log.events, leaf=log.events[-1].id), case(log.events, leaf=user.id)


@built
def parents_that_are_missing_or_circular(n):
    log, _, tip = forked(n)
    gone = log.user("orphan", parent_id="00000000-0000-4000-8000-00000000dead")
    below = log.user("below", parent_id=gone.id)
    empty = log.user("empty", parent_id="")
    one, two = f"00000000-0000-4000-8{n:03d}-0000000000c1", f"00000000-0000-4000-8{n:03d}-0000000000c2"
    log.user("one", id=one, parent_id=two)
    log.user("two", id=two, parent_id=one)
    into = log.user("into", parent_id=two)
    itself = f"00000000-0000-4000-8{n:03d}-0000000000c3"
    log.user("itself", id=itself, parent_id=itself)
    leaves = [below.id, gone.id, empty.id, one, into.id, itself, "nowhere", tip]
    return tuple(case(log.events, leaf=leaf) for leaf in leaves)


LONG = dict(max_size=10, keep_first=2)


@built
def condenser_thresholds_by_events(n):
    log, *_ = opening(n)
    for number in range(9):
        log.turn(f"c{number}")
    sizes = [240, 21, 20, 19, 16, 12, 10, 9, 8]
    asked = [dict(max_size=size, keep_first=keep) for size in sizes for keep in (0, 1, 2, 3)]
    asked += [dict(max_size=10, keep_first=keep) for keep in (4, 5)] + [dict(max_size=6, keep_first=2), dict(max_size=7, keep_first=1)]
    return case(log.events, condense=asked)


@built
def condenser_asked_for_a_condensation(n):
    log, *_ = opening(n)
    for number in range(7):
        log.turn(f"c{number}")
    log.request()
    asked = [dict(keep_first=keep) for keep in range(9)] + [dict(max_size=12, keep_first=2), dict(max_size=40, keep_first=15)]
    asked += [dict(keep_first=2, summarizer=how) for how in ("fails once", "fails")]
    return case(log.events, condense=asked)


@built
def condenser_asked_on_short_views(n):
    made = []
    for length in range(5):
        log = Log(n * 10 % 900 + length)
        log.system()
        for number in range(length):
            log.user(f"u{number}")
        log.request()
        made.append(case(log.events, condense=[dict(keep_first=keep) for keep in (0, 2)] + [dict(summarizer="fails")]))
    log = Log(n)
    log.request()
    made.append(case(log.events, condense=[dict(keep_first=0), dict(keep_first=2)]))
    return tuple(made)


@built
def condenser_by_tokens(n):
    log, *_ = opening(n)
    for number in range(10):
        log.turn(f"c{number}")
    total = sum(weight(event) for event in log.events)
    asked = [dict(max_tokens=limit) for limit in (total, total - 1, total // 2, total // 4, 40, 10, 1, 0)]
    asked += [dict(limit=limit) for limit in (total + 1, total - 1, 150)]
    asked += [dict(max_tokens=200, limit=120), dict(max_tokens=120, limit=200), dict(max_tokens=150, keep_first=0), dict(max_tokens=150, keep_first=30)]
    asked += [dict(max_tokens=180, max_size=14), dict(max_tokens=30, max_size=20, keep_first=1), dict(max_tokens=150, minimum_progress=0.95)]
    return case(log.events, condense=asked)


@built
def condenser_between_batches(n):
    log, *_ = opening(n)
    for number in range(5):
        batch = [log.action(f"b{number}{k}", f"r{number}") for k in range(3)]
        for action in batch:
            log.result(action)
    asked = [dict(max_size=size, keep_first=keep) for size in (30, 24, 18, 12) for keep in (1, 2, 4)]
    return case(log.events, condense=asked)


@built
def condenser_meets_one_loop_over_everything(n):
    log, *_ = opening(n)
    for number in range(9):
        log.turn(f"t{number}", thinking="plain" if number == 0 else None)
    soft = case(log.events, condense=[dict(**LONG), dict(max_size=12, keep_first=1), dict(**LONG, summarizer="fails")])
    log.request()
    hard = case(log.events, condense=[dict(**LONG), dict(keep_first=2, summarizer="fails once"), dict(keep_first=2, summarizer="fails")])
    return soft, hard


@built
def condenser_too_little_progress(n):
    log, *_ = opening(n)
    for number in range(4):
        log.turn(f"a{number}")
    log.agent("x")
    for number in range(4):
        log.turn(f"t{number}", thinking="plain" if number == 0 else None)
    log.agent("y")
    asked = [dict(max_size=size, keep_first=keep, minimum_progress=p) for size in (18, 16) for keep in (1, 2, 5) for p in (0.05, 0.3, 0.5, 0.9)]
    return case(log.events, condense=asked)


@built
def condenser_and_the_system_prompt(n):
    made = []
    for place in (0, 3, 6):
        log = Log(n * 10 % 900 + place)
        for number in range(place):
            log.note(f"n{number}")
        log.system()
        for number in range(6):
            log.turn(f"c{number}")
        log.request()
        asked = [dict(keep_first=keep) for keep in (0, 2, 5)] + [dict(keep_first=2, summarizer="fails once")]
        made.append(case(log.events, condense=asked))
    log = Log(n)
    for number in range(6):
        log.turn(f"c{number}")
    log.request()
    made.append(case(log.events, condense=[dict(keep_first=keep) for keep in (0, 2)] + [dict(summarizer="fails once")]))
    return tuple(made)


@built
def condenser_over_an_earlier_summary(n):
    log, *_ = opening(n)
    turns = [event for number in range(8) for event in log.turn(f"c{number}")]
    log.condense(turns[:8], "S", 2)
    for number in range(5):
        log.turn(f"d{number}")
    return case(log.events, condense=[dict(max_size=size, keep_first=keep) for size in (18, 14, 10) for keep in (1, 2)])


def scramble(n, seed, branches):
    """Returns a random log of turns, batches, loops, condensations and unknown ids, with branches if `branches`."""
    rng = random.Random(seed)
    log = Log(n)
    if branches:
        log.parent = "__root__"
    log.system()
    log.user("task")
    open_actions = []
    tips = [log.parent]
    for step in range(38):
        roll = rng.random()
        if roll < 0.22:
            open_actions.append(log.action(f"c{rng.randrange(30)}", f"r{rng.randrange(12)}", thinking=rng.choice([None, None, None, "plain"])))
        elif roll < 0.30:
            response = f"batch{step}"
            open_actions += [log.action(f"b{step}{k}", response, thinking="plain" if k == 0 and rng.random() < 0.3 else None) for k in range(rng.randint(2, 4))]
        elif roll < 0.62 and open_actions:
            action = open_actions.pop(rng.randrange(len(open_actions)) if rng.random() < 0.3 else 0)
            rng.choice([log.result, log.result, log.result, log.error, log.reject])(action)
            if rng.random() < 0.12:
                log.result(action, "again")
        elif roll < 0.72:
            pool = [event.id for event in log.events] + [f"{event.id}-summary" for event in log.events if event.kind == "Condensation"]
            start = rng.randrange(len(pool))
            chosen = pool[start : start + rng.randint(0, 9)] if rng.random() < 0.6 else rng.sample(pool, min(len(pool), rng.randint(0, 5)))
            log.condense([*chosen, "nobody"], rng.choice([None, "S", ""]), rng.choice([None, 0, 1, 2, 5, 99]))
        elif roll < 0.86:
            rng.choice([log.user, log.note, log.agent, log.pause, log.hook, log.update, log.request, log.tokens, log.summary, log.failure])()
        elif branches and roll < 0.95:
            tips.append(log.parent)
            log.parent = rng.choice([event.id for event in log.events])
            open_actions = open_actions[:1]
    return log, tips


def random_case(number, branches):
    def make(n):
        log, tips = scramble(n, number, branches)
        if not branches:
            places = [len(log.events) // 3, len(log.events) // 2]
            return case(log.events, reload_after=places, prefixes=True, condense=[dict(**LONG), dict(max_size=14, keep_first=1), dict(max_tokens=120)])
        return tuple(case(log.events, leaf=leaf, prefixes=number % 2 == 0) for leaf in dict.fromkeys([*tips[-3:], log.parent]))

    return make


for number in range(1, 9):
    CASES[f"random-log-{number}"] = random_case(number, False)
for number in range(1, 9):
    CASES[f"random-tree-{number}"] = random_case(100 + number, True)


def main():
    texts = {}
    for path in sorted(HERE.glob("*.json")):
        if int(path.name[:2]) <= 38 and not path.name[2].isdigit():
            texts[path] = given(path)
    for number, (name, make) in enumerate(CASES.items(), 39):
        made = make(number)
        for part, value in enumerate(made if isinstance(made, tuple) else (made,)):
            suffix = chr(ord("a") + part) if isinstance(made, tuple) else ""
            texts[HERE / f"{number:03d}{suffix}-{name}.json"] = write(value)
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
