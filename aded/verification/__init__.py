"""Verification of drafts: which drafted tokens are accepted, and the token after them."""
