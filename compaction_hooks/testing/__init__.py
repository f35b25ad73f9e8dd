"""The checks a `MessageFormat` must pass, for anyone who writes one."""

from compaction_hooks.testing.formats import check_format

__all__ = ["check_format"]
