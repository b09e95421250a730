"""The programs in the documents run as they stand there."""

from __future__ import annotations

import asyncio
import re
import textwrap
from pathlib import Path

import pytest

import annals
from conftest import GOLDEN

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / name).read_text() for name in ("docs/python.md", "python/README.md", "README.md")}


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)


def run(program: str, names: dict[str, object]) -> dict[str, object]:
    exec(compile(program.replace("/home/maria/.openhands", str(GOLDEN)), "page", "exec"), names)
    return names


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    [program] = blocks("python/README.md")
    run(program, {})
    assert capsys.readouterr().out.splitlines() == [
        "0 MessageEvent {'id': 'e1', 'kind': 'MessageEvent', 'source': 'user'}",
        "[{'kind': 'MessageEvent', 'n': 1}]",
    ]


def test_the_first_program_of_the_projects_readme(capsys: pytest.CaptureFixture[str]) -> None:
    program, _client_of_a_server = blocks("README.md")
    run(program, {})
    assert capsys.readouterr().out == "[{'id': 'e1', 'kind': 'MessageEvent', 'source': 'user'}]\n"


def test_events_and_questions(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    events, follow, questions, frame, _ = blocks("docs/python.md")
    run(events, {})
    assert "frame" in run(frame, {"annals": annals})
    run(questions, {"annals": annals})
    assert capsys.readouterr().out.endswith("True\n")
    body = textwrap.indent(follow, "    ").rstrip() + "\n        return event\n"
    names = run(f"async def first(store):\n{body}", {})

    async def both(store: annals.Store) -> annals.Event:
        waiting = asyncio.create_task(names["first"](store))  # type: ignore[operator]
        await asyncio.sleep(0)
        message = {"role": "user", "content": []}
        store.append("talk", {"id": "e2", "kind": "MessageEvent", "source": "user", "llm_message": message})
        return await waiting

    with annals.open("agents.db") as store:
        assert asyncio.run(both(store)).id == "e2"


def test_a_conversation_of_the_sdk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openhands.sdk")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    *_, program = blocks("docs/python.md")
    assert "conversation.run()\n" in program
    names = run(program.replace("conversation.run()\n", ""), {})
    assert "MessageEvent" in capsys.readouterr().out
    with annals.open("agents.db", read_only=True) as store:
        assert store.count(str(names["name"])) >= 1
