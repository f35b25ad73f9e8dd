"""What `record_session.py` needs: the agent's tools and the form in which a session is written; project and script are TOML."""
