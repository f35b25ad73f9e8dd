"""From messages and a record to the list that is sent."""
