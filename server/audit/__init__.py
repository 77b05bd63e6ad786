"""The audit log: what every token did, without content and without secrets."""
