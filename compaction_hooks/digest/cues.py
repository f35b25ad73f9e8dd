"""The words and forms by which people limit or prefer something, or order it for more than once, in six languages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from compaction_hooks.digest.text import has_wide

_CUES = frozenset(
    cue.replace("_", " ")
    for cues in (
        # Words that limit or prefer, and pairs of words; behind "_", the first word of a sentence
        # English
        "anytime everytime this_session this_point you_go up_front must mustn't never always don't cannot can't should "
        "shouldn't only prefer preferably avoid ensure without "
        "unless rather stays remains bleibt bleiben reste restent représente representa forbidden prohibited refrain "
        "whenever henceforth hereafter strictly exclusively do_not instead_of make_sure is_required is_spelled "
        "stands_for wäre_schön wäre_nett serait_bien estaría_bien pas_de nada_de lo_sucesivo are_required needs_to "
        "has_to at_least at_most please_use use_our stick_to not_allowed no_new no_other no_more no_less may_not "
        "may_only supposed_to under_no going_forward moving_forward in_future every_time each_time any_time until_i "
        "until_we until_you ask_me ask_us ask_first before_you before_any hands_off call_me address_me i_always "
        "i_only we_never we_always we_must don't_want don't_like don't_need would_really by_default a_time "
        "our_convention our_rule our_house my_preference we_use we_spell i_prefer i_hate i_dislike i_expect "
        "se_trouvent se_queda this_thread this_chat this_conversation our_chat are_named is_written are_spelled "
        "comes_first in_doubt told_otherwise _each _every _any _per _pro _whatever _whichever _anything your_answers "
        "your_replies your_responses your_messages your_job your_task your_role your_part my_ok my_okay my_approval "
        "my_consent my_permission my_go-ahead is_banned are_banned is_out are_out is_taboo are_taboo off_limits "
        "the_table starting_now starting_today starting_tomorrow as_of helps_if help_if happy_if glad_if easier_if "
        "better_if nice_if great_if me_if goes_in goes_into goes_to goes_under belongs_in belongs_to belongs_under "
        "belong_in belong_to belong_under lives_in lives_under live_in live_under can't_stand no_use bugs_me "
        "annoys_me drives_me bothers_me the_tone same_goes same_applies remember_that say_you nobody_but nothing_but "
        "nothing_from nothing_goes nothing_gets _whoever anything_above anything_over anything_below anything_under "
        "anyone_who everyone_who whatever_i",
        # German
        "heißen will_ich möchte_ich nicht nie niemals niemand immer stets muss muß müssen müsst musst müsste müssten "
        "soll sollen sollst sollt "
        "sollte sollten darf dürfen darfst dürft kein keine keinen keinem keiner keines nur ausschließlich höchstens "
        "mindestens maximal verboten untersagt vermeide verwende benutze nutze statt anstatt lieber bitte achte ohne "
        "jede jeder jedes jeden jedem jeweils sämtliche künftig zukünftig fortan durchgehend durchgängig "
        "grundsätzlich standardmäßig generell möglichst sooft sofern gilt gelten sieze duze denk_daran halte_dich "
        "unter_keinen bevor_du frag_mich hör_auf ab_jetzt ab_sofort ab_hier ab_heute ab_morgen wenn_du falls_du "
        "sobald_du solange_du ehe_du bei_uns im_zweifel im_fall im_falle in_zukunft wir_verwenden unsere_regel "
        "ich_mag ich_erwarte hätte_gern hätte_gerne wünsche_mir lege_wert fasse_dich nenn_mich sprich_mich "
        "dieser_sitzung diesem_gespräch deine_antworten deinen_antworten deine_aufgabe deine_rolle meine_zustimmung "
        "meine_freigabe mein_ok ist_tabu sind_tabu ist_pflicht gehört_in gehört_zu gehört_nach gehören_in gehören_zu "
        "gehören_nach kommt_in kommen_in kommen_nach liegt_in liegt_im liegen_in liegen_im der_ton nichts_aus "
        "nichts_wird alles_was alles_über davon_aus tun_wir _wer",
        # French
        "jamais toujours doit dois doivent devez faut interdit évite évitez uniquement seulement désormais "
        "dorénavant préfère utilise utilisez surtout laisse laissez chaque plutôt veuille veuillez prière "
        "appelle-moi tutoie-moi vouvoie-moi parle-moi réponds-moi préviens-moi sois soyez ne_pas au_plus au_moins "
        "au_maximum à_partir sans_mon sans_ma sans_que avant_de je_préfère l'_avenir par_défaut chez_nous merci_de "
        "merci_d' cas_de dans_cette cette_session cette_conversation tant_que chaque_fois dès_que notre_règle "
        "nous_utilisons on_se j'_aime j'_aimerais j'_attends j'_exige je_veux je_voudrais je_souhaite je_tiens "
        "je_déteste reste_dans restent_dans quand_tu lorsque_tu si_tu une_fois leur_place compter_d' dès_maintenant "
        "première_apparition tes_réponses un_seul une_seule vos_réponses tes_messages ton_rôle ton_travail ta_tâche "
        "mon_accord ma_permission feu_vert est_banni sont_bannis est_obligatoire va_dans vont_dans va_en vont_en "
        "le_ton du_principe disons_que ne_supporte m'_énerve ça_vaut idem_pour tout_ce tous_ceux ceux_qui celui_qui "
        "celle_qui _quiconque _aucun _aucune _ne _n' dès_aujourd'hui dès_demain rien_de",
        # Spanish
        "nunca jamás siempre debe debes deben debemos prohibido prohibida evita evite solamente únicamente prefiero "
        "cada cualquier llámame trátame háblame respóndeme contéstame escríbeme avísame hay_que como_máximo al_menos "
        "a_partir en_adelante sin_mi sin_que tienen_que tiene_que antes_de en_vez en_lugar por_defecto en_cuanto "
        "una_vez cada_vez en_caso nuestra_regla me_gusta me_gustan me_gustaría te_agradecería quiero_que quiero_los "
        "quiero_las quiero_una quiero_un espero_que van_en van_a esta_sesión desde_hoy desde_ahora desde_mañana "
        "primera_vez esta_conversación tus_respuestas un_solo una_sola sé_breve salvo_que a_menos tus_mensajes "
        "tu_papel tu_trabajo tu_tarea mi_permiso visto_bueno está_vetado está_vetada el_tono por_hecho todo_lo "
        "_quien _quienes _ningún _ninguna a_quien no_soporto me_molesta nada_del nada_se",
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
_TALES = frozenset(
    f"{word} {cue}"
    for word in ("it", "this", "that", "there", "which")
    for cue in ("should", "must", "cannot", "can't")
)
"""Pairs that tell what is expected."""
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
    _ONCE,
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
        "hmm sure alle tous toutes todos todas jetzt ahora maintenant isn't aren't wasn't didn't doesn't let's let feel like "
        "looks seems nothing everything anything ich er sie "
        "es wir ihr der die das ein eine mein meine dein ist sind war hat haben ja nein danke hallo aber oder weil "
        "wie warum je j' il elle nous ils elles le la les l' un une des du ce cette ces c' ça mon ma mes ton ta "
        "notre votre est sont qui que oui non merci bonjour mais ou yo él ella nosotros ellos el los las una mi mis "
        "tu su son está hola gracias pero sí",
        # Words behind a subject, and so behind no order
        "you i we they uns is are was were has have had will can could should must may might does did looks seems works "
        "uses runs isn't aren't wasn't didn't doesn't don't ich es er wir man sich ist sind hat haben wird werden "
        "war kann soll je il elle est sont était sera son está están fue era tiene",
        # Words that begin a condition, a time or a refusal in front of an order
        "except outside since because weil comme vu puisque up even however starting egal auch quoi aunque when if once "
        "as after before until till while in for on with at during throughout by upon per from where "
        "wherever next no, nope, nah, nein, non, wrong, actually, instead, besides given wenn falls sobald solange "
        "sollte überall wer beim dans quiconque partout donde quien bevor ehe nachdem während bis nach bei zu für "
        "pro ab im am mit ist quand lorsque lorsqu'il lorsqu'elle lorsqu'on lorsqu'un jusqu'au jusqu'à d'ici si s'il s'ils "
        "dès une après avant pendant jusqu' en à lors pour par sans sauf tant cuando mientras tras hasta durante una "
        "después antes al con para salvo",
        # Deeds that are seldom ordered once
        "führe lleva tiens nenn appelle be stay stick steer finish favor favour mind sei bleib bleibe sé considère "
        "considera betrachte warn halte garde "
        "mantén recuerda acuérdate rappelle-toi retiens use usa skip ignore exclude stop quit limit max maximum min "
        "minimum keep leave format assume treat reply "
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
        "the a an this that it these those my me one some up out down off back for to of une ce cet cette este esta ese "
        "esa una ein eine einen der die das "
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
        # Words by which an order is for now
        "now today tonight again yesterday tomorrow jetzt nochmal gestern morgen maintenant aujourd'hui soir demain encore "
        "ahora hoy mañana ayer",
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
        "不管 无论 中文 英文 日本語で 不要 不能 不得 不许 不准 必须 必須 一定 务必 只能 只有 只要 只用 只使 只可 只准 只在 "
        "只回 只给 只写 尽量 应该 应當 應該 记得 記得 记住 避免 优先 别 禁止 请勿 千万 始终 一律 绝不 从现在 最多 "
        "至少 都要 都需 格式 先问 更喜欢 改用 保密 しないで 必ず してはいけ ください",
        # Words that tell or ask something; its beginning; its end
        "上周 今天我 今天去 今天是 今天在 今天看 今天的 最近 昨天 刚才 觉得 非常 什么 怎么 哪里 了。 了， 了！ 我很 我也 "
        "我还 我去 我看 我会 我是 我有 我在看 我和 我的朋友 ？ ?",
        "谢谢 感谢 哇 他 她 它 是 嗨 你好 你是 我们去 我们看 我一 我今 我最 我觉 我想去 我知 我不知 我不太 我对 我经 我从 我已 "
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
        "像对 假装 扮演 想象你 省略 略去 文件夹里 目录下 目录里 不写 不加 不带 不提 不放 不超 以内 控制在 英式 美式 加引 加一 "
        "视为 当作 算作 看作 当成 署名 编号 取整 四舍五入 保留 简短 简洁 简练 精简 口语 大写 小写 一个一 标上 标明 "
        "注明 说明 附上 带上 加上 先给 先说 先写 先列 先备 先确 先停 先提 先通 先告 先运 先跑 先征 先询 再写 再删 "
        "再提 再动 再改 再合 再发 再执 再部 再给 再回 再继 要有 要写 要加 要用 要带 要附 要包 要注 要标 要遵 要经 "
        "要跟 要解 要说 停下 请参 转给 转交 拆开 拆分",
    )
)
(
    _WORD,
    _THEN,
    _LEAD,
    _NO_VERB,
    _EACH_TIME,
    _ANY_OF,
    _PLAIN,
    _WISH,
    _MANY,
    _FORM,
    _OPENING,
    _TOLD,
    _QUESTION,
    _WIDE_ORDER,
) = map(
    re.compile,
    (
        r"(?:[dlnjsmtcq]|qu|lorsqu|jusqu)'|[\w']+(?:-\w+)*",
        # What an order follows from precedes it: "I read on my phone, so keep lines short."
        r",? [;–—-] |; |, (?:so|also|donc|así que|por eso|deshalb|darum)\b|"
        r",? (?:and|but|und|aber|et|mais|y|pero) (?=(?:when|if|once|wenn|falls|sobald|bevor|quand|si|dès|cuando)\b)",
        # What precedes an order: "one more thing:", "can you please"
        r"\A[\s¡¿]*(?:(?:(?!(?:if|when|for|on|in|your|deine?|ton|ta|tu|language|tone|role|style|langue|sprache|"
        r"idioma)\b)[\w' -]{1,24}:(?=\s)|(?:(?:can|could|would|will) you|"
        r"you(?:'ll| will| may) (?!get|see|find|notice|need|be\b|have|also|then|now)|(?:kannst|könntest) du|(?:können|"
        r"könnten) sie|(?:peux|pourrais)-tu|(?:pouvez|pourriez)-vous|puedes|podrías|i(?:'d like| want| need) you to|"
        r"s'il (?:te|vous) plaît|"
        r"by the way|por (?:cierto|favor)|please|also|then|and|so|but|now|ok|okay|just|kindly|actually|instead|"
        r"hi|hello|thanks|oh|btw|bitte|dann|und|y|et|puis|luego)\b|(?:对了|另外|还有|哦)，)[\s,]*)*",
        # The first word is no verb: "tests", "added", "missing"; but "prends"
        r"(?!fais|\w*mets|prends|réponds|pars|tiens|rends|lies|\w+is\b)\w*[^\Wsu]s\b|\w{3,}(?:[^\We]ed|ing)\b",
        # "before merging", "after a deploy", "saluda a los clientes"
        r" (?:before|after|prior to|when|while) \w+ing\b| (?:before|after|during|ahead of|après|avant|tras) (?:an?|une?) (?!while)|"
        r" (?:nach|vor|bei) eine[mr] | (?:antes|después) de una? | a l[oa]s ",
        # "add type hints to new functions", "the changelog entries you write"
        r" (?:in|to|of|for|about|before|from) (?:(?!the |an? |my |this |that |both |these |those |your |our |his |her |"
        r"its |their )[a-z]+ )?(?!this|its|his|us\b|yours)[a-z-]{2,}[^\Ws]s[.!]?\Z|[a-z]s you \w+[.!]?\Z|"
        r" (?:in|bei|mit|an|von) (?!de[mnr]\b)\w{4,}e(?:r)?n[.!]?\Z",
        # "favor composition over inheritance": of nothing that was named
        r"[^\W\d_]+(?: [\w'-]+){2,}[.!]\Z",
        # What is to be, behind a condition: "If it fails, I want the log"
        r"(?:i want|i expect|you're|you are|bist du|tu es|eres) ",
        # "round amounts up to the next cent", "capitalise product names."
        r"[\w-]+ (?:(?!the|an?|this|that|my)\w+ )?\w*[^\Ws]s\b"
        r"(?:.* (?:in|as|with|by|under|like|on|at|into|after|using|inside|next|to) |.*[.!]\Z)|"
        r"\w+e \w+(?:e|en) .*[.!]\Z",
        # "is to be read", "ist zu lesen", "est à lire", "nennst du"
        r" (?:(?:is|are) to be|(?:is|are) not to|you(?:'re| are) to|as a (?:table|list)|ist\b[^.]{1,60}zu ?\w+en|"
        r"sind\b[^.]{1,60}zu ?\w+en|"
        r"est à \w+(?:er|ir|re)|"
        r"sont à \w+(?:er|ir|re)|\w+st du|"
        # "I'd like the numbers rounded", "I want short sentences", "ich möchte alles als Liste", "from Monday on"
        r"i(?:'d| would) (?:like (?!to\b|some|help|an? )|appreciate it if)|"
        r"i (?:want|expect|need) (?:\w+ ){0,3}\w+s(?: (?:in|as|with|under)\b|(?=\.?\Z))|"
        r"ich (?:möchte|will|hätte|brauche),? [^.]{0,80}\b(?:als|in|mit|dass)|from (?:then|now|here|today|tomorrow|"
        r"\w+day) (?:on|forward)|"
        # "for the rest of the day", "before proposing a date"
        r"(?:rest|remainder) of (?:the|this|our) (?:day|week|chat|session|conversation|project)|(?:rest|reste|"
        r"resto) (?:der|des|dieser|dieses|du|de la|"
        r"de ce|de cette|del) \w+|(?:before|after|when) \w+ing (?:an?|any\w*|new)|"
        # "I want to hear about every failure", "I want to be asked"
        r"i (?:want|need|expect|would like|'d like) (?:to be (?:\w+ed|told|kept)\b|[^.]{1,60}\b(?:each|every))|"
        # "me avisas", "tu me préviendras"
        r"(?:me|le|les|nos) \w+[aeáí]s|tu (?:me |le |la |les |lui |leur )?\w+ras|vous \w+rez)\b",
        # "no mocks", "ich wünsche Listen"
        r"no (?!i\b|problem|worries|idea|need|one\b|it|that|thank|there|we\b)\w|"
        r"ich (?:wünsche|möchte|will) (?!ein|de[nr]|d[ai]s|die|mein|.*n\.?\Z)|"
        # "files you create get", "after each commit"
        r"(?!it )(?:\w+ )?\w+s (?:that |which )?you (?!\w+ed\b)\w+|\w+en, die du|les \w+ que (?:tu|vous)|l[oa]s \w+ que \w+[ae]s\b|"
        r"(?:after|before|with|for|at|on|to) (?:each|every|any) \w|"
        r"(?:have|let) (?:each|every|all)\b|let me know (?:after|before|whenever|when you)\b|"
        # "toute fonction a son test", "que nadie lo toque", "du antwortest"
        r"toute? (?!l[ea']|ce|à|d|mon|ma)\w|tod[oa] (?!el|la|lo|mi|es[ot])\w|"
        r"que (?:no|nadie|nada|se|los|las|tod\w+) \w|"
        r"du (?!hast|bist|kannst|willst|wolltest|weißt|sagtest)\w+st\b|tu (?!as|es|peux|veux|sais|vois|penses|crois|"
        r"avais|étais)\w+s\b|"
        r"(?:your|deine?|ton|ta|tu|language|tone|role|style|langue|sprache|idioma)(?: \w+)? ?:|"
        # "one class per file", "first the answer, then", "a commit touches"
        r"(?:\w+ ){1,4}(?:per|pro|par|por) (?!favor|exemple|ejemplo|minute|second|hour|day)\w+(?: \w+)?[.!]?\Z|"
        r"(?:first the|erst d[aie]\w|d'abord l\w+|primero l\w+) [^?]*, (?:then|dann|ensuite|puis|luego|después)\b|"
        r"an? \w+ (?:takes|touches|gets|needs|starts|ends|begins|opens|carries|contains) |"
        # "titles in italics", "complaints are answered the same day"
        r"(?:\w+ )?\w+s (?:in|as|without) (?!the\b|an?\b|this|my)[\w ]{2,25}[.!]?\Z|\w+s are \w+(?:ed|en|wn|pt|"
        r"ut) (?!for|from|and)|"
        # "if a command fails show me the log", "a haiku at the end of each reply", "it's fine to be rude"
        r"(?:if|when|after|once) [^,?]+ (?<!you )(?<!to )(?<!can )(?<!'t )(?:show|tell|give|ask|send|warn) me\b|"
        r"it's (?:fine|ok|okay) (?:to|if)\b|"
        r"an? [\w -]+ (?:after|before|at|in|with|to|for|on|of) (?:each|every) |"
        # "until Monday, the old price list stands"
        r"(?:until|till|as long as|solange|jusqu'\w+|hasta|mientras) (?!.*\b(?:was|were|had|\w+ed|war|\w+te|\w+ait|"
        r"\w+aba)\b)[^,?]+, |"
        # "let me see it before it runs", "all examples in Kotlin", "on Fridays there are no deploys"
        r"let me \w+ [^?]*\b(?:before|first)\b|(?:all|alle|todos l[oa]s|tou(?:te)?s les) \w+ (?:in|en|auf|als|im|local) |"
        r"(?:on )?(?:mon|tues|wednes|thurs|fri|satur|sun)days\b|"
        # "spaces, not tabs", "one question at a time", "you are my tutor"
        r"[\w ]{1,30}, (?:not|no|nicht|keine|pas) (?:\w+ )?\w+\.?\Z|(?:one|une|eine?|una?) \w+ (?:at a time|à la fois|"
        r"auf einmal|a la vez)|"
        r"you(?:'re| are) (?:now |going to be )?(?:a|an|my)\b|"
        # "short answers", "las fechas en formato", "las divisas, conviértelas"
        r"(?!the|my|your|all|no)(?:\w+ )?(?:answers|replies|responses|antworten|réponses|respuestas)\b|"
        r"(?:l[ae]s )?\w+s (?:d[eu]s? \w+ )?(?:en|au|entre|con|avec|sans|sin) |[^,]+, \w*[áéí]\w+l[ao]s\b|"
        # "in this thread", "le vendredi"
        r"(?:in|für) diese[mrs]? \w|"
        r"les? \w+dis?\b|los (?:lunes|martes|jueves|viernes)\b|"
        # "kommt ein Fehler, melde ihn"
        r"\w+(?:t|e|en|rd) (?:du|ich|es|ein\w*|etwas|der|die|das|sich|wir) [^,?]+, "
        r"(?!(?:ich|wir|es|er|sie|da|der|die|das|man|aber|und|w(?:as|ie|er|o|enn|eil|ann|arum))\b)\w+ (?!(?:ich|es|er|"
        r"wir|man|sich)\b)|"
        # "all dates are in UTC", "the logo stays green", "mails are signed by Olga"
        r"all (?!the |of )(?:\w+ ){1,3}(?:are|is|go|get|in|use|have|need|belong|stay)\b|"
        r"(?:alle|tou(?:te)?s les|tod[oa]s l[oa]s) [^,?]+ (?:sind|werden|haben|sont|ont|están|son|llevan)\b|"
        r"\w+s (?:\w+ ){0,3}are \w+(?:ed|en|wn|pt|ut) (?:by|in|with|as|to|at|under)\b|"
        # "our team writes", "we deploy on Fridays", "on déploie", "usamos tabulaciones"
        r"our (?:team|company|customers|clients|readers|rules?|conventions?|style|policy|standards?|guidelines?|practice|"
        r"habit|norm)\b|(?:unsere?|notre|nuestr[oa]s?) \w|"
        r"we (?!are|were|have|can|could|should|must|need|want|look|see)\w+[^sd\W] "
        r"(?:\w+ )?(?:in|on|with|as|by|at)\b|"
        r"on (?!n'|a\b|est|peut|doit|va)\w+(?:e|it|t)\b (?!the|a\b|my)|"
        r"(?:aquí |nosotros |nos )?(?!vamos|hemos|estamos|tenemos|podemos)\w+[aei]mos\b|"
        # "answers longer than a page get a heading", "los errores se comunican", "les prix s'écrivent"
        r"(?:\w+ ){0,2}\w+s (?:(?:longer|over|above|below|that|with|without|from|for|in|on|about) [^,?]+ )?"
        r"(?:get|carry|take|begin|start|end|go|land|come|stay|move) (?:a|an|the|with|in|to|through|back|under|out)\b|"
        r"(?:los|las|el|la|mis?) [^,?]{1,40} se \w+[ae]n?\b|(?:les?|la|l'|mon|ma|mes) ?[^,?]{1,40} s(?:e |')\w+(?:e|t)\b|"
        r"les [^,?]+ sont \w+és? (?:par|en|dans|avec)\b",
        # A sentence, and no code
        r"¡?[^\W\d_][^=]*[^=?]\Z|(?:please |¿)?(?:(?:can|could|would|will) you|(?:kannst|könntest) du|(?:peux|"
        r"pourrais)-tu|puedes|podrías)\b(?!.*\b(?:if|whether|any|ob|si)\b)[^=]*\?\Z",
        r"(?i:(?:(?:and|but|so|or|like|now|ok|okay),? )?(?:any|anything|can i|could i|what|why|how|where|who|which|is|"
        r"are|was|were|do|does|did|has|have|had|should|am|i|we|it|"
        r"there|this|that|the|my|wie|warum|wo|wer|ist|sind|pourquoi|comment|qué|cómo)\b).*\?\Z",
        # An order by its form, in a script without spaces
        r"[^不我你他她需重主想只没了]要(?![求是么不])|(?:[你的]角色|语言|语气|风格|格式)：|(?:有人|谁)[^，。]{1,40}[，就]|"
        r"禁|就算|即使|收尾|[折换标译]算?成|[^大小把稍]{3}一点|一个[^，]{1,6}一个|你的任务|等我[^一们]|这次聊|提醒我|"
        r"按(?![照钮键下住时了])|(?<![可所难得足加予])以(?![前后及为上下来内外往便])|"
        r"完[^，。]{0,40}就|超过[^了，]{0,40}的|(?<![使作引调应有不费复通可启禁专运利采])用(?![户于来处途`])|"
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
    count = sum(
        (cue in _CUES and word not in _TELLERS and f"{word} {cue}" not in _TALES) or f"{word} {cue}" in _CUES
        for word, cue in pairwise(["", *_WORD.findall(lower)])
    )

    if has_wide(lower):
        count += sum(map(lower.__contains__, _WIDE_CUES)) or _is_standing_wide(_LEAD.sub("", lower))
    return count or int(_TOLD.match(lower) is not None and any(map(_is_standing, _THEN.split(lower))))


def is_question(sentence: str) -> bool:
    """Return whether a sentence asks for an answer and for nothing to be done."""
    return _QUESTION.match(sentence) is not None


def _is_standing(part: str) -> bool:
    """Return whether a part of a sentence is an order for more than once, or under a condition."""
    part = _LEAD.sub("", part)
    has_condition = part.partition(" ")[0].rstrip(":") in _CONDITIONS
    clauses = [_LEAD.sub("", clause) for clause in part.split(",")[1:]] if has_condition else [part]

    return (
        any(_is_order(clause, has_condition=has_condition) for clause in clauses)
        or any(map(_OPENING.match, [part, *clauses]))
        or (has_condition and any(map(_WISH.match, clauses)))
        or _FORM.search(f" {part}") is not None
    )


def _is_order(clause: str, *, has_condition: bool) -> bool:
    """Return whether a clause is in the imperative and, without a condition, by its words for more than once."""
    words = [*_WORD.findall(clause), "", ""]
    return _is_imperative(words) and (has_condition or _is_for_more_than_once(clause, words))


def _is_imperative(words: Sequence[str]) -> bool:
    """Return whether the first of these words is a verb in the imperative."""
    first, second, *_ = words
    return (
        first not in _NO_ORDERS
        and first.replace("-", "").isalpha()
        and (first in _STYLE or second in _REPEATS or _PREDICATES.isdisjoint(words[1:3]))
        and not _NO_VERB.match(first)
    )


def _is_for_more_than_once(clause: str, words: Sequence[str]) -> bool:
    """Return whether an order is for more than once, by its words."""
    first, second, *_ = words
    others = {*words[1:]}

    if (first in _STYLE and second not in {"", "that", "this"}) or not others.isdisjoint(_REPEATS):
        return True
    if _ANY_OF.search(clause):
        return True
    if first in _ONE_OFF:
        return False
    if not others.isdisjoint(_WEAK_REPEATS) or _EACH_TIME.search(clause):
        return True

    if second in _SPECIFIC or not others.isdisjoint(_ONCE):
        return False
    return (
        second in _MANNER
        or not others.isdisjoint(_MANNERS)
        or _MANY.match(clause) is not None
        or (others.isdisjoint(_SPECIFIC) and others.isdisjoint(_PREDICATES) and _PLAIN.match(clause) is not None)
    )


def _is_standing_wide(sentence: str) -> bool:
    """Return whether a sentence of a script without spaces is an order for more than once, or under a condition."""
    return (
        not sentence.startswith(_WIDE_STARTS)
        and not sentence.rstrip("。！").endswith(_WIDE_ENDS)
        and not any(map(sentence.__contains__, _WIDE_TALES))
        and (any(map(sentence.__contains__, _WIDE_REPEATS)) or _WIDE_ORDER.search(sentence) is not None)
    )
