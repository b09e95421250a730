"""Records conversations with old releases of the SDK, into the folders beside this file.

Usage: make_ages.py [RELEASE...]     (with the Python of a virtual environment that has today's SDK)

Each release is installed without its dependencies and runs on those of today's. The ids and times are new each time, so nothing
checks that a repetition gives the same. Each release records the same two courses: a tool of the agent's own, with a class that
renders its answers (`talk`), and a condenser that forgets its own summaries (`condense`).
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

RELEASES = "1.0.0 1.3.0 1.7.4 1.11.5 1.20.1 1.27.1 1.43.1 1.53.0".split()
HERE = Path(__file__).resolve().parent


class Model(BaseHTTPRequestHandler):
    """Answers with the next call of the script, and then with `finish`. A request without tools gets a text."""

    protocol_version = "HTTP/1.1"
    script: list = []
    served = 0

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Model.served += 1
        message = {"role": "assistant", "content": f"What went before, {Model.served}."}
        if request.get("tools"):
            name, arguments = Model.script.pop(0) if Model.script else ("finish", '{"message": "done"}')
            function = {"name": name, "arguments": arguments}
            message = {"role": "assistant", "content": None}
            message["tool_calls"] = [{"id": f"call_{Model.served}", "type": "function", "function": function}]
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        reply = {"id": f"reply-{Model.served}", "object": "chat.completion", "created": 1, "model": "m"}
        body = json.dumps(reply | {"choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve() -> str:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


def record(folder: Path) -> None:
    from openhands.sdk import LLM, Agent, Conversation, Tool
    from openhands.sdk.context.condenser import LLMSummarizingCondenser

    import weigh  # noqa: F401  (registers the tool)

    tools = [Tool(name="WeighTool")]
    try:
        from openhands.sdk.tool import register_tool
        from openhands.tools.delegate import DelegateTool

        register_tool("DelegateTool", DelegateTool)
        gone = [Tool(name="DelegateTool")]
    except ImportError:
        gone = []
    url = serve()

    def llm(usage):
        # Until 1.0 the member was called `service_id`.
        name = "usage_id" if "usage_id" in LLM.model_fields else "service_id"
        return LLM(model="openai/m", api_key="none", base_url=url, num_retries=0, **{name: usage})

    def run(name, agent, script, texts):
        Model.script = list(script)
        made = folder / "made"
        conversation = Conversation(agent=agent, workspace=str(folder / "work"), persistence_dir=str(made))
        for text in texts:
            conversation.send_message(text)
            conversation.run()
        conversation.close()
        made.joinpath(conversation.id.hex).rename(folder / name)

    (folder / "work").mkdir(parents=True)
    weigh = ("weigh", '{"animals": ["ox", "hen"]}')
    think = [("think", json.dumps({"thought": f"number {number}"})) for number in range(14)]
    talk = [weigh, think[0], ("no_such_tool", "{}"), weigh], ["Go", "Again"]
    try:
        run("talk", Agent(llm=llm("agent"), tools=tools + gone), *talk)
    except FileNotFoundError:
        # The packages of some releases lack a file of the tool.
        run("talk", Agent(llm=llm("agent"), tools=tools), *talk)
    condenser = LLMSummarizingCondenser(llm=llm("condenser"), max_size=10, keep_first=2)
    run("condense", Agent(llm=llm("agent"), tools=[], condenser=condenser), think, ["Go", "And on"])


def main() -> None:
    environment = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENHANDS_SUPPRESS_BANNER": "1", "PATH": os.environ["PATH"]}
    for release in sys.argv[1:] or RELEASES:
        place = Path(tempfile.gettempdir()) / "ages" / release
        shutil.rmtree(place, ignore_errors=True)
        packages = [f"openhands-sdk=={release}", f"openhands-tools=={release}", "bashlex"]
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place / "sdk"), *packages]
        subprocess.run(install, check=True)
        environment["PYTHONPATH"] = str(place / "sdk")
        command = [sys.executable, __file__, "record", str(place / "record")]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        for name in ("talk", "condense"):
            shutil.rmtree(HERE / release / name, ignore_errors=True)
            shutil.copytree(place / "record" / name, HERE / release / name)
        print(release)


if __name__ == "__main__":
    record(Path(sys.argv[2])) if sys.argv[1:2] == ["record"] else main()
