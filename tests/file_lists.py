"""The lists of files in a text, read back as a person reads them."""

import html
import re

from compaction_hooks.files import FileOperations


def files_in(text: str) -> FileOperations:
    """Return the paths in the tags of a text, without the line that counts those left out."""

    def paths(name: str) -> tuple[str, ...]:
        bodies = re.findall(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
        lines = [line for body in bodies for line in body.splitlines() if line.strip()]
        return tuple(
            html.unescape(line) for line in lines if not re.fullmatch(r"\(\d+ earlier files? not listed\)", line)
        )

    return FileOperations(read=paths("read-files"), modified=paths("modified-files"))
