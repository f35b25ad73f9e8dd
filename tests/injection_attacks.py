"""Texts that pose as more than data, and a lenient reader that falls for them.

Each attack contains the word `zanzibar`, so that a test can find it in a view. The reader shares no code with the library, and is
about as lenient as a model.
"""

import functools
import html
import json
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from tests.cases import folded, sampled

CANARY = "zanzibar"
BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """An attack.

    Attributes:
        kind: A forged "tag" or "label" reads as one until it is escaped. An "order" has no form that could be escaped; only its
            place matters.
    """

    name: str
    kind: Literal["tag", "label", "order"]
    text: str


FILE = Path(__file__).with_name("fixtures") / "injection_attacks.json"
ATTACKS = [Attack(**fields) for fields in json.loads(FILE.read_text(encoding="utf-8"))]

every_attack = folded("attack", {attack.name: attack for attack in ATTACKS})
an_attack = pytest.mark.parametrize("attack", sampled(ATTACKS, 16), ids=[attack.name for attack in ATTACKS])
"""For slow tests: a test of each attack, in the fast suite of a sample."""


# -- the lenient reader

_LOOKALIKES = str.maketrans(
    "аеорсухіѕᴀᴄᴇɪɴᴏʀꜱᴛᴜᴠ" + "".join(map(chr, (*range(0x1F150, 0x1F16A), *range(0x1F170, 0x1F18A)))),
    "aeopcyxisaceinorstuv" + 2 * "abcdefghijklmnopqrstuvwxyz",
)
_UNSEEN = re.compile("[*`\u115f\u1160\u2065\u2800\u3164\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]")
"""Emphasis, blanks, and characters that Unicode reserves as invisible."""
_TAGS = (
    "conversation|previous[-_]?summary|summary|focus|facts|kept-?messages|read-?files|modified-?files|system-?reminder"
    "|start_?of_?turn"
)
_TAG = re.compile(rf"[<‹《]+ ?/? ?(?:{_TAGS})(?!\w)|<\|(?=[^|]*[^\W_])[^|<>[]{{1,40}}\|>|</?sys>>")
# No template has a mark with a bracket in it: our labels between two parts do not belong to a mark. Nor has a template a mark of
# more than forty characters, or without a letter.
_SPEAKERS = "user human assistant benutzer usuario 用户 ユーザー 사용자 Пользователь المستخدم"
_OURS = "user|human|assistant|toolcall|toolresult|conversationsummary|/?inst"
_OTHERS = "system|developer|newusermessage"
"""These are also headings of configuration files, so only those that end in a bracket and a colon are labels."""


def as_seen(text: str) -> str:
    """Return a text as it looks: entities and escapes resolved, letters plain and small, nothing invisible."""
    return "\n".join(map(_looks, _lines(text)))


def _lines(text: str) -> list[str]:
    return re.split(f"[{BREAKS}]", text)


@functools.cache
def _looks(line: str) -> str:
    line = _decode(line).casefold().translate(_LOOKALIKES)
    kept = (char for char in line if unicodedata.category(char) not in ("Cc", "Cf", "Mn", "Me", "Cs"))
    return _UNSEEN.sub("", "".join(kept))


_ENCODED = re.compile(
    r"\\u([0-9a-f]{4})|\\x([0-9a-f]{2})|%([2-7][0-9a-f])|&(?:#[0-9]+|#x[0-9a-f]+|\w{1,32});?", re.IGNORECASE
)


def _decode(line: str) -> str:
    """Return a line without encodings and colors. Text that is encoded twice is decoded once, as a model would."""
    line = _ENCODED.sub(
        lambda code: chr(int(code[code.lastindex], 16)) if code.lastindex else html.unescape(code[0]), line
    )
    return unicodedata.normalize("NFKD", re.sub("\x1b\\[[0-9;:]*m", "", line))


_LABEL = re.compile(
    rf"[^\w\\\"'{{(]*(?:[\[【]+(?:(?:{_OURS})(?![\w.-])|(?:{_OTHERS})[\]】]:)|</?user>|"
    rf"(?P<speaker>{'|'.join(map(as_seen, _SPEAKERS.split()))}):)"
)


def tags_seen(text: str) -> list[str]:
    """Return every apparent tag of our prompts in a text, in order, with or without spaces, and with emphasis as spaces."""
    shown, spaced = as_seen(text), as_seen(re.sub("[*`]", " ", text))
    return max(map(_TAG.findall, (shown, "".join(shown.split()), spaced)), key=len)


def labels_seen(text: str) -> list[str]:
    """Return the beginning of every line that seems to open a turn."""
    found = ((line, _LABEL.match("".join(_looks(line).split()))) for line in _lines(text))
    return [label[0] for line, label in found if label and not (label["speaker"] and _is_entry(line))]


def _is_entry(line: str) -> bool:
    """Return whether a line is indented and begins small, as `user:` does in YAML."""
    letters = (char for char in _UNSEEN.sub("", _decode(line)) if char.isalnum())
    return line[:1] in (" ", "\t") and next(letters, "").islower()
