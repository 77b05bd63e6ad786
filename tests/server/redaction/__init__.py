"""Tests of what is left out of texts."""
