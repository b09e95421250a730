"""Helpers of the tests: a real server over its own database, and a browser page that is watched for complaints."""

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
    """Returns the sequences of the events in each item of the timeline. First waits until all visible pages of the log
    are loaded, because they are requested at once and arrive in any order."""
    expect(page.locator(".pane .page-waiting")).to_have_count(0)
    return page.locator(".pane .item").evaluate_all("(all) => all.map((one) => one.dataset.seqs.split(' ').map(Number))")


def chromium():
    """Returns the path of the browser: CHROMIUM, or the installed chromium."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert path, "chromium is not found: apt-get install chromium"
    return path


class Annals:
    """A database in its own folder, and `annals serve` over it."""

    def __init__(self, folder):
        self.folder, self.process, self.url = Path(folder), None, None
        self.database = self.folder / "annals.db"
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder / "home"), "LANG": "C.UTF-8",
            "TMPDIR": str(self.folder), "OH_SECRET_KEY": "what seals in these tests",
        }

    def run(self, *arguments, text=None):
        """Returns the standard output of a command, which must succeed."""
        done = subprocess.run(
            [ANNALS, "--db", self.database, *arguments], cwd=self.folder, env=self.environment, input=text,
            text=True, capture_output=True)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def serve(self, port=0, key=KEY, more=()):
        command = [ANNALS, "--db", self.database, "serve", "--port", str(port), *more]
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

    def runs(self):
        """Returns how many conversations run now."""
        request = urllib.request.Request(self.url + "/metrics", headers={"X-Session-API-Key": KEY})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(re.search(r"^annals_runs (\d+)$", answer.read().decode(), re.MULTILINE)[1])

    def ask(self, path, body=None, method=None):
        """Returns the JSON of an answer, which must not be an error."""
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
        """Makes a conversation with the model `model` and returns its id. `text`, if given, starts a run."""
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
        """Appends payloads to the log unchanged. Returns the server's `appended`."""
        path = f"/api/annals/conversations/{conversation}/events?expected={expected}"
        return self.ask(path, events)["appended"]

    def conversation_of(self, name):
        """Returns the id of a golden."""
        return json.loads((GOLDENS / name / "base_state.json").read_text())["id"]


# Runs before the page's scripts. Collects what the browser refuses because of the page's policy.
WATCH = """
window.__refused = [];
document.addEventListener('securitypolicyviolation', (event) => {
  window.__refused.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`);
});
"""


def from_folder(context, server, folder):
    """Serves the page's files from a folder like src/page, so that changes there need no build."""
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
    """A page that must have no complaints. It collects errors, warnings, dialogs, popups, policy violations and
    requests to other servers."""

    def __init__(self, context, server):
        self.server, self.complaints, self.foreign, self.requests = server, [], [], []
        context.add_init_script(WATCH)
        if folder := os.environ.get("PAGE_FOLDER"):
            from_folder(context, server, Path(folder))
        self.page = context.new_page()
        self.page.set_default_timeout(10_000)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("console", self.console)
        self.page.on("dialog", self.dialog)
        self.page.on("popup", lambda popup: self.complaints.append(f"popup: {popup.url}"))
        self.page.on("request", self.request)

    def console(self, message):
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
        """Opens the page at one of its places. The key is in the address, as with `annals open`."""
        self.page.goto(f"{self.server.url}/#key={key}&{place}")
        self.page.wait_for_function("() => !location.hash.includes('key=')")
        return self.page

    def go(self, place):
        self.page.evaluate("(place) => { location.hash = place; }", place)

    def check(self):
        """Fails if the page has complaints."""
        refused = self.page.evaluate("() => window.__refused") if not self.page.is_closed() else []
        assert not self.complaints, self.complaints
        assert not refused, refused
        assert not self.foreign, self.foreign
