"""Serving several visitors at once: scheduler, limits, counters, sessions, and the HTTP API."""
