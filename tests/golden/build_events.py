"""Makes events for the golden cases with the real SDK's classes. Their ids and times never change."""

import datetime
import json
import logging
import os
import warnings

os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
warnings.filterwarnings("ignore")

from openhands.sdk.event import (  # noqa: E402
    ACPToolCallEvent,
    ActionEvent,
    AgentErrorEvent,
    Condensation,
    CondensationRequest,
    CondensationSummaryEvent,
    ConversationStateUpdateEvent,
    HookExecutionEvent,
    InterruptEvent,
    LLMCompletionLogEvent,
    MessageEvent,
    ObservationEvent,
    PauseEvent,
    SecurityAnalysisEvent,
    SystemPromptEvent,
    TokenEvent,
    UserRejectObservation,
)
from openhands.sdk.event.conversation_error import ConversationErrorEvent  # noqa: E402
from openhands.sdk.llm import Message, MessageToolCall, TextContent, ThinkingBlock  # noqa: E402
from openhands.sdk.llm.message import RedactedThinkingBlock  # noqa: E402
from openhands.sdk.mcp.definition import MCPToolAction, MCPToolObservation  # noqa: E402
from openhands.sdk.tool.builtins.finish import FinishAction, FinishObservation  # noqa: E402
from openhands.sdk.tool.builtins.think import ThinkAction, ThinkObservation  # noqa: E402
from openhands.tools.terminal.definition import TerminalAction, TerminalObservation  # noqa: E402
from openhands.tools.terminal.metadata import CmdOutputMetadata  # noqa: E402

logging.disable(logging.CRITICAL)

START = datetime.datetime(2025, 6, 15, 12, 0, 0)


def dump(event):
    """Returns an event as the SDK stores it, with its only set (`forgotten_event_ids`) sorted."""
    value = json.loads(event.model_dump_json(exclude_none=True))
    if "forgotten_event_ids" in value:
        value["forgotten_event_ids"].sort()
    return value


def write(case):
    """Returns a case as text: one line per event or other object in a list, and one line per other member."""
    lines = []
    for key, value in case.items():
        if key == "events":
            body = ",\n".join("  " + json.dumps(event, ensure_ascii=False) for event in value)
            lines.append(f' "events": [\n{body}\n ]' if value else ' "events": []')
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            body = ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in value)
            lines.append(f" {json.dumps(key)}: [\n{body}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


class Log:
    """Builds the events of one case. While `parent` is set, each new event gets it as parent."""

    def __init__(self, case):
        self.case = case
        self.events = []
        self.parent = None

    def add(self, kind, **fields):
        number = len(self.events) + 1
        fields.setdefault("id", f"00000000-0000-4000-8{self.case:03d}-{number:012d}")
        fields.setdefault("timestamp", (START + datetime.timedelta(seconds=number)).isoformat())
        if self.parent is not None:
            fields.setdefault("parent_id", self.parent)
        event = kind(**fields)
        self.events.append(event)
        if self.parent is not None and not isinstance(event, ConversationStateUpdateEvent):
            self.parent = event.id
        return event

    def system(self, **fields):
        return self.add(SystemPromptEvent, system_prompt=TextContent(text="You are a test agent."), tools=[], **fields)

    def user(self, text="go", **fields):
        message = Message(role="user", content=[TextContent(text=text)] if text is not None else [])
        return self.add(MessageEvent, source="user", llm_message=message, **fields)

    def note(self, text="hint", **fields):
        message = Message(role="user", content=[TextContent(text=text)])
        return self.add(MessageEvent, source="environment", llm_message=message, **fields)

    def agent(self, text="said", response=None, **fields):
        message = Message(role="assistant", content=[TextContent(text=text)] if text else [])
        return self.add(MessageEvent, source="agent", llm_message=message, llm_response_id=response, **fields)

    def action(self, call, response=None, command=None, thinking=None, thought="", tool="terminal", action=..., **fields):
        if action is ...:
            action = TerminalAction(command=command or f"echo {call}")
        arguments = {k: v for k, v in dump(action).items() if k != "kind"} if action else {"bad": call}
        blocks = {
            None: [],
            "plain": [ThinkingBlock(thinking="t", signature="s")],
            "redacted": [RedactedThinkingBlock(data="d")],
        }[thinking]
        return self.add(
            ActionEvent,
            thought=[TextContent(text=thought)] if thought else [],
            thinking_blocks=blocks,
            action=action,
            tool_name=tool,
            tool_call_id=call,
            tool_call=MessageToolCall(id=call, name=tool, arguments=json.dumps(arguments), origin="completion"),
            llm_response_id=response or f"r-{call}",
            **fields,
        )

    def result(self, action, text="out", observation=None, **fields):
        if observation is None:
            command = getattr(action.action, "command", "?")
            observation = TerminalObservation(
                command=command, exit_code=0, content=[TextContent(text=text)], metadata=CmdOutputMetadata(exit_code=0)
            )
        fields.setdefault("tool_call_id", action.tool_call_id)
        fields.setdefault("action_id", action.id)
        return self.add(ObservationEvent, observation=observation, tool_name=action.tool_name, **fields)

    def error(self, action, text="bad call", **fields):
        fields.setdefault("tool_call_id", action.tool_call_id)
        return self.add(AgentErrorEvent, error=text, tool_name=action.tool_name, **fields)

    def reject(self, action, source="user", **fields):
        return self.add(
            UserRejectObservation,
            action_id=action.id,
            tool_name=action.tool_name,
            tool_call_id=action.tool_call_id,
            rejection_source=source,
            **fields,
        )

    def turn(self, call, **fields):
        action = self.action(call, **fields)
        return action, self.result(action, text=f"out {call}")

    def finish(self, call="fin", message="done", **fields):
        action = self.action(call, tool="finish", action=FinishAction(message=message), **fields)
        return action, self.result(action, observation=FinishObservation.from_text(message))

    def condense(self, forgotten, summary=None, offset=None, response="cond", **fields):
        ids = {event if isinstance(event, str) else event.id for event in forgotten}
        return self.add(
            Condensation, forgotten_event_ids=ids, summary=summary, summary_offset=offset, llm_response_id=response, **fields
        )

    def request(self, **fields):
        return self.add(CondensationRequest, **fields)

    def summary(self, text="stored", **fields):
        return self.add(CondensationSummaryEvent, summary=text, **fields)

    def update(self, key="execution_status", value="running", **fields):
        return self.add(ConversationStateUpdateEvent, key=key, value=value, **fields)

    def failure(self, code="KeyError", detail="x", **fields):
        return self.add(ConversationErrorEvent, source="environment", code=code, detail=detail, **fields)

    def pause(self, **fields):
        return self.add(PauseEvent, **fields)

    def interrupt(self, **fields):
        return self.add(InterruptEvent, **fields)

    def security(self, actions, **fields):
        risks = {action.id: "LOW" for action in actions}
        return self.add(SecurityAnalysisEvent, analyzer="A", policy="P", risks=risks, **fields)

    def hook(self, **fields):
        return self.add(
            HookExecutionEvent, hook_event_type="PreToolUse", hook_command="true", success=True, exit_code=0, **fields
        )

    def tokens(self, **fields):
        return self.add(TokenEvent, source="agent", prompt_token_ids=[1], response_token_ids=[2], **fields)

    def completion(self, **fields):
        return self.add(LLMCompletionLogEvent, filename="f.json", log_data="{}", **fields)

    def acp(self, call="acp1", **fields):
        return self.add(ACPToolCallEvent, tool_call_id=call, title="t", status="completed", **fields)


def mcp_action(data):
    return MCPToolAction(data=data)


def mcp_result(text="out", error=False):
    return MCPToolObservation(content=[TextContent(text=text)], is_error=error, tool_name="mcp")


def think(text):
    return ThinkAction(thought=text)


def thought_logged():
    return ThinkObservation.from_text("Your thought has been logged.")
