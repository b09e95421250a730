"""Writes tests/golden/agents: the agents that the real SDK reads from files.

    python make_agents.py          rewrites every case
    python make_agents.py --check  says whether it would change, and fails if it would

Needs openhands-sdk 1.58.0. {W} stands for the folder.
"""

import json
import logging
import os
import tempfile
from pathlib import Path

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
logging.disable(logging.CRITICAL)

from kept import keep  # noqa: E402
from openhands.sdk.subagent.load import load_project_agents  # noqa: E402
from openhands.sdk.subagent.registry import (  # noqa: E402
    get_agent_factory, get_factory_info, register_agent_if_absent,
)

HERE = Path(__file__).parent / "agents"

FILES = {
    ".agents/agents/reviewer.md": (
        "---\nname: code-reviewer\ndescription: >-\n  Reviews code.\n  <example>Review this.</example>\n  <Example> And\n  that. </Example>\n"
        "model: cheap\ncolor: blue\ntools:\n  - terminal\n  - file_editor\nskills: git, style\npermission_mode: Always_Confirm\n"
        "max_iteration_per_run: 7\nmax_budget_per_run: '1.5'\nmood: stern\n---\n\nYou review code.\n"
    ),
    ".agents/agents/bare.md": "You have no front.",
    ".agents/agents/hooked.md": (
        "---\ntools: terminal\nskills: [a, 3]\nhooks:\n  pre_tool_use:\n    - matcher: terminal\n      hooks:\n        - type: command\n"
        "          command: exit 2\nmcp_servers:\n  fetch:\n    command: uvx\n    args: [mcp-server-fetch]\ncondenser: none\n---\nHooked."
    ),
    ".agents/agents/README.md": "---\nname: readme\n---\nNo.",
    ".agents/agents/deep/no.md": "---\nname: no\n---\nNo.",
    ".agents/agents/wrong-mode.md": "---\npermission_mode: sometimes\n---\nNo.",
    ".agents/agents/wrong-budget.md": "---\nmax_budget_per_run: 0\n---\nNo.",
    ".agents/agents/wrong-steps.md": "---\nmax_iteration_per_run: many\n---\nNo.",
    ".agents/agents/wrong-condenser.md": "---\ncondenser: maybe\n---\nNo.",
    ".agents/agents/wrong-yaml.md": "---\na: [\n---\nNo.",
    ".openhands/agents/reviewer.md": "---\nname: code-reviewer\n---\nNot taken.",
    ".openhands/agents/old.md": "---\nname: old\ndescription: Old one.\npermission_mode: confirm_risky\ncondenser: default\n---\nOld.",
}


def case():
    root = Path(os.path.realpath(tempfile.mkdtemp(prefix="annals-agents-")))
    for name, content in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    definitions = load_project_agents(root)
    for definition in definitions:
        register_agent_if_absent(definition.name, lambda llm: None, definition)
    written = []
    for definition in definitions:
        members = json.loads(definition.model_dump_json(exclude_none=True))
        members["source"] = members["source"].replace(str(root), "{W}")
        members["hooks"] = bool(members.get("hooks"))
        members["mcp_config"] = sorted(members.get("mcp_config") or {})
        members["condenser"] = (members.get("condenser") or {}).get("kind")
        members.pop("level", None)
        written.append(members)
    unknown = {}
    for name in ["nobody", "default"]:
        try:
            get_agent_factory(name)
        except ValueError as error:
            unknown[name] = str(error)
    return {"files": FILES, "definitions": written, "listed": get_factory_info(), "unknown": unknown}


def main():
    keep(HERE / "project.json", json.dumps(case(), indent=1, ensure_ascii=False) + "\n")


main()
