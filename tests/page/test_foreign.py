"""A server without a key, and a page of another origin in the same browser. The page can read nothing of the server."""

import re

import pytest

from stage import GOLDENS

ELSEWHERE = "http://evil.example"
# Browsers block requests from public pages to this machine. Here they are allowed, so that the server must reject them.
OPEN = ["--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests",
        "--host-resolver-rules=MAP rebound.example 127.0.0.1"]

# Requests the addresses of another origin in each way that a page has.
ASK = """
async (addresses) => {
  const settled = (element, name, address) => new Promise((resolve) => {
    element.onload = element.onerror = resolve;
    setTimeout(resolve, 3000);
    element[name] = address;
    document.body.append(element);
  });
  const read = [];
  for (const address of addresses) {
    for (const mode of ['cors', 'no-cors']) {
      try {
        const answer = await fetch(address, { mode });
        if (answer.type !== 'opaque') read.push(`${mode} ${address}: ${answer.status} ${(await answer.text()).slice(0, 80)}`);
      } catch { /* The browser must block the answer. */ }
    }
    await Promise.all([
      settled(document.createElement('img'), 'src', address),
      settled(document.createElement('script'), 'src', address),
      settled(document.createElement('iframe'), 'src', address),
      settled(Object.assign(document.createElement('link'), { rel: 'stylesheet' }), 'href', address),
    ]);
  }
  return read;
}
"""
LISTEN = """
(address) => new Promise((resolve) => {
  const socket = new WebSocket(address);
  socket.onopen = () => resolve('open');
  socket.onerror = () => resolve('refused');
})
"""


@pytest.fixture
def keyless(own):
    annals = own()
    annals.run("import", str(GOLDENS / "hello-two-turns"))
    return annals.serve(key=None)


def test_a_page_of_another_origin_gets_nothing_below_api(keyless, start):
    conversation = keyless.ask("/api/annals/conversations?limit=1")["conversations"][0]["id"]
    operations = keyless.ask("/openapi.json")["paths"]
    asked = [path for path, methods in operations.items() if path.startswith("/api/") and "get" in methods]
    asked = [re.sub(r"\{conversation_id\}", conversation, path) for path in asked]
    asked = [keyless.url + re.sub(r"\{[^}]*\}", "x", path) for path in asked]
    assert len(asked) > 50
    browser = start(*OPEN)
    page = browser.new_page()
    page.route(f"{ELSEWHERE}/**", lambda route: route.fulfill(body="<h1>Harmless</h1>", content_type="text/html"))
    seen = []
    page.on("response", lambda answer: seen.append((answer.url, answer.status)))
    page.goto(f"{ELSEWHERE}/")
    for at in range(0, len(asked), 10):
        assert page.evaluate(ASK, asked[at:at + 10]) == []
    answers = [status for url, status in seen if url.startswith(keyless.url)]
    assert len(answers) >= len(asked) and set(answers) == {403}, set(answers)
    socket = f"{keyless.url.replace('http', 'ws')}/sockets/events/{conversation}"
    assert page.evaluate(LISTEN, socket) == "refused"
    # A request under a foreign host name is rejected, even if the name leads to this machine.
    rebound = keyless.url.replace("127.0.0.1", "rebound.example") + "/api/conversations/count"
    assert page.goto(rebound).status == 403
    # A request from the address bar is answered.
    assert page.goto(f"{keyless.url}/api/conversations/count").status == 200
    browser.close()
