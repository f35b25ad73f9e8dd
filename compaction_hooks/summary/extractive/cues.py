"""The words and forms by which people limit or prefer something, or order it for more than once, in six languages."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from compaction_hooks.summary.extractive.text import has_wide
from compaction_hooks.text.patterns import lazy_pattern

_CUES = frozenset(
    cue.replace("_", " ")
    for cues in (
        # Words that limit or prefer, and pairs of words; behind "_", the first word of a sentence
        # English
        "must mustn't never always don't cannot can't should shouldn't only prefer preferably avoid ensure without "
        "unless rather stays remains bleibt bleiben reste restent représente representa forbidden prohibited refrain "
        "whenever henceforth hereafter strictly exclusively do_not instead_of make_sure requires_that is_required "
        "is_spelled is_spelt stands_for be_nice be_good be_great be_better wäre_schön wäre_gut wäre_nett wäre_toll "
        "steht_für serait_bien serait_bon serait_mieux estaría_bien sería_bueno sería_mejor pas_de nada_de "
        "lo_sucesivo are_required needs_to has_to at_least at_most please_use use_the use_our stick_to not_allowed "
        "no_new no_other no_more no_less may_not may_only supposed_to under_no now_on here_on going_forward "
        "moving_forward in_future every_time each_time any_time until_i until_we until_you ask_me ask_us ask_first "
        "before_you before_any nothing_may nothing_must nothing_else nowhere_else want_no want_every want_all "
        "want_each want_any hands_off limit_yourself no_emojis no_emoji call_me address_me be_careful i_never "
        "i_always i_only we_never we_always we_only we_don't we_should we_must don't_want don't_like don't_need would_really "
        "further_notice by_default a_time our_convention our_conventions our_rule our_rules our_style our_policy "
        "our_standard our_guideline our_guidelines our_practice our_preference our_habit our_house our_norm my_rule "
        "my_preference my_convention my_style we_use we_write we_follow we_call we_name we_spell we_prefer we_indent "
        "we_measure we_count i_prefer i_hate i_dislike i_expect i_like goes_in goes_into goes_under goes_to go_into "
        "go_under go_in belongs_in belongs_to belongs_under belong_in belong_to belong_under lives_under lives_in "
        "se_trouve se_trouvent se_queda se_quedan liegen_in liegen_im liegt_in liegt_im this_thread this_chat "
        "this_conversation our_chat our_conversation live_under are_named are_written is_written are_spelled "
        "are_stored are_kept comes_first come_first comes_last when_you once_you in_doubt i_say told_otherwise _each "
        "_every _any _per _pro _whatever _whichever _anything",
        # German
        "nicht nie niemals niemand immer stets muss muß müssen müsst musst müsste müssten soll sollen sollst sollt "
        "sollte sollten darf dürfen darfst dürft kein keine keinen keinem keiner keines nur ausschließlich höchstens "
        "mindestens maximal verboten untersagt vermeide verwende benutze nutze statt anstatt lieber bitte achte ohne "
        "jede jeder jedes jeden jedem jeweils sämtliche künftig zukünftig fortan durchgehend durchgängig "
        "grundsätzlich standardmäßig generell möglichst sooft sofern gilt gelten sieze duze von_an in_ruhe "
        "denk_daran halte_dich unter_keinen bevor_du frag_mich hör_auf ab_jetzt ab_sofort ab_hier ab_heute ab_morgen "
        "von_nun wenn_du falls_du sobald_du solange_du ehe_du bei_uns im_zweifel im_fall im_falle in_zukunft "
        "wir_verwenden wir_nutzen wir_benutzen wir_schreiben wir_nehmen wir_nennen wir_arbeiten wir_duzen wir_siezen "
        "wir_rechnen unsere_regel unsere_konvention unser_stil unser_standard unsere_regeln ich_mag ich_erwarte "
        "hätte_gern hätte_gerne wünsche_mir lege_wert gehört_in gehören_in gehört_zu gehören_zu gehört_nach "
        "gehören_nach kommen_in kommt_in kommen_nach kommt_nach landet_in landen_in fasse_dich nenn_mich sprich_mich "
        "dieser_sitzung diesem_gespräch dieser_unterhaltung diesem_projekt",
        # French
        "jamais toujours doit dois doivent devez faut interdit évite évitez uniquement seulement désormais "
        "dorénavant préfère utilise utilisez surtout laisse laissez chaque plutôt veuille veuillez prière "
        "appelle-moi tutoie-moi vouvoie-moi parle-moi réponds-moi préviens-moi sois soyez ne_pas au_plus au_moins "
        "au_maximum à_partir sans_mon sans_ma sans_que avant_de je_préfère l'_avenir par_défaut chez_nous merci_de "
        "merci_d' cas_de dans_cette cette_session cette_conversation tant_que chaque_fois dès_que notre_règle "
        "notre_convention notre_style notre_norme nous_utilisons nous_écrivons on_utilise on_écrit on_se j'_aime "
        "j'_aimerais j'_attends j'_exige je_veux je_voudrais je_souhaite je_tiens je_déteste va_dans vont_dans va_en "
        "vont_en va_sous vont_sous reste_dans restent_dans quand_tu lorsque_tu si_tu une_fois leur_place sa_place "
        "compter_de compter_d' dès_maintenant première_fois première_apparition tes_réponses vos_réponses un_seul "
        "une_seule",
        # Spanish
        "nunca jamás siempre debe debes deben debemos prohibido prohibida evita evite solamente únicamente prefiero "
        "cada cualquier llámame trátame háblame respóndeme contéstame escríbeme avísame hay_que sólo_con solo_con "
        "usa_sólo usa_solo como_máximo al_menos a_partir en_adelante sin_mi sin_que tienen_que tiene_que en_paz "
        "antes_de en_vez en_lugar por_favor por_defecto en_cuanto una_vez cada_vez en_caso nuestra_regla "
        "nuestro_estilo nuestra_convención me_gusta me_gustan me_gustaría te_agradecería quiero_que quiero_los "
        "quiero_las quiero_una quiero_un espero_que van_en van_a esta_sesión desde_hoy desde_ahora desde_mañana "
        "primera_vez esta_conversación este_proyecto tus_respuestas sus_respuestas un_solo una_sola sé_breve "
        "salvo_que a_menos",
    )
    for cue in cues.split()
).union(
    f"{word} {name}"
    for word in ("in", "as", "output", "auf", "als", "en", "como", "im")
    for names in (
        # Formats and languages of answers
        "json yaml yml csv tsv xml html toml markdown latex utc plain british american english german french spanish "
        "italian portuguese dutch polish russian turkish arabic hindi chinese japanese korean swedish danish "
        "norwegian finnish greek czech deutsch englisch französisch spanisch italienisch français anglais allemand "
        "espagnol italien español inglés alemán francés tabelle tabla tableau liste lista",
    )
    for name in names.split()
)
"""Words, and pairs of words, that limit or prefer something, in English, German, French and Spanish."""
(
    _TELLERS,
    _NO_ORDERS,
    _PREDICATES,
    _CONDITIONS,
    _STYLE,
    _ONE_OFF,
    _SPECIFIC,
    _MANNER,
    _REPEATS,
    _WEAK_REPEATS,
    _MANNERS,
) = (
    frozenset(words.split())
    for words in (
        # Words behind which "don't" and "should" tell something
        "i we they he she it's i'm really actually still definitely just quite",
        # Words with which no order begins
        "i i'm i've i'd i'll we we're we've we'd we'll you you're you've they they're it it's he she this that "
        "that's these those the a an my our their his her its your there there's here here's what what's why how who "
        "where when which is are was were does did has have had should may might and but or so because since if not "
        "no yes great good well maybe perhaps unfortunately none such else mostly currently recently lately "
        "hopefully today still only "
        "same another one two some most many all each every any both either in on at for with from to of by as about "
        "after before during until while though although than unlike via however therefore once unless whenever "
        "isn't aren't wasn't didn't doesn't let's let feel like looks seems nothing everything anything ich er sie "
        "es wir ihr der die das ein eine mein meine dein ist sind war hat haben ja nein danke hallo aber oder weil "
        "wie warum je j' il elle nous ils elles le la les l' un une des du ce cette ces c' ça mon ma mes ton ta "
        "notre votre est sont qui que oui non merci bonjour mais ou yo él ella nosotros ellos el los las una mi mis "
        "tu su son está hola gracias pero sí",
        # Words behind a subject, and so behind no order
        "you i we they is are was were has have had will can could should must may might does did looks seems works "
        "uses runs isn't aren't wasn't didn't doesn't don't ich es er wir man sich ist sind hat haben wird werden "
        "war kann soll je il elle est sont était sera son está están fue era tiene",
        # Words that begin a condition, a time or a refusal in front of an order
        "when if once as after before until till while in for on with at during throughout by upon per from where "
        "wherever next no, nope, nah, nein, non, wrong, actually, instead, besides given wenn falls sobald solange "
        "sollte überall wer beim dans quiconque partout donde quien bevor ehe nachdem während bis nach bei zu für "
        "pro ab im am mit ist quand lorsque lorsqu'il lorsqu'elle lorsqu'on lorsqu'un jusqu'au d'ici si s'il s'ils "
        "dès une après avant pendant jusqu' en à lors pour par sans sauf tant cuando mientras tras hasta durante una "
        "después antes al con para salvo",
        # Deeds that are seldom ordered once
        "use usa skip ignore exclude stop quit limit max maximum min minimum keep leave format assume treat reply "
        "respond answer refer call name pretend speak talk sign spell imagine act greet remember round capitalize "
        "capitalise abbreviate indent prefix suffix mention cite omit prefer antworte nenne sprich rede runde "
        "nummeriere sortiere kürze unterschreibe signiere erwähne zitiere behandle ersetze réponds répondez désigne "
        "parle signe arrondis numérote mentionne omets remplace responde contesta llama habla firma redondea numera "
        "cita menciona omite imagina sustituye trata",
        # Deeds that are mostly ordered once
        "add fix run make create implement update remove delete change move mock check verify confirm review look "
        "see find get read open go do try test build install refactor rewrite pass bump push merge revert "
        "investigate provide help assist continue proceed cancel book transfer send turn click paste interact "
        "consider füge lösche erstelle baue behebe ajoute supprime crée corrige lance añade crea elimina ejecuta",
        # Words that follow the order of one deed
        "the a an this that it these those my me one some up out down off back for to of ein eine einen der die das "
        "den dem un el la lo le l'",
        # Words that say how, right behind the deed
        "in as with by under like using formally informally briefly your als mit wie auf nach unter an bei vor deine "
        "deinen avec comme sous selon d' au en tes vos tus con como según por al par",
        # Words by which any order is for more than once
        "each every throughout when once until while during everything whatever everywhere per rest wenn falls "
        "sobald bevor ehe solange bis alles quand lorsque dès tout toute tous toutes tant cuando toda todos todas "
        "mientras",
        # The same, if the deed is not ordered once
        "any all if anything alle allen allem si avant après first last zuerst primero abord",
        # The same, if the order is not of one thing
        "formally informally briefly als mit wie auf nach unter an bei vor avec comme sous selon d' au en con como "
        "según por al par",
    )
)
_WIDE_CUES, _WIDE_TALES, _WIDE_STARTS, _WIDE_ENDS, _WIDE_REPEATS = (
    tuple(words.split())
    for words in (
        # Searched for one by one: a pattern with such characters takes milliseconds to compile.
        # Words that limit or prefer something
        "中文 英文 日本語で 不要 不能 不得 不许 不准 必须 必須 一定 务必 只能 只有 只要 只用 只使 只可 只准 只在 "
        "只回 只给 只写 尽量 应该 应當 應該 记得 記得 记住 避免 优先 别 禁止 请勿 千万 始终 一律 绝不 从现在 最多 "
        "至少 都要 都需 格式 先问 更喜欢 改用 保密 しないで 必ず してはいけ ください",
        # Words that tell or ask something; its beginning; its end
        "今天我 今天去 今天是 今天在 今天看 今天的 最近 昨天 刚才 觉得 非常 什么 怎么 哪里 了。 了， 了！ 我很 我也 "
        "我还 我去 我看 我会 我是 我有 我在看 我和 我的朋友 ？ ?",
        "他 她 它 是 嗨 你好 你是 我们去 我们看 我一 我今 我最 我觉 我想去 我知 我不知 我不太 我对 我经 我从 我已 "
        "我学 我每 我通 我平 我以 我刚 我又 我都 我就 这家 这是 那 同时 哈哈 当然 但 ` * → #",
        "吗 呢 吧 了",
        # Words by which an order is for more than once, or under a condition
        "每 所有的 所有文 所有注 所有日 所有邮 所有接 所有代 所有函 所有回 所有测 全部用 任何 一切 凡 统一 均 如果 "
        "若 要是 假如 倘若 一旦 只要 万一 遇到 遇见 碰到 除非 的话 时， 后， 前， 候， 天起 日起 月起 周起 刻起 从此 "
        "今后 往后 以后 接下来 此后 直到 之前 期间 剩下的 余下的 默认 这次会话 本次会话 这个会话 这次对话 这个对话 "
        "整个会话 在这个 在本 本项目 回答 回复 答复 答案 回应 注释 以“ 以「 开头 结尾 末尾 结束语 命名 形式 为准 "
        "单位 列出 排序 分组 汇总 排列 归类 分类 称呼 叫我 喊我 使用 采用 保持 沿用 遵循 遵守 坚持 只 我们用 我们使 "
        "我们采 我们团 我们这 我们公 我们一 我们通 我们的 我希望 我想要 我要 我要求 我偏好 我讨厌 我不喜欢 我倾向 "
        "我喜欢短 我喜欢简 我喜欢详 我喜欢清 我喜欢用 放在 放到 放进 存在 存到 存进 传到 归到 归档 归入 写到 写进 "
        "写成 写在 记到 记进 记在 记录在 保存到 保存在 报告到 汇报 翻成 译成 存成 换成 叫作 叫做 写作 称为 合成一 "
        "像对 假装 扮演 想象你 省略 略去 文件夹里 目录下 目录里 不写 不加 不带 不提 不放 不超 英式 美式 加引 加一 "
        "视为 当作 算作 看作 当成 署名 编号 取整 四舍五入 保留 简短 简洁 简练 精简 口语 大写 小写 一个一 标上 标明 "
        "注明 说明 附上 带上 加上 先给 先说 先写 先列 先备 先确 先停 先提 先通 先告 先运 先跑 先征 先询 再写 再删 "
        "再提 再动 再改 再合 再发 再执 再部 再给 再回 再继 要有 要写 要加 要用 要带 要附 要包 要注 要标 要遵 要经 "
        "要跟 要解 要说 停下 请参 转给 转交 拆开 拆分",
    )
)
_WORD, _LEAD, _NO_VERB, _MANY, _FORM, _OPENING, _TOLD, _QUESTION, _WIDE_ORDER = map(
    lazy_pattern,
    (
        r"(?:[dlnjsmtcq]|qu|lorsqu|jusqu)'|[\w']+(?:-\w+)*",
        # What precedes an order: "one more thing:", "can you please"
        r"\A\s*(?:(?:(?!if|when|for|on|in)[\w' ]{1,24}:(?=\s)|(?:(?:can|could|would|will) you|"
        r"(?:kannst|könntest) du|(?:können|könnten) sie|i(?:'d like| want| need) you to|s'il (?:te|vous) plaît|"
        r"by the way|por (?:cierto|favor)|please|also|then|and|so|but|now|ok|okay|just|kindly|actually|instead|"
        r"hi|hello|thanks|oh|btw|bitte|dann|und|y|et|puis|luego)\b)[\s,]*)*",
        # The first word is no verb: "tests", "added", "missing"; but "prends"
        r"(?!fais|\w*mets|prends|réponds|pars|tiens|rends|lies|\w+is\b)\w*[^\Wsu]s\b|\w{3,}(?:[^\We]ed|ing)\b",
        # "round amounts up to the next cent", "capitalise product names."
        r"\w+ (?:(?!the|an?|this|that|my)\w+ )?\w*[^\Ws]s\b"
        r"(?:.* (?:in|as|with|by|under|like|on|at|into|after|using|inside|next|to) |.*[.!]\Z)|"
        r"\w+e \w+(?:e|en) .*[.!]\Z",
        # "is to be read", "ist zu lesen", "est à lire", "nennst du"
        r" (?:is to be|are to be|as a (?:table|list)|ist\b[^.]{1,60}zu ?\w+en|sind\b[^.]{1,60}zu ?\w+en|est à \w+(?:er|ir|re)|"
        r"sont à \w+(?:er|ir|re)|\w+st du|"
        # "I'd like the numbers rounded", "I want short sentences", "ich möchte alles als Liste", "from Monday on"
        r"i(?:'d| would) (?:like (?!to\b|some|help|an? )|appreciate it if)|"
        r"i (?:want|expect|need) (?:\w+ ){0,3}\w+s(?: (?:in|as|with|under)\b|\.?\Z)|"
        r"ich (?:möchte|will|hätte|brauche) [^.]{1,80}\b(?:als|in|mit|dass)|from (?:then|today|tomorrow|\w+day) (?:on|forward))\b",
        # "no mocks", "ich wünsche Listen", "quiero frases cortas"
        r"no (?!i\b|problem|worries|idea|need|one\b|it|that|thank|there|we\b)\w|"
        r"ich (?:wünsche|möchte|will) (?!ein|de[nr]|d[ai]s|die|mein|.*n\.?\Z)|"
        r"quiero (?!\w+[aei]r(?:me|te|se|l[aeo]s?)?\b|una? |el |la |mi |que me)|"
        # "in this thread", "le vendredi"
        r"(?:in|für) diese[mrs]? \w|dans (?:ce|cette|notre) \w|en (?:este|esta|nuestr[oa]) \w|"
        r"les? \w+dis?\b|los (?:lunes|martes|jueves|viernes)\b|"
        # "kommt ein Fehler, melde ihn"
        r"\w+(?:t|e|en|rd) (?:du|ich|es|ein\w*|etwas|der|die|das|sich|wir) [^,?]+, "
        r"(?!ich|wir|es|er|sie|da|der|die|man|aber|und|w)\w+ (?!ich|es|er|wir|man|sich)|"
        # "all dates are in UTC", "the logo stays green", "mails are signed by Olga"
        r"all (?:\w+ ){1,3}(?:are|is|go|get|in|use|have|need|belong|stay)\b|"
        r"(?:alle|tou(?:te)?s les|tod[oa]s l[oa]s) [^,?]+ (?:sind|werden|haben|sont|ont|están|son|llevan)\b|"
        r"\w+s (?:\w+ ){0,3}are \w+(?:ed|en|wn|pt|ut) (?:by|in|with|as|to|at|under)\b|"
        # "our team writes", "we deploy on Fridays", "on déploie", "usamos tabulaciones"
        r"our (?:team|company|customers|clients|readers)|(?:unsere?|notre|nuestr[oa]s?) \w|"
        r"we (?!are|were|have|can|could|should|must|need|want|look|see)\w+[^sd\W] "
        r"(?:\w+ )?(?:in|on|with|as|by|at)\b|"
        r"on (?!n'|a\b|est|peut|doit|va)\w+(?:e|it|t)\b (?!the|a\b|my)|nous (?!av|all|som|pouv)\w+ons\b|"
        r"wir (?!haben|sind|waren|müssen|können|wollen|sollten|werden)\w+en\b|"
        r"(?:aquí |nosotros |nos )?(?!vamos|hemos|estamos|tenemos|podemos)\w+[aei]mos\b|"
        # "answers longer than a page get a heading", "los errores se comunican", "les prix s'écrivent"
        r"(?:\w+ ){0,2}\w+s (?:(?:longer|over|above|below|that|with|without|from|for) [^,?]+ )?"
        r"(?:get|carry|take|begin|start|end) (?:a|an|the|with|in)\b|"
        r"(?:los|las|el|la|mis?) [^,?]{1,40} se \w+[ae]n?\b|(?:les?|la|l'|mon|ma|mes) ?[^,?]{1,40} s(?:e |')\w+e(?:nt)?\b",
        # A sentence, and no code
        r"[^\W\d_][^=]*[^=?]\Z",
        r"(?i:(?:and |but |so |or )?(?:what|why|how|where|who|which|is|are|was|were|do|does|did|has|have|had|should|am|i|we|it|"
        r"there|this|that|the|my|wie|warum|wo|ist|sind|pourquoi|comment|qué|cómo)\b).*\?\Z",
        # An order by its form, in a script without spaces
        r"(?<![使作引调应有不费复通可启禁专运利采])用(?![户于来处途`])|"
        r"[^，。 ]{2}[时候后前](?![间代期常刻者果天年悔台端面来的髦是有出会能机方])\w|"
        r"[^也这那我成早]就(?![是会能可有知在算像不业])\w|都(?![是会有能可很知没不在被让听挺])\w",
    ),
)


@lru_cache(maxsize=2_048)
def count_cues(sentence: str) -> int:
    """Return the number of words in a sentence that limit or prefer something.

    An order that is for more than once, or under a condition, counts as one by its form.

    >>> count_cues("You must not restart it, never."), count_cues("Restart it."), count_cues("If it hangs, restart it.")
    (2, 0, 1)
    """
    # A sentence is asked about when it is found, rated, and carried on.
    lower = sentence.lower().replace("’", "'")
    found = sum(
        (cue in _CUES and word not in _TELLERS) or f"{word} {cue}" in _CUES
        for word, cue in pairwise(["", *_WORD.findall(lower)])
    )
    if has_wide(lower):
        found += sum(map(lower.__contains__, _WIDE_CUES)) or _is_standing_wide(lower)
    return found or int(_TOLD.match(lower) is not None and _is_standing(_LEAD.sub("", lower)))


def is_question(sentence: str) -> bool:
    """Return whether a sentence asks for an answer and for nothing to be done."""
    return _QUESTION.match(sentence) is not None


def _is_standing(sentence: str) -> bool:
    """Return whether a sentence is an order for more than once, or under a condition."""
    has_condition = sentence.partition(" ")[0].rstrip(":") in _CONDITIONS
    return (
        any(
            _is_order(_LEAD.sub("", clause), has_condition=has_condition)
            for clause in (sentence.split(",")[1:] if has_condition else [sentence])
        )
        or _OPENING.match(sentence) is not None
        or _FORM.search(f" {sentence}") is not None
    )


def _is_order(clause: str, *, has_condition: bool) -> bool:
    """Return whether a clause is in the imperative and, without a condition, by its words for more than once."""
    first, second, *others = [*_WORD.findall(clause), "", ""]
    said = {second, *others}
    return (
        first not in _NO_ORDERS
        and first.replace("-", "").isalpha()
        and _PREDICATES.isdisjoint([second, *others[:1]])
        and not _NO_VERB.match(first)
        and (
            has_condition
            or (first in _STYLE and second != "")
            or not said.isdisjoint(_REPEATS)
            or (first not in _ONE_OFF and not said.isdisjoint(_WEAK_REPEATS))
            or (
                first not in _ONE_OFF
                and second not in _SPECIFIC
                and (second in _MANNER or not said.isdisjoint(_MANNERS) or _MANY.match(clause) is not None)
            )
        )
    )


def _is_standing_wide(sentence: str) -> bool:
    """Return whether a sentence of a script without spaces is an order for more than once, or under a condition."""
    return (
        not sentence.startswith(_WIDE_STARTS)
        and not sentence.rstrip("。！").endswith(_WIDE_ENDS)
        and not any(map(sentence.__contains__, _WIDE_TALES))
        and (any(map(sentence.__contains__, _WIDE_REPEATS)) or _WIDE_ORDER.search(sentence) is not None)
    )
