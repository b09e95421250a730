"""Drives the real agent-server with Annals' remote client.

Usage: remote.py     ANNALS names the program (default: annals)

The script starts the server of the SDK that runs it, in a folder of its own. A model server plays scripts to the
server's agents. `annals run --server` and other commands do the rest: runs, approvals and rejections, continued runs,
questions, a failure, and runs whose sockets break in the middle of frames. The events that `annals --json` prints have
to be the server's log: each event once and in order. If they are not, the script prints where they differ and ends with 1.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import ThreadingHTTPServer
from pathlib import Path

from recorded import Model

KEY = "session-key-that-nobody-sees"


class Server:
    """The real server and its log of events."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        environment = os.environ | {
            "OH_SESSION_API_KEYS_0": KEY,
            "OH_CONVERSATIONS_PATH": str(folder / "conversations"),
            "OH_BASH_EVENTS_DIR": str(folder / "bash"),
            "HOME": str(folder / "home"),
        }
        self.log = (folder / "server.log").open("w")
        command = [sys.executable, "-m", "openhands.agent_server", "--host", "127.0.0.1", "--port", str(self.port)]
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=self.log, stderr=self.log)
        for _ in range(600):
            try:
                self.ask("/ready")
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        sys.exit(f"the server did not come up:\n{(folder / 'server.log').read_text()[-4000:]}")

    def ask(self, path):
        request = urllib.request.Request(self.url + path, headers={"X-Session-API-Key": KEY})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def events(self, conversation):
        events, page = [], ""
        while True:
            found = self.ask(f"/api/conversations/{conversation}/events/search?limit=100{page}")
            events += found["items"]
            if not found["next_page_id"]:
                return events
            page = f"&page_id={found['next_page_id']}"

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


class Proxy:
    """Forwards bytes. Breaks each event socket after the next number of bytes in `limits`, until no number is left."""

    def __init__(self, port, limits):
        self.limits = list(limits)
        self.target = port
        self.broken = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            limit = [None]
            threading.Thread(target=self.forward, args=(client, server, limit), daemon=True).start()
            threading.Thread(target=self.backward, args=(client, server, limit), daemon=True).start()

    def forward(self, client, server, limit):
        try:
            while piece := client.recv(65536):
                if piece.startswith(b"GET /sockets/") and self.limits:
                    limit[0] = self.limits.pop(0)
                server.sendall(piece)
        except OSError:
            pass
        self.close(client, server)

    def backward(self, client, server, limit):
        try:
            while piece := server.recv(65536):
                if limit[0] is not None:
                    piece = piece[: limit[0]]
                    limit[0] -= len(piece)
                client.sendall(piece)
                if limit[0] == 0:
                    self.broken += 1
                    break
        except OSError:
            pass
        self.close(client, server)

    @staticmethod
    def close(*sockets):
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()


class Desk:
    def __init__(self, folder, server, model_url):
        self.folder, self.server, self.model_url = folder, server, model_url
        self.failed = 0

    def annals(self, arguments, url=None, codes=(0,)):
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "LLM_API_KEY": "sk-test",
            "LLM_BASE_URL": self.model_url,
            "OH_SESSION_API_KEYS_0": KEY,
        }
        command = [os.environ.get("ANNALS", "annals"), "--json", *arguments, "--server", url or self.server.url]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
        )
        if done.returncode not in codes:
            self.fail(f"{arguments} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def run(self, script, *more, url=None, codes=(0,)):
        """Runs a new conversation. Returns the lines that Annals printed."""
        name = f"script{len(Model.scripts)}"
        Model.scripts[name] = script
        arguments = ["run", "Go", "-m", f"openai/{name}", "-w", str(self.folder / "work"), *more]
        return self.annals(arguments, url, codes)

    def fail(self, what):
        self.failed += 1
        print(f"FAILS {what}")

    def same(self, what, conversation, lines):
        """Checks that the received events are the last ones of the server's log."""
        received = [line["event"] for line in lines if "event" in line]
        logged = self.server.events(conversation)[-len(received) :] if received else []
        if received and [e["id"] for e in received] == [e["id"] for e in logged] and received == logged:
            return print(f"ok    {what}: {len(received)} events")
        place = next((n for n, (a, b) in enumerate(zip(received, logged)) if a != b), min(len(received), len(logged)))
        self.fail(f"{what}: {len(received)} received, {len(logged)} logged, the first difference is at {place}")
        for side in (received, logged):
            print("     ", json.dumps(side[place])[:300] if place < len(side) else "nothing")

    def whole(self, what, lines, status="finished"):
        """Checks a run from its beginning: every event of the log was received, and the run ended with `status`."""
        conversation = lines[0]["conversation"]
        self.same(what, conversation, lines)
        received, logged = sum("event" in line for line in lines), len(self.server.events(conversation))
        if received != logged:
            self.fail(f"{what}: {received} received, {logged} logged")
        if lines[-1].get("status") != status:
            self.fail(f"{what}: ended {lines[-1]}")
        return conversation


def shell(command):
    return ("I look.", [("terminal", {"command": command, "security_risk": "LOW"})])


def main():
    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    model_url = f"http://127.0.0.1:{model.server_port}/v1"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        folder = Path(folder)
        (folder / "home").mkdir()
        server = Server(folder)
        try:
            desk = Desk(folder, server, model_url)
            done = ("", [("finish", {"message": "done"})])
            script = [shell("echo one"), shell("echo two; sleep 0.3"), ("", [("think", {"thought": "hm"})])]
            script += [done, done, ("Because.", [])]
            conversation = desk.whole("a run", desk.run(script))
            desk.same("continued", conversation, desk.annals(["resume", conversation, "And now?"]))
            answer = desk.annals(["ask", conversation, "Why?"])
            if answer != [{"answer": "Because."}]:
                desk.fail(f"a question: {answer}")

            lines = desk.run([shell("echo yes"), shell("echo no")], "--confirm", "always", codes=(1,))
            conversation = desk.whole("waits for approval", lines, "waiting_for_confirmation")
            desk.same("approved", conversation, desk.annals(["approve", conversation], codes=(1,)))
            rejected = desk.annals(["reject", conversation, "--run", "--reason", "not that"], codes=(0, 1))
            desk.same("rejected", conversation, rejected)
            kinds = [event["kind"] for event in server.events(conversation)]
            if kinds.count("UserRejectObservation") != 1:
                desk.fail(f"rejected: {kinds}")

            lines = desk.run([400], codes=(2,))
            desk.whole("a failure", lines, "error")

            dice = random.Random(7)
            broken = 0
            for _ in range(4):
                limits = [dice.randrange(8_000, 30_000)] + [dice.randrange(1, 20_000) for _ in range(3)]
                proxy = Proxy(server.port, limits)
                script = [shell(f"echo {n}; sleep 0.2") for n in range(4)]
                desk.whole(f"sockets that break after {limits}", desk.run(script, url=proxy.url))
                broken += proxy.broken
            if broken < 4:
                desk.fail(f"only {broken} sockets broke")
        finally:
            server.end()
            model.shutdown()
    if desk.failed:
        sys.exit(1)
    print("the received events are what the real server logged")


main()
