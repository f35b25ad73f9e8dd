"""Agents on google-genai and on boto3's Converse, over HTTP to a server with the rules of these APIs."""

from collections.abc import Sequence
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionFinished
from tests.cases import sampled, sampled_rows
from tests.provider import Answer, Call, CallSigner, LoopbackProvider, Side, Signer

genai: Any = pytest.importorskip("google.genai")
boto3: Any = pytest.importorskip("boto3")

WINDOW = 8_000
STEPS = 40
RESULT = "a line of the file that was read\n" * 60
CLAUDE = "anthropic.claude-sonnet-5-5"
SYSTEM = "You mend parsers. " * 20


@pytest.fixture
def side(provider: LoopbackProvider) -> Side:
    """The provider's side: each step calls two tools."""
    answers = [Answer("", (Call("read", {"part": step}), Call("read", {"part": 0}))) for step in range(STEPS)]
    return provider.conversation("key", window=WINDOW, answers=answers)


def bedrock(provider: LoopbackProvider) -> Any:
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    return boto3.client("bedrock-runtime", endpoint_url=provider.anthropic_url, **keys)


def hooks_for(window: int, events: list[Any]) -> CompactionController[Any]:
    return CompactionController(context_window=window, on_event=events.append)


def compactions(events: Sequence[Any]) -> int:
    return sum(isinstance(event, CompactionFinished) for event in events)


@pytest.mark.parametrize("window", sampled([1_000_000, WINDOW], 1))
def test_an_agent_on_google_genai(provider: LoopbackProvider, side: Side, window: int) -> None:
    """Its own objects are in the list, and a response has no id, as in Google's examples."""
    types, events = genai.types, list[Any]()
    signer = side.signer = CallSigner()
    hooks = hooks_for(window, events)
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text="Mend the parser.")])]
    config = types.GenerateContentConfig(system_instruction=SYSTEM)
    with genai.Client(api_key="key", http_options=types.HttpOptions(base_url=provider.anthropic_url)) as client:

        def send(view: list[Any]) -> Any:
            return client.models.generate_content(model="gemini-3-pro", contents=view, config=config)

        while True:
            before = list(contents)
            answer = hooks.call_sync(contents, send, system=SYSTEM)
            assert contents == before
            contents.append(answer.candidates[0].content)
            if not answer.function_calls:
                break
            results = [
                types.Part.from_function_response(name=call.name, response={"result": RESULT})
                for call in answer.function_calls
            ]
            contents.append(types.Content(role="user", parts=results))
    assert answer.text == "Done."
    assert compactions(events) > 1
    assert len(side.rejections) == (0 if window == WINDOW else 1)
    assert signer.refusals == []


@pytest.mark.parametrize(
    ("window", "model"),
    sampled_rows([(1_000_000, None), (WINDOW, None), (WINDOW, CLAUDE), (1_000_000, CLAUDE)], 2),
)
def test_an_agent_on_boto3(provider: LoopbackProvider, side: Side, window: int, model: str | None) -> None:
    """The user writes something after each fifth result, in the same message: roles always alternate."""
    events = list[Any]()
    hooks = hooks_for(window, events)
    signer = side.signer = Signer()
    system = [{"text": SYSTEM}]
    messages: list[Any] = [{"role": "user", "content": [{"text": "Mend the parser."}]}]
    client = bedrock(provider)

    def send(view: list[Any]) -> Any:
        return client.converse(modelId="any", messages=view, system=system)

    while True:
        answer = hooks.call_sync(messages, send, system=system, model=model)
        messages.append(answer["output"]["message"])
        calls = [block["toolUse"] for block in messages[-1]["content"] if "toolUse" in block]
        if not calls:
            break
        results = [{"toolResult": {"toolUseId": call["toolUseId"], "content": [{"text": RESULT}]}} for call in calls]
        asked = [{"text": f"Go on with part {len(messages)}."}] if len(messages) % 5 == 0 else []
        messages.append({"role": "user", "content": [*results, *asked]})
    client.close()
    assert messages[-1]["content"][-1] == {"text": "Done."}
    assert compactions(events) > 1
    assert len(signer.refusals) == (0 if model else 1)
    too_long = len(side.rejections) - len(signer.refusals)
    # Bedrock does not say how large the window is: each time that it is full, it refuses a request.
    assert too_long == (0 if window == WINDOW else compactions(events))


def test_bedrock_takes_the_view_of_a_stored_result(provider: LoopbackProvider) -> None:
    provider.conversation("key", window=WINDOW)
    messages: list[Any] = [
        {"role": role, "content": [{"text": f"{step} {RESULT}"}]} for step in range(5) for role in ("user", "assistant")
    ]
    messages.append({"role": "user", "content": [{"text": "And now?"}]})
    hooks, client = hooks_for(WINDOW, []), bedrock(provider)
    for compact in (hooks.preview_sync, hooks.compact_sync):
        result = compact(messages, keep_recent_tokens=0)
        assert len(result.messages) < len(messages)
        client.converse(modelId="any", messages=hooks_for(WINDOW, []).transform_context_sync(result.messages))
    client.close()


@pytest.mark.parametrize("answered", ["other", "b", ""], ids=["an orphan", "half answered", "without an id"])
def test_google_takes_a_repaired_history(provider: LoopbackProvider, answered: str) -> None:
    types = genai.types
    provider.conversation("key", window=WINDOW)
    calls = [types.Part(function_call=types.FunctionCall(id=id, name="read", args={"path": id})) for id in "ab"]
    response = types.FunctionResponse(id=answered or None, name="read", response={"result": RESULT})
    contents: list[Any] = [
        types.Content(role="user", parts=[types.Part(text="Read both.")]),
        types.Content(role="model", parts=calls),
        types.Content(role="user", parts=[types.Part(function_response=response)]),
        types.Content(role="user", parts=[types.Part(text="And now?")]),
    ]
    hooks = hooks_for(WINDOW, [])
    with genai.Client(api_key="key", http_options=types.HttpOptions(base_url=provider.anthropic_url)) as client:
        with pytest.raises(genai.errors.ClientError, match="number of function response parts"):
            client.models.generate_content(model="gemini-3-pro", contents=contents)
        view = hooks.transform_context_sync(contents, repair=True)
        assert client.models.generate_content(model="gemini-3-pro", contents=view).text == "Done."
