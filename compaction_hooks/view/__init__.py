"""Records, and the view: the list to send, made from messages and a record."""
