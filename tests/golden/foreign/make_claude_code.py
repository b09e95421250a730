"""Writes session files in the form of Claude Code, with everything that the importer has to distinguish.

The shapes follow session files of versions 1.0 to 2.1; the texts are invented. With --check it
fails if a file would change.
"""
import json
import pathlib
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from kept import folder as kept_folder  # noqa: E402

KEPT = pathlib.Path(__file__).parent / "claude-code" / "-home-ada-engine"
SESSION = "5c0f7b52-1f0e-4b0a-9d55-0c6f4d2f1a01"
clock = [0]


def uid(name):
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "claude-code/" + name))


def time():
    clock[0] += 1
    return f"2026-02-03T09:{clock[0] // 60:02}:{clock[0] % 60:02}.125Z"


def envelope(name, parent, session=SESSION, side=False, **more):
    return {
        "parentUuid": uid(parent) if parent else None,
        "isSidechain": side,
        "userType": "external",
        "cwd": "/home/ada/engine",
        "sessionId": session,
        "version": "2.1.34",
        "gitBranch": "main",
        **more,
        "uuid": uid(name),
        "timestamp": time(),
    }


def user(name, parent, content, **more):
    return envelope(name, parent, type="user", message={"role": "user", "content": content}, **more)


def assistant(name, parent, reply, blocks, output=1, **more):
    usage = {
        "input_tokens": 4,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 2000,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 100},
        "output_tokens": output,
        "service_tier": "standard",
    }
    message = {
        "model": more.pop("model", "claude-opus-4-6"),
        "id": reply,
        "type": "message",
        "role": "assistant",
        "content": blocks,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return envelope(name, parent, message=message, requestId="req_" + reply, type="assistant", **more)


def text(words):
    return {"type": "text", "text": words}


def call(id, name, **given):
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def result(id, content, error=None):
    block = {"tool_use_id": id, "type": "tool_result", "content": content}
    if error is not None:
        block["is_error"] = error
    return block


def main():
    lines = [
        {"type": "summary", "summary": "Of another session", "leafUuid": uid("elsewhere")},
        {
            "type": "file-history-snapshot",
            "messageId": uid("u1"),
            "snapshot": {"messageId": uid("u1"), "trackedFileBackups": {}, "timestamp": "2026-02-03T09:00:00.000Z"},
            "isSnapshotUpdate": False,
        },
        envelope("p0", None, type="progress", data={"type": "hook_progress", "hookEvent": "SessionStart"}),
        user("u1", "p0", "Why does the mill stop?\nSee /home/ada/engine/mill.py \u2014 \U0001F680", todos=[]),
        # One reply with one block per line. Its token counts grow.
        assistant("a1", "u1", "msg_01", [{"type": "thinking", "thinking": "Read it first.", "signature": "c2ln"}]),
        assistant("a2", "a1", "msg_01", [text("Let me look.")]),
        assistant("a3", "a2", "msg_01", [call("toolu_01", "Read", file_path="/home/ada/engine/mill.py")], 40),
        envelope("p1", "a3", type="progress", data={"type": "hook_progress", "hookEvent": "PreToolUse"}),
        user(
            "r1",
            "a3",
            [result("toolu_01", "     1\u2192def mill():\n     2\u2192    raise SystemExit\n")],
            toolUseResult={"type": "text", "file": {"filePath": "/home/ada/engine/mill.py", "numLines": 2}},
            sourceToolAssistantUUID=uid("a3"),
        ),
        # Two parallel calls of one reply. The parent of each answer is its own call.
        assistant("b1", "r1", "msg_02", [call("toolu_02", "Bash", command="python mill.py", description="Run it")]),
        assistant("b2", "b1", "msg_02", [call("toolu_03", "Grep", pattern="SystemExit", path="/home/ada/engine")], 60),
        user("r2", "b1", [result("toolu_02", "Exit code 1\nstopped", True)], toolUseResult="Error: Exit code 1\nstopped"),
        user(
            "r3",
            "b2",
            [result("toolu_03", [text("mill.py:2"), {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}])],
            toolUseResult={"mode": "files_with_matches"},
        ),
        # The user rejects a call.
        assistant("c1", "r3", "msg_03", [call("toolu_04", "Edit", file_path="/home/ada/engine/mill.py", old_string="raise SystemExit", new_string="return 1")], 80),
        user(
            "r4",
            "c1",
            [result("toolu_04", "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed.", True)],
            toolUseResult="User rejected tool use",
        ),
        user("i1", "r4", [text("[Request interrupted by user for tool use]")]),
        {"type": "queue-operation", "operation": "enqueue", "content": "Just explain it", "timestamp": time(), "sessionId": SESSION},
        user("m1", "i1", "<local-command-caveat>Caveat: made by local commands.</local-command-caveat>", isMeta=True),
        user("u2", "m1", [text("Just explain it"), {"type": "image", "source": {"type": "url", "url": "https://example.org/mill.png"}}]),
        assistant("d1", "u2", "msg_04", [text("It raises SystemExit on purpose.")], 12),
        envelope("s1", "d1", type="system", subtype="turn_duration", durationMs=5000, isMeta=False),
        # The user goes back and asks again, which starts another branch.
        user("u3", "r3", "Then fix it."),
        # Older versions wrote all blocks of a reply on one line, and the cost beside it.
        assistant(
            "e1",
            "u3",
            "msg_05",
            [text("I fix both."), call("toolu_05", "Edit", file_path="/home/ada/engine/mill.py", old_string="raise SystemExit", new_string="return 1"), call("toolu_06", "Write", file_path="/home/ada/engine/NOTES.md", content="fixed")],
            90,
            costUSD=0.0125,
        ),
        user("r5", "e1", [result("toolu_05", "The file has been updated."), result("toolu_06", "File created."), text("<system-reminder>Mind the budget.</system-reminder>")]),
        # A sub-agent within the file, as versions before 2.1 wrote it.
        user("x1", None, "Count the lines.", side=True),
        assistant("x2", "x1", "msg_06", [text("Two.")], 3, side=True),
        # The conversation is compacted. Later replies see only the summary.
        envelope("k1", None, type="system", subtype="compact_boundary", logicalParentUuid=uid("r5"), content="Conversation compacted", compactMetadata={"trigger": "auto", "preTokens": 155000}),
        user("k2", "k1", "This session is being continued from a previous conversation. The mill was mended.", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        user("u4", "k2", "Thank you. Anything else?"),
        assistant("f0", "u4", "err_1", [text("API Error: 529 overloaded")], 0, model="<synthetic>", isApiErrorMessage=True),
        assistant("f1", "f0", "msg_07", [{"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "mills"}}, text("No, all is well.")], 7),
        {"type": "custom-title", "customTitle": "The mill", "sessionId": SESSION},
        {"type": "ai-title", "aiTitle": "Mend a mill", "sessionId": SESSION},
        {"type": "from-the-future", "payload": [1, 2.50, {"a": None}], "sessionId": SESSION},
        # An answer to a call that is not in the file, and a message whose parent is not in the file.
        user("z1", "f1", [result("toolu_99", "lost")]),
        user("z2", "gone", "Still there?"),
        assistant("z3", "z2", "msg_08", [text("Yes.")], 2),
    ]
    ROOT.mkdir(parents=True, exist_ok=True)
    write(ROOT / f"{SESSION}.jsonl", lines)
    beside = ROOT / SESSION
    (beside / "tool-results").mkdir(parents=True, exist_ok=True)
    (beside / "subagents").mkdir(exist_ok=True)
    (beside / "tool-results" / "toolu_03.txt").write_text("mill.py:2\n" * 3)
    (beside / "tool-results" / "list.json").write_text('[{"type": "text", "text": "looks like events, is none"}]')
    (beside / "subagents" / "agent-a17.meta.json").write_text('{"agentType": "Explore"}')
    agent = [
        user("g1", None, "Find every mill.", side=True),
        assistant("g2", "g1", "msg_20", [call("toolu_20", "Glob", pattern="**/mill*")], 5, side=True),
        user("g3", "g2", [result("toolu_20", "mill.py")]),
        assistant("g4", "g3", "msg_21", [text("There is one.")], 6, side=True),
    ]
    for line in agent:
        line["agentId"] = "a17"
        line["isSidechain"] = True
    write(beside / "subagents" / "agent-a17.jsonl", agent)
    damaged()


def damaged():
    """Writes lines with the damage that an editor, a crash or another system causes."""
    session = "0d4e8a70-9d1b-4a55-8a39-5f5b2f1c7b02"
    one = envelope("v1", None, session=session, type="user", message={"role": "user", "content": "Begin."})
    two = envelope("v2", "v1", session=session, type="assistant", message={"model": "claude-opus-4-6", "id": "msg_30", "role": "assistant", "content": [text("Done.")], "usage": None})
    deep = "[" * 300 + "]" * 300
    content = "\ufeff".encode()
    content += dump(one).encode() + b"\r\n"
    content += b"\r\n \t\r\n"
    content += b"this is no JSON\n"
    content += b'{"type":"user","message":' + b"\xff\xfe" + b"}\n"
    content += b"[1, 2]\n"
    content += b'  {"type":"user","uuid":7,"message":"no object"}  \n'
    content += b'{"type":"progress","deep":' + deep.encode() + b"}\n"
    content += b'{"type":"assistant","type":"user","uuid":"twice","uuid":"twice","message":{"role":"user","content":null},"n":NaN}\n'
    content += dump(one).encode() + b"\n"
    content += dump(two).encode() + b"\n\n\n"
    content += b'{"parentUuid":"' + uid("v2").encode() + b'","type":"user","mess'
    (ROOT / f"{session}.jsonl").write_bytes(content)


def dump(record):
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def write(path, records):
    path.write_text("".join(dump(record) + "\n" for record in records), encoding="utf-8")


with kept_folder(KEPT) as ROOT:
    main()
