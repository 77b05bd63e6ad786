"""Mail servers that tests start, and the plain clients that check on them."""
