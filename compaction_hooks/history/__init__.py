"""Facts about each message, computed once, and the digest chain that names a stretch of conversation by its content.

A conversation is read as *pieces* (one speaker's part of one host message), grouped into *runs* (adjacent pieces of one
side). There are two sides: the assistant, and the host with the messages of users and tools. An assistant run with the host run
that answers it is a *step*; a host run that a user begins opens a *turn*.

Digests run over *atoms* of a run (texts, media, calls, results), because frameworks cut one conversation into different
messages. System messages, thinking, ids, names and usage are left out, so the same conversation has the same chain in every
format.
"""

from compaction_hooks.history.history import History, Origin, OwnTexts, Piece, Side
from compaction_hooks.history.reader import HistoryReader
from compaction_hooks.history.requests import UserRequest

__all__ = ["History", "HistoryReader", "Origin", "OwnTexts", "Piece", "Side", "UserRequest"]
