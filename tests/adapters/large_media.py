"""Documents that are larger than they seem and images with many bytes, for the tests of every adapter."""

from __future__ import annotations

import base64

from tests.provider import Side

PDF = base64.b64encode(b"%PDF-1.7 " + b"report " * 40).decode()
"""A long report: the provider counts 20,000 tokens, nothing in the request tells."""
IMAGES = 8
LIMIT_BYTES = 250_000
"""Of a request's body; the images together have 320,000."""


def image(number: int) -> str:
    """An image as base64, of 40,000 characters, unlike every other."""
    return base64.b64encode(bytes([number]) * 30_000).decode()


def assert_document_left_out(side: Side) -> None:
    """One rejection for the window, then a request with a line in place of the document, and the words beside it."""
    assert [request.status for request in side.model_requests] == [400, 200]
    sent = str(side.model_requests[1].messages)
    assert PDF not in sent
    assert "[Left out, the request was too large with it: application/pdf" in sent
    assert "Read this." in sent


def assert_images_left_out(side: Side) -> None:
    """One rejection for the bytes, then a request with lines in place of the oldest images."""
    assert [request.status for request in side.model_requests] == [413, 200]
    sent = str(side.model_requests[1].messages)
    assert [image(number) in sent for number in range(IMAGES)] == [False] * 4 + [True] * 4
    assert sent.count("[Left out, the request was too large with it: image/png sha256 ") == 4
