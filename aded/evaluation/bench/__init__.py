"""The benchmark: methods and peers compared on the same questions, and its tables."""
