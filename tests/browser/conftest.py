"""A real headless Chromium, whose driver is installed beside it; nothing is downloaded."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webelement import WebElement

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Browser:
    """A browser with one page open.

    Attributes:
        driver: For what has no method here.
    """

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, page: Path) -> None:
        """Open a page with empty logs."""
        self.driver.get("about:blank")
        self.errors()
        self.requests()
        self.driver.get(page.as_uri())

    def run(self, script: str, *arguments: object) -> Any:
        """Return the value of a script in the page."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str, *arguments: object) -> Any:
        """Return what a script gives to the function `done`."""
        return self.driver.execute_async_script(f"const done = arguments[arguments.length - 1]; {script}", *arguments)

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        """Return the text of an element, as the document has it."""
        return str(self.run("return document.querySelector(arguments[0]).textContent", selector))

    def size(self, width: int, height: int = 900) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """Let the system prefer light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def errors(self) -> list[str]:
        """Return what the console said since the last time: errors of scripts, and what the page's policy refused."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the last time."""
        logged = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]  # type: ignore[no-untyped-call]
        sent = [each["params"] for each in logged if each["method"] == "Network.requestWillBeSent"]
        return [str(each["request"]["url"]) for each in sent]


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium, "first, as root: apt-get install chromium chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    started.set_script_timeout(60)
    yield started
    started.quit()


@pytest.fixture
def browser(running: webdriver.Chrome) -> Browser:
    opened = Browser(running)
    opened.size(1280)
    opened.prefer("light")
    return opened


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that writes a page and returns its path."""
    folder = tmp_path_factory.mktemp("pages")

    def write(text: str) -> Path:
        path = folder / f"{len([*folder.iterdir()])}.html"
        path.write_text(text, encoding="utf-8", newline="\n")
        return path

    return write
