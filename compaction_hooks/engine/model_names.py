"""The names of one model: of the model itself, of its versions, and of the gateways to it."""

from __future__ import annotations


def same_model(one: str, other: str) -> bool:
    """Whether two names mean one model: they differ at most in a provider's prefix and a date or version at the end.

    >>> same_model("openai/gpt-5", "gpt-5-2025-08-07"), same_model("gpt-5", "gpt-5-mini")
    (True, False)
    """
    short, long = sorted((one.rpartition("/")[2].lower(), other.rpartition("/")[2].lower()), key=len)
    rest = long.removeprefix(short)
    return rest == "" or (
        rest != long and all(part.isdigit() or part in ("latest", "v1") for part in rest.strip("-@:.").split("-"))
    )
