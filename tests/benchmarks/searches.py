"""Whether one search of the recall tool finds the identifiers that an agent needs and no longer sees.

Each is searched for by one call of the tool, with the words of the answer that uses it: its text and the arguments of its calls,
once with and once without the identifier itself.
"""

from tests.benchmarks.identifiers import HARD, find_identifiers, is_in
from tests.benchmarks.replays import Chat, Tally, message_text, replay

NEXT_STEPS = 5


def search_needs(name: str, messages: list[Chat], window: int, tally: Tally) -> list[int]:
    """Search for the needs of the five steps after each compaction; return the bytes of the tool's answers."""
    sizes: list[int] = []
    texts = [message_text(message) for message in messages]
    steps_left = 0
    for step in replay(messages, window, recall=True):
        if step.record is not None:
            steps_left = NEXT_STEPS
        if not steps_left:
            continue
        steps_left -= 1
        listed, used = messages[: step.at], texts[step.at]
        shown = "\n".join(map(message_text, step.view))
        said = "\n".join(text for message, text in zip(listed, texts, strict=False) if message["role"] != "system")
        needed = {word: kind for word, kind in find_identifiers(used) if not is_in(word, shown) and is_in(word, said)}
        if not needed:
            continue
        recall = step.session.recall_tool(lambda listed=listed: listed)
        covered = [f"{part.source}\n{part.text}" for part in step.session.covered(listed)]
        answer = recall(used)
        sizes.append(len(answer.encode()))
        for word, kind in needed.items():
            case = name, window, step.at, word
            without = recall(used.replace(word, " "))
            found = _has(answer, word)
            tally["can be read again"][case] = any(_has(text, word) for text in covered)
            tally["found by one search"][case] = found
            tally["found without it in the query"][case] = _has(without, word)
            if kind in HARD:
                tally["found by one search, hard ones"][case] = found
    return sizes


def _has(text: str, name: str) -> bool:
    """Return whether a text has an identifier, also behind a line break that JSON escapes."""
    return is_in(name, text) or is_in(name, text.replace("\\n", "\n").replace("\\t", "\t"))
