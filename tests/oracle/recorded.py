"""Runs agents with Annals, and opens the recorded conversations with the real SDK.

Usage: recorded.py     (ANNALS is the path of the program; default: annals)

It uses `annals run`, `resume`, `approve`, `reject`, `fork` and `send` with a scripted model server. Two runs are killed
in the middle of a command. Each conversation is exported as a folder, which the SDK opens. Then the answers of
both are compared: status, branch, HEAD, views, messages, actions without an answer, costs, the final response. Prints
each difference, and ends with 1 if there is one.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import differential
from differential import Annals, asked_of_the_sdk, create


class Model(BaseHTTPRequestHandler):
    """Answers each request with the next line of its model's script. After the script it calls `finish`."""

    protocol_version = "HTTP/1.1"
    scripts: dict = {}
    served: dict = {}

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        name = request["model"]
        place = Model.served[name] = Model.served.get(name, 0) + 1
        script = Model.scripts.get(name, [])
        line = script[place - 1] if place <= len(script) and request.get("tools") else None
        if line is None:
            line = ("", [("finish", {"message": "done"})]) if request.get("tools") else ("What went before.", [])
        if isinstance(line, int):
            return self.send(line, "application/json", json.dumps({"error": {"message": "no"}}))
        text, calls = line
        calls = [
            {
                "index": index,
                "id": f"call_{place}_{index}",
                "type": "function",
                "function": {"name": tool, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)},
            }
            for index, (tool, arguments) in enumerate(calls)
        ]
        message = {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})
        whole = {"id": f"chatcmpl-{name}-{place}", "object": "chat.completion", "created": 1, "model": name}
        usage = {"prompt_tokens": 100 + place, "completion_tokens": 7, "total_tokens": 107 + place}
        reason = "tool_calls" if calls else "stop"
        if not request.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return self.send(200, "application/json", json.dumps(whole | {"choices": [choice], "usage": usage}))
        whole["object"] = "chat.completion.chunk"
        pieces = [
            whole | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            whole | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            whole | {"choices": [], "usage": usage},
        ]
        body = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n"
        self.send(200, "text/event-stream", body)

    def send(self, status, kind, body):
        body = body.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Desk(Annals):
    def __init__(self, folder, url):
        super().__init__(folder / "annals.db")
        self.folder = folder
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        self.environment = kept | {
            "HOME": str(folder / "home"),
            "LLM_API_KEY": "sk-test",
            "LLM_BASE_URL": url,
            "OH_SECRET_KEY": "a long random text",
            "TOKEN": "hush-hush-hush",
        }

    def start(self, *arguments, **more):
        command = [self.program, "--db", str(self.database), "--json", *arguments]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=self.environment | more
        )

    def command(self, *arguments, code=0, **more):
        process = self.start(*arguments, **more)
        out, _ = process.communicate(timeout=120)
        if process.returncode != code:
            raise SystemExit(f"{arguments} ended with {process.returncode}, not {code}: {out[-2000:]}")
        return [json.loads(line) for line in out.splitlines()]

    def run(self, name, script, *more, code=0, **environment):
        """Runs a new conversation and returns its id."""
        Model.scripts[name] = script
        work = self.folder / "work" / name
        work.mkdir(parents=True)
        lines = self.command(
            "run", "Go", "-w", str(work), "-m", f"openai/{name}", *more, code=code, **environment
        )
        return lines[0]["conversation"]

    def killed(self, name, script, until):
        """Starts a new conversation, kills its run as soon as the file `until` exists, and returns its id."""
        Model.scripts[name] = script
        work = self.folder / "work" / name
        work.mkdir(parents=True)
        process = self.start("run", "Go", "-w", str(work), "-m", f"openai/{name}", "--confirm", "never")
        identity = json.loads(process.stdout.readline())["conversation"]
        while not (work / until).exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return identity


def shell(command, risk="LOW"):
    return ("terminal", {"command": command, "security_risk": risk, "summary": "do it"})


def think(number):
    return ("", [("think", {"thought": f"number {number}", "summary": "think"})])


def record(desk):
    """Records a conversation for each course that a run can take. Returns their ids by name."""
    made = {}
    file = {"command": "create", "path": str(desk.folder / "work/done/a.txt"), "file_text": "Hi\n", "security_risk": "LOW"}
    made["done"] = desk.run(
        "done",
        [
            ("First.", [shell("echo one; false"), ("file_editor", file)]),
            ("", [("task_tracker", {"command": "plan", "task_list": [{"title": "t", "notes": "", "status": "todo"}]})]),
            ("", [("no_such_tool", {"a": 1})]),
            ("", [("terminal", "{torn")]),
        ],
    )
    made["secret"] = desk.run("secret", [("", [shell("echo $TOKEN")])], "--secret", "TOKEN")
    plugin = desk.folder / "tools"
    for name, content in {
        ".plugin/plugin.json": '{"name": "tools", "author": "a <a@b>"}',
        "skills/style/SKILL.md": "---\nname: style\ndescription: How to write.\n---\nTabs.",
        "commands/now.md": "Tell $ARGUMENTS.",
        "hooks/hooks.json": '{"session_start": [{"hooks": [{"command": "true"}]}]}',
        ".mcp.json": '{"mcpServers": {"none": {"command": "/nowhere/at/all", "env": {"T": "${TOKEN}"}, "type": "stdio"}}}',
    }.items():
        (plugin / name).parent.mkdir(parents=True, exist_ok=True)
        (plugin / name).write_text(content)
    made["plugin"] = desk.run(
        "plugin", [("", [("invoke_skill", {"name": "style", "summary": "s"})])], "--plugin", str(plugin), "--secret", "TOKEN"
    )
    desk.command("resume", made["plugin"], "/tools:now in Rome")
    made["waiting"] = desk.run(
        "waiting", [("Two.", [shell("echo a"), shell("echo b")])], "--confirm", "always", code=1
    )
    made["approved"] = desk.run("approved", [("", [shell("echo a")])], "--confirm", "always", code=1)
    desk.command("approve", made["approved"], "--confirm", "never")
    made["refused"] = desk.run("refused", [("", [shell("echo a"), shell("echo b")])], "--confirm", "always", code=1)
    desk.command("reject", made["refused"], "--reason", "no")
    desk.command("send", made["refused"], "something else, please")
    desk.command("resume", made["refused"], code=0)
    made["failed"] = desk.run("failed", [think(1), 400], code=2)
    made["stuck"] = desk.run("stuck", [("", [shell("echo same")])] * 9, code=1)
    made["capped"] = desk.run("capped", [think(number) for number in range(5)], "--max-iterations", "3", code=2)
    made["condensed"] = desk.run(
        "condensed", [think(number) for number in range(14)], ANNALS_CONDENSE_AT="12"
    )
    made["fork"] = desk.command("fork", made["done"], "--from", "1")[0]["conversation"]
    desk.command("resume", made["fork"], "go on")
    made["whole fork"] = desk.command("fork", made["waiting"], "--keep-cost")[0]["conversation"]
    batch = [("", [shell("touch begun; sleep 60"), shell("echo never")])]
    made["killed"] = desk.killed("killed", batch, "begun")
    made["resumed"] = desk.killed("resumed", batch, "begun")
    desk.command("resume", made["resumed"])
    return made


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    differing = 0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        # The SDK writes long outputs to a folder below the working folder.
        os.chdir(scratch)
        desk = Desk(scratch, f"http://127.0.0.1:{server.server_port}/v1")
        made = record(desk)
        desk.command("export", "--all", "--to", str(scratch / "out"))
        folders = {
            json.loads(base.read_text())["id"]: base.parent for base in (scratch / "out").glob("*/base_state.json")
        }
        # Check that the conversations have the events that their names promise.
        for name, kind in (("plugin", "HookExecutionEvent"), ("condensed", "Condensation"), ("resumed", "AgentErrorEvent"), ("refused", "UserRejectObservation")):
            if kind not in {event["kind"] for event in desk.answer("events", made[name])}:
                raise SystemExit(f"{name} has no {kind}")
        for name, identity in made.items():
            folder = folders[identity]
            text = (folder / "base_state.json").read_text()
            wrong = [f"{word} is in the base state" for word in ("sk-test", "hush-hush-hush") if word in text]
            actual = desk.of(identity)
            actual["status"] = desk.answer("show", identity)["status"]
            status = create(folder, differential.uuid.UUID(identity)).execution_status.value
            expected = asked_of_the_sdk(folder) | {"status": status}
            wrong += [
                f"{key}\n  the SDK: {str(expected[key])[:600]}\n  Annals:  {str(actual[key])[:600]}"
                for key in expected
                if expected[key] != actual[key]
            ]
            for what in wrong:
                print(f"{name} ({identity}): {what}")
            differing += bool(wrong)
    server.shutdown()
    print(f"{len(made) - differing} of {len(made)} recorded conversations have the same answers from the SDK and from Annals")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
