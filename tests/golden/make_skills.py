"""Writes tests/golden/skills: which skills the real SDK finds in a folder, and how it uses them.

    python make_skills.py          rewrites every case
    python make_skills.py --check  says whether it would change, and fails if it would

Needs openhands-sdk 1.58.0. {W} stands for the folder.
"""

import json
import logging
import os
import shutil
import tempfile
from pathlib import Path

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
HOME = Path(os.path.realpath(tempfile.mkdtemp(prefix="annals-home-")))
os.environ["HOME"] = str(HOME)
logging.disable(logging.CRITICAL)

from kept import keep  # noqa: E402
from openhands.sdk import AgentContext, Message, TextContent  # noqa: E402
from openhands.sdk.context.memory import load_memory  # noqa: E402
from openhands.sdk.skills import Skill, load_project_skills, to_prompt  # noqa: E402
from openhands.sdk.skills.skill import path_matches_glob  # noqa: E402
from openhands.sdk.tool.builtins.invoke_skill import InvokeSkillAction, InvokeSkillExecutor  # noqa: E402

HERE = Path(__file__).parent / "skills"

FILES = {
    "AGENTS.md": "# Rules\n\nUse tabs.\n",
    "claude.md": "Be Claude.",
    ".cursorrules": "---\nname: not-read\n---\nSpaces.",
    "server/AGENTS.md": "Server rules.\n",
    "server/deep/gemini.md": "Deep rules.",
    "node_modules/x/AGENTS.md": "Not read.",
    ".agents/skills/pdf-tools/SKILL.md": (
        "---\nname: pdf-tools\ndescription: Reads PDFs & <more>.\nlicense: MIT\nallowed-tools: terminal file_editor\n"
        "triggers:\n  - pdf\n---\n\n# PDF\n\nRun !`echo hi` and `!`echo no``.\n\n```\n!`echo no`\n```\n\\!`echo literal`\n"
    ),
    ".agents/skills/pdf-tools/reference.md": "Not a skill.",
    ".agents/skills/pdf-tools/scripts/run.sh": "true\n",
    ".agents/skills/Bad_Name/SKILL.md": "---\nname: Bad_Name\n---\nNo.",
    ".agents/skills/other/SKILL.md": "---\nname: else\n---\nNo.",
    ".agents/skills/quiet/skill.md": "---\ndisable-model-invocation: true\ntriggers: [hush]\n---\nQuiet.",
    ".agents/skills/bare/SKILL.md": "No front matter here.\nSecond line.",
    ".agents/skills/git.md": "---\nname: git\ntriggers:\n- git\n- GitHub CLI\n---\n\n# Git\n\nUse rebase.\nNever merge.\n",
    ".agents/skills/deep/er/style.md": "Always on, by its path.\n",
    ".agents/skills/README.md": "---\nname: readme\n---\nNo.",
    ".agents/skills/task.md": (
        "---\nname: deploy\ninputs:\n  - name: TARGET\n    description: where to\n---\nDeploy to ${TARGET}."
    ),
    ".agents/skills/empty-inputs.md": "---\ninputs: []\ntriggers: [ship]\n---\nNothing to fill in.",
    ".agents/skills/rule.md": "---\npaths: src/**/*.rs, *.toml\ntriggers: [ignored]\n---\nRust rules.",
    ".agents/skills/rules.md": "---\npaths:\n  - docs/*\n---\nDocs rules.",
    ".agents/skills/broken.md": "---\na: [\n---\nNo.",
    ".agents/skills/triggers.md": "---\ntriggers: word\n---\nNo.",
    ".agents/skills/servers.md": "---\nmcp_tools:\n  fetch:\n    command: uvx\n    args: [mcp-server-fetch]\n---\nFetches.",
    ".agents/skills/long.md": "---\ntriggers: [long]\ndescription: Words.\n---\nLong.",
    ".openhands/skills/git.md": "---\nname: git\ntriggers: [other]\n---\nNot taken.",
    ".openhands/microagents/old.md": "---\nname: old\ntype: knowledge\ntriggers:\n  - legacy\n---\nOld.",
    ".openhands/memory/MEMORY.md": "\nA\nB\n",
}

MESSAGES = [
    ("Use git please", []),
    ("Use GIT and the pdf, hush", ["pdf-tools"]),
    ("on github only", []),
    ("the github cli, then /deploy it", []),
    ("   ", []),
    ("legacy long ship", []),
]

PATHS = ["src/a.rs", "src/a/b.rs", "Cargo.toml", "a/b/x.toml", "docs/a", "docs/a/b", "server/x.py", "server/deep/y", "z"]

GLOBS = [
    ("*.py", "a/b/c.py"), ("src/**", "src"), ("src/**", "src/a"), ("**/x", "x"), ("a/**/b", "a/b"), ("a/**/b", "a/c/d/b"),
    ("a?b/*", "acb/d"), ("a?b/*", "a/b/d"), ("[a]*.rs", "[a]b.rs"), ("/src/*", "src/a"), ("", "a"), ("a/*", "a/"),
]


def plain(root, text):
    return text.replace(str(root), "{W}") if isinstance(text, str) else text


def shape(root, skill):
    trigger = skill.trigger.model_dump() if skill.trigger else None
    return {
        "name": skill.name,
        "content": skill.content,
        "trigger": trigger,
        "source": plain(root, skill.source),
        "description": plain(root, skill.description),
        "is_agentskills_format": skill.is_agentskills_format,
        "disable_model_invocation": skill.disable_model_invocation,
        "mcp_tools": sorted(skill.mcp_tools) if skill.mcp_tools else None,
    }


def case():
    root = Path(os.path.realpath(tempfile.mkdtemp(prefix="annals-skills-")))
    for name, content in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    skills = load_project_skills(root)
    context = AgentContext(skills=skills, user_message_suffix="Be brief.", current_datetime=None)
    bare = AgentContext(skills=skills, current_datetime=None)
    messages = []
    for text, skip in MESSAGES:
        message = Message(role="user", content=[TextContent(text=text)])
        for suffix, source in [("Be brief.", context), ("", bare)]:
            found = source.get_user_message_suffix(message, skip)
            messages.append({
                "text": text, "activated": skip, "suffix": suffix,
                "added": plain(root, found[0].text) if found else None, "names": found[1] if found else [],
            })
    paths = []
    for path in PATHS:
        found = bare.get_tool_use_suffix(path, [])
        paths.append({
            "path": path, "added": plain(root, found[0].text) if found else None, "names": found[1] if found else [],
        })
    always, listed = bare._partition_skills()

    class State:
        pass

    conversation = State()
    conversation.state = State()
    conversation.state.agent = State()
    conversation.state.agent.agent_context = bare
    conversation.state.workspace = State()
    conversation.state.workspace.working_dir = str(root)
    conversation.state.invoked_skills = []
    invoked = []
    for name in ["pdf-tools", " bare ", "git", "quiet", "nothing", "rule"]:
        observation = InvokeSkillExecutor()(InvokeSkillAction(name=name), conversation)
        invoked.append({"name": name, "text": plain(root, observation.text), "is_error": observation.is_error})
    memories = [plain(root, load_memory(root))]
    (HOME / ".openhands/memory").mkdir(parents=True)
    for own, project in [("Mine.", "A\nB"), ("x\n" * 2500, "short"), ("x\n" * 2500, "yy\n" * 2500), ("z" * 9000, "a\n" * 9)]:
        (HOME / ".openhands/memory/MEMORY.md").write_text(own)
        (root / ".openhands/memory/MEMORY.md").write_text(project)
        memories.append({"own": own, "project": project, "memory": load_memory(root)})
    shutil.rmtree(root)
    written = [shape(root, skill) for skill in skills]
    stored = [json.loads(skill.model_dump_json(exclude_none=True)) for skill in [
        Skill(name="a", content="${X}", trigger={"type": "task", "triggers": ["t"]}),
        Skill(name="b", content="c", trigger={"type": "path", "paths": ["*"]}, description="d"),
        Skill(name="c", content="c", is_agentskills_format=True),
        Skill(name="d", content="d", description="word " * 300),
        Skill(name="e", content="e", description="word " * 300, source="/x/e.md"),
    ]]
    return {
        "files": FILES,
        "skills": written,
        "always": [skill.name for skill in always],
        "listed": plain(root, to_prompt(listed)),
        "messages": messages,
        "paths": paths,
        "invoked": invoked,
        "globs": [{"pattern": glob, "path": path, "matches": path_matches_glob(path, glob)} for glob, path in GLOBS],
        "memories": memories,
        "stored": stored,
    }


def main():
    keep(HERE / "project.json", json.dumps(case(), indent=1, ensure_ascii=False) + "\n")


main()
