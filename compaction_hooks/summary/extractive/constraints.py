"""Words by which people limit or prefer something, in five languages and some Japanese."""

from __future__ import annotations

import re

_FORMATS = r"(?:json|ya?ml|csv|tsv|xml|html|toml|markdown|latex|utc|plain text|tabelle|tabla|tableau)"
_LANGUAGES = (
    r"(?:(?:british|american) )?(?:english|german|french|spanish|italian|portuguese|dutch|polish|russian|turkish|arabic|hindi|"
    r"chinese|japanese|korean|deutsch|englisch|französisch|spanisch|français|anglais|allemand|espagnol|español|inglés|alemán)"
)
_CUES = (
    # English
    r"must(?:n't)?|never|always|don't|do not|cannot|can't|should(?:n't)?|only|instead of|prefer|avoid|make sure|ensure|"
    r"require[ds]?|needs? to|ha(?:s|ve) to|without|at (?:most|least)|keep|leave|important|please use|use (?:the|our)|"
    r"rather|remember|stick to|not allowed|forbidden|prohibited|no (?:new|other|more|less)|format|"
    r"(?:you|they|it|one) may (?:not|only)|not (?:supposed )?to|(?:is|are) to be|under no|"
    r"from now on|going forward|in future|whenever|every time|unless|until (?:i|we)|ask (?:me|us|first)|"
    r"before (?:you|each|every|any)|nothing (?:may|must|else)|nowhere else|no ?(?:one|body) (?:may|must|is|else)|"
    r"(?:every|each|any) [\w ]{1,30} needs?|i (?:don't )?want (?:no|every|all|each|any)|hands off|refrain|limit yourself|"
    r"as a table|no emojis?|call me|(?:british|american) spelling|be careful",
    # German
    r"nicht|nie(?:mals|mand)?|immer|stets|m[uü]ss(?:en|t|te|ten)?|soll(?:en|st|te|ten|t)?|d[aü]rf(?:en|st|t)?|bitte|"
    r"kein(?:e[nmrs]?)?|nur|ausschließlich|höchstens|mindestens|maximal|verboten|untersagt|vermeide|verwende|benutze|nutze|"
    r"(?:an)?statt|lieber|ab (?:jetzt|sofort)|von nun an|in ruhe|denk daran|achte|halte dich|ohne|unter keinen|bevor du|"
    r"frag mich|hör auf|jede[rsn]? \w+ braucht",
    # French
    r"jamais|toujours|do(?:it|is|ivent)|devez|ne pas|(?:ne |n')[\w' ]{1,30}? (?:pas|aucune?|rien|plus|que)|(?:il )?faut|"
    r"interdit|évite[rz]?|uniquement|seulement|au (?:plus|moins|maximum)|à partir de|désormais|dorénavant|sans (?:mon|ma|que)|"
    r"(?:je )?préfère|utilise[rz]?|surtout|laisse[rz]?|chaque|avant de|plutôt",
    # Spanish
    r"nunca|jamás|siempre|deb(?:e|es|en|emos)|hay que|prohibid[oa]|evit[ae]|s[oó]lo (?:con|en|el|la|los|las|se)|"
    r"us[ae] (?:s[oó]lo|siempre)|solamente|únicamente|como máximo|al menos|a partir de|de ahora en adelante|sin (?:mi|que)|"
    r"prefiero|tienen? que|en paz|antes de|en (?:vez|lugar) de|por favor|no [a-zñáéíóú]{2,20}(?:es|as|éis|áis)",
)
_FIRST = (
    r"no|nope|nah|nein|non|use|usa|(?:wrong|actually|instead)[,:]? (?:use|take|go|make|do|let)|skip|ignore|exclude|stop|quit|limit|"
    r"max(?:imum|\.)?|min(?:imum|\.)?"
)
_WIDE = (
    r"中文|英文|日本語で|不要|不能|不得|不许|不准|必须|必須|一定|务必|只[能要有用使可准]|尽量|应该|应當|應該|记得|記得|记住|避免|优先|别|禁止|"
    r"请勿|千万|始终|一律|绝不|从现在|最多|至少|都[要需]|格式|先问|更喜欢|改用|保密|"
    r"しないで|必ず|してはいけ|ください"
)
_CUE = re.compile(
    rf"\b(?:{'|'.join(_CUES)})\b|\b(?:in|as|output|auf|als|en|como|im) (?:{_FORMATS}|{_LANGUAGES})\b|"
    rf"\A(?:{_FIRST})\b|\A不[，,]|{_WIDE}"
)


def count_cues(sentence: str) -> int:
    """Return the number of words in a sentence that limit or prefer something.

    >>> count_cues("You must not restart it, never."), count_cues("Restart it.")
    (2, 0)
    """
    # A pattern that ignores the case takes three times as long.
    return len(_CUE.findall(sentence.lower().replace("’", "'")))
