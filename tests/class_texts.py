"""A text of 1,500 to 6,000 characters for every class of the estimator, with the token counts of real tokenizers."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

_ENGLISH = """\
The team met on Tuesday to talk about why the nightly import had been failing. Most people expected a problem with the
network, because the first error of the night was always a connection that had been closed by the other side. It
turned out that the server closed it on purpose: a request that runs longer than ten minutes is cut off, and the
import had slowly grown past that limit as more customers were added. Nobody had noticed, since a failed import was
simply tried again in the morning, when the table was smaller.

There were three suggestions. The simplest was to raise the limit, which would help for about half a year. The second
was to import the customers in smaller groups, so that no single request takes long and a failure costs little. The
third was to ask only for what has changed since the last run, but the service on the other side does not keep track
of that, and it would take months to agree on a format. In the end everybody preferred the second one. Anna offered to
write it, and Peter will look at how the groups should be chosen.

What surprised us was how hard it had been to find the cause. The log said that a connection was lost, which was true,
but it did not say how long the request had been running, nor how many customers it was about. We agreed that every
message of this kind should name the duration and the size of the work, and that a failure which is repaired
automatically must still be shown to somebody within a day.
"""
_PYTHON = '''\
"""Groups of customers that are imported together."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

logger = logging.getLogger(__name__)
MAX_GROUP_SIZE = 250


@dataclass(frozen=True)
class Customer:
    id: int
    name: str
    changed_at: datetime
    tags: list[str] = field(default_factory=list)

    @property
    def is_recent(self) -> bool:
        return datetime.now() - self.changed_at < timedelta(days=7)


class Importer:
    def __init__(self, client: Client, *, timeout: float = 600.0, retries: int = 3) -> None:
        self._client = client
        self._timeout = timeout
        self._retries = retries
        self.failed: dict[int, str] = {}

    def run(self, customers: Iterable[Customer]) -> int:
        """Import all customers and return how many were accepted."""
        accepted = 0
        for number, group in enumerate(self._groups(customers), start=1):
            try:
                response = self._client.post("/v2/customers", json=[vars(c) for c in group], timeout=self._timeout)
                response.raise_for_status()
            except (ConnectionError, TimeoutError) as error:
                logger.warning("group %d of %d customers failed: %s", number, len(group), error)
                self.failed.update({customer.id: str(error) for customer in group})
                continue
            accepted += sum(1 for result in response.json()["results"] if result["status"] == "ok")
        return accepted

    def _groups(self, customers: Iterable[Customer]) -> Iterator[list[Customer]]:
        group: list[Customer] = []
        for customer in sorted(customers, key=lambda c: (not c.is_recent, c.id)):
            group.append(customer)
            if len(group) >= MAX_GROUP_SIZE:
                yield group
                group = []
        if group:
            yield group
'''
_CHINESE = """\
星期二，团队开会讨论了夜间导入任务为什么一直失败。大多数人以为是网络问题，因为每天晚上的第一个错误总是连接被对方关闭。后
来发现，服务器是故意关闭连接的：任何超过十分钟的请求都会被中断，而随着客户数量的增加，导入所需的时间慢慢超过了这个限制。
没有人注意到这一点，因为失败的任务会在早上自动重试，那时数据表比较小。大家提出了三个建议。最简单的办法是提高时间限制，但
这只能再维持半年左右。第二个办法是把客户分成较小的批次导入，这样每个请求都不会太长，失败的代价也很小。第三个办法是只请求
上次运行之后发生变化的数据，但是对方的服务没有记录这些信息，要商定新的格式需要几个月的时间。最后大家都选择了第二个办法，
由小王负责编写代码，小李负责研究如何分组。
"""
_JAPANESE = """\
火曜日に、夜間のインポートがなぜ失敗し続けているのかについてチームで話し合いました。毎晩最初に出るエラーは相手側から接続
が切られたというものだったので、ほとんどの人はネットワークの問題だと考えていました。しかし実際には、サーバーが意図的に接
続を切っていたのです。十分以上かかるリクエストは中断されることになっており、顧客が増えるにつれてインポートの時間が少しず
つその制限を超えるようになっていました。失敗した処理は朝になると自動的に再実行され、その時間にはテーブルが小さいため成功
していたので、誰も気づきませんでした。提案は三つありました。一番簡単なのは制限時間を延ばすことですが、それでは半年ほどし
か持ちません。二つ目は、顧客を小さなグループに分けてインポートする方法です。そうすれば一つのリクエストは短くなり、失敗し
ても影響は小さくなります。最終的に全員が二つ目の案に賛成しました。
"""
_KOREAN = """\
화요일에 팀은 야간 가져오기 작업이 왜 계속 실패하는지 논의했습니다. 매일 밤 처음 나타나는 오류가 상대방이 연결을 끊었다는
것이었기 때문에 대부분의 사람들은 네트워크 문제라고 생각했습니다. 알고 보니 서버가 일부러 연결을 끊고 있었습니다. 십 분이
넘는 요청은 중단되도록 되어 있었고, 고객이 늘어나면서 작업 시간이 조금씩 그 한도를 넘게 되었습니다. 실패한 작업은 아침에
자동으로 다시 실행되었기 때문에 아무도 눈치채지 못했습니다. 세 가지 제안이 있었습니다. 가장 간단한 방법은 제한 시간을
늘리는 것이지만, 그것은 반년 정도만 도움이 됩니다. 두 번째는 고객을 작은 묶음으로 나누어 가져오는 것으로, 이렇게 하면 한
번의 요청이 길지 않고 실패해도 손해가 적습니다. 결국 모두가 두 번째 방법을 선택했습니다. 민수가 코드를 작성하고 지영이
묶음을 나누는 기준을 살펴보기로 했습니다.
"""
_ARABIC = """\
اجتمع الفريق يوم الثلاثاء لمناقشة سبب فشل عملية الاستيراد الليلية باستمرار. ظن معظم الناس أن المشكلة في الشبكة، لأن
أول خطأ في كل ليلة كان دائما اتصالا أغلقه الطرف الآخر. تبين أن الخادم يغلق الاتصال عمدا: كل طلب يستغرق أكثر من عشر
دقائق يتم قطعه، وقد تجاوزت عملية الاستيراد هذا الحد ببطء مع زيادة عدد العملاء. لم يلاحظ أحد ذلك لأن العملية الفاشلة
كانت تعاد تلقائيا في الصباح عندما يكون الجدول أصغر. كانت هناك ثلاثة اقتراحات. أبسطها رفع الحد الزمني، وهذا يساعد لنصف
عام تقريبا. والثاني استيراد العملاء في مجموعات أصغر حتى لا يستغرق أي طلب وقتا طويلا وتكون تكلفة الفشل قليلة. والثالث
طلب ما تغير فقط منذ آخر تشغيل، لكن الخدمة لا تحتفظ بهذه المعلومات. في النهاية فضل الجميع الاقتراح الثاني، وعرضت سارة
أن تكتب البرنامج.
"""
_EMOJI = "😀🎉🚀✅❌🔥💡📦🐛🧪👍🏽🤖🧠😂🙏💔🎯📝🔒🌍⏰🍕🐍🦀🏁😅🤔👀💬🧹🛠️⚠️❤️👩‍💻🇩🇪🇯🇵🥳🪄🫠🧵"


def _log(rng: Random) -> str:
    messages = (
        "request finished",
        "cache miss for key user",
        "retrying after timeout",
        "connection closed by peer",
        "job queued",
    )
    return "".join(
        f"2025-03-{rng.randrange(10, 29)}T{rng.randrange(10, 24)}:{rng.randrange(10, 60)}:{rng.randrange(10, 60)}."
        f"{rng.randrange(1000):03}Z "
        f"{rng.choice(('INFO', 'INFO', 'WARN', 'ERROR'))} [worker-{rng.randrange(16)}] api.import: {rng.choice(messages)} "
        f"id={rng.randrange(10**6)} status={rng.choice((200, 200, 404, 500))} took={rng.randrange(2000)}ms\n"
        for _ in range(40)
    )


def _json(rng: Random) -> str:
    names = ("alpha", "beta", "gamma", "delta", "customer", "invoice", "warehouse")
    records = [
        {
            "id": rng.randrange(10**6),
            "name": rng.choice(names),
            "active": rng.random() < 0.5,
            "tags": rng.choices(names, k=3),
            "size": {"width": rng.randrange(2000), "ratio": round(rng.random(), 3)},
            "created_at": f"2025-03-{rng.randrange(10, 29)}T{rng.randrange(10, 24)}:{rng.randrange(10, 60)}:00Z",
        }
        for _ in range(24)
    ]
    return json.dumps(records)


def _progress() -> str:
    return "".join(f"Rebasing ({number}/1241)\r" for number in range(1, 241))


@dataclass(frozen=True, slots=True)
class ClassText:
    """A text and its tokens by cl100k_base and o200k_base, which `tests/tokens/test_tiktoken_estimator.py` recounts."""

    text: str
    cl100k: int
    o200k: int

    @property
    def larger_count(self) -> int:
        """The larger count: cl100k_base's for all but a few texts, up to two and a half times as many outside ASCII."""
        return max(self.cl100k, self.o200k)


CLASS_TEXTS: Mapping[str, ClassText] = {
    "English": ClassText(_ENGLISH, 315, 315),
    "Python": ClassText(_PYTHON, 438, 438),
    "JSON": ClassText(_json(Random(1)), 1_599, 1_599),
    "logs": ClassText(_log(Random(2)), 1_604, 1_604),
    "progress": ClassText(_progress(), 2_400, 2_400),
    "base64": ClassText(base64.b64encode(Random(3).randbytes(2_400)).decode(), 2_292, 2_165),
    "hex": ClassText(Random(4).randbytes(1_500).hex(), 1_703, 1_711),
    "Chinese": ClassText(_CHINESE * 3, 975, 666),
    "Japanese": ClassText(_JAPANESE * 3, 1_179, 888),
    "Korean": ClassText(_KOREAN * 3, 1_209, 696),
    "Arabic": ClassText(_ARABIC * 2, 1_026, 424),
    "emoji": ClassText(_EMOJI * 30, 3_810, 2_790),
}
"""The texts beyond ASCII are repeated because shorter ones are not read in stretches."""
