"""The tri-gram matrix (the LLM representative) as base counts and session counts, and the tree searches over both."""
