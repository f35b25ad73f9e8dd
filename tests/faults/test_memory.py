"""Messages removed from the context are freed: no object of ours keeps them alive after the host dropped them."""

import gc
import weakref

from compaction_hooks import CompactionSettings, Usage
from tests.cases import crossed
from tests.conversations import assistant, call, prose, system, talk, tool, user
from tests.faults.harness import SIDES, Chat, Side, fallback_settings, rig, tokens, works


class Output(str):
    __slots__ = ("__weakref__",)


def conversation(count: int, size: int) -> tuple[list[Chat], list[weakref.ref[Output]]]:
    messages: list[Chat] = [system(), user("Read everything.")]
    watched: list[weakref.ref[Output]] = []
    for n in range(count):
        output = Output(f"# {n}\n{prose(size)}")
        watched.append(weakref.ref(output))
        messages += [assistant(None, call(f"c{n}", "read_file", path=f"{n}.py")), tool(f"c{n}", output)]
    return messages, watched


SETTINGS = {"clearing": CompactionSettings(), "a summary": fallback_settings()}


@crossed(how=SETTINGS, side=SIDES)
def test_compacted_messages_are_freed_when_the_host_drops_them(how: str, side: Side) -> None:
    """A host that stores the view in place of its list gets the memory back, with usage reported or not."""
    driven = rig(side, window=32_768, summarizer=works, settings=SETTINGS[how])
    messages, watched = conversation(24, 1_200)
    driven.transform(messages[:-4])
    driven.session.report_usage(Usage(input_tokens=tokens(messages[:-4]), output_tokens=10))
    view = driven.transform(messages)
    assert view is not messages
    driven.session.report_usage(Usage(input_tokens=tokens(view), output_tokens=10))
    kept = {id(message) for message in view}
    gone = [ref for ref, message in zip(watched, messages[3::2], strict=True) if id(message) not in kept]
    assert len(gone) >= 8
    del messages
    driven.handed_in.clear()
    view = driven.transform([*view, *talk(1)])
    driven.session.report_usage(Usage(input_tokens=tokens(view), output_tokens=10))
    driven.handed_in.clear()
    gc.collect()
    assert not [ref for ref in gone if ref() is not None]


def test_a_record_holds_no_text_of_cleared_results() -> None:
    sizes: list[int] = []
    for size in (1_200, 12_000):
        driven = rig("sync", window=size * 24)
        messages, _ = conversation(24, size)
        assert driven.transform(messages) is not messages
        sizes.append(len(str(driven.session.export_records())))
    assert sizes[1] < sizes[0] * 1.2


def test_closing_a_session_frees_it() -> None:
    driven = rig("sync")
    messages, watched = conversation(6, 100)
    driven.hooks.session("one").transform_context_sync(messages)
    driven.hooks.close("one")
    del messages
    gc.collect()
    assert not [ref for ref in watched if ref() is not None]
