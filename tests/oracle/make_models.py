"""Writes src/price/models.json: the limits, prices and abilities of models, from the price table in litellm (MIT).

Run it with a Python that has litellm. It sends no requests:

    python tests/oracle/make_models.py > src/price/models.json

The projection of usage stores estimates that were made with this table. So raise the version in
src/store/derived/projection/usage.rs with every new table; a test there names the table's digest.
"""

import json
import pathlib
import re

import litellm

PROVIDERS = {"openai", "anthropic", "gemini", "deepseek", "moonshot", "mistral", "xai", "zai", "groq", "cerebras"}
# Models that agents do not use, for example models for audio, images or search.
OTHER = re.compile(r"audio|realtime|search|image|tts|transcribe|live|vision-preview|ft:|container|embedding|ocr|deep-research"
                   r"|beta|experimental|lyria|learnlm|guard|robotics|daybreak|rosalind|cyber|gv2|omni|gemma-2|exp-1|computer-use")
DATED = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|\d{2}-\d{2}|\d{2}-\d{4})$")
NUMBERS = [
    "max_input_tokens", "max_output_tokens", "max_tokens",
    "input_cost_per_token", "output_cost_per_token",
    "cache_read_input_token_cost", "cache_creation_input_token_cost",
    "cache_creation_input_token_cost_above_1hr", "cache_creation_input_token_cost_above_1hr_above_200k_tokens",
    "input_cost_per_token_above_200k_tokens", "output_cost_per_token_above_200k_tokens",
    "cache_read_input_token_cost_above_200k_tokens", "cache_creation_input_token_cost_above_200k_tokens",
    "input_cost_per_token_above_272k_tokens", "output_cost_per_token_above_272k_tokens",
    "cache_read_input_token_cost_above_272k_tokens", "cache_creation_input_token_cost_above_272k_tokens",
]
FLAGS = ["supports_vision", "supports_reasoning", "supports_adaptive_thinking", "supports_sampling_params",
         "supports_prompt_caching"]
# Only the efforts that a model rejects are written.
EFFORTS = [f"supports_{effort}_reasoning_effort" for effort in ("none", "minimal", "xhigh", "max")]

path = pathlib.Path(litellm.__file__).parent / "model_prices_and_context_window_backup.json"
table = json.loads(path.read_text())
lines = []
for name, entry in sorted(table.items()):
    if entry.get("litellm_provider") not in PROVIDERS or entry.get("mode") not in ("chat", "responses"):
        continue
    base = DATED.sub("", name)
    if OTHER.search(name) or (base != name and base in table):
        continue
    kept = {"litellm_provider": entry["litellm_provider"]}
    kept |= {key: entry[key] for key in NUMBERS if entry.get(key) is not None}
    kept |= {key: entry[key] for key in FLAGS if key in entry}
    kept |= {key: False for key in EFFORTS if entry.get(key) is False}
    if "supported_endpoints" in entry:
        kept["supported_endpoints"] = [e for e in entry["supported_endpoints"] if e in ("/v1/chat/completions", "/v1/responses")]
    if "max_output_tokens" in kept:
        kept.pop("max_tokens", None)
    lines.append(f"{json.dumps(name)}:{json.dumps(kept, separators=(',', ':'))}")
print("{\n" + ",\n".join(lines) + "\n}")
