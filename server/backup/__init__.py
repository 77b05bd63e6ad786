"""An installation as one file, and back."""
