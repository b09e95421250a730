"""Asks `annals mcp` and `annals serve` with the protocol's own Python client, and with the tools of the real SDK.

Usage: mcp_client.py     ANNALS names the program (default: annals)

The script imports the golden conversations into a file of its own. It calls every tool through pipes and over HTTP, reads
conversations page by page and compares them with a single page, and checks the schemas of the tools. Then the SDK
makes tools of an `mcp_config` with the program, as an agent would, and calls one. The first difference ends it with 1.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")

import httpx  # noqa: E402
from jsonschema import Draft202012Validator  # noqa: E402
from mcp import ClientSession, StdioServerParameters  # noqa: E402
from mcp.client.stdio import stdio_client  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

ANNALS = os.environ.get("ANNALS", "annals")
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "conversations"
KEY = "a-key-of-the-tests"
CALLS = {
    "search_conversations": {"query": "fibonacci"},
    "list_conversations": {"workspace": "/workspace/coding-task"},
    "read_conversation": {"conversation": "5610a7", "around": "17", "context": 2},
    "get_event": {"conversation": "5610a7", "event": "1", "form": "payload"},
    "list_reports": {},
    "run_report": {"name": "commands", "parameters": {"failed": "no"}},
    "describe_views": {"views": ["tool_calls"]},
    "query_sql": {"sql": "select count(*) from events"},
}


@asynccontextmanager
async def through_pipes(database, *options):
    parameters = StdioServerParameters(command=ANNALS, args=["--db", str(database), "mcp", *options])
    async with stdio_client(parameters) as pipes, ClientSession(*pipes) as session:
        await session.initialize()
        yield session


@asynccontextmanager
async def over_http(url):
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}) as client:
        async with streamable_http_client(f"{url}/mcp", http_client=client) as (reading, writing, _):
            async with ClientSession(reading, writing) as session:
                await session.initialize()
                yield session


async def call(session, tool, /, **arguments):
    result = await session.call_tool(tool, arguments)
    text = "".join(part.text for part in result.content)
    assert not result.isError, f"{tool} {arguments}: {text}"
    return text


async def pages(session, tool, /, **arguments):
    """All items of an answer, page by page: its paragraphs without the head and the end."""
    items, cursor = [], {}
    while True:
        text = await call(session, tool, **arguments, **cursor)
        items += text.strip().split("\n\n")[1:-1]
        found = re.search(r'cursor="([^"]*)"\.$', text.strip())
        if not found:
            return items
        cursor = {"cursor": found[1]}


async def ask(session):
    """Calls every tool. Returns the answers."""
    listed = (await session.list_tools()).tools
    assert {tool.name for tool in listed} == set(CALLS), [tool.name for tool in listed]
    answers = {}
    for tool in listed:
        Draft202012Validator.check_schema(tool.inputSchema)
        Draft202012Validator(tool.inputSchema).validate(CALLS[tool.name])
        assert tool.annotations.readOnlyHint, tool.name
        answers[tool.name] = await call(session, tool.name, **CALLS[tool.name])
    assert "> [235]" in answers["query_sql"], answers["query_sql"]
    assert "5610a708" in answers["search_conversations"], answers["search_conversations"]
    whole = await pages(session, "read_conversation", conversation="5610a7")
    narrow = await pages(session, "read_conversation", conversation="5610a7", max_tokens=1000)
    # A long event continues on the next page.
    quoted = [line for item in whole for line in item.splitlines() if line.startswith(">")]
    assert quoted == [line for item in narrow for line in item.splitlines() if line.startswith(">")], "pages differ"
    wrong = await session.call_tool("query_sql", {"sql": "delete from events"})
    assert wrong.isError, wrong
    absent = await session.call_tool("read_conversation", {"conversation": "absent"})
    assert absent.isError and "list_conversations" in absent.content[0].text, absent
    await session.send_ping()
    return answers


async def compare(database, url):
    async with through_pipes(database) as session:
        piped = await ask(session)
    print(f"{len(piped)} tools answer through pipes")
    async with over_http(url) as session:
        served = await ask(session)
    print(f"{len(served)} tools answer over HTTP")
    # The most tokens are the same, so the answers are, too.
    assert piped == served, [name for name in piped if piped[name] != served[name]]


def with_the_sdk(database):
    """Makes tools of an `mcp_config`, as an agent does, and calls one."""
    from openhands.sdk.mcp import MCPServer, create_mcp_tools
    from pydantic import TypeAdapter

    config = {"annals": {"command": ANNALS, "args": ["--db", str(database), "mcp"]}}
    config = TypeAdapter(dict[str, MCPServer]).validate_python(config)
    with create_mcp_tools(config, timeout=60) as client:
        by_name = {tool.name: tool for tool in client.tools}
        assert set(CALLS) == set(by_name), sorted(by_name)
        tool = by_name["search_conversations"]
        observation = tool(tool.action_from_arguments({"query": "fibonacci", "limit": 1}))
        text = "".join(getattr(part, "text", "") for part in observation.to_llm_content)
        assert not observation.is_error and "5610a708" in text, text
    print(f"the SDK makes {len(by_name)} tools of mcp_config and calls one")


def main():
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "annals.db"
        subprocess.run([ANNALS, "--db", database, "import", GOLDEN], check=True, stdout=subprocess.DEVNULL)
        command = [ANNALS, "--json", "--db", str(database), "serve", "--port", "0"]
        environment = os.environ | {"SESSION_API_KEY": KEY, "OH_PERSISTENCE_DIR": folder}
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            url = json.loads(server.stdout.readline())["url"]
            asyncio.run(compare(database, url))
        finally:
            server.terminate()
            server.wait(timeout=60)
        with_the_sdk(database)


if __name__ == "__main__":
    sys.exit(main())
