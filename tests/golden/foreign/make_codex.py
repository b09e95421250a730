"""Writes session files in the form of Codex: of the current version and of versions before September 2025.

The shapes follow the protocol's types in openai/codex; the texts are invented. With --check it
fails if a file would change.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from kept import folder as kept_folder  # noqa: E402

KEPT = pathlib.Path(__file__).parent / "codex"
THREAD = "019c2000-0000-7000-8000-00000000c0de"
clock = [0]


def time():
    clock[0] += 1
    return f"2026-03-04T10:{clock[0] // 60:02}:{clock[0] % 60:02}.250Z"


def line(kind, **payload):
    return {"timestamp": time(), "type": kind, "payload": payload}


def item(kind, **more):
    return line("response_item", type=kind, **more)


def message(role, *texts, **more):
    part = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": part, "text": text} for text in texts], **more)


def event(kind, **more):
    return line("event_msg", type=kind, **more)


def tokens(sent, cached, received, thought):
    total = {"input_tokens": sent, "cached_input_tokens": cached, "output_tokens": received, "reasoning_output_tokens": thought, "total_tokens": sent + received}
    return event("token_count", info={"total_token_usage": total, "last_token_usage": total, "model_context_window": 258400}, rate_limits=None)


def main():
    meta = dict(
        id=THREAD,
        timestamp="2026-03-04T10:00:00.000Z",
        cwd="/home/ada/engine",
        originator="codex-tui",
        cli_version="0.144.4",
        source={"subagent": {"thread_spawn": {"parent_thread_id": "019c2000-0000-7000-8000-0000000000aa", "depth": 1}}},
        forked_from_id="019c2000-0000-7000-8000-0000000000bb",
        model_provider="openai",
        base_instructions={"text": "You are Codex."},
    )
    lines = [
        line("session_meta", **meta),
        message("developer", "<permissions instructions>read only</permissions instructions>"),
        message("user", "<environment_context>\n  <cwd>/home/ada/engine</cwd>\n</environment_context>"),
        line("world_state", full=True, state={"agents_md": {}}),
        line("turn_context", turn_id="t1", cwd="/home/ada/engine", approval_policy="on-request", model="gpt-5.6-sol", summary="auto"),
        item("message", role="user", content=[{"type": "input_text", "text": "Why does the mill stop?"}, {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]),
        event("user_message", message="Why does the mill stop?", images=[], local_images=[]),
        event("agent_reasoning", text="**Reading**"),
        item("reasoning", id="rs_1", summary=[{"type": "summary_text", "text": "**Reading**"}], content=None, encrypted_content="gAAAA"),
        message("assistant", "I look at it.", id="msg_1", phase="commentary"),
        # Two calls of one reply, followed by their answers.
        item("function_call", id="fc_1", name="exec_command", arguments='{"cmd":"cat mill.py","workdir":"/home/ada/engine"}', call_id="call_1"),
        item("function_call", name="shell", arguments='{"command":["bash","-lc","ls"],"workdir":"/home/ada/engine"}', call_id="call_2"),
        item("function_call_output", call_id="call_1", output="Process exited with code 0\nOutput:\nraise SystemExit\n"),
        item("function_call_output", call_id="call_2", output='{"output":"mill.py\\n","metadata":{"exit_code":0,"duration_seconds":0.1}}'),
        tokens(1000, 400, 50, 20),
        tokens(1000, 400, 50, 20),
        item("custom_tool_call", status="completed", call_id="call_3", name="apply_patch", input="*** Begin Patch\n*** Update File: mill.py\n-raise SystemExit\n+return 1\n*** End Patch"),
        event("patch_apply_end", call_id="call_3", success=True, changes={"mill.py": {"type": "update", "unified_diff": "@@"}}),
        item("custom_tool_call_output", call_id="call_3", output=[{"type": "input_text", "text": "Done."}]),
        item("local_shell_call", id="lsh_1", call_id="call_4", status="completed", action={"type": "exec", "command": ["pwd"], "timeout_ms": None}),
        item("function_call_output", call_id="call_4", output={"content": "denied", "success": False}),
        item("web_search_call", status="completed", action={"type": "search", "query": "mills"}),
        message("assistant", "It raised SystemExit; now it returns.", phase="final_answer"),
        event("agent_message", message="It raised SystemExit; now it returns."),
        tokens(2500, 1400, 120, 30),
        event("task_complete", turn_id="t1"),
        message("user", "Now rewrite it in COBOL."),
        message("assistant", "IDENTIFICATION DIVISION."),
        # The user takes back the last turn.
        event("thread_rolled_back", num_turns=1),
        message("user", "Now document it."),
        message("assistant", "Documented."),
        event("thread_name_updated", thread_id=THREAD, thread_name="The mill"),
        # The history is replaced by a shorter one.
        line("compacted", message="", replacement_history=[
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Why does the mill stop?"}]},
            {"type": "compaction", "encrypted_content": "gAAAB"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Now document it."}]},
        ]),
        event("context_compacted"),
        message("user", "Is it done?"),
        message("assistant", "It is."),
        item("function_call_output", call_id="call_99", output="lost"),
        item("from_the_future", id="x", value=1.50),
        line("from_the_future", value=None),
    ]
    folder = ROOT / "2026" / "03" / "04"
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / f"rollout-2026-03-04T10-00-00-{THREAD}.jsonl", lines)
    old()


def old():
    """Writes a session of an old version, whose lines are the items themselves."""
    thread = "5973b6c0-94b8-487b-a530-2aeb6098ae0e"
    lines = [
        {"id": thread, "timestamp": "2025-05-07T17:24:21.123Z", "instructions": None, "git": {"branch": "main"}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List the files."}]},
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {"type": "function_call", "id": "fc_2", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "call_5"},
        {"type": "function_call_output", "call_id": "call_5", "output": "mill.py\n"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One file."}]},
    ]
    folder = ROOT / "2025" / "05" / "07"
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / f"rollout-2025-05-07T17-24-21-{thread}.jsonl", lines)


def write(path, records):
    path.write_text("".join(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n" for record in records), encoding="utf-8")


with kept_folder(KEPT) as ROOT:
    main()
