"""Writes tests/golden/llm/requests.json: what the real SDK sends to a provider for given settings and messages.

The SDK is OpenHands SDK 1.58 with the litellm that it brings along; the provider is a server of this script on
127.0.0.1, which records the requests. No other server is contacted.

    python make_llm_requests.py          writes it anew
    python make_llm_requests.py --check  fails if it would change
"""

import http.server
import json
import logging
import os
import threading
import warnings
from pathlib import Path

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPENHANDS_SUPPRESS_BANNER="1")
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from kept import keep  # noqa: E402
from openhands.sdk.llm import LLM, Message  # noqa: E402
from openhands.sdk.llm.call_context import LLMCallContext  # noqa: E402
from openhands.sdk.tool.builtins import FinishTool, ThinkTool  # noqa: E402

FILE = Path(__file__).parent / "llm" / "requests.json"

SEEN = []
HEADERS = {"authorization", "x-api-key", "x-goog-api-key", "api-key", "anthropic-version", "anthropic-beta",
           "http-referer", "x-title", "x-litellm-session-id", "x-mine"}

CHAT = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
RESPONSES = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed",
             "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                         "content": [{"type": "output_text", "text": "ok", "annotations": []}]}],
             "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": None}
ANTHROPIC = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
             "content": [{"type": "text", "text": "ok"}], "usage": {"input_tokens": 1, "output_tokens": 1}}
GEMINI = {"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}],
          "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}


class Provider(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {k.lower(): v for k, v in self.headers.items() if k.lower() in HEADERS}
        SEEN.append({"path": self.path, "headers": headers, "body": body})
        if "generateContent" in self.path:
            reply = GEMINI
        elif self.path.endswith("/responses"):
            reply = RESPONSES
        elif self.path.endswith("/messages"):
            reply = ANTHROPIC
        else:
            reply = CHAT
        text = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.send_response(404)
        self.end_headers()

    def log_message(self, *args):
        pass


PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def text(words, **more):
    return {"type": "text", "text": words, **more}


def call(number, name, arguments):
    return {"id": f"call_{number}", "name": name, "arguments": json.dumps(arguments), "origin": "completion"}


MESSAGES = {
    "plain": [
        {"role": "system", "content": [text("You help.")]},
        {"role": "user", "content": [text("Hello")]},
    ],
    "work": [
        {"role": "system", "content": [text("You help."), text("Today is Monday.")]},
        {"role": "user", "content": [text("Look."), {"type": "image", "image_urls": [PIXEL]}]},
        {"role": "assistant", "content": [text("I shall think.")],
         "tool_calls": [call(1, "think", {"thought": "one"}), call(2, "think", {"thought": "two"})],
         "reasoning_content": "Hm.",
         "thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "sig-1"},
                             {"type": "redacted_thinking", "data": "sealed"}]},
        {"role": "tool", "content": [text("first")], "tool_call_id": "call_1", "name": "think"},
        {"role": "tool", "content": [text("second"), {"type": "image", "image_urls": [PIXEL]}],
         "tool_call_id": "call_2", "name": "think"},
        {"role": "assistant", "content": [text("Done.")]},
        {"role": "user", "content": [text("More"), text("and more")]},
    ],
    "tail": [
        {"role": "system", "content": [text("You help.")]},
        {"role": "user", "content": [text("Go")]},
        {"role": "assistant", "content": [], "tool_calls": [call(1, "think", {"thought": "one"})]},
        {"role": "tool", "content": [text("first")], "tool_call_id": "call_1", "name": "think"},
    ],
    "reasoned": [
        {"role": "system", "content": [text("You help.")]},
        {"role": "user", "content": [text("Go")]},
        {"role": "assistant", "content": [text("Well.")],
         "responses_reasoning_item": {"id": "rs_1", "summary": ["short"], "encrypted_content": "sealed"},
         "tool_calls": [{"id": "call_1", "responses_item_id": "fc_9", "name": "think",
                         "arguments": "{\"thought\": \"one\"}", "origin": "responses"}]},
        {"role": "tool", "content": [text("first")], "tool_call_id": "call_1", "name": "think"},
    ],
}

MODELS = """openai/gpt-4o gpt-4o gpt-4o-mini openai/gpt-4.1 openai/gpt-5 gpt-5-mini openai/o3 openai/my-custom
anthropic/claude-sonnet-4-5 claude-sonnet-4-5 anthropic/claude-opus-4-5 claude-sonnet-5
gemini/gemini-2.5-pro gemini/gemini-2.5-flash gemini/gemini-3.1-pro-preview
hosted_vllm/Qwen/Qwen3 litellm_proxy/gpt-4o litellm_proxy/anthropic/claude-sonnet-4-5
litellm_proxy/prod/claude-sonnet-4-5 litellm_proxy/custom litellm_proxy/gpt-5 openhands/claude-sonnet-4-5
openrouter/anthropic/claude-sonnet-4.5 openrouter/openai/gpt-5 openrouter/unknown/x
deepseek/deepseek-chat deepseek/deepseek-reasoner mistral/devstral-latest groq/openai/gpt-oss-120b xai/grok-4.5
moonshot/kimi-k3 zai/glm-5 azure/gpt-4o lm_studio/foo together_ai/x/y
fireworks_ai/accounts/fireworks/models/glm-4p6 dashscope/qwen-max cerebras/qwen-3-32b digitalocean/llama3
perplexity/sonar ollama_chat/qwen3""".split()

CASES = [(model, {}, "work" if model.split("/")[0] in ("openai", "anthropic", "gemini", "litellm_proxy", "openrouter",
          "claude-sonnet-5", "deepseek", "moonshot") else "plain", True) for model in MODELS]
CASES += [
    ("openai/gpt-4o", {"temperature": 0.5, "top_p": 0.9, "top_k": 40, "seed": 7, "max_output_tokens": 100}, "plain", True),
    ("openai/gpt-5", {"temperature": 0.5, "top_p": 0.9, "top_k": 40, "api_mode": "chat"}, "plain", True),
    ("openai/gpt-5", {"reasoning_effort": "none", "reasoning_summary": "auto", "enable_encrypted_reasoning": False}, "reasoned", True),
    ("openai/gpt-5", {"reasoning_summary": "auto", "temperature": 0.5, "seed": 7, "litellm_extra_body": {"mine": 1}}, "reasoned", True),
    ("openai/gpt-4o", {"api_mode": "responses", "temperature": 0.5, "max_output_tokens": 100}, "work", True),
    ("openai/gpt-5", {}, "plain", False),
    ("openai/gpt-4o", {"extra_headers": {"X-Mine": "1", "X-Title": "Other"}, "litellm_extra_body": {"mine": {"a": 1}, "metadata": {"tags": ["x"]}}}, "plain", False),
    ("openai/gpt-4o", {"disable_vision": True, "force_string_serializer": True}, "work", True),
    ("openai/gpt-4o", {"caching_prompt": False, "reasoning_effort": None}, "work", False),
    ("anthropic/claude-sonnet-4-5", {"caching_prompt": False}, "work", True),
    ("anthropic/claude-sonnet-4-5", {}, "tail", True),
    ("anthropic/claude-sonnet-4-5", {}, "plain", False),
    ("anthropic/claude-sonnet-4-5", {"extended_thinking_budget": None, "temperature": 0.5, "top_p": 0.9, "top_k": 40}, "plain", True),
    ("anthropic/claude-sonnet-4-5", {"extended_thinking_budget": 2000, "max_output_tokens": 1500, "reasoning_effort": "none"}, "tail", True),
    ("anthropic/claude-sonnet-4-5", {"extended_thinking_budget": 2000, "extra_headers": {"X-Mine": "1"}, "litellm_extra_body": {"mine": 1}}, "plain", True),
    ("anthropic/claude-opus-4-5", {"reasoning_effort": "low"}, "tail", True),
    ("anthropic/claude-opus-4-5", {"reasoning_effort": None, "temperature": 0.5, "top_k": 40}, "tail", True),
    ("anthropic/claude-opus-4-5", {"reasoning_effort": "none", "seed": 7}, "plain", True),
    ("anthropic/claude-sonnet-5", {"reasoning_effort": "xhigh", "temperature": 0.5}, "plain", True),
    ("anthropic/claude-sonnet-5", {"reasoning_effort": "medium"}, "tail", True),
    ("anthropic/claude-sonnet-5", {"reasoning_effort": None}, "plain", True),
    ("anthropic/claude-opus-4-6", {"reasoning_effort": "high"}, "plain", True),
    ("anthropic/claude-3-5-haiku-20241022", {"temperature": 0.0, "max_output_tokens": 1000}, "plain", True),
    ("gemini/gemini-2.5-pro", {"reasoning_effort": "low", "temperature": 0.5, "top_p": 0.9, "top_k": 40, "seed": 7}, "plain", True),
    ("gemini/gemini-2.5-pro", {"reasoning_effort": None}, "tail", True),
    ("gemini/gemini-2.5-flash", {"reasoning_effort": "none"}, "plain", False),
    ("gemini/gemini-3.1-pro-preview", {"reasoning_effort": "low"}, "tail", True),
    ("litellm_proxy/custom", {"model_canonical_name": "anthropic/claude-opus-4-5"}, "work", True),
    ("litellm_proxy/custom", {"api_mode": "responses", "capability_overrides": {"supports_reasoning_effort": True}}, "tail", True),
    ("litellm_proxy/custom", {"capability_overrides": {"supports_reasoning_effort": True, "supports_vision": True, "supports_prompt_cache": True, "thinking_mode": "manual"}, "max_output_tokens": 5000}, "work", True),
]


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}"
    tools = [*FinishTool.create(), *ThinkTool.create()]
    schemas = [tool.to_openai_tool(add_security_risk_prediction=True)["function"] for tool in tools]
    cases = []
    for model, more, history, with_tools in CASES:
        provider = model.split("/")[0]
        url = base if provider in ("anthropic", "gemini") or model.startswith("claude") else f"{base}/v1"
        settings = {"model": model, "api_key": "sk-test", "base_url": url, "num_retries": 0, **more}
        case = {"settings": {**settings, "base_url": url.replace(base, "http://provider")}, "messages": history, "tools": with_tools}
        SEEN.clear()
        try:
            llm = LLM(**settings)
            llm.generate([Message.model_validate(m) for m in MESSAGES[history]], tools=tools if with_tools else None,
                         store=False, add_security_risk_prediction=True,
                         call_context=LLMCallContext(prompt_cache_key="key-1", session_id="session-1"))
            case["request"] = SEEN[0]
        except Exception as error:
            # Only the first line: the others contain paths of this machine.
            case["error"] = f"{type(error).__name__}: {error}".split("\n")[0]
        cases.append(case)
    made = {"messages": MESSAGES, "tools": schemas, "cases": cases}
    keep(FILE, json.dumps(made, indent=1, ensure_ascii=False) + "\n")


main()
