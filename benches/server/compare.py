#!/usr/bin/env python3
"""Annals' server beside the real OpenHands agent-server 1.58, in one run, on the same data.

    cargo build --release
    python3 benches/server/compare.py                      # makes a virtual environment with the reference in it
    python3 benches/server/compare.py --reference PYTHON   # where openhands-agent-server 1.58.0 is installed already

The data is one the reference itself wrote: a conversation made over its interface, its folder copied 200 times with
500 events each, and once with 50,000. Annals imports the same folders. Both are asked by the same client, one
connection, in turn; each figure is a median. Needs Linux (/proc) and, without --reference, a package index.
"""

import argparse
import atexit
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

PACKAGE = "openhands-agent-server==1.58.0"
MANY, EACH, LONG = 200, 500, 50_000
ROOT = pathlib.Path(__file__).resolve().parents[2]
AGENT = {"kind": "Agent", "llm": {"model": "openai/gpt-4o", "api_key": "none", "usage_id": "agent"}, "tools": []}


class Server:
    """A server process and one connection to it."""

    def __init__(self, name, command, folder, environment=None):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.name = name
        self.log = open(folder / f"{name}.log", "ab")
        environment = {**os.environ, **(environment or {}), "HOME": str(folder)}
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [part.format(port=self.port) for part in command],
            env=environment, cwd=folder, stdout=self.log, stderr=self.log, start_new_session=True,
        )
        # Whatever goes wrong from here on, nothing is left running.
        atexit.register(self.end)
        while True:
            try:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
                if self.ask("GET", "/ready")[0] == 200:
                    break
            except OSError:
                pass
            if self.process.poll() is not None:
                sys.exit(f"{name} ended: see {self.log.name}")
            time.sleep(0.001)
        self.ready_seconds = time.perf_counter() - began

    def ask(self, method, path, body=None):
        text = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"} if text else {}
        self.connection.request(method, path, text, headers)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def timed(self, path, times=1, method="GET", body=None):
        """The median of some asks, in seconds."""
        took = []
        for _ in range(times):
            began = time.perf_counter()
            status, answer = self.ask(method, path, body)
            took.append(time.perf_counter() - began)
            if status not in (200, 201):
                sys.exit(f"{self.name}: {method} {path}: {status} {answer[:500]}")
        return statistics.median(took)

    def resident_mb(self):
        """The resident memory of the process and its children."""
        pids, total = [self.process.pid], 0
        for pid in pids:
            try:
                children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
            except FileNotFoundError:
                continue
            pids.extend(int(child) for child in children.split())
            total += int(status.split("VmRSS:")[1].split()[0])
        return total / 1024

    def end(self):
        atexit.unregister(self.end)
        if self.process.poll() is not None:
            return
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(60)
        self.log.close()


def event(number):
    """An event of half a kilobyte, as the reference writes them."""
    agent = number % 2
    said = {"role": "assistant" if agent else "user", "thinking_blocks": [],
            "content": [{"cache_prompt": False, "type": "text", "text": f"word {number} " * 20}]}
    return {"id": str(uuid.uuid4()), "timestamp": f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000001",
            "source": "agent" if agent else "user", "llm_message": said, "activated_skills": [],
            "extended_content": [], "kind": "MessageEvent"}


def copy(template, folder, count):
    """A conversation like the template, with `count` events of its own."""
    old, new = uuid.UUID(template.name), uuid.uuid4()
    target = folder / new.hex
    (target / "events").mkdir(parents=True)
    for name in ("base_state.json", "meta.json"):
        text = (template / name).read_text().replace(str(old), str(new)).replace(old.hex, new.hex)
        state = json.loads(text)
        for gone in ("leaf_event_id", "last_user_message_id"):
            if gone in state:
                state[gone] = None
        (target / name).write_text(json.dumps(state))
    parent = None
    for number in range(count):
        made = event(number)
        if parent:
            made["parent_id"] = parent
        parent = made["id"]
        (target / "events" / f"event-{number:05}-{parent}.json").write_text(json.dumps(made))
    state = json.loads((target / "base_state.json").read_text())
    state["leaf_event_id"] = parent
    (target / "base_state.json").write_text(json.dumps(state))
    return str(new)


def reference_python(folder):
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", PACKAGE], check=True)
    return str(python)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", help="a Python with the reference installed")
    parser.add_argument("--annals", default=str(ROOT / "target" / "release" / "annals"))
    parser.add_argument("--folder", help="where the data goes; a temporary folder without it")
    arguments = parser.parse_args()
    base = pathlib.Path(tempfile.mkdtemp(prefix="annals-compare-", dir=arguments.folder))
    python = arguments.reference or reference_python(base)
    few, many, long = base / "few", base / "many", base / "long"
    for folder in (few, many, long):
        folder.mkdir()
    workspace = base / "workspace"
    workspace.mkdir()
    subprocess.run(["git", "init", "--quiet", workspace], check=True)
    reference = [python, "-m", "openhands.agent_server", "--host", "127.0.0.1", "--port", "{port}"]

    def real(conversations):
        return Server("reference", reference, base, {
            "OH_CONVERSATIONS_PATH": str(conversations), "OH_BASH_EVENTS_DIR": str(base / "bash"),
            "OH_ENABLE_VSCODE": "false", "OH_PRELOAD_TOOLS": "false", "OPENHANDS_SUPPRESS_BANNER": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        })

    def ours(name):
        return Server("annals", [arguments.annals, "--db", str(base / f"{name}.db"), "serve", "--port", "{port}"], base)

    start = {"agent": AGENT, "workspace": {"working_dir": str(workspace)}}
    rows = []

    def row(what, annals, real, unit, wanted):
        ratio = real / annals
        rows.append((what, annals, real, unit, ratio, wanted))
        print(f"{what}: {annals:.2f} {unit} against {real:.2f} {unit}: {ratio:.1f} times; wanted {wanted}", flush=True)

    # One that the reference itself wrote is what the others are made of.
    server = real(few)
    status, answer = server.ask("POST", "/api/conversations", start)
    assert status == 201, answer
    said = {"role": "user", "content": [{"type": "text", "text": "Good morning"}], "run": False}
    posts = f"/api/conversations/{json.loads(answer)['id']}/events"
    server.timed(posts, 3, "POST", said)
    real_post = server.timed(posts, 200, "POST", said) * 1e3
    server.end()
    template = few / uuid.UUID(json.loads(answer)["id"]).hex
    for _ in range(MANY):
        copy(template, many, EACH)
    giant = copy(template, long, LONG)
    for name, folder in (("many", many), ("long", long)):
        subprocess.run([arguments.annals, "--db", base / f"{name}.db", "import", folder], check=True,
                       stdout=subprocess.DEVNULL)

    # Start, idle memory.
    ready, memory = {}, {}
    for name, begin in (("annals", lambda: ours("many")), ("reference", lambda: real(many))):
        times = []
        for _ in range(3):
            server = begin()
            times.append(server.ready_seconds)
            time.sleep(2)
            status, answer = server.ask("GET", "/api/conversations/count")
            assert (status, json.loads(answer)) == (200, MANY), answer
            memory[name] = server.resident_mb()
            server.end()
        ready[name] = statistics.median(times)
    row(f"start to ready, {MANY} conversations of {EACH} events", ready["annals"] * 1e3, ready["reference"] * 1e3, "ms", ">= 100")
    row(f"resident memory, {MANY} conversations, idle", memory["annals"], memory["reference"], "MB", ">= 10 (8 idle)")

    # A long conversation.
    figures = {}
    search = f"/api/conversations/{giant}/events/search"
    for name, begin in (("annals", lambda: ours("long")), ("reference", lambda: real(long))):
        server = begin()
        first = server.timed(search + "?limit=100")
        warm = server.timed(search + "?limit=100", 50)
        page = server.timed(search + "?limit=100&sort_order=TIMESTAMP_DESC", 50)
        count = server.timed(f"/api/conversations/{giant}/events/count?kind=MessageEvent", 20)
        plain = server.timed(f"/api/conversations/{giant}/events/count", 20)
        figures[name] = [value * 1e3 for value in (first, warm, page, count, plain)]
        cursor = ""
        while cursor is not None:
            _, answer = server.ask("GET", search + "?limit=100" + cursor)
            following = json.loads(answer)["next_page_id"]
            cursor = following and f"&page_id={following}"
        memory[name] = server.resident_mb()
        server.end()
    wanted = [("first page", ">= 500"), ("warm page of 100", ">= 4"), ("warm page of 100 from the end", ">= 4"),
              ("count with a filter", ">= 10"), ("count", "-")]
    for place, (what, bound) in enumerate(wanted):
        row(f"{what}, {LONG} events", figures["annals"][place], figures["reference"][place], "ms", bound)
    row(f"resident memory after {LONG} events were read", memory["annals"], memory["reference"], "MB", ">= 10")

    # A person says something.
    server = ours("few")
    status, answer = server.ask("POST", "/api/conversations", start)
    assert status == 201, answer
    posts = f"/api/conversations/{json.loads(answer)['id']}/events"
    server.timed(posts, 3, "POST", said)
    row("POST message, run=false, p50", server.timed(posts, 200, "POST", said) * 1e3, real_post, "ms", ">= 10")
    server.end()

    print("\n| what | Annals | agent-server 1.58 | times | wanted |\n|---|---|---|---|---|")
    for what, annals, real_value, unit, ratio, bound in rows:
        print(f"| {what} | {annals:.2f} {unit} | {real_value:.2f} {unit} | {ratio:.1f} | {bound} |")
    if arguments.folder is None:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
