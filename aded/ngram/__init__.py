"""The tri-gram matrix (the LLM representative), the overlay of session counts, and the tree searches over both."""
