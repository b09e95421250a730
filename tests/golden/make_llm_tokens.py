"""Writes tests/golden/llm/tokens.json: the number of tokens that litellm counts in the last request of each
recorded conversation.

    python make_llm_tokens.py          rewrites it
    python make_llm_tokens.py --check  fails if it would change
"""

import json
import os
import pathlib

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPENHANDS_SUPPRESS_BANNER="1")

from kept import keep  # noqa: E402
from litellm.utils import token_counter  # noqa: E402

folder = pathlib.Path(__file__).parent / "conversations"
counts = []
for path in sorted(folder.glob("*/llm_requests.jsonl")):
    messages = json.loads(path.read_text().rstrip("\n").split("\n")[-1])["body"]["messages"]
    counts.append({"conversation": path.parent.name, "tokens": token_counter(model="gpt-4o", messages=messages)})
keep(folder.parent / "llm" / "tokens.json", json.dumps(counts, indent=1) + "\n")
