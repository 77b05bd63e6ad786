"""A profile's `allow` with every verb of the gateway tools."""

EVERY_TOOL = ("send", "reply", "move", "delete", "mark", "download", "create", "append")
