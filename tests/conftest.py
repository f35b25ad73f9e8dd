"""Two sizes of the suite: by default few generated examples, new ones in each run, and no test marked `full`; with `--full` all.

In CI the generated examples are always the same. No example has a deadline.
"""

from __future__ import annotations

import gc
import importlib.util
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.provider import LoopbackProvider

FAST_EXAMPLES, FULL_EXAMPLES = 20, 100


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the long tests too, with more generated examples")


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()
    config.addinivalue_line("markers", "full: a long test, or one of many that show the same; run with --full")
    if importlib.util.find_spec("hypothesis") is not None:
        _load_profile(FULL_EXAMPLES if config.getoption("--full") else FAST_EXAMPLES)


def _load_profile(examples: int) -> None:
    from hypothesis import settings

    is_ci = bool(os.environ.get("CI"))
    settings.register_profile("untimed", deadline=None, max_examples=examples, derandomize=is_ci)
    settings.load_profile("untimed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked `full` unless `--full` is given."""
    if config.getoption("--full"):
        return
    long = [item for item in items if item.get_closest_marker("full")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if not item.get_closest_marker("full")]


def pytest_collection_finish() -> None:
    """Collect garbage from now on, none of the imported objects, and less often: a fifth of the time of the frameworks' tests."""
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give clients of HTTP one certificate: each reads all of certifi's when it is made, in 20 ms, and no test uses TLS."""
    if importlib.util.find_spec("certifi") is None:
        yield
        return
    import certifi

    end = "-----END CERTIFICATE-----\n"
    one = tmp_path_factory.mktemp("certificates") / "one.pem"
    one.write_text(certifi.contents().partition(end)[0] + end, encoding="ascii")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(one))
        yield


@pytest.fixture(scope="module")
def provider() -> Iterator[LoopbackProvider]:
    """A provider on loopback; without its server's packages the tests are skipped."""
    for package in ("starlette", "uvicorn"):
        pytest.importorskip(package)
    from tests.provider import LoopbackProvider

    with LoopbackProvider() as running:
        yield running
