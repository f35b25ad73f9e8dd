"""The words of provider errors, read as tags: the lower half of the overflow grammar.

Providers report the same few facts in many wordings: a quantity (the prompt, the input, tokens) has a relation (is too long,
exceeds, must be at most) to a bound (a limit, the context window). `tag_words` keeps the words with these meanings, one letter
each, and drops all others, so that a rule is a short pattern over letters and a new wording seldom needs a new rule.

    I  the input: prompt, messages, conversation     X  is above: exceeds, longer than, >
    R  perhaps the input: request, message, text     x  is too long, too large, does not fit
    T  tokens                                        y  too many
    L  a length, size or count                       Q  must be below: cannot exceed, less than, <=
    C  the context window                            V  states an amount: contains, has, got
    c  context, without "window"                     D  asks for an amount: requested, needs
    W  the model                                     S  make it shorter
    M  a limit, a maximum, an allowance              O  the requested output: max_tokens, completion
    N  a number                                      P  a quota: rate limit, per minute, billing
    U  a range; its number is the upper end          E  an error of another kind: validation, time-out
    n  a negative number                             B  bytes
    G  reached (an answer may reach a limit too)     b  characters
    A  at least                                      u  another unit: seconds, attempts
    Y  by, as in "exceeded by"                       K  a batch of inputs
    +  plus                                          Z  something else that can be too long: string, file
    ,  end of a clause                               .  end of a sentence or of a quoted text
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

READ_CHARS: Final = 20_000
"""The characters read at each end of a text. Recorded errors have at most 500; longer texts quote the request or an HTML page."""
_NUMBER_LIMIT: Final = 1_000_000_000
"""Larger numbers are ids or times. The largest window on offer is 10 million tokens (Llama 4 Scout, 2025)."""


class Word(NamedTuple):
    """One meaningful word: its tag, its start and end in the normalized text, and its value if it is a number."""

    tag: str
    start: int
    end: int
    value: int


_FOLD = str.maketrans("’‘“”，。：；（）＞＜、│┃", "''\"\",.:;()><,  ")
_UNICODE_ESCAPE = re.compile(r"\\{1,8}u([0-9a-fA-F]{4})")
_LINE_ESCAPE = re.compile(r"\\{1,8}[nrt]")
_BACKSLASHES = re.compile(r"\\{1,8}")
_ENTITY = re.compile(r"&(lt|gt|quot|amp|#39);")
_ENTITIES: Final = {"lt": "<", "gt": ">", "quot": '"', "amp": "&", "#39": "'"}
_ADDRESS = re.compile(r"https?://[^\s\"'<>)\]}]+|(?<![\w/#])(?:/[\w.-]+){2,}")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def normalise(text: str) -> str:
    """Return the text as the grammar reads it: bounded, unescaped, without addresses, camelCase split, lower case, one line.

    Line breaks become spaces: terminals wrap inside sentences, some with blank lines between.
    """
    if len(text) > 2 * READ_CHARS:
        text = f"{text[:READ_CHARS]} . {text[-READ_CHARS:]}"
    text = _UNICODE_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    text = _BACKSLASHES.sub("", _LINE_ESCAPE.sub("\n", text)).translate(_FOLD)
    text = _ENTITY.sub(lambda match: _ENTITIES[match[1]], text)
    text = _CAMEL.sub("_", _ADDRESS.sub(" ", text)).lower()
    return " ".join(text.split())


# Earlier lines win over later ones at the same place. A space in an English phrase matches a space, an underscore or a hyphen,
# so that codes and class names read like prose: context_length_exceeded, ContextWindowExceededError; an underscore matches only
# itself. Phrases with an empty tag have no meaning here, and must not be read as their parts. Letters before another part of a
# phrase are bounded (no recorded name has 80): a word begins behind each underscore, and would be read to its end each time.
_ENGLISH: Final = (
    (
        "",
        r"context (?:deadline|cancel\w*|manager|switch\w*|menu|id)|chat completions?|token too (?:long|large)|prompt cach\w+",
    ),
    ("", r"(?:bad|invalid) request(?: error)?|request fewer|request id"),
    (
        "P",
        r"rate limit\w*|ratelimit\w*|(?:call|token|request) rate|usage limit|[tri]?tp[md]|rp[md]|\w{0,80}quota\w*|throttl\w*",
    ),
    (
        "P",
        r"(?:per|this|each|every|last|past) (?:minute|min|second|hour|day|week|month)|today|daily|hourly|monthly|minutes?",
    ),
    ("P", r"too many requests|resource (?:has been )?exhausted|overloaded|concurren\w+|please wait"),
    (
        "P",
        r"billing|credits?|afford|payment|subscription|balance|funds|(?:paid|free|current|pricing|your) (?:account|plan|tier)",
    ),
    ("P", r"upgrade|extra usage|(?:try again|retry) (?:later|after|in)"),
    (
        "E",
        r"malformed input request|input should (?:be|have)|validation errors? for|type=(?:less|greater|string|missing|value)\w*",
    ),
    (
        "E",
        r"input value|assertion error|invalid (?:schema|json)|content (?:filter\w*|policy)|incomplete|before any response|errno",
    ),
    ("E", r"timed out|time ?out|deadline|out of memory|memory|oom|not supported|unsupported|not found|field required"),
    ("b", r"(?:max|min)_length"),
    (
        "O",
        r"max(?:imum)? (?:new|output|completion|gen\w{0,40}|response) (?:tokens?|length)|max_?tokens(?:_to_sample)?|draft tokens",
    ),
    ("O", r"max tokens(?= must| value| param)|maximum tokens (?:value|you requested)|n predict|num predict"),
    ("O", r"(?:output|completion|generat\w{1,40}|response|reply|answer|sampling) (?:tokens?|length|size|limit)"),
    (
        "Z",
        r"(?:access|api|auth\w{0,40}|bearer|refresh|session|security|id|jwt|csrf|oauth|secret|device|push|expired|invalid) tokens?",
    ),
    ("Z", r"tokens? (?:has |is |was |have )?(?:expired|invalid|revoked)|tokeni[sz]er"),
    ("C", r"(?:max )?context (?:length|window|size|limit|budget|capacity|space|tokens?|len|range)s?(?: size| length)?"),
    (
        "C",
        r"n ctx|num ctx|ctx(?: (?:len\w*|size|window))?|max model len\w*|max seq(?:uence)? len\w*|(?:model|sequence|seq) len\w*",
    ),
    ("C", r"model(?:'s)? max(?:imum)? len\w*|max position embeddings|window size"),
    ("c", r"contexts?|window"),
    ("T", r"tokens?"),
    (
        "I",
        r"(?:system )?prompts?|inputs?|messages|conversations?|dialog(?:ue)?s?|(?:chat |message )?history|chats?|transcripts?",
    ),
    ("R", r"requests?|message|texts?|quer(?:y|ies)|questions?|documents?|payloads?|body|contents?|examples?|passages?"),
    ("W", r"models?(?:'s)?|endpoints?(?:'s)?|llm"),
    ("L", r"lengths?|sizes?|counts?|number of|amount of|budget"),
    ("A", r"at least"),
    ("Y", r"by(?= (?:about |approximately |~)?\d)"),
    ("V", r"(?:result(?:s|ed|ing)? in|contain(?:s|ed)?|ha(?:s|ve)|got|received|sent|used) (?:over|more than)(?= \d)"),
    (
        "Q",
        r"(?:must|should|shall|may|can)(?: not|n't)? (?:be|have|exceed|contain)|cannot (?:be|exceed|have|contain)|can't exceed",
    ),
    (
        "Q",
        r"(?:less|fewer|smaller|shorter|lower) than(?: or equal to)?|no (?:longer|larger|greater|bigger) than|not exceed",
    ),
    (
        "M",
        r"limit(?:s|ed|ation)?|max(?:imum|imal)?|allow(?:ed|s|ance|able)|permitted|capacity|cap|support(?:s|ed)|accept(?:s|ed)",
    ),
    (
        "M",
        r"up to|no more than|at most|available|ceiling|upper bound|threshold|only|can (?:handle|process|take)|configured",
    ),
    ("x", r"too (?:long|large|big|lengthy|great|much)|over(?:ly)? ?(?:long|sized?)"),
    ("x", r"(?:not|cannot|can't|doesn't|don't|won't|unable to|longer)(?: be)? (?:fit|fits|fitted|accommodated?)"),
    ("y", r"too many"),
    (
        "X",
        r"exceed(?:s|ed|ing)?|excess(?:ive)?|overflow(?:s|ed|ing)?|overr[au]n|above|beyond|over|surpass(?:es|ed|ing)?|past",
    ),
    (
        "X",
        r"(?:longer|larger|greater|bigger|higher|more) than|not less|outside (?:of )?the range|out of (?:range|bounds)",
    ),
    ("X", r"full|exhausted|r[au]n out|not enough|insufficient"),
    ("G", r"reached|hit"),
    ("S", r"reduc(?:e|ing)|shorten(?:ing)?|decreas(?:e|ing)|trim(?:ming)?|shrink(?:ing)?|shorter|smaller|fewer"),
    ("D", r"request(?:ed|ing)|asked|need(?:s|ed)?|requir(?:es?|ed)|t(?:akes?|ook)"),
    (
        "V",
        r"contain(?:s|ed|ing)?|ha(?:s|ve|d|ving)|result(?:s|ed|ing)? in|got|received|given|passed|provided|supplied|sent",
    ),
    (
        "V",
        r"submitted|current(?:ly)?|actual(?:ly)?|used|found|total(?:s|l?ing|l?ed)?|estimated|projected|counted|includ(?:es?|ed|ing)",
    ),
    ("V", r"consum(?:es|ed)|comes? to|n keep|keep"),
    ("O", r"completions?|outputs?|generation"),
    ("B", r"bytes?|[kmg]i?b"),
    ("u", r"digits|pixels|seconds?|pages?|attempts?|retries|times"),
    ("b", r"characters?|chars|words"),
    (
        "Z",
        r"strings?|stop|files?|file ?names?|images?|audio|videos?|pdfs?|attachments?|columns?|fields?|arrays?|lists?|items?",
    ),
    ("Z", r"elements?|stack|recursion|headers?|ur[il]s?|paths?|names?|titles?|descriptions?|tools?|functions?"),
    ("K", r"batch(?:es)?"),
    ("Z", r"packets?|chunks?|buffers?|integers?|passwords?|labels?|metadata|schemas?|uploads?|dimensions?"),
    (",", r"however|but|while|whereas|though|although|which|and your|and the|and you"),
)
_CHINESE: Final = (
    ("P", r"速率|频率|頻率|频繁|限流|额度|余额|配额|欠费|每分钟|每天|并发|稍后"),
    ("O", r"输出|輸出|生成"),
    ("C", r"上下文(?:长度|長度|窗口|大小|限制|窗)?"),
    ("Q", r"(?:不能|不得|不可|不应|不|勿)(?:超过|超過|超出|大于)|小于(?:等于)?|必须|应在|范围|非法|无效"),
    ("x", r"超长|超長|过长|過長|太长|太長|过大|太大|超限|过多"),
    ("E", r"超时|逾时"),
    ("X", r"超过|超過|超出|大于|高于|超"),
    ("I", r"提示词|提示詞|提示|输入|輸入|对话|對話|消息|訊息|会话|历史"),
    ("R", r"请求|請求|内容|文本|问题"),
    ("T", r"令牌|词元"),
    ("L", r"长度|長度|数量|總數|总数|大小"),
    ("W", r"模型"),
    ("M", r"最大|上限|限制|允许|支持|最多"),
    ("V", r"实际|当前|收到|总共"),
    ("S", r"缩短|縮短|减少|精简|缩减"),
    ("B", r"字节"),
    ("b", r"字符|字数"),
    ("Z", r"文件|图片|字符串|图像"),
)
_NO_AMOUNT: Final = (
    # vLLM's arithmetic "(X > N - a)" and its repetition of the parameter; a status in a marker; a line number of a file.
    ("", r"\(\d{1,12} ?> ?\d{1,12} ?- ?\d{1,12}\)|\(parameter=[^)]{0,80}\)|<\d{3}>|\.\w{1,4}:\d{1,6}"),
    ("", r"(?<![a-z0-9])(?:code|status|http|id|line|port|index|pid|char)[ :='\"(#]{0,4}\d{1,12}(?![\w,])"),
    ("", r"(?:^|error|exception)[\W_]{0,4}[1-5]\d\d(?![\w.,]| tokens)|^\W{0,4}\d{1,6}(?=:)"),
)
_SYMBOLS: Final = (
    ("U", r"[\[(] ?\d{1,12} ?, ?\d[\d,]{0,14} ?[\])]|between [01] and \d{1,12}|(?<![\w.])\d{1,12}\.\.\d{1,12}"),
    ("n", r"(?<=[ :(])-\d+(?![\w.])"),
    (
        "N",
        r"(?<![a-z0-9_.$/-])(?<!\d:)(?:\d{1,3}(?:[,_]\d{3}){1,3}|\d{1,12}(?:\.\d{1,3}(?=[km]))?)[km]?(?![a-z0-9_%]|[.:/-]\d)",
    ),
    ("X", r"(?<=[ \d)])[>≥]=?(?= ?[`\"']?[\dn(])"),
    ("Q", r"(?<=[ \d)])[<≤]=?(?= ?[`\"']?[\d(])"),
    ("+", r"(?<=[ \d`])\+(?= ?[`\d])"),
    ("P", r"(?<=[a-z])/ ?(?:min|minute|day|hour)(?![a-z])"),
    (".", r"[.!?](?= |$|[\"'])|[\"'](?= ?(?:[,}\])]|:(?! ?\d)))|[{}]"),
    (",", r"[,;](?= )| - "),
)
_TABLE: Final = (*_NO_AMOUNT, *_ENGLISH, *_CHINESE, *_SYMBOLS)


@cache
def _word_pattern() -> re.Pattern[str]:
    """Return one pattern with a group per line of the tables, so that `lastindex` is the number of the line."""

    def alternatives(table: tuple[tuple[str, str], ...]) -> str:
        return "|".join(f"({words})" for _, words in table)

    english = alternatives(_ENGLISH).replace(" ", "[ _-]")
    return re.compile(
        f"{alternatives(_NO_AMOUNT)}|(?<![a-z0-9])(?=[a-z])(?:{english})(?![a-z0-9])"
        f"|(?=[\u4e00-\u9fff])(?:{alternatives(_CHINESE)})|{alternatives(_SYMBOLS)}"
    )


_DIGITS = re.compile(r"\d[\d,_]*(?:\.\d+(?=[km]))?")
_SCALES: Final = {"k": 1_000, "m": 1_000_000}


def tag_words(text: str) -> list[Word]:
    """Return the meaningful words of a normalized text, in order."""
    words: list[Word] = []
    for match in _word_pattern().finditer(text):
        tag = _TABLE[(match.lastindex or 1) - 1][0]
        value = _value(match[0]) if tag in ("N", "U") else 0
        if tag and value < _NUMBER_LIMIT:
            words.append(Word(tag, match.start(), match.end(), value))
    return words


def _value(text: str) -> int:
    """Return the last number in the text. 200k is 200,000 rather than 204,800: the smaller window is the safer reading."""
    number = _DIGITS.findall(text)[-1].replace(",", "").replace("_", "")
    scale = _SCALES.get(text[-1], 1)
    return int(float(number) * scale) if "." in number else int(number) * scale
