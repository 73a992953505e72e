"""Drafting methods, one file each; ``mixture`` and ``rescoring`` are shared by some. ``aded.drafters.registry`` lists them."""
