"""The tri-gram matrix (the LLM representative), what a session adds to it, and the tree searches over it."""
