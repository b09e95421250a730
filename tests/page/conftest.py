"""A browser for all tests, a server over the goldens for those that only look, one of its own for those that act."""

import os

import pytest
from playwright.sync_api import sync_playwright

from model import Model
from stage import GOLDENS, Annals, Watched, chromium


@pytest.fixture(scope="session")
def start():
    """Starts browsers, with arguments of their own besides."""
    arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--enable-precise-memory-info"]
    with sync_playwright() as driver:
        yield lambda *more: driver.chromium.launch(executable_path=chromium(), args=[*arguments, *more])


@pytest.fixture(scope="session")
def browser(start):
    # What a test hands over counts as a page from elsewhere, which may not open sockets here.
    browser = start(*(["--disable-features=LocalNetworkAccessChecks"] if os.environ.get("PAGE_FOLDER") else []))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def goldens(tmp_path_factory):
    """A server over the goldens, which no test may change."""
    annals = Annals(tmp_path_factory.mktemp("goldens"))
    annals.run("import", str(GOLDENS))
    yield annals.serve()
    annals.end()


@pytest.fixture
def annals(tmp_path):
    """A server over an empty database that the test may do anything with."""
    annals = Annals(tmp_path).serve()
    yield annals
    annals.end()


@pytest.fixture
def model():
    model = Model()
    yield model
    model.close()


@pytest.fixture
def visit(browser):
    """Opens watched pages; each must have had nothing to complain of at the test's end."""
    opened = []

    def visit(server, **options):
        options = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce", **options}
        context = browser.new_context(**options)
        watched = Watched(context, server)
        opened.append((context, watched))
        return watched

    yield visit
    complaints = []
    for context, watched in opened:
        try:
            watched.check()
        except AssertionError as error:
            complaints.append(str(error))
        context.close()
    assert not complaints, complaints
