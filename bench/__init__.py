"""What `make bench` runs: how fast the mirror is, measured against the wire and against a bare server."""
