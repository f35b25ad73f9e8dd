"""`python -m compaction_hooks`: the command `compaction-hooks`."""

import sys

from compaction_hooks.replay.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
