"""Compares the answers of the real SDK and of Annals about the same conversations.

Usage: differential.py [--seeds N] [--first N]     (ANNALS is the path of the program; default: annals)

The conversations are those of tests/golden/conversations and N random ones. The random ones are made with the SDK's
classes and stored by the SDK, with branches, batches, condensations, rejections, errors, pauses, navigation and costs.
It compares the ids, HEAD, the branch, both views, the messages, the same for the agent's own model, the actions without
an answer, the cost and prompt tokens, the final response, and whether the agent is stuck. Prints each difference, and
ends with 1 if there is one.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
sys.path.insert(0, str(GOLDEN))

import build_events as build  # noqa: E402  (sets the environment before the SDK is imported)
from openhands.sdk import LLM, Agent  # noqa: E402
from openhands.sdk.agent.base import AgentBase  # noqa: E402
from openhands.sdk.context.view import View  # noqa: E402
from openhands.sdk.conversation.response_utils import get_agent_final_response  # noqa: E402
from openhands.sdk.conversation.state import ConversationState  # noqa: E402
from openhands.sdk.conversation.stuck_detector import StuckDetector  # noqa: E402
from openhands.sdk.event import LLMConvertibleEvent  # noqa: E402
from openhands.sdk.llm.utils.metrics import Metrics  # noqa: E402
from openhands.sdk.workspace import LocalWorkspace  # noqa: E402


# Models that get caching marks, no pictures, reasoning, or one string instead of a list of parts.
MODELS = [
    "openai/gpt-4o",
    "anthropic/claude-sonnet-4-5-20250929",
    "deepseek/deepseek-reasoner",
    "moonshot/kimi-k2-thinking",
    "gemini/gemini-2.5-pro",
    "groq/llama-3.3-70b-versatile",
]


def agent(identity):
    model = MODELS[identity.int % len(MODELS)]
    return Agent(llm=LLM(model=model, api_key="none", usage_id="agent"), tools=[])


def create(folder, identity):
    base = folder / "base_state.json"
    stored = AgentBase.model_validate(json.loads(base.read_text())["agent"]) if base.is_file() else agent(identity)
    return ConversationState.create(
        id=identity, agent=stored, workspace=LocalWorkspace(working_dir="/tmp"), persistence_dir=str(folder)
    )


class Random(build.Log):
    """A log that appends each new event to a conversation of the SDK."""

    def __init__(self, seed, state):
        super().__init__(seed % 1000)
        self.random = random.Random(seed)
        self.state = state
        self.open = []
        self.calls = 0
        self.metrics = Metrics(model_name="openai/gpt-4o")

    def add(self, kind, **fields):
        event = super().add(kind, **fields)
        self.state.append_event(event)
        return event

    def spend(self, response):
        self.metrics.add_cost(self.random.choice([0.1, 0.2, 0.003, 1e-7, 0.0]))
        self.metrics.add_token_usage(
            prompt_tokens=self.random.randrange(5000),
            completion_tokens=self.random.randrange(500),
            cache_read_tokens=self.random.randrange(50),
            cache_write_tokens=0,
            context_window=128000,
            response_id=response,
        )

    def batch(self):
        response = f"r-{self.calls}"
        size = self.random.choice([1, 1, 1, 2, 3])
        thinking = self.random.choice([None, None, None, "plain", "redacted"])
        for place in range(size):
            self.calls += 1
            first = place == 0
            self.open.append(
                self.action(
                    f"c-{self.calls}",
                    response=response,
                    command=self.random.choice(["ls", "ls", f"echo {self.calls}"]),
                    thinking=thinking if first else None,
                    thought=self.random.choice(["", "let me see"]) if first else "",
                )
            )
            if self.random.random() < 0.04:
                self.event_between()
        self.spend(response)

    def event_between(self):
        self.random.choice([lambda: self.note("a hint"), lambda: self.add(build.PauseEvent)])()

    def answer(self):
        if not self.open:
            return self.user("and then?")
        action = self.open.pop(self.random.randrange(len(self.open)))
        chance = self.random.random()
        if chance < 0.75:
            return self.result(action, text=self.random.choice(["out", "", "done\n", "naïve ✓"]))
        if chance < 0.88:
            return self.error(action, text=self.random.choice(["bad call", "bad call", "worse"]))
        return self.reject(action)

    def condense(self):
        seen = [event.id for event in self.state.view.events if not event.id.endswith("-summary")]
        count = self.random.randrange(len(seen) + 1)
        forgotten = self.random.sample(seen, count)
        if self.random.random() < 0.3:
            forgotten.append("no-such-event")
        fields = {"forgotten_event_ids": forgotten, "llm_response_id": f"r-condense-{len(self.events)}"}
        if self.random.random() < 0.7:
            fields |= {"summary": "what went before", "summary_offset": self.random.randrange(4)}
        self.add(build.Condensation, **fields)

    def navigate(self):
        target = self.random.choice(list(self.state.events)).id
        if self.random.random() < 0.1:
            target = None
        self.state.leaf_event_id = target
        self.state.head_is_empty = target is None
        self.state.rebuild_view()
        self.open = []

    def step(self):
        choices = [
            (5, lambda: self.user(self.random.choice(["go", "more", "größer"]))),
            (16, self.batch),
            (26, self.answer),
            (4, lambda: self.agent("said", response=f"m-{len(self.events)}")),
            (2, self.condense),
            (1, lambda: self.add(build.CondensationRequest)),
            (1, lambda: self.add(build.PauseEvent)),
            (1, lambda: self.note("do not repeat yourself")),
            (1, lambda: self.add(build.ConversationStateUpdateEvent, key="tags", value={"a": "b"})),
            (1, lambda: self.add(build.InterruptEvent)),
            (1, self.navigate),
        ]
        self.random.choices([choice for _, choice in choices], [weight for weight, _ in choices])[0]()


def random_conversation(folder, seed):
    identity = uuid.UUID(int=random.Random(seed).getrandbits(128), version=4)
    place = folder / identity.hex
    state = create(place, identity)
    log = Random(seed, state)
    log.system()
    for _ in range(log.random.randrange(3, 70)):
        log.step()
    state.stats.usage_to_metrics = {"agent": log.metrics}
    state._save_base_state(state._fs)
    return place


def asked_of_the_sdk(folder):
    """Returns the answers of the SDK after it has opened the folder again."""
    identity = uuid.UUID(json.loads((folder / "base_state.json").read_text())["id"])
    state = create(folder, identity)
    events = list(state.events)
    branch = list(state.active_branch_events()) if hasattr(state, "active_branch_events") else path(state)
    live = View()
    for event in branch:
        live.append_event(event)
    try:
        typed = LLMConvertibleEvent.events_to_messages(state.view.events)
        messages = [message.model_dump(exclude_none=True, mode="json") for message in typed]
        chat = json.loads(json.dumps(state.agent.llm.format_messages_for_llm(typed)))
    except AssertionError:
        messages = chat = None
    return {
        "event_ids": [event.id for event in events],
        "resolved_active_leaf": state._resolve_active_leaf(),
        "active_branch_ids": [event.id for event in branch],
        "view": [event.id for event in state.view.events],
        "live": [event.id for event in live.events],
        "messages": messages,
        "chat": chat,
        "last_user_message_id": state.last_user_message_id,
        "unmatched_action_ids": [event.id for event in ConversationState.get_unmatched_actions(branch)],
        "unmatched_action_ids_all_events": [event.id for event in ConversationState.get_unmatched_actions(events)],
        "agent_final_response": get_agent_final_response(branch),
        "is_stuck": StuckDetector(state).is_stuck(),
        "cost": state.stats.get_combined_metrics().accumulated_cost,
        "tokens": state.stats.get_combined_metrics().accumulated_token_usage.prompt_tokens
        if state.stats.get_combined_metrics().accumulated_token_usage
        else 0,
    }


def path(state):
    leaf = state._resolve_active_leaf()
    return list(state.events.path_to_root(leaf)) if leaf is not None else []


class Annals:
    def __init__(self, database):
        program = os.environ.get("ANNALS", "annals")
        self.program = os.path.abspath(shutil.which(program) or program)
        self.database = database

    def ask(self, *arguments):
        command = [self.program, "--db", str(self.database), "--json", *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def answer(self, *arguments):
        done = self.ask(*arguments)
        if done.returncode != 0:
            return {"error": done.stderr}
        lines = [json.loads(line) for line in done.stdout.split("\n") if line]
        return lines if arguments[0] == "events" else lines[0]

    def of(self, identity):
        state = self.answer("state", identity)
        messages = self.answer("messages", identity)
        chat = self.answer("messages", identity, "--wire", "chat")
        combined = state["stats"]["combined"]
        same = (
            "resolved_active_leaf active_branch_ids unmatched_action_ids unmatched_action_ids_all_events "
            "agent_final_response is_stuck last_user_message_id"
        ).split()
        return {
            "event_ids": [event["id"] for event in self.answer("events", identity)],
            "view": self.answer("view", identity, "--ids"),
            "live": self.answer("view", identity, "--ids", "--live"),
            "messages": messages if isinstance(messages, list) else None,
            "chat": chat if isinstance(chat, list) else None,
            "cost": combined["accumulated_cost"],
            "tokens": combined["accumulated_token_usage"]["prompt_tokens"],
            **{name: state[name] for name in same},
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--first", type=int, default=1)
    options = parser.parse_args()
    differing = compared = 0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        folders = []
        for source in sorted((GOLDEN / "conversations").iterdir()):
            folders.append((source.name, scratch / "golden" / source.name))
            shutil.copytree(source, scratch / "golden" / source.name)
        for seed in range(options.first, options.first + options.seeds):
            folders.append((f"seed {seed}", random_conversation(scratch / "random", seed)))
        annals = Annals(scratch / "annals.db")
        # The SDK writes outputs that it shortens into the folder that an event names. Some of them are relative.
        os.chdir(scratch)
        for root in ("golden", "random"):
            report = annals.ask("import", str(scratch / root))
            if report.returncode != 0:
                print(report.stdout, report.stderr)
                return 1
        for name, folder in folders:
            identity = json.loads((folder / "base_state.json").read_text())["id"]
            expected, actual = asked_of_the_sdk(folder), annals.of(identity)
            compared += 1
            wrong = [key for key in expected if expected[key] != actual[key]]
            if wrong:
                differing += 1
            for key in wrong:
                print(f"{name}: {key}\n  the SDK: {str(expected[key])[:400]}\n  Annals:  {str(actual[key])[:400]}")
    print(f"{compared - differing} of {compared} conversations have the same answers")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
