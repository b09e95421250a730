"""Goes on with conversations of old releases in today's SDK, after `export --upgrade`.

Usage: ages.py     (ANNALS is the path of the program; default: annals)

The conversations are those of tests/golden/ages. Each is imported and exported with an upgrade. Today's SDK opens the folder
with the agent that its base state names, and the class of the agent's own tool. It has the same events in order, and the same
messages as `annals messages` where the SDK's own classes render all of them. Then it takes one more message, runs to the end, and
opens the folder again. A conversation of a release that today's SDK loads as it is has the same view before the
upgrade and after it. Prints each difference, and ends with 1 if there is one.
"""

import json
import logging
import os
import shutil
import sys
import tempfile
import uuid
from pathlib import Path

from differential import GOLDEN, Annals, asked_of_the_sdk

sys.path.insert(0, str(GOLDEN / "ages"))

import make_ages  # noqa: E402
import weigh  # noqa: E402,F401  (registers the tool)
from openhands.sdk import LLM, Conversation  # noqa: E402
from openhands.sdk.agent.base import AgentBase  # noqa: E402

logging.disable(logging.CRITICAL)


def go_on(folder, url):
    """Sends one more message, as a program with the stored agent does. Returns the number of events and the status."""
    state = json.loads((folder / "base_state.json").read_text())
    agent = AgentBase.model_validate(state["agent"])
    model = LLM(model="openai/m", api_key="none", base_url=url, usage_id="agent", num_retries=0)
    agent = agent.model_copy(update={"llm": model, "condenser": None})
    conversation = Conversation(
        agent=agent,
        conversation_id=uuid.UUID(state["id"]),
        workspace=str(folder.parent / "work"),
        persistence_dir=str(folder.parent),
        visualizer=None,
    )
    conversation.send_message("And one more?")
    conversation.run()
    status = conversation.state.execution_status.value
    conversation.close()
    return status


def check(annals, original, folder, url):
    identity = json.loads((folder / "base_state.json").read_text())["id"]
    actual, expected = annals.of(identity), asked_of_the_sdk(folder)
    names = ["event_ids", "view", "active_branch_ids", "agent_final_response", "is_stuck"]
    if original.name != "talk":
        names.append("messages")
    wrong = [
        f"{name}\n  the SDK: {str(expected[name])[:400]}\n  Annals:  {str(actual[name])[:400]}"
        for name in names
        if expected[name] != actual[name]
    ]
    if original.name == "talk" and "ox 2.0, hen 3.0" not in str(expected["messages"]):
        wrong.append("the answer of the agent's own tool is lost")
    is_loaded = tuple(int(part) for part in original.parent.name.split(".")) >= (1, 7, 4)
    if is_loaded and "DelegateTool" not in (original / "base_state.json").read_text():
        direct = folder.parent.parent / "direct" / original.parent.name / folder.name
        shutil.copytree(original, direct)
        for name in ("view", "messages"):
            if asked_of_the_sdk(direct)[name] != expected[name]:
                wrong.append(f"{name} before the upgrade and after it")
    status = go_on(folder, url)
    again = asked_of_the_sdk(folder)["event_ids"]
    if status != "finished" or again[: len(expected["event_ids"])] != expected["event_ids"]:
        wrong.append(f"it does not go on: {status}, {len(again)} events")
    return wrong


def main():
    url = make_ages.serve()
    differing, checked = 0, 0
    originals = sorted(path for path in (GOLDEN / "ages").glob("*/*") if path.is_dir() and "." in path.parent.name)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        annals = Annals(scratch / "annals.db")
        os.chdir(scratch)
        for command in (["import", str(GOLDEN / "ages")], ["export", "--all", "--to", str(scratch / "up"), "--upgrade"]):
            done = annals.ask(*command)
            if done.returncode != 0:
                print(done.stdout, done.stderr)
                return 1
        for original in originals:
            identity = uuid.UUID(json.loads((original / "base_state.json").read_text())["id"])
            try:
                wrong = check(annals, original, scratch / "up" / identity.hex, url)
            except Exception as error:  # noqa: BLE001  (any error means that the SDK does not go on)
                wrong = [f"{type(error).__name__}: {str(error)[:400]}"]
            differing += bool(wrong)
            checked += 1
            for what in wrong:
                print(f"{original.parent.name} {original.name}: {what}")
    print(f"{checked - differing} of {checked} conversations of {len({path.parent for path in originals})} old releases go on")
    return 1 if differing or checked < 16 else 0


if __name__ == "__main__":
    sys.exit(main())
