"""What `postmirror demo` runs on: a sample mailbox behind real servers on loopback."""
