"""Measuring methods: against plain decoding and peers on a model, on recorded text without one, and a step's bare cost."""
