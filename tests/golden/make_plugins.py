"""Writes tests/golden/plugins: how the real SDK reads plugin folders, sources and marketplaces.

    python make_plugins.py          rewrites every case
    python make_plugins.py --check  says whether it would change, and fails if it would

Needs openhands-sdk 1.58.0. {W} stands for the folder, {H} for the home folder.
"""

import json
import logging
import os
import re
import shutil
import tempfile
from pathlib import Path

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
HOME = Path(os.path.realpath(tempfile.mkdtemp(prefix="annals-home-")))
os.environ["HOME"] = str(HOME)
os.environ.pop("OH_PERSISTENCE_DIR", None)
logging.disable(logging.CRITICAL)

from kept import keep  # noqa: E402
from openhands.sdk import AgentContext  # noqa: E402
from openhands.sdk.extensions.fetch import get_cache_path, parse_extension_source  # noqa: E402
from openhands.sdk.hooks import HookConfig  # noqa: E402
from openhands.sdk.marketplace import Marketplace, MarketplaceRegistration, MarketplaceRegistry  # noqa: E402
from openhands.sdk.mcp.config import dump_mcp_config  # noqa: E402
from openhands.sdk.plugin import Plugin, PluginSource, ResolvedPluginSource, load_available_plugins  # noqa: E402
from openhands.sdk.utils.redact import redact_url_credentials  # noqa: E402

HERE = Path(__file__).parent / "plugins"
SCHEMA = "https://agent-plugins.org/schemas/1.0.0/"


def manifest(**members):
    return json.dumps(members)


# A value that begins with "-> " is a symbolic link to the rest of it.
FILES = {
    "outside/secret.md": "---\nname: secret\n---\nOutside.",
    "outside/SKILL.md": "---\nname: outside\n---\nOutside.",
    "outside/plugin.json": manifest(name="outside"),
    "outside/.mcp.json": json.dumps({"mcpServers": {"outside": {"command": "x"}}}),
    "full/.claude-plugin/plugin.json": manifest(
        name="city-weather", version="1.2.3", description="Weather.", author="Ann <ann@example.org>", entry_command="now",
        license="MIT",
    ),
    "full/skills/rain/SKILL.md": "---\nname: Rain_Radar\ndescription: Sees rain.\n---\n\nLook up.\n",
    "full/skills/rain/references/more.md": "Not a skill.",
    "full/skills/rain/.mcp.json": json.dumps({"mcpServers": {"radar": {"command": "radar", "args": ["${SKILL_ROOT}/x"]}}}),
    "full/skills/wind.md": "---\nname: wind\ntriggers: [wind]\n---\nBlows.",
    "full/skills/always.md": "Always on.",
    "full/skills/deep/er/not.md": "Not read.",
    "full/skills/ReadMe.md": "Not read.",
    "full/skills/broken.md": "---\na: [\n---\nNo.",
    "full/skills/escape.md": "-> ../../outside/secret.md",
    "full/skills/escaping": "-> ../../outside",
    "full/skills/half/SKILL.md": "---\nname: half\n---\nIts servers are elsewhere.",
    "full/skills/half/.mcp.json": "-> ../../../outside/.mcp.json",
    "full/commands/now.md": (
        "---\ndescription: Tells the weather.\nargument-hint: [city, country]\nallowed-tools: [terminal, 3]\nmood: calm\n---\n\n"
        "Tell the weather of $ARGUMENTS.\n"
    ),
    "full/commands/bare.MD": "Only a text.",
    "full/commands/empty.md": "---\nargumentHint: x\nallowedTools: terminal\n---\n",
    "full/commands/README.md": "Not a command.",
    "full/commands/broken.md": "---\na: [\n---\nNo.",
    "full/commands/out.md": "-> ../../outside/secret.md",
    "full/agents/forecaster.md": "---\nname: forecaster\ndescription: Forecasts.\ntools: [terminal]\n---\nYou forecast.",
    "full/agents/out.md": "-> ../../outside/secret.md",
    "full/hooks/hooks.json": json.dumps({"hooks": {"PreToolUse": [{"matcher": "terminal", "hooks": [{"type": "command", "command": "check"}]}]}}),
    "full/.mcp.json": json.dumps({"mcpServers": {
        "fetch": {"command": "uvx", "args": ["mcp-server-fetch", "${SKILL_ROOT}/data", "${KEY:-none}"], "env": {"T": "${TOKEN}"}},
        "remote": {"url": "https://h.example/mcp", "type": "http", "headers": {"X-K": "${KEY}"}, "unknown": 3},
    }}),
    "inferred-name/skills/one.md": "One.",
    "both/.plugin/plugin.json": manifest(name="first"),
    "both/.claude-plugin/plugin.json": manifest(name="second"),
    "both/hooks/hooks.json": json.dumps({"stop": [{"hooks": [{"command": "stop"}]}], "pre_tool_use": []}),
    "rooted/SKILL.md": "---\nname: rooted\ndescription: One skill.\n---\nDo it.",
    "rooted/.mcp.json": json.dumps({"mcpServers": {"own": {"command": "own"}}}),
    "linked-manifest/.plugin/plugin.json": "-> ../../outside/plugin.json",
    "dangling-manifest/.plugin/plugin.json": "-> nowhere.json",
    "linked-skills/skills": "-> ../outside",
    "skills-file/skills": "A file.",
    "bad-json/.plugin/plugin.json": "{",
    "no-name/.plugin/plugin.json": "{}",
    "list/.plugin/plugin.json": "[]",
    "bad-version/.plugin/plugin.json": '{"name": "x", "version": 1.0}',
    "author-object/.plugin/plugin.json": manifest(name="x", author={"email": "a@b"}),
    "author-list/.plugin/plugin.json": manifest(name="x", author=[]),
    "bad-hooks/.plugin/plugin.json": manifest(name="bad-hooks"),
    "bad-hooks/hooks/hooks.json": '{"unheard_of": []}',
    "bad-servers/.plugin/plugin.json": manifest(name="bad-servers"),
    "bad-servers/.mcp.json": "[]",
    "no-servers/.mcp.json": json.dumps({"fetch": {"command": "x"}}),
    "other-root/plugin.json": manifest(name="copilot"),
    "other-root/skills/a.md": "A.",
    "portable/plugin.json": json.dumps({
        "$schema": SCHEMA + "plugin.schema.json", "name": "port.able-1", "description": "Portable.", "version": "2",
        "author": {"name": "Bo"}, "keywords": ["a"], "homepage": "https://h", "unknown": 1,
        "extensions": {"dev.openhands": {"entry_command": "go"}, "com.other": {"entry_command": 3}},
    }),
    "portable/skills/s/SKILL.md": "---\nname: s\n---\nS.",
    "portable/commands/not.md": "Not read.",
    "portable/dev.openhands/commands/go.md": "Go.",
    "portable/dev.openhands/agents/a.md": "---\nname: porter\n---\nPorts.",
    "portable/dev.openhands/hooks/hooks.json": json.dumps({"session_start": [{"hooks": [{"command": "begin"}]}]}),
    "portable/bin/tool": "true\n",
    "portable/mcp.json": json.dumps({"$schema": SCHEMA + "mcp.schema.json", "mcpServers": {
        "bare": {"type": "stdio", "command": "npx", "args": ["${PLUGIN_ROOT}/x", "${SECRET}", "${PLUGIN_DATA}", "${PLUGIN_X}"], "env": {"A": "${PLUGIN_ROOT}"}},
        "inner": {"type": "stdio", "command": "./bin/tool", "cwd": "./bin"},
        "root": {"type": "stdio", "command": "x", "cwd": "${PLUGIN_ROOT}/bin"},
        "data": {"type": "stdio", "command": "x", "cwd": "${PLUGIN_DATA}/sub"},
        "out": {"type": "stdio", "command": "./../../outside/x"},
        "out-cwd": {"type": "stdio", "command": "x", "cwd": "./../.."},
        "absolute": {"type": "stdio", "command": "/bin/sh"},
        "own-env": {"type": "stdio", "command": "x", "env": {"PLUGIN_ROOT": "/"}},
        "more": {"type": "stdio", "command": "x", "timeout": 3},
        "web": {"type": "streamable-http", "url": "https://h.example/${SECRET}", "headers": {"X-A": "b", "Host": "forged"}},
        "local": {"type": "streamable-http", "url": "http://127.0.0.1:80/"},
        "plain": {"type": "streamable-http", "url": "http://h.example/"},
        "user": {"type": "streamable-http", "url": "https://u:p@h.example/"},
        "fragment": {"type": "streamable-http", "url": "https://h.example/#"},
        "header": {"type": "streamable-http", "url": "https://h.example/", "headers": {"bad name": "x"}},
        "twice": {"type": "streamable-http", "url": "https://h.example/", "headers": {"A": "x", "a": "y"}},
        "old": {"type": "sse", "url": "https://h.example/"},
        "none": {"command": "x"},
    }}),
    "portable-bad-schema/plugin.json": json.dumps({"$schema": "https://elsewhere/", "name": "x"}),
    "portable-bad-name/plugin.json": json.dumps({"$schema": SCHEMA + "plugin.schema.json", "name": "Not--This"}),
    "portable-bad-author/plugin.json": json.dumps({"$schema": SCHEMA + "plugin.schema.json", "name": "x", "author": {"phone": "1"}}),
    "portable-bad-extension/plugin.json": json.dumps({"$schema": SCHEMA + "plugin.schema.json", "name": "x", "extensions": {"a": 1}}),
    "portable-odd-extensions/plugin.json": json.dumps({"$schema": SCHEMA + "plugin.schema.json", "name": "x", "extensions": 1}),
    "portable-broken/plugin.json": "{",
    "portable-bad-servers/plugin.json": json.dumps({"$schema": SCHEMA + "plugin.schema.json", "name": "x"}),
    "portable-bad-servers/mcp.json": json.dumps({"$schema": SCHEMA + "mcp.schema.json", "mcpServers": {}, "more": 1}),
    # Marketplaces.
    "market/.plugin/marketplace.json": json.dumps({
        "name": "tools", "owner": {"name": "Team"},
        "plugins": [
            {"name": "here", "source": "./plugins/here", "description": "Here."},
            {"name": "dotless", "source": "plugins/here"},
            {"name": "hub", "source": {"source": "github", "repo": "o/r", "ref": "v1", "path": "plugins/p"}},
            {"name": "web", "source": {"source": "url", "url": "https://g.example/r.git"}},
            {"name": "text", "source": "https://g.example/x.git"},
        ],
        "skills": [{"name": "rule", "source": "./skills/rule", "description": "A rule."}],
    }),
    "market/plugins/here/.plugin/plugin.json": manifest(name="here"),
    "market/skills/rule/SKILL.md": "---\nname: rule\n---\nRule.",
    "second/.claude-plugin/marketplace.json": json.dumps({"name": "second", "owner": {"name": "T"}, "plugins": [{"name": "here", "source": "./h"}]}),
    "plain-skills/skills/a/SKILL.md": "---\nname: a\ndescription: An a.\n---\nA.",
    "plain-skills/.skills/a/SKILL.md": "---\nname: a\n---\nAnother.",
    "plain-skills/README.md": "Not a skill.",
    "flat-skills/b/SKILL.md": "---\nname: b\n---\nB.",
    "no-market/x.md": "Nothing.",
    "bad-market/.plugin/marketplace.json": json.dumps({"name": "x", "plugins": []}),
    # Ambient plugins: those of the project and of the home folder.
    "project/.agents/plugins/one/.plugin/plugin.json": manifest(name="one", description="agents"),
    "project/.agents/plugins/one/skills/shared.md": "Of one.",
    "project/.openhands/plugins/one/.plugin/plugin.json": manifest(name="one", description="openhands"),
    "project/.openhands/plugins/two/skills/shared.md": "Of two.",
    "project/.openhands/plugins/bad/.plugin/plugin.json": "{",
    "{H}/.agents/plugins/two/.plugin/plugin.json": manifest(name="two", description="own"),
    "{H}/.openhands/plugins/three/.plugin/plugin.json": manifest(name="three"),
    "{H}/.openhands/plugins/installed/four/.plugin/plugin.json": manifest(name="four"),
    "{H}/.openhands/plugins/installed/off/.plugin/plugin.json": manifest(name="off"),
    "{H}/.openhands/plugins/installed/.installed.json": json.dumps({"extensions": {
        "off": {"name": "off", "source": "x", "enabled": False, "install_path": "x", "installed_at": "2025-01-01T00:00:00+00:00"},
    }}),
}

PLUGINS = [
    "full", "inferred-name", "both", "rooted", "linked-manifest", "dangling-manifest", "linked-skills", "skills-file", "bad-json",
    "no-name", "list", "bad-version", "author-object", "author-list", "bad-hooks", "bad-servers", "no-servers", "other-root",
    "portable", "portable-bad-schema", "portable-bad-name", "portable-bad-author", "portable-bad-extension",
    "portable-odd-extensions", "portable-broken", "portable-bad-servers", "nowhere",
]

SOURCES = [
    ("github:owner/repo", None, None), ("github:owner/repo", "v1.0", "plugins/p"), ("github:owner/repo/plugins/p", None, None),
    ("github:owner", None, None), ("github:/repo", None, None), ("https://github.com/owner/repo", None, None),
    ("https://gitlab.com/org/repo.git", "main", None), ("https://gitlab.com/org/repo/", None, None), ("http://h/r", None, None),
    ("https://dev.azure.com/org/project/_git/repo", None, None), ("git@github.com:owner/my.repo.git", None, None),
    ("git://h/r", None, None), ("file:///x/y", None, None), ("/local/path", None, None), ("~/x", None, None), ("./x", None, None),
    ("../x", None, None), ("plugins/my-plugin", None, None), ("nothing", None, None), ("", None, None), ("ssh://h/x", None, None),
    ("https://oauth2:SECRET@gitlab.com/org/repo.git", "main", None), ("https://x:${TOKEN}@gitlab.com/org/repo.git", None, None),
    ("/local/path", None, "/absolute"), ("/local/path", None, "a/../b"), ("/local/path", None, "a..b/c"),
]

REFERENCES = ["here@tools", "here", "hub", "web@tools", "gone", "gone@tools", "here@nowhere", "", "@tools", "here@", "text@tools"]


def plain(root, value):
    if isinstance(value, str):
        value = value.replace(str(root), "{W}").replace(str(HOME), "{H}")
        return re.sub(r"plugin-data/portable-[0-9a-f]{16}", "plugin-data/portable", value)
    if isinstance(value, dict):
        return {plain(root, name): plain(root, inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain(root, inner) for inner in value]
    return value


def skill_shape(skill):
    return {
        "name": skill.name, "content": skill.content, "trigger": skill.trigger.model_dump() if skill.trigger else None,
        "source": skill.source, "description": skill.description, "is_agentskills_format": skill.is_agentskills_format,
        "disable_model_invocation": skill.disable_model_invocation,
        "mcp_tools": sorted(skill.mcp_tools) if skill.mcp_tools else None,
    }


def plugin_shape(plugin):
    manifest = plugin.manifest
    return {
        "name": manifest.name, "version": manifest.version, "description": manifest.description,
        "author": manifest.author.model_dump() if manifest.author else None, "entry_command": plugin.entry_slash_command,
        "path": plugin.path, "skills": [skill_shape(skill) for skill in plugin.skills],
        "commands": [command.model_dump(exclude={"metadata"}) for command in plugin.commands],
        "all_skills": [skill_shape(skill) for skill in plugin.get_all_skills()][len(plugin.skills):],
        "hooks": json.loads(plugin.hooks.model_dump_json(exclude_none=True)) if plugin.hooks is not None else None,
        "mcp_config": dump_mcp_config(plugin.mcp_config), "agents": [agent.name for agent in plugin.agents],
        "literal": sorted(name for name, server in plugin.mcp_config.items() if server.literal_values),
    }


def case():
    root = Path(os.path.realpath(tempfile.mkdtemp(prefix="annals-plugins-")))
    for name, content in FILES.items():
        path = Path(name.replace("{H}", str(HOME))) if name.startswith("{H}") else root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("-> "):
            path.symlink_to(content[3:])
        else:
            path.write_text(content)
    plugins = {}
    for name in PLUGINS:
        try:
            plugins[name] = plugin_shape(Plugin.load(root / name))
        except (ValueError, FileNotFoundError):
            plugins[name] = None
    sources = []
    for source, ref, repo_path in SOURCES:
        entry = {"source": source, "ref": ref, "repo_path": repo_path}
        try:
            spec = PluginSource(source=source, ref=ref, repo_path=repo_path)
            entry["written"] = json.loads(spec.model_dump_json())
            entry["resolved"] = ResolvedPluginSource.from_plugin_source(spec, "c0ffee").model_dump()
            kind, url = parse_extension_source(source)
            entry["kind"], entry["url"] = kind.value, url
            entry["cache"] = None if kind.value == "local" else get_cache_path(url, Path("/")).name
        except Exception:
            entry["refused"] = True
        sources.append(entry)
    markets = {}
    for name in ["market", "second", "plain-skills", "flat-skills", "no-market", "bad-market", "nowhere"]:
        from openhands.sdk.marketplace.registry import _load_marketplace

        try:
            market = _load_marketplace(root / name, name)
            markets[name] = {
                "name": market.name,
                "plugins": [[plugin.name, plugin.description, list(market.resolve_plugin_source(plugin))] for plugin in market.plugins],
                "skills": [[skill.name, skill.description, skill.source] for skill in market.skills],
            }
        except (ValueError, FileNotFoundError):
            markets[name] = None
    resolved = []
    registry = MarketplaceRegistry([
        MarketplaceRegistration(name="tools", source=str(root / "market")),
        MarketplaceRegistration(name="second", source=str(root / "second")),
    ])
    for reference in REFERENCES:
        try:
            resolved.append({"reference": reference, "source": json.loads(registry.resolve_plugin(reference).model_dump_json())})
        except Exception as error:
            resolved.append({"reference": reference, "error": type(error).__name__, "text": str(error)})
    available = load_available_plugins(root / "project", include_user=True, include_project=True)
    ambient = [[plugin.name, plugin.description, plugin.path] for plugin in available.values()]
    context = AgentContext(skills=[], current_datetime=None)
    hooks = []
    servers = {}
    for name in ["both", "full", "rooted", "portable"]:
        plugin = Plugin.load(root / name)
        context = plugin.add_skills_to(context)
        servers = plugin.add_mcp_config_to(servers)
        hooks += [plugin.hooks] if plugin.hooks else []
    for name in ["one", "two"]:
        context = available[name].add_skills_to(context)
    merged = {
        "skills": [[skill.name, skill.source] for skill in context.skills], "servers": list(servers),
        "hooks": json.loads(HookConfig.merge(hooks).model_dump_json(exclude_none=True)),
    }
    shutil.rmtree(root)
    shutil.rmtree(HOME, ignore_errors=True)
    return plain(root, {
        "files": FILES, "plugins": plugins, "sources": sources, "markets": markets, "resolved": resolved,
        "ambient": ambient, "merged": merged, "redacted": redact_url_credentials("https://a:b@h/x"),
    })


def main():
    keep(HERE / "folders.json", json.dumps(case(), indent=1, ensure_ascii=False) + "\n")


main()
