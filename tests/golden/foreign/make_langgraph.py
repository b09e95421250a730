"""Makes a checkpoint file with LangGraph itself: two threads, a fork, a sub-graph, a pending write.

pip install langgraph langgraph-checkpoint-sqlite (made with 1.2.22 and 3.1.2). Run it in this folder.
"""
import pathlib
import sqlite3
from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

PATH = pathlib.Path(__file__).parent / "langgraph" / "checkpoints.sqlite"


class State(TypedDict):
    messages: Annotated[list, add_messages]
    steps: int


def usage(sent, received):
    return {"input_tokens": sent, "output_tokens": received, "total_tokens": sent + received, "input_token_details": {"cache_read": 7}, "output_token_details": {"reasoning": 3}}


SCRIPT = {
    "Why does the mill stop?": AIMessage(
        [{"type": "thinking", "thinking": "Look.", "signature": "c2ln"}, {"type": "text", "text": "I look at it."}, {"type": "tool_use", "id": "call_1", "name": "read", "input": {"path": "mill.py"}}],
        id="ai-1",
        tool_calls=[{"name": "read", "args": {"path": "mill.py", "lines": 1.5}, "id": "call_1"}, {"name": "list", "args": {}, "id": "call_2"}],
        usage_metadata=usage(100, 20),
        response_metadata={"model_name": "gpt-5.6-sol"},
    ),
    "read": AIMessage("It raises SystemExit.", id="ai-2", usage_metadata=usage(140, 9), response_metadata={"model_name": "gpt-5.6-sol"}),
    "Then fix it.": AIMessage("Fixed.", id="ai-3"),
    "Then leave it.": AIMessage("As you like.", id="ai-4"),
    "Hello": AIMessage("Hello yourself.", id="ai-5"),
}


def think(state):
    last = state["messages"][-1]
    key = "read" if isinstance(last, ToolMessage) else last.content
    return {"messages": [SCRIPT[key]], "steps": state.get("steps", 0) + 1}


def act(state):
    return {
        "messages": [
            ToolMessage("raise SystemExit", tool_call_id="call_1", name="read", id="tool-1"),
            ToolMessage("permission denied", tool_call_id="call_2", name="list", id="tool-2", status="error"),
        ]
    }


def route(state):
    return "act" if state["messages"][-1].tool_calls else END


def main():
    PATH.parent.mkdir(exist_ok=True)
    for stale in PATH.parent.glob("checkpoints*"):
        stale.unlink()
    db = sqlite3.connect(PATH, check_same_thread=False)
    inner = StateGraph(State)
    inner.add_node("think", think)
    inner.add_edge(START, "think")
    builder = StateGraph(State)
    builder.add_node("think", think)
    builder.add_node("act", act)
    builder.add_edge(START, "think")
    builder.add_conditional_edges("think", route, ["act", END])
    builder.add_edge("act", "think")
    graph = builder.compile(checkpointer=SqliteSaver(db))
    thread = {"configurable": {"thread_id": "mill"}}
    system = SystemMessage("You mend mills.", id="sys-1")
    graph.invoke({"messages": [system, HumanMessage("Why does the mill stop?", id="hu-1")]}, thread)
    fork = graph.get_state(thread).config
    graph.invoke({"messages": [HumanMessage("Then fix it.", id="hu-2")]}, thread)
    # Go back to the fork, and continue on another branch.
    graph.invoke({"messages": [HumanMessage("Then leave it.", id="hu-3")]}, fork)
    # Remove the first messages.
    graph.update_state(thread, {"messages": [RemoveMessage(id="sys-1"), RemoveMessage(id="hu-1")]}, as_node="think")
    other = StateGraph(State)
    other.add_node("inner", inner.compile(checkpointer=True))
    other.add_edge(START, "inner")
    other.compile(checkpointer=SqliteSaver(db)).invoke(
        {"messages": [HumanMessage("Hello", id="hu-5")]}, {"configurable": {"thread_id": "hello/nested"}}
    )
    db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.execute("PRAGMA journal_mode=DELETE")
    db.close()


main()
