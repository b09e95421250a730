"""Writes tests/golden/llm/settings.json: how the real SDK (1.58) reads an LLM's settings, and which it refuses.

    python make_llm_settings.py          writes it anew
    python make_llm_settings.py --check  fails if it would change
"""

import json
import logging
import os
import warnings
from pathlib import Path

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPENHANDS_SUPPRESS_BANNER="1")
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from kept import keep  # noqa: E402
from openhands.sdk.llm import LLM  # noqa: E402

FILE = Path(__file__).parent / "llm" / "settings.json"

EVERYTHING = {
    "model": "azure/gpt-4o", "api_key": "sk-1", "provider_connection_id": "c", "base_url": "http://x/v1",
    "api_version": "v", "aws_access_key_id": "a1", "aws_secret_access_key": "a2", "aws_session_token": "a3",
    "aws_region_name": "r", "aws_profile_name": "p", "aws_role_name": "ro", "aws_session_name": "s",
    "aws_bedrock_runtime_endpoint": "e", "openrouter_site_url": "", "openrouter_app_name": "Mine", "num_retries": 0,
    "retry_multiplier": 2, "retry_min_wait": 1, "retry_max_wait": 2, "timeout": 7, "stream_idle_timeout": 1.5,
    "max_message_chars": 10, "temperature": 0, "top_p": 1, "top_k": 40, "max_input_tokens": 20000,
    "max_output_tokens": 100, "model_canonical_name": "gpt-4o", "api_mode": "responses",
    "capability_overrides": {"supports_vision": False, "thinking_mode": "manual"},
    "extra_headers": {"X-B": "1", "X-A": "2"}, "input_cost_per_token": 0.000001, "output_cost_per_token": 1e-7,
    "ollama_base_url": "o", "stream": True, "drop_params": False, "disable_vision": True, "disable_stop_word": True,
    "caching_prompt": False, "log_completions": True, "log_completions_folder": "f", "custom_tokenizer": None,
    "native_tool_calling": False, "force_string_serializer": True, "inline_image_urls": False,
    "reasoning_effort": "max", "reasoning_summary": "auto", "enable_encrypted_reasoning": False,
    "prompt_cache_retention": "1h", "extended_thinking_budget": 5, "seed": 3, "usage_id": "u",
    "litellm_extra_body": {"b": {"z": 1, "a": None}, "a": [1.50, 2]}, "is_subscription": False,
}

GIVEN = [
    {"model": "openai/gpt-4o"},
    {"model": "azure/gpt-4o", "base_url": "http://x"},
    {"model": "openai/gpt-4o", "base_url": "https://api.openai.com/"},
    {"model": "gpt-4o", "base_url": "https://api.openai.com/"},
    {"model": "gpt-4o", "timeout": 20},
    {"model": "gpt-4o", "timeout": None},
    {"model": "gpt-4o", "timeout": "9", "stream_idle_timeout": None},
    {"model": "gpt-4o", "api_key": " "},
    {"model": "gpt-4o", "reasoning_effort": None, "extended_thinking_budget": None, "disable_stop_word": None},
    EVERYTHING,
    {"model": ""},
    {},
    {"model": "gpt-4o", "temperature": -1},
    {"model": "gpt-4o", "top_p": 1.5},
    {"model": "gpt-4o", "num_retries": -1},
    {"model": "gpt-4o", "max_output_tokens": 0},
    {"model": "gpt-4o", "stream": None},
]

cases = []
for given in GIVEN:
    case = {"given": json.dumps(given)}
    try:
        llm = LLM(**given)
        case["dumped"] = llm.model_dump_json(exclude_none=True)
        case["open"] = llm.model_dump_json(exclude_none=True, context={"expose_secrets": "plaintext"})
    except Exception as error:
        case["error"] = type(error).__name__
    cases.append(case)
keep(FILE, json.dumps(cases, indent=1, ensure_ascii=False) + "\n")
