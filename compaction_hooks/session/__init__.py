"""The front door: the controller and its sessions."""
