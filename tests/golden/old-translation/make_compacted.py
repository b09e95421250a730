"""Writes sessions with compactions, which newer versions of the importer translate in another way, and their first parts.

    python tests/golden/old-translation/make_compacted.py FOLDER

`compacted.db.zst` is what commit b000acb1 imported from FOLDER, compressed with zstd. It is never made again: today's importer
would make another one. The whole sessions are beside this file.
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
BEFORE = pathlib.Path(sys.argv[1])
SESSION = "00000000-0000-4000-8000-0000000000a2"
THREAD = "019b0000-0000-7000-8000-0000000000b2"


def claude():
    lines, parent = [], None

    def add(kind, **members):
        nonlocal parent
        uuid = f"00000000-0000-4000-8000-{len(lines) + 1:012}"
        envelope = {"parentUuid": parent, "isSidechain": False, "cwd": "/w/mill", "sessionId": SESSION, "version": "2.1.270"}
        lines.append(envelope | {"type": kind, "uuid": uuid, "timestamp": f"2026-09-14T15:00:{len(lines):02}.000Z"} | members)
        parent = uuid
        return lines[-1]

    def said(text):
        message = {"id": f"msg_{len(lines)}", "role": "assistant", "model": "claude-haiku-4-5", "content": [{"type": "text", "text": text}],
                   "usage": {"input_tokens": 10, "output_tokens": 5}}
        return add("assistant", message=message, requestId=f"req_{len(lines)}")

    def compact():
        before = parent
        add("system", subtype="compact_boundary", content="Conversation compacted", logicalParentUuid=before, parentUuid=None)
        add("user", message={"role": "user", "content": "What was said so far."}, isCompactSummary=True)

    add("user", message={"role": "user", "content": "one"})
    again = said("first")
    compact()
    lines.append(again)
    add("user", message={"role": "user", "content": "two"})
    said("second")
    cut = len(lines)
    add("user", message={"role": "user", "content": "three"})
    said("third")
    compact()
    add("user", message={"role": "user", "content": "four"})
    said("fourth")
    return lines, cut


def codex():
    lines = []

    def add(kind, **payload):
        lines.append({"timestamp": f"2026-08-01T10:00:{len(lines):02}.000Z", "type": kind, "payload": payload})

    def item(role, text):
        kind = "input_text" if role == "user" else "output_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    add("session_meta", id=THREAD, cwd="/w/mill")
    add("turn_context", model="gpt-5")
    add("response_item", **item("user", "one"))
    add("response_item", **item("assistant", "first"))
    add("compacted", message="", replacement_history=[item("user", "one"), item("user", "What was said so far.")])
    add("response_item", **item("user", "two"))
    cut = len(lines)
    add("response_item", **item("assistant", "second"))
    add("compacted", message="", replacement_history=[item("user", "two"), item("user", "All that was said so far.")])
    add("response_item", **item("user", "three"))
    add("response_item", **item("assistant", "third"))
    return lines, cut


for name, (lines, cut) in [(f"{SESSION}.jsonl", claude()), (f"rollout-2026-08-01T10-00-00-{THREAD}.jsonl", codex())]:
    text = [json.dumps(line, separators=(",", ":")) + "\n" for line in lines]
    (HERE / name).write_text("".join(text))
    (BEFORE / name).write_text("".join(text[:cut]))
