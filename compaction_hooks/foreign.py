"""Safe reading of objects of hosts and clients: their properties, texts, comparisons and copies may raise anything."""

from __future__ import annotations

from copy import deepcopy


def read_attribute(value: object, name: str) -> object:
    """Return an attribute of an object; None if it is absent or raises (httpx: body not read yet)."""
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a property runs foreign code
        return None


def read_text(value: object) -> str:
    """Return the text of an object, such as an error; "" if `str` fails."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - `__str__` runs foreign code
        return ""


def are_equal(one: object, other: object) -> bool:
    """Return whether two objects are equal; False if the comparison fails."""
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - `__eq__` runs foreign code
        return False


def copy_value(value: object) -> object:
    """Return a deep copy, to notice later that the host changed a value in place; None if copying fails."""
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001 - `__deepcopy__` runs foreign code
        return None


def describe_error(error: BaseException) -> str:
    """Return an error's type and text in one line, for events and logs, at most 300 characters."""
    text = " ".join(read_text(error).split())
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__
