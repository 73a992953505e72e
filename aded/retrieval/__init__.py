"""Retrieval from a corpus: a suffix array, and tries of the continuations of a context."""
