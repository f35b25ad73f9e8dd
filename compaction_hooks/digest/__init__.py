"""The digest: the facts that messages tell, and texts made of them by rule. Other rooms use these four names and no others.

`facts` reads messages and the summary before them, `write` makes a summary of them, and `complete` puts back what another writer's
summary lacks of them. The files, in the order in which a text is made:

| file | its part |
|---|---|
| `text` | sentences, quotations and sizes |
| `outline` | a summary as items under headings, written and read back |
| `statements`, `replies` | the user's requests; short replies with the questions that they answer |
| `constraints` | which of the user's sentences are constraints: not those of a page that he pasted |
| `steps` | calls, and the beginning of their results |
| `said` | what the assistant said last |
| `tasks` | open tasks |
| `identifiers`, `told` | names; sentences of a chat that tell something |
| `classes` | facts as a loss counts them, and whether a view has one |
| `reading` | `facts`: each of these, read once, when asked for |
| `writing` | `write`: the choice of the items that fit |
| `completing` | `complete`: what another writer's text lacks |
"""

from compaction_hooks.digest.completing import complete
from compaction_hooks.digest.reading import Facts, facts
from compaction_hooks.digest.writing import write

__all__ = ["Facts", "complete", "facts", "write"]
