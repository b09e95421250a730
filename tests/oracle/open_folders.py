"""Opens conversation folders with the real SDK and prints for each whether it opens.

Usage: open_folders.py FOLDER...   (each one a conversation, or a folder of them)

A folder opens if `ConversationState.create` accepts its events and base state, every event can be read, and the view
of the live branch can be built. Each is opened twice: the second time with what the SDK wrote at the first. Prints a line
per folder and a summary. Ends with 1 if a folder does not open.
"""

import json
import logging
import os
import sys
import uuid
from pathlib import Path

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")

import openhands.tools  # noqa: E402,F401  (registers kinds)
from openhands.sdk import LLM, Agent  # noqa: E402
from openhands.sdk.conversation.state import ConversationState  # noqa: E402
from openhands.sdk.workspace import LocalWorkspace  # noqa: E402

logging.disable(logging.CRITICAL)

for module in (
    "openhands.tools.terminal",
    "openhands.tools.file_editor",
    "openhands.tools.task_tracker",
    "openhands.tools.browser_use",
    "openhands.tools.glob",
    "openhands.tools.grep",
    "openhands.tools.delegate",
    "openhands.tools.task",
    "openhands.tools.planning_file_editor",
    "openhands.tools.apply_patch",
    "openhands.tools.gemini",
    "openhands.tools.tom_consult",
):
    try:
        __import__(module)
    except ImportError:
        pass


def conversations(path: Path) -> list[Path]:
    if (path / "events").is_dir() or (path / "base_state.json").is_file():
        return [path]
    return [found for child in sorted(path.iterdir()) if child.is_dir() for found in conversations(child)]


def open_folder(folder: Path) -> dict:
    base = folder / "base_state.json"
    identity = uuid.uuid4()
    agent = Agent(llm=LLM(model="openai/gpt-4o", api_key="none", usage_id="agent"), tools=[])
    if base.is_file():
        identity = uuid.UUID(json.loads(base.read_text())["id"])
        from openhands.sdk.agent.base import AgentBase

        agent = AgentBase.model_validate(json.loads(base.read_text())["agent"])
    state = ConversationState.create(
        id=identity,
        agent=agent,
        workspace=LocalWorkspace(working_dir="/tmp"),
        persistence_dir=str(folder),
    )
    ids = [event.id for event in state.events]
    files = len([name for name in os.listdir(folder / "events") if name.startswith("event-")])
    if len(ids) != files:
        raise ValueError(f"{files} files, but {len(ids)} events")
    return {"events": len(ids), "view": len(state.view.events), "status": state.execution_status.value}


def main() -> int:
    failed = 0
    folders = [found for argument in sys.argv[1:] for found in conversations(Path(argument))]
    for folder in folders:
        try:
            first, again = open_folder(folder), open_folder(folder)
            if first["events"] > again["events"]:
                raise ValueError(f"{first} at first, {again} when it was opened again")
            print(f"opens  {folder.name}: {first}")
        except Exception as error:  # noqa: BLE001  (any error means that the folder does not open)
            failed += 1
            print(f"FAILS  {folder.name}: {type(error).__name__}: {str(error)[:600]}")
    print(f"{len(folders) - failed} of {len(folders)} open")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
