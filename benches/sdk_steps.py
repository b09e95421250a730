"""The real SDK's time from each reply of the model to its next question: the steps of benches/agents.rs.

Usage: sdk_steps.py STEPS FOLDER     prints microseconds in one line
"""

import logging
import sys
import time
from pathlib import Path

from openhands.sdk import Agent, Conversation
from openhands.sdk.llm import Message, MessageToolCall, TextContent
from openhands.sdk.testing import TestLLM

logging.disable(logging.CRITICAL)
gaps = []
answered = None


class Timed(TestLLM):
    def completion(self, *arguments, **named):
        global answered
        if answered is not None:
            gaps.append(time.perf_counter() - answered)
        try:
            return super().completion(*arguments, **named)
        finally:
            answered = time.perf_counter()


def message(left):
    text = [TextContent(text="Let me think.")]
    if left == 0:
        return Message(role="assistant", content=text)
    arguments = f'{{"thought":"There are {left} steps left, and each is a thought."}}'
    call = MessageToolCall(id=f"call-{left}", name="think", arguments=arguments, origin="completion")
    return Message(role="assistant", content=text, tool_calls=[call])


steps, folder = int(sys.argv[1]), Path(sys.argv[2])
(folder / "work").mkdir(parents=True)
llm = Timed.from_messages([message(left) for left in range(steps, -1, -1)], model="openai/gpt-4o", usage_id="agent")
conversation = Conversation(
    agent=Agent(llm=llm, tools=[]),
    workspace=str(folder / "work"),
    persistence_dir=str(folder / "kept"),
    visualizer=None,
    max_iteration_per_run=steps + 10,
)
conversation.send_message("Think about it, step by step.")
conversation.run()
print(*(round(gap * 1e6) for gap in gaps))
