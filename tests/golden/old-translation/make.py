"""Writes sessions whose records newer versions of the importer translate in another way, and their first parts.

    python tests/golden/old-translation/make.py FOLDER

`before.db.zst` is what commit ee546554 imported from FOLDER, compressed with zstd. It is never made again: today's importer
would make another one. The whole sessions are beside this file.
"""

import json
import pathlib
import sqlite3
import sys

HERE = pathlib.Path(__file__).parent
BEFORE = pathlib.Path(sys.argv[1])
SESSION = "00000000-0000-4000-8000-0000000000a1"
THREAD = "019b0000-0000-7000-8000-0000000000b1"


def claude():
    lines, parent = [], None

    def add(kind, **members):
        nonlocal parent
        uuid = f"00000000-0000-4000-8000-{len(lines) + 1:012}"
        envelope = {"parentUuid": parent, "isSidechain": False, "cwd": "/w/mill", "sessionId": SESSION, "version": "2.1.270"}
        lines.append(envelope | {"type": kind, "uuid": uuid, "timestamp": f"2026-09-14T15:00:{len(lines):02}.000Z"} | members)
        parent = uuid

    def said(text, **members):
        message = {"id": f"msg_{len(lines)}", "role": "assistant", "model": "claude-haiku-4-5", "content": text}
        usage = {"input_tokens": 10, "cache_creation_input_tokens": 1000, "cache_read_input_tokens": 0, "output_tokens": 5,
                 "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 1000}}
        add("assistant", message=message | {"usage": usage} | members)

    add("user", message={"role": "user", "content": "mend the mill"})
    said([{"type": "tool_use", "id": "tu1", "name": "Bash", "input": {"command": "make"}}])
    add("user", message={"role": "user", "content": [{"type": "tool_result", "tool_use_id": "tu1", "content": "Exit code 2\nno wheel", "is_error": True}]})
    add("attachment", attachment={"type": "queued_command", "prompt": "use oak", "commandMode": "prompt"})
    said([{"type": "tool_use", "id": "tu2", "name": "Bash", "input": {"command": "make oak"}}])
    interrupted = "[Request interrupted by user for tool use]"
    add("user", message={"role": "user", "content": [{"type": "tool_result", "tool_use_id": "tu2", "content": interrupted, "is_error": True}]},
        toolUseResult=interrupted, toolDenialKind="interrupted")
    add("user", message={"role": "user", "content": [{"type": "text", "text": interrupted}]})
    add("user", message={"role": "user", "content": "go on"})
    add("system", subtype="api_error", level="error", error={"status": 529, "message": "overloaded"}, retryAttempt=1)
    add("assistant", message={"id": "err", "role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error: 529 overloaded"}]},
        isApiErrorMessage=True)
    add("user", message={"role": "user", "content": "and now"}, isMeta=True)
    add("assistant", message={"id": "none", "role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": "No response requested."}]})
    cut = len(lines)
    add("user", message={"role": "user", "content": "is it done"})
    said([{"type": "text", "text": "The mill turns."}])
    return lines, cut


def codex():
    lines = []

    def add(kind, **payload):
        lines.append({"timestamp": f"2026-08-01T10:00:{len(lines):02}.000Z", "type": kind, "payload": payload})

    def tokens(total, last):
        usage = lambda sent: {"input_tokens": sent, "cached_input_tokens": 0, "output_tokens": 10}
        add("event_msg", type="token_count", info={"total_token_usage": usage(total), "last_token_usage": usage(last)})

    add("session_meta", id=THREAD, cwd="/w/mill", originator="codex_cli_rs", cli_version="0.147.0")
    add("turn_context", cwd="/w/mill", model="gpt-5.6-sol")
    add("response_item", type="message", role="user", content=[{"type": "input_text", "text": "mend the mill"}])
    add("response_item", type="function_call", name="exec_command", arguments='{"cmd": "make"}', call_id="c1")
    add("response_item", type="function_call_output", call_id="c1", output="Wall time: 1 seconds\nProcess exited with code 2\nOutput:\nno wheel")
    tokens(500, 300)
    add("event_msg", type="error", message="429 Too Many Requests", codex_error_info={"response_too_many_failed_attempts": {"http_status_code": 429}})
    add("response_item", type="message", role="user", content=[{"type": "input_text", "text": "again"}])
    add("event_msg", type="turn_aborted", reason="interrupted")
    cut = len(lines)
    add("response_item", type="message", role="user", content=[{"type": "input_text", "text": "is it done"}])
    add("response_item", type="message", role="assistant", content=[{"type": "output_text", "text": "The mill turns."}])
    tokens(900, 400)
    return lines, cut


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


for name, (lines, cut) in {f"{SESSION}.jsonl": claude(), f"rollout-2026-08-01T10-00-00-{THREAD}.jsonl": codex()}.items():
    write(HERE / name, lines)
    write(BEFORE / name, lines[:cut])
before = sqlite3.connect(BEFORE / "threads.sqlite")
sqlite3.connect(HERE.parent / "langgraph-delta/threads.sqlite").backup(before)
last = before.execute("SELECT checkpoint_id FROM checkpoints WHERE thread_id = 'steps' ORDER BY 1 LIMIT 1 OFFSET 7").fetchone()
for table in ("checkpoints", "writes"):
    before.execute(f"DELETE FROM {table} WHERE thread_id <> 'steps' OR checkpoint_id > ?", last)
before.commit()
