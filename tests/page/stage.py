"""What the tests play on: a real server over a database of its own, and a browser's page that is watched."""

import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from playwright.sync_api import expect

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests/golden/conversations"
ANNALS = os.environ.get("ANNALS") or ROOT / "target/debug/annals"
KEY = "a-key-of-the-tests"


TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


def items(page):
    """The numbers of the events that each item of the timeline shows, once every page of the log in sight has come: they
    are asked for at once and come in any order."""
    expect(page.locator(".pane .page-waiting")).to_have_count(0)
    return page.locator(".pane .item").evaluate_all("(all) => all.map((one) => one.dataset.seqs.split(' ').map(Number))")


def chromium():
    """Debian's browser, or the one that CHROMIUM names."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert path, "there is no chromium: apt-get install chromium"
    return path


class Annals:
    """A database in a folder of its own, and `annals serve` over it."""

    def __init__(self, folder):
        self.folder, self.process, self.url = Path(folder), None, None
        self.database = self.folder / "annals.db"
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder / "home"), "LANG": "C.UTF-8",
            "TMPDIR": str(self.folder), "OH_SECRET_KEY": "what seals in these tests",
        }

    def run(self, *arguments, text=None):
        """Standard output of a command that has to end well."""
        done = subprocess.run(
            [ANNALS, "--db", self.database, *arguments], cwd=self.folder, env=self.environment, input=text,
            text=True, capture_output=True)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def serve(self, port=0, key=KEY):
        command = [ANNALS, "--db", self.database, "serve", "--port", str(port)]
        command += ["--api-key", key] if key else []
        self.process = subprocess.Popen(
            command, cwd=self.folder, env=self.environment, text=True, stdout=subprocess.PIPE,
            stderr=(self.folder / "server.log").open("w"))
        self.url = re.search(r" on (http\S+)", self.process.stdout.readline())[1]
        return self

    def end(self):
        if self.process:
            self.process.terminate()
            assert self.process.wait(20) == 0, (self.folder / "server.log").read_text()
            self.process = None

    def ask(self, path, body=None, method=None):
        """The JSON of an answer that has to be a good one."""
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, content, {"X-Session-API-Key": KEY, "Content-Type": "application/json"},
            method=method or ("GET" if body is None else "POST"))
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read()[:500]}") from error

    def conversation(self, model, text=None, policy="NeverConfirm", **more):
        """Makes a conversation that `model` plays in, and its id; `text` is said at once, and it runs then."""
        folder = self.folder / "work"
        folder.mkdir(exist_ok=True)
        llm = {"model": "openai/gpt-4o", "base_url": model.url, "api_key": "sk-test", "usage_id": "agent",
               "num_retries": 0, "stream": False}
        agent = {"kind": "Agent", "llm": llm, "tools": [{"name": "terminal"}, {"name": "file_editor"}]}
        body = {"agent": agent, "workspace": {"working_dir": str(folder)}, "autotitle": False,
                "confirmation_policy": {"kind": policy}, **more}
        if text:
            body["initial_message"] = {"role": "user", "content": [{"type": "text", "text": text}], "run": True}
        return self.ask("/api/conversations", body)["id"]

    def append(self, conversation, events, expected="any"):
        """Appends payloads to the log as they are."""
        path = f"/api/annals/conversations/{conversation}/events?expected={expected}"
        return self.ask(path, events)["appended"]

    def conversation_of(self, name):
        """The id of a golden."""
        return json.loads((GOLDENS / name / "base_state.json").read_text())["id"]


# Told by the page before any of its scripts: what the browser refuses, and the signs that a transcript has run.
WATCH = """
window.__refused = [];
document.addEventListener('securitypolicyviolation', (event) => {
  window.__refused.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`);
});
"""


def from_folder(context, server, folder):
    """Serves the page's files from a folder like src/page: what was changed there is seen without a build."""
    with urllib.request.urlopen(server.url + "/page/index.html") as answer:
        policy = answer.headers["Content-Security-Policy"]

    def serve(route):
        path = urllib.parse.urlsplit(route.request.url).path.removeprefix("/page/").strip("/") or "index.html"
        file = next((file for file in (folder / "app" / path, folder / path) if file.is_file()), None)
        if file is None:
            return route.continue_()
        headers = {"Content-Type": TYPES[file.suffix], "Content-Security-Policy": policy}
        return route.fulfill(body=file.read_bytes(), headers=headers)

    context.route(lambda url: url.startswith(server.url + "/page/") or url.split("#")[0] == server.url + "/", serve)


class Watched:
    """A page that must not complain: errors, warnings, dialogs and breaches of its policy are kept."""

    def __init__(self, context, server):
        self.server, self.complaints, self.foreign, self.requests = server, [], [], []
        context.add_init_script(WATCH)
        if folder := os.environ.get("PAGE_FOLDER"):
            from_folder(context, server, Path(folder))
        self.page = context.new_page()
        self.page.set_default_timeout(10_000)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("console", self.hear)
        self.page.on("dialog", self.dialog)
        self.page.on("popup", lambda popup: self.complaints.append(f"popup: {popup.url}"))
        self.page.on("request", self.request)

    def hear(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def dialog(self, dialog):
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def request(self, request):
        self.requests.append(request.url)
        if not request.url.startswith((self.server.url, self.server.url.replace("http", "ws"), "data:", "blob:")):
            self.foreign.append(request.url)

    def open(self, place="/conversations", key=KEY):
        """Opens the page at a place of it, with the key handed over as `annals open` does."""
        self.page.goto(f"{self.server.url}/#key={key}&{place}")
        self.page.wait_for_function("() => !location.hash.includes('key=')")
        return self.page

    def go(self, place):
        self.page.evaluate("(place) => { location.hash = place; }", place)

    def check(self):
        """What it complained of, which has to be nothing."""
        refused = self.page.evaluate("() => window.__refused") if not self.page.is_closed() else []
        assert not self.complaints, self.complaints
        assert not refused, refused
        assert not self.foreign, self.foreign
