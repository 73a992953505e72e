"""Drafting methods: their interface (``base``), the table of all (``registry``), and what several share."""
