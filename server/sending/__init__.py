"""Sending: from what a caller wrote to what a server answered."""
