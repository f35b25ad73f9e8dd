"""A conversation with a model that signs its reasoning and refuses it behind other messages, for the tests of every adapter."""

from collections import deque

from compaction_hooks import CompactionSettings
from tests.provider import Answer, Call, Side, Signer

BINDING = "claude-sonnet-5-5"
HIDDEN = "my-gateway-model"
"""A model whose name does not tell that it binds its reasoning."""
REFUSALS = {BINDING: 0, HIDDEN: 1}
"""The number of refused requests of a whole conversation, by model."""
WINDOW = 8_192
SETTINGS = CompactionSettings(keep_recent_tokens=2_000)
RESULT = "a line of the part that was read\n" * 100
STEPS = 10
"""Tool steps of one turn: more than the window."""
TURNS = ("Read the first parts.", "Read the other parts.")


class Reading:
    """The provider's side of two turns, in which the model thinks in every step and asks for a part of a file.

    Args:
        has_redacted: Whether every third answer has a redacted block, too.
    """

    def __init__(self, side: Side, *, tool: str = "read_file", has_redacted: bool = True) -> None:
        self.side = side
        self.answers = [
            *(Answer(f"Step {step}.", (Call(tool, {"path": f"src/{step}.py"}),)) for step in range(STEPS)),
            Answer("Done."),
        ] * len(TURNS)
        side.answers = deque(self.answers)
        self.signer = side.signer = Signer(redacted_every=3 if has_redacted else 0)

    def check(self, model: str) -> None:
        """Check that a refused request was sent once more, once; and that the reasoning made behind the view was sent."""
        assert len(self.signer.refusals) == len(self.side.rejections) == REFUSALS[model]
        assert len(self.side.model_requests) == len(self.answers) + REFUSALS[model]
        assert self.signer.reasoning_share > 0.1  # a small window: each few steps compact
