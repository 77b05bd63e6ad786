"""The sample mailbox and the servers that the demo runs."""
