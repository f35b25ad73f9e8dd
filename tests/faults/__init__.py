"""What goes wrong around the controller, one fault at a time: docs/reliability.md lists them with their tests."""
