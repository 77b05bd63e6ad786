"""The gateway tool set: several accounts, the full set of mail actions."""
