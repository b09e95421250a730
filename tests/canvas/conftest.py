"""Agent Canvas, the frontend that OpenHands publishes, over `annals serve`: its files are those of the npm package, and a test
fails on any request that the server does not answer as the reference does.

CANVAS names the folder `build` of an unpacked `@openhands/agent-canvas`; `.ci/run` fetches it.
"""

import json
import os
import sys
import urllib.parse
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "page"))

from model import Model  # noqa: E402
from stage import KEY, TYPES, Annals, chromium  # noqa: E402

BUILD = Path(os.environ.get("CANVAS", ""))
TYPES = {**TYPES, ".json": "application/json", ".png": "image/png", ".ico": "image/x-icon", ".wasm": "application/wasm"}

# What the application is told by the program that serves its files.
TOLD = f"<script>window.__AGENT_CANVAS_SESSION_API_KEY__={json.dumps(KEY)};window.__AGENT_CANVAS_DO_NOT_TRACK__=true;</script>"

# What the server answers itself.
SERVERS = ("/api/", "/sockets/", "/server_info", "/health", "/alive", "/ready", "/v1/")

# What the reference refuses just so: there is no automation server beside it, and its files have no service worker.
REFUSED = ("/api/automation",)


class Canvas:
    """A page of the application; what it asks the server, and what is refused, is kept."""

    def __init__(self, context, annals):
        self.annals, self.asked, self.refused, self.errors = annals, [], [], []
        context.route("**/*", self.serve)
        self.page = context.new_page()
        self.page.set_default_timeout(30_000)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("response", self.hear)

    def serve(self, route):
        address = urllib.parse.urlsplit(route.request.url)
        if not route.request.url.startswith(self.annals.url):
            return route.abort()
        if address.path.startswith(SERVERS):
            return route.continue_()
        file = BUILD / address.path.lstrip("/")
        if not file.is_file():
            file = BUILD / "index.html"
        body = file.read_bytes()
        if file.name == "index.html":
            body = body.replace(b"<head>", b"<head>" + TOLD.encode(), 1)
        return route.fulfill(body=body, headers={"Content-Type": TYPES.get(file.suffix, "application/octet-stream")})

    def hear(self, response):
        address = urllib.parse.urlsplit(response.url)
        if response.url.startswith(self.annals.url) and address.path.startswith(SERVERS):
            self.asked.append((response.request.method, address.path, response.status))
            if response.status >= 400 and not address.path.startswith(REFUSED):
                self.refused.append((response.request.method, response.url, response.status))

    def open(self, path="/"):
        self.page.goto(self.annals.url + path)
        return self.page


@pytest.fixture(scope="session")
def browser():
    assert (BUILD / "index.html").is_file(), "CANVAS names no build of @openhands/agent-canvas"
    # What a test hands over counts as a page from elsewhere, which may not open sockets here.
    arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-features=LocalNetworkAccessChecks"]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def annals(tmp_path):
    annals = Annals(tmp_path).serve()
    yield annals
    annals.end()


@pytest.fixture
def model():
    model = Model()
    yield model
    model.close()


@pytest.fixture
def canvas(browser, annals):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    canvas = Canvas(context, annals)
    yield canvas
    context.close()
    assert not canvas.refused, canvas.refused
    assert not canvas.errors, canvas.errors
