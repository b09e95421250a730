"""Agent Canvas, the frontend that OpenHands publishes, with `annals serve` as its server. Its files come from the npm
package. A test fails if the server refuses a request that the reference does not refuse.

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

# The settings that the program that serves its files gives to the application.
SETTINGS = f"<script>window.__AGENT_CANVAS_SESSION_API_KEY__={json.dumps(KEY)};window.__AGENT_CANVAS_DO_NOT_TRACK__=true;</script>"

# Paths that Annals answers. All others are files of the application.
SERVER_PATHS = ("/api/", "/sockets/", "/server_info", "/health", "/alive", "/ready", "/v1/")

# Paths that the reference refuses too, because it has no automation server.
REFUSED = ("/api/automation",)


class Canvas:
    """A page of the application. It records the requests to the server, and which of them were refused."""

    def __init__(self, context, annals):
        self.annals, self.asked, self.refused, self.errors = annals, [], [], []
        context.route("**/*", self.serve)
        self.page = context.new_page()
        self.page.set_default_timeout(30_000)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("response", self.record)

    def serve(self, route):
        address = urllib.parse.urlsplit(route.request.url)
        if not route.request.url.startswith(self.annals.url):
            return route.abort()
        if address.path.startswith(SERVER_PATHS):
            return route.continue_()
        file = BUILD / address.path.lstrip("/")
        if not file.is_file():
            file = BUILD / "index.html"
        body = file.read_bytes()
        if file.name == "index.html":
            body = body.replace(b"<head>", b"<head>" + SETTINGS.encode(), 1)
        return route.fulfill(body=body, headers={"Content-Type": TYPES.get(file.suffix, "application/octet-stream")})

    def record(self, response):
        address = urllib.parse.urlsplit(response.url)
        if response.url.startswith(self.annals.url) and address.path.startswith(SERVER_PATHS):
            self.asked.append((response.request.method, address.path, response.status))
            if response.status >= 400 and not address.path.startswith(REFUSED):
                self.refused.append((response.request.method, response.url, response.status))

    def open(self, path="/"):
        self.page.goto(self.annals.url + path)
        return self.page


@pytest.fixture(scope="session")
def browser():
    assert (BUILD / "index.html").is_file(), "CANVAS does not name a build of @openhands/agent-canvas"
    # The browser takes a page that a test delivers for one of another network, which may not open sockets here.
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
