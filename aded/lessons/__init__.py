"""Lessons of the page: their format, and the checks of a file."""
