"""The compaction that a provider makes on its own side: the items it leaves, and the options of a request that ask for it."""

from compaction_hooks.native.items import Issuer, NativeItems, NativeSummarizer, is_native_refusal, issuer_of
from compaction_hooks.native.options import find_server_compaction

__all__ = ["Issuer", "NativeItems", "NativeSummarizer", "find_server_compaction", "is_native_refusal", "issuer_of"]
