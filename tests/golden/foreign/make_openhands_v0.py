"""Writes a trajectory and a session in the form of OpenHands V0 (0.48, July 2025).

The shapes follow `openhands/events/serialization` and `openhands/storage`; the texts are invented. With --check it
fails if a file would change.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from kept import folder as kept_folder  # noqa: E402

KEPT = pathlib.Path(__file__).parent / "openhands-v0"
SESSION = "7d1a0c5e9b6f4f0f8a3e2b1c0d9e8f70"
count = [0]


def event(**members):
    number = count[0]
    count[0] += 1
    return {"id": number, "timestamp": f"2025-07-09T13:{number // 60:02}:{number % 60:02}.250000", **members}


def reply(name, call, arguments, content, number):
    """Returns the part of the model's reply that the event store keeps."""
    made = {"function": {"arguments": json.dumps(arguments), "name": name}, "id": call, "type": "function"}
    message = {"content": content, "role": "assistant", "tool_calls": [made], "function_call": None}
    return {
        "function_name": name,
        "tool_call_id": call,
        "model_response": {
            "id": f"chatcmpl-{number}",
            "created": 1752068000 + number,
            "model": "claude-3-7-sonnet-20250219",
            "object": "chat.completion",
            "choices": [{"finish_reason": "tool_calls", "index": 0, "message": message}],
            "usage": {"completion_tokens": 20 + number, "prompt_tokens": 300 + number, "total_tokens": 320 + 2 * number},
        },
        "total_calls_in_response": 1,
    }


def action(name, source, message, args, **more):
    return event(source=source, message=message, action=name, **more, args=args)


def observation(name, message, content, extras, **more):
    source = "agent" if "cause" in more else "environment"
    return event(source=source, message=message, **more, observation=name, content=content, extras=extras)


def called(name, tool, call, arguments, thought, args):
    """Returns an action of the model, and the metadata that its observation repeats."""
    metadata = reply(tool, call, arguments, thought, count[0])
    acted = action(name, "agent", "", {**args, "thought": thought}, tool_call_metadata=metadata)
    return acted, metadata


def state(word):
    return observation("agent_state_changed", "", "", {"agent_state": word, "reason": ""})


def events():
    count[0] = 0
    tool = {"type": "function", "function": {"name": "execute_bash", "description": "Runs a command.", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}
    yield action("system", "agent", "You tend a mill.", {"content": "You tend a mill.", "tools": [tool], "openhands_version": "0.48.0", "agent_class": "CodeActAgent"})
    yield action("message", "user", "Is the mill running?", {"content": "Is the mill running?", "file_urls": None, "image_urls": ["data:image/png;base64,iVBORw0KGgo="], "wait_for_response": False})
    yield action("recall", "user", "Retrieving content for: Is the mill running?", {"recall_type": "workspace_context", "query": "Is the mill running?", "thought": ""})
    yield observation("recall", "Added workspace context", "Added workspace context", {"recall_type": "workspace_context", "repo_name": "", "microagent_knowledge": []}, cause=2)
    yield state("running")
    # A command with its result.
    acted, metadata = called("run", "execute_bash", "toolu_1", {"command": "systemctl status mill"}, "I look.", {"command": "systemctl status mill", "is_input": False, "blocking": False, "hidden": False, "confirmation_state": "confirmed", "security_risk": -1})
    yield acted
    yield observation("run", "Command executed.", "active (running)", {"command": "systemctl status mill", "metadata": {"exit_code": 0, "pid": -1, "username": "ada", "hostname": "engine", "working_dir": "/mill", "py_interpreter_path": None, "prefix": "", "suffix": "\n[The command completed with exit code 0.]"}, "hidden": False}, cause=acted["id"], tool_call_metadata=metadata, success=True)
    # An edit that fails.
    acted, metadata = called("edit", "str_replace_editor", "toolu_2", {"command": "create", "path": "/mill/log", "file_text": "fine"}, "", {"path": "/mill/log", "command": "create", "file_text": "fine", "security_risk": 1})
    yield acted
    yield observation("error", "no such folder", "no such folder", {"error_id": ""}, cause=acted["id"], tool_call_metadata=metadata)
    # A command that the user rejects.
    acted, metadata = called("run", "execute_bash", "toolu_3", {"command": "rm -r /mill"}, "I clear up.", {"command": "rm -r /mill", "is_input": False, "confirmation_state": "awaiting_confirmation", "security_risk": 2})
    yield acted
    yield state("awaiting_user_confirmation")
    yield state("user_rejected")
    yield observation("user_rejected", "Action rejected", "Leave it alone.", {}, cause=acted["id"], tool_call_metadata=metadata)
    # An error that belongs to no call. The model reads it.
    yield event(source="agent", message="No such tool.", observation="error", content="No such tool.", extras={"error_id": ""})
    # An action of OpenHands itself, and a command that the user ran.
    yield action("change_agent_state", "environment", "", {"agent_state": "running", "thought": ""})
    yield action("run", "user", "Running command: ls", {"command": "ls", "thought": "", "hidden": False})
    yield action("condensation", "agent", "Summary: The mill runs.", {"forgotten_event_ids": None, "forgotten_events_start_id": 5, "forgotten_events_end_id": 8, "summary": "The mill runs.", "summary_offset": 1})
    yield action("message", "agent", "It does.", {"content": "It does.", "file_urls": None, "image_urls": None, "wait_for_response": True})
    acted, metadata = called("finish", "finish", "toolu_4", {"message": "The mill runs.", "task_completed": "true"}, "", {"final_thought": "The mill runs.", "task_completed": "true", "outputs": {}})
    yield acted
    yield state("finished")
    yield observation("null", "No observation", "", {}, cause=acted["id"])


def main():
    session = ROOT / "sessions" / SESSION
    (session / "events").mkdir(parents=True, exist_ok=True)
    (session / "event_cache").mkdir(exist_ok=True)
    story = list(events())
    (ROOT / "saved.json").write_text(json.dumps(story))
    for one in story:
        (session / "events" / f"{one['id']}.json").write_text(json.dumps(one))
    (session / "event_cache" / "0-10.json").write_text(json.dumps(story[:10]))
    (session / "agent_state.pkl").write_text("gASVIAAAAAAAAAB9lC4=")
    metadata = {
        "conversation_id": SESSION,
        "selected_repository": None,
        "user_id": None,
        "selected_branch": None,
        "git_provider": None,
        "title": "The mill",
        "last_updated_at": "2025-07-09T13:50:03.137003Z",
        "trigger": "gui",
        "pr_number": [],
        "created_at": "2025-07-09T12:59:35.974448Z",
        "llm_model": "anthropic/claude-3-7-sonnet-20250219",
        "accumulated_cost": 0.25,
        "prompt_tokens": 1200,
        "completion_tokens": 80,
        "total_tokens": 1280,
    }
    (session / "metadata.json").write_text(json.dumps(metadata))


with kept_folder(KEPT) as ROOT:
    main()
