"""Text made safe and short: escaping, shortening, JSON of bounded depth."""
