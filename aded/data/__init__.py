"""Texts and token ids: reading, generation by the model itself, n-gram counting, building matrices and datastores."""
