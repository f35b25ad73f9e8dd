"""The world outside: effects, their drivers, and guards around what a host hands over."""
