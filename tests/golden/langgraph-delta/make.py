"""Writes threads.sqlite and truth.json: threads whose messages are in a DeltaChannel, as the agents of deepagents keep them.

Needs langgraph 1.2 or later and langgraph-checkpoint-sqlite. truth.json has the messages of each thread, as LangGraph reads
them:

    python tests/golden/langgraph-delta/make.py
"""

import json
import pathlib
from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer

HERE = pathlib.Path(__file__).parent


class State(TypedDict):
    messages: Annotated[list, DeltaChannel(_messages_delta_reducer, snapshot_frequency=5)]


def model(state):
    turn = sum(message.type == "human" for message in state["messages"])
    usage = {"input_tokens": 100 * turn, "output_tokens": 10, "total_tokens": 100 * turn + 10}
    meta = {"usage_metadata": usage, "response_metadata": {"model_name": "gpt-5"}}
    if turn == 2 and state["messages"][-1].type == "human":
        calls = [{"name": "execute", "args": {"command": "make"}, "id": "call-1"}]
        return {"messages": [AIMessage("", id="ai2-call", tool_calls=calls, **meta)]}
    return {"messages": [AIMessage(f"answer {turn}", id=f"ai{turn}", **meta)]}


def tools(state):
    text = "no wheel\n[Command failed with exit code 2]"
    return {"messages": [ToolMessage(text, id="tool-1", tool_call_id="call-1")]}


def has_call(state):
    return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END


graph = StateGraph(State)
graph.add_node("model", model)
graph.add_node("tools", tools)
graph.add_edge(START, "model")
graph.add_conditional_edges("model", has_call, ["tools", END])
graph.add_edge("tools", "model")

path = HERE / "threads.sqlite"
path.unlink(missing_ok=True)
truth = {}
with SqliteSaver.from_conn_string(str(path)) as saver:
    app = graph.compile(checkpointer=saver)
    for thread in ("steps", "edits"):
        config = {"configurable": {"thread_id": thread}}
        for turn in range(1, 7):
            # An object, as HTTP brings it.
            asked = {"role": "user", "content": f"question {turn}"} if turn == 3 else HumanMessage(f"question {turn}", id=f"h{turn}")
            app.invoke({"messages": [asked]}, config)
            if thread == "edits" and turn == 4:
                changes = [AIMessage("another answer 4", id="ai4"), RemoveMessage(id="h1"), RemoveMessage(id="ai1")]
                app.update_state(config, {"messages": changes})
        truth[thread] = [[message.type, message.content] for message in app.get_state(config).values["messages"]]
    saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    saver.conn.execute("PRAGMA journal_mode = DELETE")
for beside in HERE.glob("threads.sqlite-*"):
    beside.unlink()
(HERE / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")
