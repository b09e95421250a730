#!/usr/bin/env python3
"""Runs a server under mixed load and checks that its memory, descriptors, threads and write-ahead log do not grow.

    cargo build --release
    python3 tests/soak/soak.py --minutes 60               # target/release/annals, or --annals PATH, or ANNALS
    python3 tests/soak/soak.py --minutes 4 --annals target/debug/annals

Clients create conversations, send messages that a model in this script answers, append raw events, open sockets and
close some of them without a close frame, read pages, search, query, upload and download files, and delete the oldest
conversations, so that the database stops growing. Everything stays on this machine (127.0.0.1) and in one folder, which
is removed. The script reads the server's figures from /proc twice a second and prints a row each minute (more often in a
run of less than five minutes). The first sixth of the time is for warming up, or the first third in a run of less than
half an hour. After it, no figure may grow. A figure grew if both the difference of two medians (first and last fifth)
and the rise of a straight line through all samples exceed what is allowed (ROOM).

Ends with 1 if a figure grew, an answer was a server error, a request failed, the server panicked or did not end cleanly,
or `annals verify` failed. Linux only. Needs Python 3.9 or later and no packages.
"""

import argparse
import base64
import collections
import http.client
import http.server
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEY = "soak-key-0123456789"
# The allowed growth from the first to the last fifth: as a share of the first, and at least this much (bytes, counts).
ROOM = {"memory": (0.10, 12 << 20), "descriptors": (0.25, 24), "threads": (0.20, 8), "wal": (0.50, 16 << 20)}


class Model(http.server.BaseHTTPRequestHandler):
    """A model server that answers with a short text. Sometimes it calls a command first, and rarely it fails."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        last = (asked.get("messages") or [{}])[-1]
        if random.random() < 0.03:
            return self.answer(500, {"error": {"message": "a made-up failure"}})
        message = {"role": "assistant", "content": "It is done."}
        finish = "stop"
        if last.get("role") == "user" and random.random() < 0.3:
            call = {"name": "terminal", "arguments": json.dumps({"command": "echo soaked"})}
            message = {"role": "assistant", "content": None,
                       "tool_calls": [{"id": "call_" + uuid.uuid4().hex[:8], "type": "function", "function": call}]}
            finish = "tool_calls"
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        self.answer(200, {"id": "r-" + uuid.uuid4().hex[:8], "object": "chat.completion", "created": 0, "model": "test",
                          "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage})

    def answer(self, status, value):
        text = json.dumps(value).encode()
        try:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        except ConnectionError:
            self.close_connection = True  # the server has closed the connection

    def log_message(self, *_):
        pass


class World:
    """The state that the clients share."""

    def __init__(self, port, model, folder, kept):
        self.port, self.model, self.folder, self.kept = port, model, folder, kept
        self.lock = threading.Lock()
        self.conversations = collections.deque()
        self.counts = collections.Counter()
        self.faults = []
        self.ending = threading.Event()

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def fault(self, text):
        with self.lock:
            self.faults.append(text[:400])

    def any(self):
        with self.lock:
            return random.choice(self.conversations) if self.conversations else None


class Client:
    """A client with one connection."""

    def __init__(self, world):
        self.world = world
        self.connection = None

    def ask(self, method, path, body=None, kind="application/json", fine=()):
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        headers = {"x-session-api-key": KEY, **({"content-type": kind} if data is not None else {})}
        for attempt in (1, 2):
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection("127.0.0.1", self.world.port, timeout=120)
                self.connection.request(method, path, data, headers)
                answer = self.connection.getresponse()
                text = answer.read()
                break
            except (OSError, http.client.HTTPException) as error:
                self.connection = None
                if attempt == 2 and not self.world.ending.is_set():
                    self.world.fault(f"{method} {path}: {error!r}")
                if attempt == 2:
                    return 0, b""
        # 503 with retry-after means that the server is overloaded, which is no fault.
        asks_to_wait = answer.status == 503 and answer.getheader("retry-after")
        if answer.status >= 500 and answer.status not in fine and not asks_to_wait:
            self.world.fault(f"{method} {path}: {answer.status} {text[:200]!r}")
        return answer.status, text

    def create(self):
        llm = {"model": "openai/test", "base_url": f"http://127.0.0.1:{self.world.model}/v1", "api_key": "sk-soak",
               "usage_id": "agent", "num_retries": 0}
        # A third of the conversations have a shell.
        tools = [{"name": "terminal"}] if random.random() < 0.33 else []
        wanted = {"agent": {"kind": "Agent", "llm": llm, "tools": tools}, "autotitle": False,
                  "workspace": {"working_dir": str(self.world.folder / "work")}}
        status, text = self.ask("POST", "/api/conversations", wanted)
        if status in (200, 201):
            with self.world.lock:
                self.world.conversations.append(json.loads(text)["id"])
        self.world.count("created")
        while True:
            with self.world.lock:
                if len(self.world.conversations) <= self.world.kept:
                    return
                oldest = self.world.conversations.popleft()
            self.ask("DELETE", f"/api/conversations/{oldest}")
            self.world.count("deleted")

    def say(self, one):
        body = {"role": "user", "content": [{"type": "text", "text": f"Do {random.random()}"}], "run": True}
        self.ask("POST", f"/api/conversations/{one}/events", body)
        self.world.count("runs")

    def append(self, one):
        events = [{"kind": "PauseEvent", "source": "user", "id": str(uuid.uuid4()), "note": "x" * random.randrange(2000)}
                  for _ in range(random.randrange(1, 20))]
        now = time.strftime("%Y-%m-%dT%H:%M:%S")
        for event in events:
            event["timestamp"] = now
        self.ask("POST", f"/api/annals/conversations/{one}/events", events)
        self.world.count("appends")

    def read(self, one):
        self.ask("GET", f"/api/conversations/{one}/events/search?limit=100")
        self.ask("GET", f"/api/annals/conversations/{one}/state")
        self.ask("GET", "/api/annals/conversations?limit=20")
        self.world.count("reads")

    def search(self, _):
        self.ask("GET", "/api/annals/search?" + urllib.parse.urlencode({"q": random.choice(["done", "soaked", "Do", "zzz"])}))
        self.world.count("searches")

    def query(self, _):
        sql = random.choice([
            "SELECT kind, count(*) FROM events GROUP BY kind",
            "SELECT tool_name, count(*) FROM tool_calls GROUP BY 1",
            "SELECT * FROM conversations LIMIT 5",
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 200000) SELECT count(*) FROM n",
        ])
        self.ask("POST", "/api/annals/query", {"sql": sql})
        self.world.count("queries")

    def upload(self, _):
        place = self.world.folder / "work" / f"up-{random.randrange(20)}"
        edge = uuid.uuid4().hex
        content = random.randbytes(random.randrange(1, 200_000)) if hasattr(random, "randbytes") else os.urandom(50_000)
        head = f'--{edge}\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\n'.encode()
        body = head + content + f"\r\n--{edge}--\r\n".encode()
        path = urllib.parse.quote(str(place))
        self.ask("POST", f"/api/file/upload?path={path}", body, f"multipart/form-data; boundary={edge}")
        self.ask("GET", f"/api/file/download?path={path}")
        self.world.count("uploads")

    def export(self, one):
        self.ask("GET", f"/api/file/download-trajectory/{one}")
        self.world.count("exports")

    def listen(self, one):
        """Reads from a socket for a moment. A third of the sockets are closed without a close frame."""
        stream = socket.create_connection(("127.0.0.1", self.world.port), timeout=20)
        try:
            nonce = base64.b64encode(os.urandom(16)).decode()
            stream.sendall((
                f"GET /sockets/events/{one}?resend_mode=all HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\n"
                f"upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: {nonce}\r\n"
                f"x-session-api-key: {KEY}\r\n\r\n").encode())
            stream.settimeout(random.choice([0.05, 0.3, 1.0]))
            try:
                while stream.recv(65536):
                    pass
            except (socket.timeout, ConnectionError):
                pass
            if random.random() < 0.67:
                try:
                    stream.sendall(b"\x88\x80" + os.urandom(4))  # a masked, empty close
                except OSError:
                    pass
        finally:
            stream.close()
        self.world.count("sockets")

    def live(self):
        actions = [(self.say, 3), (self.append, 6), (self.read, 5), (self.search, 2), (self.query, 2), (self.upload, 1),
                 (self.export, 1), (self.listen, 4)]
        actions, weights = zip(*actions)
        while not self.world.ending.is_set():
            one = self.world.any()
            try:
                if one is None or random.random() < 0.05:
                    self.create()
                else:
                    random.choices(actions, weights)[0](one)
            except Exception as error:  # noqa: BLE001: any error is a fault
                if not self.world.ending.is_set():
                    self.world.fault(repr(error))
                self.connection = None
            # The pause limits the load to some tens of requests per second, so that the load stays the same.
            self.world.ending.wait(random.random() * 0.1)


def look(pid, wal):
    """Returns the server's memory, descriptors, threads and size of the write-ahead log."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    field = lambda name: int(next(line for line in status.splitlines() if line.startswith(name)).split()[1])
    try:
        size = wal.stat().st_size
    except OSError:
        size = 0
    return {"memory": field("VmRSS:") * 1024, "descriptors": len(os.listdir(f"/proc/{pid}/fd")), "threads": field("Threads:"), "wal": size}


def grown(samples):
    """Prints a verdict per figure and returns the names of those that grew. `samples` are those after warming up."""
    fifth = max(1, len(samples) // 5)
    names = []
    for name, (part, least) in ROOM.items():
        values = [sample[name] for sample in samples]
        first, last = statistics.median(values[:fifth]), statistics.median(values[-fifth:])
        allowed = max(first * part, least)
        # The slope of the straight line through all values, over the whole time. It finds slow growth.
        middle = (len(values) - 1) / 2
        mean = statistics.fmean(values)
        spread = sum((at - middle) ** 2 for at in range(len(values))) or 1
        slope = sum((at - middle) * (value - mean) for at, value in enumerate(values)) / spread * len(values)
        verdict = "grew" if last - first > allowed and slope > allowed else "flat"
        print(f"{name:12} first fifth {first:>14,.0f}   last fifth {last:>14,.0f}   highest {max(values):>14,}   "
              f"creeps by {slope:>+13,.0f}   allowed {allowed:>13,.0f}   {verdict}")
        if verdict == "grew":
            names.append(name)
    return names


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--minutes", type=float, default=60)
    arguments.add_argument("--clients", type=int, default=8)
    arguments.add_argument("--annals", default=os.environ.get("ANNALS", str(ROOT / "target/release/annals")))
    arguments.add_argument("--log", help="file to keep the server's output in")
    given = arguments.parse_args()
    annals = pathlib.Path(given.annals).resolve()
    with tempfile.TemporaryDirectory(prefix="annals-soak-") as folder:
        return soak(given, annals, pathlib.Path(folder))


def soak(given, annals, folder):
    (folder / "work").mkdir()
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    model.daemon_threads = True
    threading.Thread(target=model.serve_forever, daemon=True).start()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = open(folder / "server.log", "wb")
    environment = {**os.environ, "HOME": str(folder), "OH_CONVERSATIONS_PATH": str(folder / "conversations"),
                   "OH_PERSISTENCE_DIR": str(folder / "settings")}
    server = subprocess.Popen([str(annals), "--db", str(folder / "soak.db"), "serve", "--port", str(port), "--api-key", KEY],
                              cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    # The number of conversations that are kept. Beyond it, the oldest are deleted. The warm-up creates about as many.
    kept = max(10, min(150, int(given.minutes * 4)))
    world = World(port, model.server_address[1], folder, kept)
    clients = [threading.Thread(target=Client(world).live, daemon=True) for _ in range(given.clients)]
    samples = []
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                break
            except OSError:
                if server.poll() is not None:
                    sys.exit("the server did not start: " + (folder / "server.log").read_text()[-2000:])
                time.sleep(0.05)
        for client in clients:
            client.start()
        print(f"{'minute':>7} {'MiB':>8} {'descr.':>7} {'threads':>8} {'WAL MiB':>8} {'db MiB':>7}   requests so far")
        begun, shown = time.monotonic(), 0
        while time.monotonic() - begun < given.minutes * 60:
            time.sleep(0.5)
            if server.poll() is not None:
                world.fault(f"the server ended by itself: {server.returncode}")
                break
            samples.append(look(server.pid, folder / "soak.db-wal"))
            if time.monotonic() - begun >= (shown + 1) * 60 * min(1, given.minutes / 5):
                shown += 1
                now = {name: statistics.median(sample[name] for sample in samples[-20:]) for name in ROOM}
                size = (folder / "soak.db").stat().st_size / 2**20
                counts = " ".join(f"{name} {count}" for name, count in sorted(world.counts.items()))
                minute = (time.monotonic() - begun) / 60
                print(f"{minute:7.1f} {now['memory'] / 2**20:8.1f} {now['descriptors']:7.0f} {now['threads']:8.0f} "
                      f"{now['wal'] / 2**20:8.1f} {size:7.1f}   {counts}", flush=True)
    finally:
        world.ending.set()
        for client in clients:
            client.join(30)
        server.send_signal(signal.SIGTERM)
        try:
            ended = server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            ended = "it had to be killed"
        model.shutdown()
    after = samples[len(samples) // (6 if given.minutes >= 30 else 3):]
    names = grown(after)
    if ended != 0:
        world.fault(f"the server did not end cleanly: {ended}")
    log.close()
    output = (folder / "server.log").read_text(errors="replace")
    for at, line in enumerate(lines := output.splitlines()):
        if "panicked" in line:
            world.fault("a panic: " + " | ".join(lines[at:at + 3]))
    if given.log:
        pathlib.Path(given.log).write_text(output)
    checked = subprocess.run([str(annals), "--db", str(folder / "soak.db"), "verify"], capture_output=True, text=True)
    if checked.returncode != 0:
        world.fault("verify afterwards: " + (checked.stdout + checked.stderr)[-1000:])
    for text, count in collections.Counter(world.faults).most_common(20):
        print(f"FAULT {count} times: {text}")
    code = 1 if names or world.faults else 0
    print(f"{given.minutes:g} minutes, {sum(world.counts.values())} actions: " + ("failed" if code else "all flat, no faults, verified"))
    return code


if __name__ == "__main__":
    sys.exit(main())
