"""Cost of sessions under published prompt-cache rules, and their retention of facts: `python -m tests.benchmarks.money`."""
