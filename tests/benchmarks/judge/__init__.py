"""A small language model judges summaries: docs/judged.md."""
