"""Drafting methods, one file each. ``aded.drafters.registry`` lists them."""
