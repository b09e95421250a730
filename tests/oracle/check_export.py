"""Compares what the real SDK reads from exported folders with what it read before they were imported.

Usage: check_export.py FOLDER...   (each one a conversation, or a folder of them)

A folder is checked if the export contains the expected.json of the original. The real SDK opens a copy of the folder
and must give the same event ids, status, leaf, branch and view. For a damaged folder it must give the same events by
index and the same errors. Prints a line per folder and a summary. Ends with 1 if a folder differs or no answer was
compared.
"""

import importlib
import json
import os
import re
import shutil
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
os.environ.setdefault("LOG_LEVEL", "CRITICAL")

# A kind of event is known only after its module was imported. Only the tools that the goldens were made with are
# imported, because one damaged folder is damaged by a kind of another tool.
for module in ("terminal", "file_editor", "task_tracker", "task", "delegate"):
    importlib.import_module(f"openhands.tools.{module}")

from openhands.sdk.conversation.event_store import EventLog  # noqa: E402
from openhands.sdk.conversation.state import ConversationState  # noqa: E402
from openhands.sdk.io import LocalFileStore  # noqa: E402
from openhands.sdk.utils.cipher import Cipher  # noqa: E402
from openhands.sdk.workspace import LocalWorkspace  # noqa: E402


def conversations(path: Path) -> list[Path]:
    """Returns the folders at and below `path` that have an expected.json."""
    if (path / "expected.json").is_file():
        return [path]
    return [found for child in sorted(path.iterdir()) if child.is_dir() for found in conversations(child)]


def open_state(folder: Path, cipher: Cipher | None = None) -> ConversationState:
    try:
        base = json.loads((folder / "base_state.json").read_text())
    except (OSError, ValueError):
        base = {}
    return ConversationState.create(
        id=uuid.UUID(base["id"]) if "id" in base else uuid.uuid4(),
        agent=None,
        workspace=LocalWorkspace(working_dir=base.get("workspace", {}).get("working_dir", str(folder))),
        persistence_dir=str(folder),
        max_iterations=base.get("max_iterations", 500),
        cipher=cipher,
    )


def answer(work) -> dict[str, Any]:
    """Returns the result of `work`, or the type of its error."""
    try:
        return {"ok": work()}
    except Exception as error:  # noqa: BLE001  (the type of the error is compared)
        return {"error": type(error).__name__}


def whole(folder: Path, expected: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Returns each answer for an undamaged conversation together with the expected one."""
    fixture = folder / "fixture.json"
    key = json.loads(fixture.read_text()).get("cipher_key") if fixture.is_file() else None
    before = (folder / "base_state.json").read_bytes()
    state = open_state(folder, Cipher(key) if key else None)
    leaf = expected["resolved_active_leaf"]
    answers = {
        "event_ids": [event.id for event in state.events],
        "execution_status": state.execution_status.value,
        "leaf_event_id": state.leaf_event_id,
        "head_is_empty": state.head_is_empty,
        "active_branch_ids": [event.id for event in state.events.path_to_root(leaf)],
        "view_event_ids": [event.id for event in state.view.events],
        "tags": state.tags,
        "load_rewrites_base_state": (folder / "base_state.json").read_bytes() != before,
    }
    return {name: (actual, expected[name]) for name, actual in answers.items()}


def damaged(folder: Path, expected: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Returns each answer for a damaged conversation together with the expected one."""
    log = EventLog(LocalFileStore(str(folder)))
    names = [re.match(r"event-(\d{5,})-", name) for name in os.listdir(folder / "events")]
    indices = [int(name[1]) for name in names if name]
    # If two files have one index, the SDK takes the one that the folder lists last.
    sure = [index for index in range(len(log)) if indices.count(index) == 1]
    known = [index for index in sure if index < len(expected["ids_by_index"])]
    result = {
        "len": (len(log), expected["len"]),
        "ids_by_index": ([log.get_id(index) for index in known], [expected["ids_by_index"][index] for index in known]),
    }
    for index in known:
        wanted = {name: value for name, value in expected["getitem"][index].items() if name != "message"}
        result[f"event {index}"] = (answer(lambda index=index: log[index].id), wanted)
    if len(sure) == len(log):
        wanted = expected["load_state"]
        actual = answer(lambda: [event.id for event in open_state(folder).view.events])
        if "ok" in wanted:
            result["load_state"] = (actual, {"ok": wanted["ok"]["view_ids"]})
        else:
            result["load_state"] = (actual, {"error": wanted["error"]})
    return result


def check(folder: Path) -> tuple[int, list[str]]:
    """Returns the number of compared answers, and the differences."""
    expected = json.loads((folder / "expected.json").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / folder.name
        shutil.copytree(folder, copy)
        if "event_ids" in expected:
            answers = whole(copy, expected)
        elif "ids_by_index" in expected:
            answers = damaged(copy, expected)
        elif "ok" in expected and (copy / "base_state.json").is_file():
            answers = {"opens": (list(answer(lambda: open_state(copy).id)), ["ok"])}
        else:
            return 0, []
    return len(answers), [f"{name}: {actual!r}, expected {wanted!r}" for name, (actual, wanted) in answers.items() if actual != wanted]


def main() -> int:
    compared = differing = 0
    folders = [found for argument in sys.argv[1:] for found in conversations(Path(argument))]
    for folder in folders:
        try:
            answers, differences = check(folder)
        except Exception as error:  # noqa: BLE001  (any error counts as a difference)
            answers, differences = 1, [f"{type(error).__name__}: {error}"]
        compared += answers
        differing += bool(differences)
        print(f"{'DIFFERS' if differences else 'same' if answers else 'skipped'}  {folder.name}: {answers} answers")
        for difference in differences:
            print(f"    {difference[:600]}")
    print(f"{len(folders) - differing} of {len(folders)} folders are the same, {compared} answers compared")
    return 1 if differing or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
