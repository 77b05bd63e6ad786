"""Tests of Postmirror, on real servers wherever one can do it."""
