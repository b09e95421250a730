"""A hostile transcript: the events of the goldens, and kinds that they lack, with every text in them replaced."""

import base64
import copy
import itertools
import json
import uuid

from stage import GOLDENS

RUN = "window.__ran = (window.__ran || 0) + 1"
PIXEL = "https://pixel.invalid/p.png"
SVG = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{RUN}"><script>{RUN}</script></svg>'

TEXTS = [
    f"<script>{RUN}</script><img src=x onerror=\"{RUN}\"><svg/onload='{RUN}'><details open ontoggle={RUN}>",
    f"[a link](javascript:{RUN}) <javascript:{RUN}> [data](data:text/html,<script>{RUN}</script>) [v](vbscript:x)\n\n[ref]\n\n[ref]: javascript:{RUN}",
    f"![a picture]({PIXEL}) <img src={PIXEL}> [![both]({PIXEL})]({PIXEL}) <link rel=stylesheet href={PIXEL}>",
    f"</textarea></style></title></script><style>*{{display:none}}</style><base href={PIXEL}><meta http-equiv=refresh content='0;url={PIXEL}'>"
    f"<iframe srcdoc='<script>{RUN}</script>'></iframe><form action={PIXEL}><button id=main>",
    f"\x1b[31mred\x1b[0m \x1b]8;;javascript:{RUN}\x07a link\x1b]8;;\x07 \x1b]0;title\x07 \x1b[2J\x1b[9999999;9999999H \x1b[38;2;999;-1;x;mcolour \x1b[",
    "nul \x00 bell \x07 back \x08\x08\x08 delete \x7f csi \x9b31m return \r\r over \ufeff\ufffe\uffff line \u2028 paragraph \u2029",
    "\u202eeverything is turned\u202c \u2066isolated \u2069\u2069\u2069 \u200f\u061c \u0627\u0644\u0633\u0644\u0627\u0645 \u05e9\u05dc\u05d5\u05dd " + "Z\u0351\u0300\u0301\u0302\u0303" * 300,
    "x" * 20_000,
    "> " * 3000 + "deep\n\n" + "- " * 500 + "list\n\n" + "[" * 5000 + "(" * 5000 + "*" * 5000 + "`" * 4999,
    "|a" * 1500 + "|\n" + "|-" * 1500 + "|\n" + "|b" * 1500 + "|\n" + "\n" * 20_000,
    "__proto__", "constructor", "toString", "",
    "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,99999999 +1 @@\n+<b>x</b>\n" + "+y\n-z\n" * 4000,
]

# A line that is longer than any screen.
HUGE = "y" * 1_000_000

# The fields that decide how an event is read. All other fields get hostile texts.
STRUCTURE = {
    "id", "kind", "source", "parent_id", "timestamp", "action_id", "tool_call_id", "llm_response_id", "type", "role",
    "hook_event_type", "security_risk", "origin", "forgotten_event_ids", "risks", "sequence",
}


def poisoned(value, texts):
    """Returns `value` with every text in it replaced by the next of `texts`."""
    if isinstance(value, str):
        return next(texts)
    if isinstance(value, list):
        return [poisoned(one, texts) for one in value]
    if isinstance(value, dict):
        # In fields that it sorts by, the store accepts no NUL and at most 1,024 bytes.
        clean = (text.replace("\0", "").encode()[:1024].decode(errors="ignore") for text in texts)
        return {name: one if name in STRUCTURE else poisoned(one, clean if name == "tool_name" else texts) for name, one in value.items()}
    return value


def patterns():
    """Returns an event of each kind, and an action and observation of each tool, and an event with hostile pictures."""
    found = {}
    for path in sorted(GOLDENS.glob("*/events/event-*.json")):
        event = json.loads(path.read_text())
        part = event.get("action") or event.get("observation") or {}
        found.setdefault((event["kind"], part.get("kind"), part.get("command") if event.get("tool_name") == "file_editor" else None), event)
    base = {"timestamp": "2026-01-01T00:00:00", "source": "environment"}
    more = [
        {"kind": "PauseEvent", "source": "user"}, {"kind": "InterruptEvent", "reason": "t", "detail": "t"},
        {"kind": "ConversationErrorEvent", "code": "t", "detail": "t"}, {"kind": "ServerErrorEvent", "code": "t", "detail": "t"},
        {"kind": "CondensationSummaryEvent", "summary": "t"}, {"kind": "TokenEvent", "prompt_token_ids": [1], "response_token_ids": [2]},
        {"kind": "StreamingDeltaEvent", "content": "t", "reasoning_content": "t"},
        {"kind": "ACPToolCallEvent", "tool_call_id": "c", "title": "t", "tool_kind": "t", "status": "t", "raw_input": {"a": "t"}, "raw_output": "t", "content": ["t"]},
        {"kind": "NobodyKnowsEvent", "what": "t", "more": {"deep": ["t", {"er": "t"}]}},
        {"kind": "__proto__", "what": "t"}, {"kind": "constructor"}, {"kind": TEXTS[0], "what": "t"},
        # Values of unexpected types.
        {"kind": "MessageEvent", "source": "user", "llm_message": {"role": "user", "content": "t"}},
        {"kind": "MessageEvent", "source": "agent", "llm_message": {"role": "assistant", "content": None}},
        {"kind": "ActionEvent", "source": "agent", "tool_name": None, "action": 7, "thought": "t", "tool_call": []},
        {"kind": "ObservationEvent", "tool_name": "terminal", "observation": {"kind": "TerminalObservation", "content": [None, 3], "exit_code": "t", "metadata": 9}},
        {"kind": "ObservationEvent", "tool_name": "task_tracker", "observation": {"kind": "TaskTrackerObservation", "task_list": {"a": 1}, "content": {}}},
        {"kind": "Condensation", "forgotten_event_ids": "t", "summary": 5}, {"kind": "HookExecutionEvent", "exit_code": 1e308, "stdout": 4},
    ]
    pictures = ["javascript:" + RUN, PIXEL, "data:image/svg+xml," + SVG, "data:text/html," + SVG, "data:image/png;base64,AAAA",
                "data:image/svg+xml;base64," + base64.b64encode(SVG.encode()).decode()]
    shown = {"kind": "MessageEvent", "source": "user", "llm_message": {"role": "user", "content": [{"type": "image", "image_urls": pictures}]}}
    return [*found.values(), *({**base, **event} for event in more)], {**base, **shown}


def transcript():
    """Returns two events per pattern with `TEXTS` in turn, and some with a huge line. Ids and parents form a log."""
    each, shown = patterns()
    events, ring = [], itertools.cycle(TEXTS)
    for turn in range(2):
        for pattern in each:
            # Texts are skipped, so that the fields of a pattern get other texts in the second turn.
            events.append(poisoned(copy.deepcopy(pattern), itertools.islice(ring, turn + 1, None)))
    events.append(shown)
    for pattern in each:
        if pattern["kind"] in ("MessageEvent", "ActionEvent", "ObservationEvent", "AgentErrorEvent"):
            events.append(poisoned(copy.deepcopy(pattern), itertools.chain([HUGE], ring)))
    names = {}
    for event in events:
        before = event.get("id")
        event["id"] = str(uuid.uuid4())
        names[before] = event["id"]
        event["parent_id"] = None
    for before, event in itertools.pairwise(events):
        event["parent_id"] = before["id"]
    for event in events:
        if event.get("action_id") and event["action_id"] in names:
            event["action_id"] = names[event["action_id"]]
    events[0]["timestamp"] = "yesterday"
    return events
