"""`python -m compaction_hooks`: the same as the command `compaction-hooks`."""

import sys

from compaction_hooks.command.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
