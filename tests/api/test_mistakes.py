"""What typical mistakes are answered: at once, by the field, its value and the fix."""

from collections.abc import Mapping

import pytest

from compaction_hooks import CompactionController, ConfigurationError
from tests.api.mistakes import CORE, MISTAKES, answer_to, names


@pytest.mark.parametrize("code", CORE)
def test_a_mistake_is_answered_with_the_field_the_value_and_the_fix(code: str) -> None:
    error = answer_to(code, "compaction_hooks")
    assert isinstance(error, ValueError | TypeError)
    assert CORE[code] in str(error)
    assert len(str(error)) < 400


@pytest.mark.parametrize("package", [package for package in MISTAKES if package != "compaction_hooks"])
def test_a_mistake_with_an_adapter_is_answered_where_its_framework_is_installed(package: str) -> None:
    try:
        names(package)
    except ImportError as missing:
        pytest.skip(str(missing))
    answers = {code: str(answer_to(code, package)) for code in MISTAKES[package]}
    assert not {code: answer for code, answer in answers.items() if MISTAKES[package][code] not in answer}


def test_a_mistake_in_a_later_call_is_refused_as_in_the_first() -> None:
    """The quick path answers most calls; a mistake must not slip through there."""
    hooks = CompactionController(context_window=8_000)
    messages: list[Mapping[str, object]] = [{"role": "user", "content": "hi"}]
    hooks.transform_context_sync(messages)
    with pytest.raises(TypeError, match="windoww=3: did you mean context_window"):
        hooks.transform_context_sync(messages, windoww=3)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="not generator"):
        hooks.transform_context_sync(message for message in messages)  # type: ignore[arg-type]
