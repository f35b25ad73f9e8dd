"""The command `compaction-hooks`. Needs the extra: `pip install 'compaction-hooks[cli]'`."""
