"""A stock-keeper talks with a small local model, through more text than its window holds, and asks ten questions at the end.

Run: python examples/local_model.py --base-url http://127.0.0.1:8080/v1 --model NAME --context 8192 [--summaries rule]
needs: pip install 'compaction-hooks[openai]'; any server with OpenAI's chat completions: llama.cpp, vLLM, Ollama.
Prints each compaction, then what was done, refused, read from the server's cache, waited for and remembered.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from compaction_adapters.openai import in_place
from openai import APIStatusError, OpenAI

from compaction_hooks import CompactionController, CompactionEvent, CompactionFailed, CompactionFinished

SYSTEM = "You help a stock-keeper. Answer in one short sentence. Use a tool only if you need it."
THINGS = (
    "brass hinges",
    "oak boards",
    "copper pipes",
    "clay tiles",
    "wool felt",
    "steel bolts",
    "pine pegs",
    "glass rods",
)
ROWS = ("Aldo", "Bruna", "Carl", "Dora", "Edda", "Falk", "Greta", "Hugo", "Ida", "Jonas")
TURNS = 44
ANSWER_TOKENS = 48
SHELF: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "read_shelf",
        "description": "Return what lies on a shelf.",
        "parameters": {"type": "object", "properties": {"shelf": {"type": "integer"}}, "required": ["shelf"]},
    },
}


@dataclass
class Report:
    """What a run came to.

    Attributes:
        refused: Requests that the server refused as too long, and the turns that ended there.
        cached: The part of the input that the server read from its cache.
        waited: Seconds of the calls in which a compaction was made.
        called: By tool, how often the model called it; those that were refused end with "refused".
        right: Of the questions at the end, those answered with the word that was told early.
    """

    turns: int = 0
    refused: int = 0
    compactions: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    waited: float = 0.0
    called: dict[str, int] = field(default_factory=dict[str, int])
    right: int = 0
    questions: int = len(ROWS)


class Talk:
    """One conversation with the model.

    Args:
        summaries: Who writes them: "model" or "rule". Without the library: "drop", the oldest messages are left out, as by Ollama,
            or "none", the list is sent as it is.
        offers_tools: Whether the model has the tools to read again what is left out, and to ask for a compaction.
    """

    def __init__(self, client: OpenAI, model: str, context: int, summaries: str, *, offers_tools: bool) -> None:
        self.client, self.model = client, model
        self.report = Report()
        self.messages: list[Any] = [{"role": "system", "content": SYSTEM}]
        self._has_compacted = False
        self._drops, self._dropped = summaries == "drop", 0
        controller = CompactionController(
            model=model,
            context_window=context,
            summarizer=in_place(client) if summaries == "model" else None,
            on_event=self._note,
        )
        self.session = controller.session("stock") if summaries in ("model", "rule") else None
        self.own: list[Any] = []
        if self.session is not None and offers_tools:
            self.own = [self.session.recall_tool(lambda: self.messages), self.session.compact_tool()]

    def _note(self, event: CompactionEvent) -> None:
        if isinstance(event, CompactionFinished):
            self._has_compacted = True
            self.report.compactions += 1
            print(f"  {event.reason}: {event.tokens_before:,} -> {event.tokens_after:,} tokens {event.fallback_reason}")
        elif isinstance(event, CompactionFailed):
            print(f"  failed: {event.error}")

    def say(self, text: str, *, shelf: int | None = None) -> str:
        """Tell or ask the model something; return its answer.

        Args:
            shelf: The shelf that is read for it first, since small models seldom call a tool.
        """
        self.messages.append({"role": "user", "content": text})
        if shelf is not None:
            function = {"name": "read_shelf", "arguments": json.dumps({"shelf": shelf})}
            call = {"id": f"shelf_{shelf}", "type": "function", "function": function}
            read = {"role": "tool", "tool_call_id": call["id"], "content": read_shelf(shelf)}
            self.messages += [{"role": "assistant", "content": "", "tool_calls": [call]}, read]
        said = self._answer(self.messages)
        self.report.turns += 1
        return said

    def ask_apart(self, question: str) -> str:
        """Ask something on a copy of the conversation: no question sees another one's answer."""
        return self._answer([*self.messages, {"role": "user", "content": question}])

    def _answer(self, messages: list[Any]) -> str:
        """Ask the model, and run the tools that it calls, three times at most; add both to the messages, and return its answer."""
        said = ""
        for _ in range(3):
            message = self._ask(messages)
            messages.append(message)
            said, calls = str(message["content"]), message.get("tool_calls") or ()
            if not calls:
                break
            messages += [self._run(call) for call in calls]
        return said

    def _ask(self, messages: list[Any]) -> dict[str, Any]:
        tools: list[Any] = [SHELF, *map(_schema_of, self.own)]
        options: dict[str, Any] = {"tools": tools, "max_tokens": ANSWER_TOKENS, "temperature": 0}
        began, self._has_compacted = time.monotonic(), False
        try:
            if self.session is None:
                answer = self._send_newest(messages, options) if self._drops else self._send(messages, options)
            else:
                request = {name: value for name, value in options.items() if name != "tools"}
                answer = self.session.call_sync(
                    messages, lambda view: self._send(view, options), tools=tools, request=request
                )
        except APIStatusError:
            self.report.refused += 1
            return {"role": "assistant", "content": ""}
        if self._has_compacted:
            self.report.waited += time.monotonic() - began
        return _plain(answer.choices[0].message)

    def _send(self, view: Sequence[Any], options: Mapping[str, Any]) -> Any:
        create: Any = self.client.chat.completions.create
        answer = create(model=self.model, messages=[*view], **options)
        usage = answer.usage
        if usage is not None:
            details = usage.prompt_tokens_details
            self.report.input_tokens += usage.prompt_tokens
            self.report.cached_tokens += (details.cached_tokens or 0) if details is not None else 0
        return answer

    def _send_newest(self, messages: list[Any], options: Mapping[str, Any]) -> Any:
        """Send the system prompt and the newest turns that the server takes."""
        while True:
            rest = messages[1 + self._dropped :]
            try:
                return self._send([messages[0], *rest], options)
            except APIStatusError:
                later = [place for place, message in enumerate(rest) if place and message["role"] == "user"]
                if not later:
                    raise
                self._dropped += later[0]

    def _run(self, call: Mapping[str, Any]) -> dict[str, Any]:
        name, text = call["function"]["name"], call["function"]["arguments"]
        try:
            arguments = json.loads(text)
            own = next((tool for tool in self.own if tool.name == name), None)
            result = own(**arguments) if own is not None else read_shelf(int(arguments["shelf"]))
        except (ValueError, TypeError, KeyError) as error:
            result, name = f"Refused: {error}", f"{name} refused"
        called = self.report.called
        called[name] = called.get(name, 0) + 1
        return {"role": "tool", "tool_call_id": call["id"], "content": result}


def _schema_of(tool: Any) -> Mapping[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _plain(message: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"role": "assistant", "content": message.content or ""}
    calls = [
        {"id": one.id, "type": "function", "function": {"name": one.function.name, "arguments": one.function.arguments}}
        for one in message.tool_calls or ()
    ]
    return {**made, "tool_calls": calls} if calls else made


def read_shelf(shelf: int) -> str:
    """Return what lies on a shelf: about 430 tokens."""
    return "; ".join(
        f"place {shelf}-{place}: {(shelf * 7 + place * 5) % 40} {THINGS[(shelf + place) % 8]}" for place in range(30)
    )


def fact(number: int) -> tuple[str, str]:
    """Return the name in a fact that is told early, and the thing that is asked for."""
    return ROWS[number], THINGS[(number * 3) % len(THINGS)]


def run(client: OpenAI, model: str, context: int, summaries: str, *, offers_tools: bool = False) -> Report:
    """Tell ten facts, talk about other things, then ask for the facts."""
    talk = Talk(client, model, context, summaries, offers_tools=offers_tools)
    for turn in range(TURNS):
        if turn < len(ROWS):
            name, thing = fact(turn)
            talk.say(f"{name} wants {thing} delivered on Monday. Remember that, and say ok.")
        else:
            talk.say(f"Look at shelf {turn}: is there an empty place on it?", shelf=turn)
    for number in range(len(ROWS)):
        name, thing = fact(number)
        talk.report.right += thing in talk.ask_apart(f"What does {name} want delivered on Monday?")
    return talk.report


def main() -> None:
    """Run the conversation by the arguments, and print its report as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--model", required=True, help="as the server names it in its answers")
    parser.add_argument("--context", type=int, required=True, help="the server's window, in tokens")
    parser.add_argument("--summaries", choices=("model", "rule", "drop", "none"), default="model")
    parser.add_argument("--tools", action="store_true", help="offer the tools recall and compact_context too")
    chosen = parser.parse_args()
    client = OpenAI(base_url=chosen.base_url, api_key="none", max_retries=0, timeout=600)
    report = run(client, chosen.model, chosen.context, chosen.summaries, offers_tools=chosen.tools)
    print(json.dumps(asdict(report)))


if __name__ == "__main__":
    main()
