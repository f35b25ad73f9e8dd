"""What sessions cost under published prompt-cache rules, and what is still known in them: `python -m tests.benchmarks.money`."""
