"""A broken history is repaired: each fault, its repair, and the rest untouched."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks.errors import ConfigurationError
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat, OpenAIResponsesFormat
from compaction_hooks.messages import Message, Text
from compaction_hooks.repair import INTERRUPTED, NO_REQUEST, NO_WORDS, repaired
from tests.cases import folded
from tests.repairs import ALL, ANTHROPIC, CHAT, CONVERSE, RESPONSES, Dialect, check_repair

dialects = pytest.mark.parametrize("dialect", [pytest.param(dialect, id=name) for name, dialect in ALL.items()])


def script(dialect: Dialect, text: str) -> list[Any]:
    """Write a history: u(ser), a(nswer), s(ystem), e(mpty) user, ?id and =id for calls and results, joined when parallel."""
    messages: list[Any] = []
    for number, word in enumerate(text.split()):
        ids = [(id, number * 10 + n) for n, id in enumerate(word[1:].replace("=", "?").split("?"))]
        match word[0]:
            case "?":
                messages += dialect.asks("", ids, False)
            case "=":
                messages += dialect.tells(ids)
            case "a":
                messages += dialect.asks(f"answer {number}", [], False)
            case "s":
                messages.append(dialect.system(f"system {number}"))
            case "e":
                messages.append(dialect.user(""))
            case _:
                messages.append(dialect.user(f"request {number}"))
    return messages


@dialects
@folded(
    "text",
    {
        "one-request": "u",
        "a-step": "s u ?x =x a u",
        "parallel-calls": "u ?x?y =x =y a",
        "parallel-calls-answered-together": "u ?x?y =y=x u",
    },
)
def test_a_valid_list_comes_back_itself(dialect: Dialect, text: str) -> None:
    messages = script(dialect, text)
    assert repaired(messages, dialect.format) is messages


@dialects
@folded(
    "text, mended",
    {
        "call-at-the-end": ("u ?x", "u a?x !x"),
        "call-before-a-request": ("u ?x u", "u a?x !x u"),
        "call-before-an-answer": ("u ?x a u", "u a?x !x a u"),
        "half-answered-step": ("u ?x?y =x u", "u a?x?y =x !y u"),
        "orphan-result": ("u =x a", "u a"),
        "begins-with-a-result": ("=x u", "u"),
        "answered-twice": ("u ?x =x =x a", "u a?x =x a"),
        "answered-again-later": ("u ?x =x a =x u", "u a?x =x a u"),
        "result-under-another-id": ("u ?x =y a", "u a?x !x a"),
    },
)
def test_a_fault_that_every_provider_refuses_is_repaired(dialect: Dialect, text: str, mended: str) -> None:
    """After a crash each call is answered, and no result is without its call."""
    if dialect is RESPONSES:  # each call is an item of its own
        mended = mended.replace("a?x?y", "a?x a?y")
    if dialect is CONVERSE:  # Bedrock refuses results of one step in two messages
        mended = mended.replace("=x !y", "=x!y")
    before = script(dialect, text)
    after = check_repair(dialect, before)
    assert " ".join(dialect.shape(after)) == mended


@pytest.mark.parametrize("dialect", [pytest.param(CHAT, id="chat"), pytest.param(ANTHROPIC, id="anthropic")])
@pytest.mark.parametrize(
    ("text", "mended"),
    [
        pytest.param("u ?x u =x a", "u a?x =x u a", id="words-between"),
        pytest.param("u ?x?y =y a =x u", "u a?x?y =y =x a u", id="an-answer-between"),
        pytest.param("u ?x u ?y =x =y", "u a?x =x u a?y =y", id="another-step-between"),
        pytest.param("u ?x ?y =y a =x", None, id="two-call-messages"),
    ],
)
def test_a_result_that_strayed_moves_up_behind_its_call(dialect: Dialect, text: str, mended: str | None) -> None:
    """The result itself is kept, word for word: the same object if its message held nothing else."""
    before = script(dialect, text)
    after = check_repair(dialect, before)
    if mended is not None:
        assert " ".join(dialect.shape(after)) == mended
        assert sorted(map(id, after)) == sorted(map(id, before))


@dialects
@folded(
    "stored, added, mended",
    {
        "at-once": ("u ?x", "=x", "u a?x =x"),
        "after-other-words": ("u ?x u a", "=x", "u a?x =x u a"),
        "of-a-parallel-call": ("u ?x?y =y u", "=x a", "u a?x?y =y =x u a"),
        "twice": ("u ?x", "=x =x", "u a?x =x"),
        "of-a-later-call-with-the-same-id": ("u ?x u", "?x =x", "u a?x !x u a?x =x"),
    },
)
def test_a_real_result_replaces_a_made_up_one(dialect: Dialect, stored: str, added: str, mended: str) -> None:
    """A host that stored the repaired list learns the tool's real result later."""
    kept = check_repair(dialect, script(dialect, stored))
    news = script(dialect, f"{'u ' * 7}{added}")[7:]
    after = repaired([*kept, *news], dialect.format)
    assert dialect.problems(after) == []
    assert repaired(after, dialect.format) is after
    texts = [result.text for piece in dialect.read(after) for result in piece.results]
    told = {result.text for piece in dialect.read(news) for result in piece.results}
    assert set(texts) & told
    assert texts.count(INTERRUPTED) == mended.count("!")
    assert len(texts) == mended.count("!") + mended.count("=")
    if dialect is CHAT:
        assert " ".join(dialect.shape(after)) == mended


@pytest.mark.parametrize("dialect", [pytest.param(ANTHROPIC, id="anthropic"), pytest.param(RESPONSES, id="responses")])
def test_calls_that_share_an_id_are_told_apart_and_keep_their_results(dialect: Dialect) -> None:
    after = check_repair(dialect, script(dialect, "u ?x =x ?x =x u ?x?x =x=x"))
    ids = [call.id for piece in dialect.read(after) for call in piece.calls]
    assert ids[0] == "x"
    assert len(set(ids)) == len(ids) == 4
    assert all(len(id) == 29 and id.startswith("call_") for id in ids[1:])
    assert [result.call_id for piece in dialect.read(after) for result in piece.results] == ids


@dialects
@pytest.mark.parametrize("between", ["=x", "=b"], ids=["no call's", "an earlier call's"])
def test_an_id_is_used_again_behind_a_result_that_does_not_stay_there(dialect: Dialect, between: str) -> None:
    """Without the result, both calls are one turn in some formats."""
    check_repair(dialect, script(dialect, f"u ?a?b =a ?c {between} ?c =c"))


@pytest.mark.parametrize(
    ("text", "model", "kept"),
    [
        pytest.param("u ?x =x ?x =x u ?x?x =x =x", None, "x x x", id="twins"),
        pytest.param("u ?x =x ?x =x u ?x?x =x =x", "deepseek-v4-pro", "x", id="once-in-a-conversation-for-deepseek"),
        pytest.param("u ? = u ?? = = a u ?x??y =y = =x", None, "x y", id="without-ids"),
    ],
)
def test_calls_of_a_chat_with_one_id_or_none_are_told_apart(text: str, model: str | None, kept: str) -> None:
    """DeepSeek: "Duplicate value for 'tool_call_id'"; Moonshot: "tool call id exec:2 is duplicated"."""
    before = script(CHAT, text)
    after = repaired(before, CHAT.format, model=model)
    assert repaired(after, CHAT.format, model=model) is after
    ids = [call.id for piece in CHAT.read(after) for call in piece.calls]
    made = [id for id in ids if id.startswith("call_")]
    assert ([id for id in ids if id not in made], len({*made})) == (kept.split(), len(made))
    answered = [result.call_id for piece in CHAT.read(after) for result in piece.results]
    assert answered == (ids if "?y" not in text else [*ids[:-3], "y", ids[-2], "x"])
    assert [(message["role"], message["content"]) for message in after] == [
        (message["role"], message["content"]) for message in before
    ]


def test_a_legacy_function_call_has_no_id_to_repair() -> None:
    called = {"role": "assistant", "content": None, "function_call": {"name": "run", "arguments": "{}"}}
    messages: list[Any] = [CHAT.user("hi"), called, {"role": "function", "name": "run", "content": "ok"}]
    assert repaired(messages * 2, CHAT.format) == messages * 2
    assert repaired(messages, CHAT.format) is messages


def test_ids_are_the_same_in_every_process() -> None:
    """Synthetic ids are stable, so that the provider's cache of a sent prefix stays valid."""
    program = (
        "from tests.repairs import ANTHROPIC as d; from tests.validity.test_repair import script; "
        "from compaction_hooks.repair import repaired; "
        "print(*d.shape(repaired(script(d, 'u ?x =x ?x =x ?'), d.format)))"
    )
    here = " ".join(ANTHROPIC.shape(repaired(script(ANTHROPIC, "u ?x =x ?x =x ?"), ANTHROPIC.format)))
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == here
    assert here == "u a?x =x a?call_" + here.partition("a?call_")[2]


def test_an_id_that_was_made_before_is_not_made_again() -> None:
    """A host stores the repaired list, and uses the old id once more."""
    stored = repaired(script(ANTHROPIC, "u ?x =x ?x =x"), ANTHROPIC.format)
    again = check_repair(ANTHROPIC, [*stored, *script(ANTHROPIC, "u ?x =x ?x =x")[3:]])
    ids = [call.id for piece in ANTHROPIC.read(again) for call in piece.calls]
    assert len(set(ids)) == len(ids) == 3
    assert again[:5] == stored


@pytest.mark.parametrize("call_id", ["functions.read:0", ""])
def test_an_id_that_the_provider_does_not_take_is_replaced(call_id: str) -> None:
    before = [ANTHROPIC.user("hi"), *ANTHROPIC.asks("", [(call_id, 1)], False), *ANTHROPIC.tells([(call_id, 1)])]
    (call,) = ANTHROPIC.read(check_repair(ANTHROPIC, before))[1].calls
    assert call.id.startswith("call_")


@pytest.mark.parametrize("content", [{"content": None}, {}], ids=["null", "absent"])
def test_an_answer_of_audio_alone_stays(content: dict[str, Any]) -> None:
    spoken = {"role": "assistant", **content, "audio": {"id": "audio_1"}}
    messages: list[Any] = [CHAT.user("hi"), spoken, CHAT.user("go on")]
    assert repaired(messages, CHAT.format) is messages


def test_an_empty_list_of_calls_is_taken_out_of_a_copy() -> None:
    """OpenAI: "Invalid 'messages[1].tool_calls': empty array" (https://github.com/openai/openai-node/issues/1341)."""
    said = {"role": "assistant", "content": "hello", "tool_calls": [], "x": 1}
    messages: list[Any] = [CHAT.user("hi"), said, CHAT.user("go on")]
    mended = repaired(messages, CHAT.format)
    assert mended == [messages[0], {"role": "assistant", "content": "hello", "x": 1}, messages[2]]
    assert said["tool_calls"] == []
    assert mended[0] is messages[0]
    assert repaired(mended, CHAT.format) is mended


def test_an_empty_message_of_the_user_gets_words_and_one_of_the_assistant_goes() -> None:
    messages = [*script(CHAT, "u a e"), *CHAT.asks("", [], False), CHAT.user("hi")]
    after = check_repair(CHAT, messages)
    assert after == [*messages[:2], {"role": "user", "content": NO_WORDS}, messages[4]]


def test_an_answer_of_reasoning_alone_goes() -> None:
    """DeepSeek's stream broke off: there is reasoning, and null for the answer."""
    messages = [CHAT.user("hi"), *CHAT.asks("", [], True), CHAT.user("and now?")]
    assert check_repair(CHAT, messages) == [messages[0], messages[2]]


def test_a_conversation_that_the_assistant_begins_gets_a_first_word() -> None:
    messages = script(ANTHROPIC, "s a u")
    after = check_repair(ANTHROPIC, messages)
    assert after == [messages[0], {"role": "user", "content": NO_REQUEST}, *messages[1:]]
    assert check_repair(CHAT, script(CHAT, "s a u")) == script(CHAT, "s a u")


def test_a_system_message_inside_moves_up_where_the_provider_refuses_it() -> None:
    before = script(ANTHROPIC, "s u a s u")
    assert check_repair(ANTHROPIC, before) == [before[0], before[3], before[1], before[2], before[4]]
    messages = script(CHAT, "s u a s u")
    assert repaired(messages, CHAT.format) is messages


# -- messages that hold several things


def tool_use(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "run", "input": {}}


def tool_result(id: str, **fields: object) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": f"result {id}", **fields}


USER = {"role": "user", "content": "Mend it."}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
GO_ON = {"type": "text", "text": "Go on.", "cache_control": {"type": "ephemeral"}}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks), "x_turn": 2}


def check_anthropic(*messages: dict[str, Any]) -> list[Any]:
    return check_repair(ANTHROPIC, list(messages))


def test_a_missing_result_is_put_before_a_message_that_holds_the_others() -> None:
    told = user(tool_result("a"), GO_ON)
    after = check_anthropic(USER, assistant(tool_use("a"), tool_use("b")), told)
    synthetic = {"type": "tool_result", "tool_use_id": "b", "is_error": True, "content": INTERRUPTED}
    assert after[2] == {"role": "user", "content": [synthetic]}
    assert after[3] is told


def test_words_before_a_result_in_one_message_change_places_with_it() -> None:
    told = user(GO_ON, tool_result("a"))
    after = check_anthropic(USER, assistant(tool_use("a")), told)
    assert [message["content"] for message in after[2:]] == [[tool_result("a")], [GO_ON]]


def test_words_after_a_call_follow_its_result() -> None:
    """Anthropic wants the calls of a turn at its end."""
    asked = assistant(GO_ON, tool_use("a"), GO_ON, tool_use("b"))
    after = check_anthropic(USER, asked, user(tool_result("b"), tool_result("a")))
    assert [message["content"] for message in after[1:]] == [
        [GO_ON, tool_use("a")],
        [tool_result("a")],
        [GO_ON, tool_use("b")],
        [tool_result("b")],
    ]
    assert after[3]["content"][0] is GO_ON


def test_a_blank_block_goes_and_the_others_stay() -> None:
    asked = assistant({"type": "text", "text": " \n"}, tool_use("a"))
    after = check_anthropic(USER, asked, user(tool_result("a")))
    assert after[1] == {**asked, "content": [asked["content"][1]]}


def test_reasoning_goes_where_nothing_came_of_it_or_it_is_not_signed() -> None:
    signed = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    after = check_anthropic(USER, assistant(signed), user(GO_ON), assistant({**signed, "signature": ""}, GO_ON), USER)
    assert after == [USER, user(GO_ON), assistant(GO_ON), USER]


def test_half_a_search_of_the_provider_goes_and_a_whole_one_stays() -> None:
    whole = assistant(SEARCH, FOUND, GO_ON)
    lost = [assistant({**SEARCH, "id": "srv_2"}, GO_ON), assistant({**FOUND, "tool_use_id": "srv_3"}, GO_ON)]
    after = check_anthropic(USER, whole, USER, lost[1], USER, lost[0], USER)
    assert after == [USER, whole, USER, assistant(GO_ON), USER, assistant(GO_ON), USER]
    assert after[1] is whole


def test_of_two_open_searches_with_one_id_the_later_waits() -> None:
    before = [USER, assistant(SEARCH, GO_ON), assistant(SEARCH, FOUND)]
    assert ("open_server_call", "srv_1") in ANTHROPIC.problems(before)
    assert check_anthropic(*before) == [USER, assistant(GO_ON), before[2]]


def test_a_compaction_of_another_provider_goes_and_the_own_one_stays() -> None:
    theirs = {"type": "compaction", "id": "cmp", "encrypted_content": "gAAA"}
    ours = {"type": "compaction", "content": "what was before"}
    assert check_anthropic(USER, assistant(theirs, GO_ON)) == [USER, assistant(GO_ON)]
    messages = [USER, assistant(ours, GO_ON)]
    assert repaired(messages, ANTHROPIC.format) is messages
    items = [RESPONSES.user("hi"), theirs, RESPONSES.user("and?")]
    assert repaired(items, RESPONSES.format) is items


@pytest.mark.parametrize(
    ("call", "output"),
    [
        pytest.param(
            {"type": "custom_tool_call", "call_id": "a", "name": "patch", "input": "***"},
            {"type": "custom_tool_call_output", "call_id": "a", "output": INTERRUPTED},
            id="custom",
        ),
        pytest.param(
            {"type": "local_shell_call", "call_id": "a", "action": {"type": "exec", "command": ["ls"]}},
            {"type": "local_shell_call_output", "call_id": "a", "output": INTERRUPTED},
            id="local-shell",
        ),
        pytest.param(
            {"type": "shell_call", "call_id": "a", "action": {"commands": ["ls"]}},
            {
                "type": "shell_call_output",
                "call_id": "a",
                "output": [{"outcome": {"type": "exit", "exit_code": 1}, "stdout": INTERRUPTED, "stderr": ""}],
            },
            id="shell",
        ),
        pytest.param(
            {"type": "apply_patch_call", "call_id": "a", "operation": {"type": "delete_file", "path": "a.py"}},
            {"type": "apply_patch_call_output", "call_id": "a", "status": "failed", "output": INTERRUPTED},
            id="apply-patch",
        ),
    ],
)
def test_each_type_of_call_is_answered_by_its_type_of_output(call: dict[str, Any], output: dict[str, Any]) -> None:
    messages = [RESPONSES.user("hi"), call]
    assert repaired(messages, RESPONSES.format) == [*messages, output]


def test_a_computer_that_was_interrupted_shows_a_blank_screen() -> None:
    call = {"type": "computer_call", "id": "cu", "call_id": "a", "action": {"type": "screenshot"}}
    after = repaired([RESPONSES.user("hi"), call], RESPONSES.format)
    assert (after[2]["type"], after[2]["call_id"]) == ("computer_call_output", "a")
    assert after[2]["output"]["image_url"].startswith("data:image/png;base64,")


def test_a_legacy_call_is_answered_by_a_function_message() -> None:
    call: dict[str, Any] = {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": "{}"}}
    after = repaired(list[Mapping[str, object]]([USER, call, USER]), OpenAIChatFormat())
    assert after == [USER, call, {"role": "function", "name": "old", "content": INTERRUPTED}, USER]


# -- formats of others


class Reader:
    name = "minimal"

    def read(self, message: str, /) -> Sequence[Message]:
        return (Message(role="user", parts=(Text(message),)),)

    def summary(self, text: str, /) -> str:
        return text

    def take(self, message: str, pieces: Sequence[int], /) -> str:
        return message

    def rewrite(self, message: str, texts: Mapping[tuple[int, int], str], /) -> str:
        return texts.get((0, 0), message)


def test_a_format_that_cannot_repair_is_refused_with_the_missing_methods() -> None:
    with pytest.raises(ConfigurationError, match="minimal lacks request, answer, drop, rename"):
        repaired(["hi"], Reader())


def test_a_format_of_another_name_leaves_system_messages_where_they_are() -> None:
    """It is translated further on: whether the provider takes them inside is not known here, and their place means something."""

    class OfAFramework(OpenAIChatFormat):
        name = "framework"

    messages = script(CHAT, "s u a s u ?x u")
    mended = repaired(messages, OfAFramework())
    assert [*mended[:6], *mended[7:]] == messages
    assert mended[6]["content"] == INTERRUPTED


# -- always


@pytest.mark.full
def test_the_time_is_linear_in_the_messages() -> None:
    """9 000 messages, each step broken; a quadratic repair would need a minute."""
    asked = [CHAT.asks("", [("x", 1)], False)[0], CHAT.user("go on")]
    orphan = CHAT.tells([("y", 1)])
    start = time.perf_counter()
    after = repaired([CHAT.user("hi"), *(asked + orphan) * 3_000], CHAT.format)
    assert time.perf_counter() - start < 6
    assert len(after) == 9_001


@pytest.mark.parametrize(
    "format", [OpenAIChatFormat(), AnthropicFormat(), OpenAIResponsesFormat()], ids=lambda f: f.name
)
def test_every_format_of_the_core_repairs_and_answers_calls_only(format: Any) -> None:
    assert repaired([], format) == []
    with pytest.raises(ConfigurationError, match="names no tool call"):
        format.answer({"type": "message", "role": "user", "content": "hi"}, (0, 0), "no")


def test_an_approval_and_found_tools_go_without_their_item_and_stay_with_it() -> None:
    asked = {"type": "mcp_approval_request", "id": "m", "name": "find", "server_label": "docs", "arguments": "{}"}
    approval = {"type": "mcp_approval_response", "approval_request_id": "m", "approve": True}
    found = {"type": "tool_search_output", "call_id": "s", "execution": "client", "tools": []}
    user = RESPONSES.user("hi")
    assert repaired([user, approval, found, user], RESPONSES.format) == [user, user]
    assert repaired([user, asked, approval, found], RESPONSES.format) == [user, asked, approval]
