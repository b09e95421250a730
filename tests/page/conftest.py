"""Fixtures: a browser for all tests, a server over the goldens for tests that only read, and a server of its own for
each test that writes."""

import os
from contextlib import ExitStack

import pytest
from playwright.sync_api import sync_playwright

from model import Model
from stage import GOLDENS, Annals, Watched, chromium


@pytest.fixture(scope="session")
def start():
    """A function that starts a browser, with extra arguments if given."""
    arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--enable-precise-memory-info"]
    with sync_playwright() as driver:
        yield lambda *more: driver.chromium.launch(executable_path=chromium(), args=[*arguments, *more])


@pytest.fixture(scope="session")
def browser(start):
    # With PAGE_FOLDER the browser treats the page as one of another network. Such a page may not open sockets here.
    browser = start(*(["--disable-features=LocalNetworkAccessChecks"] if os.environ.get("PAGE_FOLDER") else []))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def goldens(tmp_path_factory):
    """A server over the goldens. No test may change them."""
    annals = Annals(tmp_path_factory.mktemp("goldens"))
    annals.run("import", str(GOLDENS))
    yield annals.serve()
    annals.end()


@pytest.fixture
def annals(tmp_path):
    """A server over an empty database that the test may change."""
    annals = Annals(tmp_path).serve()
    yield annals
    annals.end()


@pytest.fixture
def model():
    model = Model()
    yield model
    model.close()


@pytest.fixture
def own(tmp_path):
    """A function that makes a server of the test's own. They end after the pages of `visit` are closed, because a page
    complains of a server that is gone."""
    made = []

    def own():
        made.append(Annals(tmp_path))
        return made[-1]

    yield own
    with ExitStack() as ends:  # each server is ended, even if one did not end well
        for annals in made:
            ends.callback(annals.end)


@pytest.fixture
def visit(browser, own):
    """Opens watched pages. At the test's end the fixture fails if a page has complaints."""
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
