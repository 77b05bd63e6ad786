"""The HTML of a mail as a person would see it: what is shown, as plain text and as a small well-formed HTML. Pure."""
