"""The commands of `postmirror`, one a file."""
