"""The page of a report in a real browser: nothing of it acts but its own script, and it stays quick and usable by keyboard."""

from collections.abc import Callable
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from compaction_hooks.replay import Probe
from compaction_hooks.replay.page import write_report
from compaction_hooks.replay.page.texts import visible
from tests.browser.conftest import Browser
from tests.conversations import assistant, call, steps, system, tool, user
from tests.replay.samples import forgetful_conversation, long_conversation, session
from tests.replay.test_page import example, report, view_at

Write = Callable[[str], Path]

ATTACK = "window.attacked = true"
HOSTILE = (
    f"<script>{ATTACK}</script>",
    f"</script><script>{ATTACK}</script>",
    f"<!--<script>{ATTACK}//-->",
    f'<img src="x" onerror="{ATTACK}">',
    f'" autofocus onfocus="{ATTACK}" x="',
    f"</template></pre></summary><svg onload='{ATTACK}'>",
    f"javascript:{ATTACK}",
    "http://127.0.0.1:9/beacon.png",
    "a\u2028b\u2029c",
    "\u202egnp.exe",
)
STEPS = 5_000
OPENED_MS, TASK_MS = 2_000, 200


@pytest.fixture(scope="module")
def one(page: Write) -> Path:
    return page(write_report(report(example(), window=16_000)))


@pytest.fixture(scope="module")
def several(page: Write) -> Path:
    return page(write_report(report(example(), session(forgetful_conversation(), id="second"), window=16_000)))


@pytest.fixture(scope="module")
def hostile(page: Write) -> Path:
    text = "\n".join(HOSTILE)
    messages = [
        system(text),
        user(f"Never touch the file {HOSTILE[3]} again. {text}"),
        *steps(10, 600),
        *(
            each
            for n, word in enumerate(HOSTILE)
            for each in (assistant(word, call(f"h{n}", word, path=word)), tool(f"h{n}", word))
        ),
        assistant(text),
    ]
    probes = (Probe(kind=text, question="_".join(HOSTILE), answers=(text,)),)
    return page(write_report(report(session(messages, id=text, system=text, skipped=HOSTILE, probes=probes))))


# -- nothing else acts


@pytest.mark.parametrize("name", ["one", "several", "hostile"])
def test_a_page_asks_for_nothing_and_breaks_no_rule(
    name: str, browser: Browser, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(name)
    browser.open(path)
    for button in browser.driver.find_elements("css selector", "[data-open]"):
        button.click()
    for summary in browser.driver.find_elements("css selector", "summary"):
        summary.click()
    browser.run("document.querySelector('.later').click()")
    assert browser.errors() == []
    assert {url for url in browser.requests() if url != "data:,"} == {path.as_uri()}
    assert browser.run("return performance.getEntriesByType('resource').length") == 0


def test_hostile_texts_are_shown_and_do_nothing(browser: Browser, hostile: Path) -> None:
    browser.open(hostile)
    assert browser.text("h2 bdi") == visible("\n".join(HOSTILE))
    rows = browser.run(
        "const number = document.querySelector('.number'), box = document.querySelector('.whole'), texts = [];"
        "number.value = number.max; number.dispatchEvent(new Event('change'));"
        "const count = Number(box.querySelector('.row').getAttribute('aria-setsize'));"
        "for (let n = 0; n < count; n += 1) {"
        "  box.dispatchEvent(new KeyboardEvent('keydown', { key: n ? 'ArrowDown' : 'Home' }));"
        "  texts.push(document.querySelector('.text-whole').textContent);"
        "} return texts"
    )
    shown = "\n".join(rows)
    assert [word for word in HOSTILE if visible(word) not in shown] == []
    assert browser.run("return window.attacked === undefined")
    assert browser.run("return document.scripts.length") == 2
    assert browser.errors() == []


def test_the_policy_refuses_markup_scripts_and_requests(browser: Browser, one: Path) -> None:
    browser.open(one)
    with pytest.raises(Exception, match="TrustedHTML"):
        browser.run("document.body.innerHTML = '<b>text</b>'")
    refused = browser.wait(
        "const found = [];"
        "document.addEventListener('securitypolicyviolation', (event) => {"
        "  found.push(event.effectiveDirective); if (found.length === 4) done(found); });"
        "const image = new Image(); image.src = 'http://127.0.0.1:9/x.png';"
        "fetch('http://127.0.0.1:9/').catch(() => {});"
        "const frame = document.createElement('iframe'); frame.src = 'http://127.0.0.1:9/'; document.body.append(frame);"
        "document.body.setAttribute('style', 'color: red');"
    )
    assert sorted(refused) == ["connect-src", "frame-src", "img-src", "style-src-attr"]


# -- what is shown


def test_the_two_lists_show_what_a_call_sent(browser: Browser, one: Path) -> None:
    conversation = report(example(), window=16_000)["sessions"][0]["conversation"]
    browser.open(one)
    for number in (1, 13, 20, 24, 31, 40, 68):
        sent = browser.run(
            "const read = JSON.parse(document.getElementById('conversation-0').textContent);"
            "return lookAt(read, arguments[0]).sent.map((row) => row.message.parts.map((part) => part.text))",
            number,
        )
        assert sent == view_at(conversation, number)
    states = browser.run(
        "const read = JSON.parse(document.getElementById('conversation-0').textContent);"
        "return lookAt(read, 33).whole.map((row) => row.state)"
    )
    assert states == ["sent", *["summarized"] * 64, "pinned", *["summarized"] * 8, *["sent"] * (len(states) - 74)]


def test_a_message_is_read_next_to_the_summary_that_replaced_it(browser: Browser, one: Path) -> None:
    browser.open(one)
    browser.run("document.querySelector('[data-show=\"31\"]').click()")
    assert browser.text(".said").startswith("Call 31 sent about 5.3k tokens; the whole list has ")
    browser.find(".whole").send_keys(Keys.HOME, Keys.ARROW_DOWN)
    assert browser.text(".reading-whole") == "In the list: 2, user, summarized"
    assert browser.text(".reading-sent") == "As sent: user, summary"
    assert browser.text(".text-sent").startswith("[Conversation summary]")
    assert browser.find(".sent-list [aria-selected=true] .state").text == "summary"


def test_a_click_on_the_chart_chooses_the_call_below_it(browser: Browser, one: Path) -> None:
    browser.open(one)
    chart = browser.find(".chart svg")
    ActionChains(browser.driver).move_to_element_with_offset(chart, 0, 0).click().perform()
    assert browser.run("return document.querySelector('.number').valueAsNumber") in (34, 35)
    assert browser.run("return document.querySelector('.slider').valueAsNumber") in (34, 35)


def test_a_session_of_several_is_made_when_it_is_opened(browser: Browser, several: Path) -> None:
    browser.open(several)
    assert browser.driver.find_elements("css selector", ".session") == []
    for number, name in ((1, "second"), (0, "spendlog-0.8.0")):
        browser.find(f"[data-open='{number}']").send_keys(Keys.ENTER)
        assert [each.text for each in browser.driver.find_elements("css selector", "h2")] == [name]
        assert browser.driver.switch_to.active_element.text == name
        assert browser.driver.find_elements("css selector", ".whole .row")


# -- keyboard, widths, colors


def test_everything_is_reached_by_keyboard_and_shows_the_focus(browser: Browser, one: Path) -> None:
    browser.open(one)
    wanted = browser.run(
        "const all = [...document.querySelectorAll('button, input, summary, [tabindex=\"0\"]')];"
        "const seen = all.filter((each) => each.checkVisibility() && !each.disabled);"
        "seen.forEach((each, number) => { each.dataset.walk = number; }); return seen.length"
    )
    reached: dict[str, bool] = {}
    for _ in range(wanted):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        walk, outline = browser.run(
            "const at = document.activeElement; return [at.dataset.walk, getComputedStyle(at).outlineStyle === 'solid']"
        )
        reached[walk] = outline
    assert reached == {str(number): True for number in range(wanted)}


def test_keys_choose_calls_and_messages_and_open_compactions(browser: Browser, one: Path) -> None:
    browser.open(one)
    browser.find(".slider").send_keys(Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert browser.text(".said").startswith("Call 3 sent about ")
    assert "the whole list was sent" in browser.text(".said")
    number = browser.find(".number")
    number.send_keys(Keys.CONTROL, "a")
    number.send_keys("33", Keys.ENTER)
    assert "It was compacted for call 31." in browser.text(".said")
    browser.find(".later").send_keys(Keys.SPACE)
    assert browser.text(".said").startswith("Call 45 sent about ")
    summary = browser.find("[data-call='45'] summary")
    summary.send_keys(Keys.ENTER)
    assert browser.find("[data-call='45'] pre").is_displayed()
    browser.find(".sent-list").send_keys(Keys.END)
    assert browser.text(".reading-sent").startswith("As sent: 126, ")
    told = browser.find(".sent-list").get_attribute("aria-activedescendant")
    assert browser.find(f"#{told}").get_attribute("aria-selected") == "true"


@pytest.mark.parametrize("width", [320, 400, 1600])
@pytest.mark.parametrize("name", ["one", "several", "hostile"])
def test_no_width_needs_scrolling_sideways(
    name: str, width: int, browser: Browser, request: pytest.FixtureRequest
) -> None:
    browser.size(width)
    browser.open(request.getfixturevalue(name))
    browser.run("document.querySelector('[data-open]')?.click()")
    browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
    assert browser.run("return document.documentElement.scrollWidth") <= width


def test_no_word_of_the_chart_is_cut_off_on_a_narrow_page(browser: Browser, one: Path) -> None:
    browser.size(320)
    browser.open(one)
    ends = browser.run(
        "const right = document.querySelector('.chart svg').getBoundingClientRect().right;"
        "return [...document.querySelectorAll('.chart text')].map((text) => text.getBoundingClientRect().right - right)"
    )
    assert max(ends) <= 1


def test_a_page_is_printed_dark_on_light_and_whole(browser: Browser, one: Path) -> None:
    browser.open(one)
    browser.run("document.documentElement.dataset.theme = 'dark'")
    browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert browser.run("return getComputedStyle(document.body).color") == "rgb(28, 33, 40)"
        cut = "return [...document.querySelectorAll('details pre')].filter((each) => each.clientHeight < each.scrollHeight)"
        assert browser.run(cut) == []
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
const luminance = (color) => {
  canvas.fillStyle = color;
  canvas.fillRect(0, 0, 1, 1);
  const [red, green, blue] = [...canvas.getImageData(0, 0, 1, 1).data].map((value) => linear(value / 255));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const ground = (at) => {
  while (at && getComputedStyle(at).backgroundColor === "rgba(0, 0, 0, 0)") at = at.parentElement;
  return getComputedStyle(at ?? document.body).backgroundColor;
};
return [...document.querySelectorAll(arguments[0])].filter((each) => each.checkVisibility()).map((each) => {
  const style = getComputedStyle(each);
  const ink = each instanceof SVGElement ? style.fill : style.color;
  const [one, two] = [luminance(ink), luminance(ground(each))].sort((a, b) => b - a);
  return [each.outerHTML.slice(0, 80), (one + 0.05) / (two + 0.05)];
});
"""


def test_light_and_dark_follow_the_system_and_the_button(browser: Browser, one: Path) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    light, dark = "rgb(255, 255, 255)", "rgb(20, 23, 28)"
    browser.open(one)
    browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
    browser.find(".whole").send_keys(Keys.HOME)
    for scheme, color in (("dark", dark), ("light", light)):
        browser.prefer(scheme)
        assert browser.run(ground) == color
        measured = browser.run(
            CONTRAST, "p, span, dt, dd, li, h1, h2, h3, h4, button, pre, strong, figcaption, .label, .row *"
        )
        assert len(measured) > 100
        assert [each for each in measured if each[1] < 4.5] == []
    seen = [browser.run(ground)]
    for _ in range(3):
        browser.find(".theme").click()
        seen.append(browser.run(ground))
    assert seen == [light, light, dark, light]


# -- large


def test_ten_thousand_messages_open_quickly_and_scroll_smoothly(browser: Browser, page: Write) -> None:
    path = page(write_report(report(session(long_conversation(STEPS, 60)), window=64_000)))
    browser.open(path)
    opened = browser.run("return performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert browser.find(".whole .row").is_displayed()
    hold, *tasks = browser.wait(
        "const tasks = [];"
        "new PerformanceObserver((list) => tasks.push(...list.getEntries().map((each) => each.duration)))"
        "  .observe({ type: 'longtask', buffered: false });"
        "const slider = document.querySelector('.slider'), box = document.querySelector('.whole');"
        "const choose = (call) => { slider.value = call; slider.dispatchEvent(new Event('input')); };"
        "let frames = 0;"
        "const scroll = () => {"
        "  frames += 1; box.scrollTop += 3000; window.scrollBy(0, frames % 2 ? 90 : -60);"
        "  if (frames % 20 === 0) choose((frames * 97) % slider.max);"
        "  if (frames < 300) requestAnimationFrame(scroll); else setTimeout(() => done(tasks), 100);"
        "};"
        # One long task on purpose, to see that they are observed.
        "setTimeout(() => {"
        "  const end = performance.now() + 90; while (performance.now() < end);"
        "  setTimeout(() => { choose(slider.max); box.scrollTop = 0; scroll(); }, 50);"
        "}, 0);"
    )
    assert hold >= 90
    longest = max(tasks, default=0)
    drawn = browser.run("return document.querySelectorAll('.row').length")
    print(f"{path.stat().st_size / 1e6:.1f} MB opened in {opened:.0f} ms; longest task {longest:.0f} ms; {drawn} rows")
    assert opened <= OPENED_MS
    assert longest <= TASK_MS
    assert drawn < 100
