"""The front door: the controller and its sessions."""

from typing import Any


class Later:
    """Stands for a class with a type parameter that is imported at the first call, for `typing.get_type_hints`."""

    def __class_getitem__(cls, parameter: object) -> object:
        return Any
