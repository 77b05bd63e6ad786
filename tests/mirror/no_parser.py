"""A parsing child that cannot parse anything, as with a broken installation."""

raise SystemExit(1)
