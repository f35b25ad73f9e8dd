"""Parts of `record_session.py`: the agent's tools and the form of the session file; project and script are TOML."""
