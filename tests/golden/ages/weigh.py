"""The agent's own tool of the recorded conversations, which a program has to know to go on with them."""

from openhands.sdk import TextContent
from openhands.sdk.tool import Action, Observation, ToolDefinition, ToolExecutor, register_tool


class WeighAction(Action):
    animals: list[str]


class WeighObservation(Observation):
    weights: dict[str, float] = {}

    @property
    def to_llm_content(self):
        return [TextContent(text=", ".join(f"{name} {weight}" for name, weight in self.weights.items()))]


class Scales(ToolExecutor):
    def __call__(self, action, conversation=None):
        return WeighObservation(weights={animal: float(len(animal)) for animal in action.animals})


class WeighTool(ToolDefinition):
    @classmethod
    def create(cls, conv_state=None, **_):
        shapes = {"action_type": WeighAction, "observation_type": WeighObservation}
        return [cls(description="Weighs animals.", executor=Scales(), **shapes)]


register_tool("WeighTool", WeighTool)
