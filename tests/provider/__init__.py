"""A loopback provider that behaves like real ones in everything relevant to compaction. Needs starlette and uvicorn.

The examples use it, so it needs no pytest.
"""

from compaction_hooks.testing import Answer, Call, Script, Turn, long_script, tools_of
from tests.provider.call_signing import CallSigner
from tests.provider.compacting import Compactor
from tests.provider.item_compacting import ItemCompactor
from tests.provider.item_signing import ItemSealer, ItemSigner
from tests.provider.server import LoopbackProvider
from tests.provider.sides import Overflow, Received, Side
from tests.provider.signing import Signer
from tests.provider.wordings import WORDINGS, Rejection

__all__ = [
    "WORDINGS",
    "Answer",
    "Call",
    "CallSigner",
    "Compactor",
    "ItemCompactor",
    "ItemSealer",
    "ItemSigner",
    "LoopbackProvider",
    "Overflow",
    "Received",
    "Rejection",
    "Script",
    "Side",
    "Signer",
    "Turn",
    "long_script",
    "tools_of",
]
