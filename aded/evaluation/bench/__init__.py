"""The benchmark: systems side by side on questions, and its tables."""
