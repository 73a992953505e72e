"""Serving many people at once: turns on the model, limits, counters, what a browser is told, endpoints for programs."""
