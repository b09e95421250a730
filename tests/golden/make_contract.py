"""Writes src/server/http/shape/contract.json, the schemas of requests and settings, and src/server/settings/forms.json, the
forms for the settings. Both come from the real SDK and server.

    python make_contract.py          rewrites both
    python make_contract.py --check  names the files that would change, and fails if there are any

Needs openhands-agent-server 1.58.0. Every entry is a JSON Schema without texts. Defaults that are computed when a value is made
are included.
"""

import json
import logging
import os
import sys
from pathlib import Path

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
logging.disable(logging.CRITICAL)

from openhands.agent_server import (  # noqa: E402
    agent_profiles_router, hooks_router, meta_profiles_router, profiles_router, provider_connections_router,
    skills_router, workspaces_router,
)
from openhands.agent_server.openai import models as openai  # noqa: E402
from openhands.sdk.context.condenser import LLMSummarizingCondenser, NoOpCondenser, PipelineCondenser  # noqa: E402
from openhands.sdk.llm import LLM  # noqa: E402
from openhands.sdk.mcp.config import MCPServer  # noqa: E402
from openhands.sdk.profiles import ACPAgentProfile, OpenHandsAgentProfile  # noqa: E402
from openhands.sdk.settings import ConversationSettings, SettingsUpdateRequest, export_agent_settings_schema  # noqa: E402
from openhands.sdk.settings.api_models import MCPServerPatch  # noqa: E402
from openhands.sdk.settings.model import ACPAgentSettings, OpenHandsAgentSettings  # noqa: E402
from pydantic_core import PydanticUndefined, to_jsonable_python  # noqa: E402

SERVER = Path(__file__).parents[2] / "src/server"

MODELS = [
    LLM, OpenHandsAgentSettings, ACPAgentSettings, ConversationSettings, OpenHandsAgentProfile, ACPAgentProfile,
    LLMSummarizingCondenser, NoOpCondenser, PipelineCondenser, MCPServer, MCPServerPatch, SettingsUpdateRequest,
    provider_connections_router.ProviderConnectionCreateRequest, provider_connections_router.ProviderConnectionUpdateRequest,
    profiles_router.SaveProfileRequest, profiles_router.RenameProfileRequest, agent_profiles_router.RenameAgentProfileRequest,
    meta_profiles_router.MetaProfile, hooks_router.HooksRequest, skills_router.SkillsRequest,
    openai.OpenAIChatCompletionRequest, openai.OpenAIResponseRequest,
    workspaces_router.AddWorkspacesRequest, workspaces_router.AddWorkspaceParentsRequest,
]

# Types that the server reads with separate code.
ELSEWHERE = {
    "AgentContext", "FallbackStrategy", "Skill", "HookConfig", "CondenserBase", "AgentDefinition", "AgentBase",
    "SecretSource", "MCPOAuthAuthentication", "MCPOAuthState", "SandboxConfig", "OrgConfig",
}

# The settings of conversations that the server keeps.
KEPT = set(ConversationSettings().model_dump(mode="json"))

# The reference makes an agent of any given object. These are the types that it requires of the members.
AGENT = {
    "type": "object",
    "properties": {
        "llm": {"$ref": "LLM"},
        "tools": {"type": "array", "items": {"$ref": "Tool"}},
        "mcp_config": {"type": "object"},
        "condenser": {"anyOf": [{"$ref": "Condenser"}, {"type": "null"}]},
        "tool_concurrency_limit": {"type": "integer", "minimum": 1},
        "include_default_tools": {"type": "array", "items": {"type": "string"}},
        "filter_tools_regex": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "system_prompt": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "persona": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["llm"],
}

WORDS = ("title", "description", "openhands_settings", "openhands_settings_section", "examples", "deprecated", "format", "writeOnly")


def bare(schema):
    """Returns the schema without texts and with short references."""
    if isinstance(schema, list):
        return [bare(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        rest = {"default": schema["default"]} if "default" in schema else {}
        return rest if name in ELSEWHERE else {"$ref": name, **rest}
    out = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            out[key] = {name: bare(part) for name, part in value.items()}
        elif key in ("default", "enum", "const", "required"):
            out[key] = value
        elif key not in WORDS and not (key == "discriminator"):
            out[key] = bare(value)
    for union in ("anyOf", "oneOf"):
        if union in out:
            parts = [part for at, part in enumerate(out[union]) if part not in out[union][:at]]
            out[union] = parts
            if {} in parts:
                del out[union]
    return out


def known(model, schemas):
    schema = model.model_json_schema(mode="validation")
    for name, part in (*schema.pop("$defs", {}).items(), (model.__name__, schema)):
        if name not in ELSEWHERE:
            schemas.setdefault(name, bare(part))


def defaults(model, schema):
    """Adds the defaults that are computed for each value."""
    for name, field in model.model_fields.items():
        part = schema.get("properties", {}).get(field.alias or name)
        if part is None or field.default_factory is None or field.default is not PydanticUndefined:
            continue
        made = field.default_factory()
        made = made.model_dump(mode="json") if hasattr(made, "model_dump") else to_jsonable_python(made)
        if name == "agent_context":
            made.pop("current_datetime", None)
        if name not in ("id", "current_datetime", "created_at", "updated_at"):
            part["default"] = made


def contract():
    schemas = {}
    for model in MODELS:
        known(model, schemas)
    by_name = {model.__name__: model for model in MODELS}
    from openhands.sdk.settings import model as settings
    from openhands.sdk.profiles import agent_profile
    for module in (settings, agent_profile):
        for name in schemas:
            if hasattr(module, name):
                by_name.setdefault(name, getattr(module, name))
    for name, model in by_name.items():
        if name in schemas:
            defaults(model, schemas[name])
    schemas["Agent"] = AGENT
    schemas["Condenser"] = {"oneOf": [{"$ref": "LLMSummarizingCondenser"}, {"$ref": "NoOpCondenser"}, {"$ref": "PipelineCondenser"}]}
    for name in ("LLMSummarizingCondenser", "NoOpCondenser", "PipelineCondenser"):
        schemas[name].setdefault("properties", {})["kind"] = {"const": name, "type": "string"}
        schemas[name]["required"] = [*schemas[name].get("required", ()), "kind"]
    schemas["PipelineCondenser"]["properties"]["condensers"] = {"type": "array", "items": {"$ref": "Condenser"}}
    schemas["AgentSettings"] = {"oneOf": [{"$ref": "OpenHandsAgentSettings"}, {"$ref": "ACPAgentSettings"}]}
    schemas["AgentProfile"] = {"oneOf": [{"$ref": "OpenHandsAgentProfile"}, {"$ref": "ACPAgentProfile"}]}
    conversation = schemas["ConversationSettings"]
    conversation["properties"] = {name: part for name, part in conversation["properties"].items() if name in KEPT}
    # MCP servers are shown only with the members that were given, so members have no null default.
    for name in schemas:
        if name.startswith("MCP"):
            for part in schemas[name].get("properties", {}).values():
                if "default" in part and part["default"] is None:
                    del part["default"]
    llm = schemas["LLM"]["properties"]
    # The reference accepts efforts that are not in the list. The idle timeout depends on the timeout.
    llm["reasoning_effort"]["anyOf"] = [{"type": "string"}, {"type": "null"}]
    del llm["stream_idle_timeout"]["default"]
    needed, waiting = {}, [model.__name__ for model in MODELS] + ["Agent", "AgentSettings", "AgentProfile"]
    while waiting:
        name = waiting.pop()
        if name in needed:
            continue
        needed[name] = schemas[name]
        text = json.dumps(schemas[name])
        waiting += [other for other in schemas if f'"$ref": "{other}"' in text]
    return dict(sorted(needed.items()))


def forms():
    return {
        "agent": export_agent_settings_schema().model_dump(mode="json"),
        "conversation": ConversationSettings.export_schema().model_dump(mode="json"),
    }


def main():
    files = {"http/shape/contract.json": contract(), "settings/forms.json": forms()}
    changed = []
    for name, content in files.items():
        path, text = SERVER / name, json.dumps(content, indent=1) + "\n"
        if path.exists() and path.read_text() == text:
            continue
        changed.append(name)
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if "--check" in sys.argv and changed:
        sys.exit(f"would change: {', '.join(changed)}")


main()
