"""Writes tests/golden/events.jsonl: payloads of every kind, and what the real SDK writes when it has read them.

    python make_events.py          rewrites the file
    python make_events.py --check  fails if it would change

One object per line: `payload`, and `dump`, the SDK's text for the event, or null if the SDK refuses the payload. Values
are made from the SDK's own schemas, with all members and with only the required ones. Others are damaged at random with
a fixed seed. Needs openhands-sdk, openhands-tools and openhands-agent-server 1.58.0.
"""

import copy
import importlib
import json
import pkgutil
import random
import sys
from pathlib import Path

import build_events  # noqa: F401  (silences the SDK)
import openhands.agent_server.models  # noqa: F401
import openhands.tools

for module in pkgutil.walk_packages(openhands.tools.__path__, "openhands.tools."):
    importlib.import_module(module.name)

from openhands.sdk.event import Event  # noqa: E402
from pydantic import ValidationError  # noqa: E402

FILE = Path(__file__).parent / "events.jsonl"
SCHEMA = Event.model_json_schema(mode="serialization")
DEFS = SCHEMA["$defs"]
TEXTS = ["", "a", "hello world", "é€😀", 'line\nbreak\t"quoted" \\ /', "\u2028\x7f\x01", "2026-01-01"]
BROKEN = [None, "3", "3.0", " 4 ", "x", 3, 3.0, 2.5, True, "true", "ON", [], {}, "", -1, 0, 1, [None], {"kind": "x"}, "text", 1e300]


def kinds(base):
    """Returns the names of the concrete classes of a union."""
    return sorted(entry["$ref"].split("/")[-1] for entry in DEFS[base]["oneOf"])


ACTIONS, OBSERVATIONS, TOOLS = kinds("Action"), kinds("Observation"), kinds("ToolDefinition")
EVENTS = sorted(entry["$ref"].split("/")[-1] for entry in SCHEMA["oneOf"])


class Maker:
    """Makes values of a schema: with every member if `full`, the required ones if False, a random selection if None."""

    def __init__(self, seed, full=None, chosen=None):
        self.random = random.Random(seed)
        self.full = full
        self.chosen = chosen or {}

    def value(self, schema, name=""):
        if "$ref" in schema:
            name = schema["$ref"].split("/")[-1]
            return self.value(DEFS[self.chosen.get(name, name)], name)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        for union in ("anyOf", "oneOf"):
            if union in schema:
                options = [entry for entry in schema[union] if self.full is not True or entry.get("type") != "null"]
                return self.value(self.random.choice(options), name)
        match schema.get("type"):
            case "string" if name == "action_type":
                return self.random.choice(ACTIONS)
            case "string" if name == "observation_type":
                return self.random.choice(OBSERVATIONS)
            case "string" if schema.get("format") == "date-time":
                return "2026-01-02T03:04:05.123456"
            case "string":
                return self.random.choice(TEXTS[1:] if schema.get("minLength") else TEXTS)
            case "integer":
                low, high = schema.get("minimum", -5), schema.get("maximum", 10 ** self.random.randint(1, 12))
                return self.random.randint(low, max(low, high))
            case "number":
                low, high = schema.get("minimum", -10), schema.get("maximum", 1000)
                return self.random.choice([self.random.uniform(low, high), float(low), 1.0])
            case "boolean":
                return self.random.random() < 0.5
            case "null":
                return None
            case "array" if "prefixItems" in schema:
                return [self.value(item) for item in schema["prefixItems"]]
            case "array":
                most = 1 if schema.get("uniqueItems") else 2
                return [self.value(schema.get("items", {})) for _ in range(self.random.randint(int(self.full is True), most))]
            case "object" if "properties" in schema:
                return self.members(schema)
            case "object":
                inner = schema.get("additionalProperties")
                make = lambda: self.value(inner) if isinstance(inner, dict) and inner else self.free()  # noqa: E731
                keys = self.random.sample(["k", "x y", "é"], self.random.randint(0, 2))
                return {key: make() for key in keys}
        return self.free()

    def members(self, schema):
        required = {*schema.get("required", []), "kind"}
        wanted = {True: 1.0, False: 0.0, None: 0.6}[self.full]
        return {
            key: self.value(member, key)
            for key, member in schema["properties"].items()
            if key in required or self.random.random() < wanted
        }

    def free(self):
        return self.random.choice([None, 1, 1.5, "t", True, -0.0, {"a": None, "b": [1e300, 1e-7]}, [1, None, "x"], {}, 2**70])

    def event(self, kind):
        event = self.value(DEFS[kind])
        return {**event, "kind": kind, "id": "e-1", "timestamp": "2026-01-01T00:00:00"}

    def broken(self, event):
        """Returns a copy of the event with one random change."""
        event = copy.deepcopy(event)
        path = self.random.choice([path for path in paths(event) if path])
        around = event
        for step in path[:-1]:
            around = around[step]
        last = path[-1]
        match self.random.randint(0, 5):
            case 0:
                around.pop(last)
            case 1 | 5:
                around[last] = self.random.choice(BROKEN)
            case 2 if isinstance(around, dict):
                around["new_member"] = 1
            case 3 if isinstance(around[last], dict):
                around[last]["new_member"] = {"a": None}
            case 4 if isinstance(around, dict) and "kind" in around:
                around["kind"] = self.random.choice(["TerminalAction", "PauseEvent", "Nope", "FinishObservation", None, 3])
            case _:
                around[last] = None
        return event


def paths(value, path=()):
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from paths(value[key], (*path, key))
    elif isinstance(value, list):
        for place in range(len(value)):
            yield from paths(value[place], (*path, place))


def payloads():
    whole = []
    for full in (True, False):
        whole += [(Maker(f"{kind}{full}", full), kind) for kind in EVENTS]
        whole += [(Maker(kind, full, {"Action": kind}), "ActionEvent") for kind in ACTIONS]
        whole += [(Maker(kind, full, {"Observation": kind}), "ObservationEvent") for kind in OBSERVATIONS]
    whole += [(Maker(kind, True, {"ToolDefinition": kind}), "SystemPromptEvent") for kind in TOOLS]
    for maker, kind in whole:
        yield json.dumps(maker.event(kind), ensure_ascii=False, separators=(",", ":"))
    for number in range(700):
        maker = Maker(f"broken{number}")
        event = maker.event(maker.random.choice(EVENTS))
        event = maker.broken(event) if number % 7 else event
        # The SDK makes up missing ids and times, and Annals accepts no id that is empty or not printable.
        if "id" in event and "timestamp" in event and isinstance(event["id"], str) and event["id"].isprintable() and event["id"]:
            yield json.dumps(event, ensure_ascii=number % 2 == 0, separators=(", ", ": "))


def dumped(payload):
    try:
        return Event.model_validate_json(payload).model_dump_json(exclude_none=True)
    except (ValidationError, ValueError, AssertionError, TypeError):
        return None


def main():
    lines = []
    for payload in payloads():
        # The SDK gives a state update without a key a random one.
        if '"ConversationStateUpdateEvent"' in payload and '"key"' not in payload:
            continue
        lines.append(json.dumps({"payload": payload, "dump": dumped(payload)}, ensure_ascii=False))
    text = "\n".join(lines) + "\n"
    changed = not FILE.exists() or FILE.read_text(encoding="utf-8") != text
    if "--check" in sys.argv:
        sys.exit(changed)
    FILE.write_text(text, encoding="utf-8")
    print(len(lines), "payloads")


if __name__ == "__main__":
    main()
