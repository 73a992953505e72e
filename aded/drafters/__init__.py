"""Drafting methods, one file each; the table of them is ``aded.drafters.registry``."""
