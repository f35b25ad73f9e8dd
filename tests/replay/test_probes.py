from compaction_hooks.replay.probes import Vocabulary
from tests.cases import folded


@folded(
    "text, name, is_in",
    {
        "itself": ("see src/a/b.py:12", "src/a/b.py", True),
        "the end of a longer path": ("see /home/me/src/a/b.py", "src/a/b.py", True),
        "written relative": ("- a/b.py\n- c.py", "/home/me/src/a/b.py", True),
        "its name alone": ("- b.py", "/home/me/src/a/b.py", True),
        "another file of that name": ("see other/b.py", "/home/me/src/a/b.py", False),
        "part of a word": ("TX-48213", "TX-4821", False),
    },
)
def test_a_path_is_found_by_its_end(text: str, name: str, is_in: bool) -> None:
    vocabulary = Vocabulary()
    vocabulary.add(text)
    assert (name in vocabulary) is is_in
