"""Corpora to copy from: a suffix array, and tries of what followed a context."""
