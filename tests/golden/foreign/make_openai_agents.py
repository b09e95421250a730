"""Makes a session file with the OpenAI Agents SDK itself: plain sessions and one with branches.

pip install openai-agents (made with 0.24.0). Run it in this folder.
"""
import asyncio
import pathlib
import sqlite3

from agents.extensions.memory import AdvancedSQLiteSession
from agents.memory import SQLiteSession

PATH = pathlib.Path(__file__).parent / "openai-agents" / "sessions.db"

TURN = [
    {"role": "user", "content": "Why does the mill stop?"},
    {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Look."}], "encrypted_content": "gAAAA"},
    {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "read", "arguments": '{"path": "mill.py"}', "status": "completed"},
    {"type": "function_call_output", "call_id": "call_1", "output": "raise SystemExit"},
    {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "It raises SystemExit.", "annotations": []}]},
]


async def main():
    PATH.parent.mkdir(exist_ok=True)
    for stale in PATH.parent.glob("sessions*"):
        stale.unlink()
    plain = SQLiteSession("mill", PATH)
    await plain.add_items(TURN)
    await plain.add_items([
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "And this?"}, {"type": "input_image", "image_url": "https://example.org/mill.png", "detail": "auto"}]},
        {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "mills"}},
        {"type": "function_call_output", "call_id": "call_99", "output": "lost"},
    ])
    plain.close()
    branched = AdvancedSQLiteSession(session_id="branched", db_path=PATH, create_tables=True)
    await branched.add_items([{"role": "user", "content": "One?"}, {"role": "assistant", "content": "One."}])
    await branched.add_items([{"role": "user", "content": "Two?"}, {"role": "assistant", "content": "Two."}])
    await branched.create_branch_from_turn(2, "other")
    await branched.add_items([{"role": "user", "content": "Three?"}, {"role": "assistant", "content": "Three."}])
    branched.close()
    db = sqlite3.connect(PATH)
    # A damaged row: its JSON is incomplete.
    db.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('mill', '{\"role\": \"user\", \"cont')")
    db.execute("UPDATE agent_messages SET created_at = '2026-04-05 11:00:' || printf('%02d', id)")
    db.execute("UPDATE agent_sessions SET created_at = '2026-04-05 11:00:00', updated_at = '2026-04-05 11:30:00'")
    db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.execute("PRAGMA journal_mode=DELETE")
    db.close()


asyncio.run(main())
