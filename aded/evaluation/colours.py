"""Colours of the methods in charts and on the page."""

from __future__ import annotations

METHOD_COLOURS: dict[str, tuple[str, str]] = {
    "plain": ("#5a6572", "#a7b1bc"),
    "aded": ("#7a3fb0", "#c39bea"),
    "prompt-lookup": ("#0b7f86", "#5fd0d6"),
    "lookahead": ("#c63808", "#e75b12"),
    "rest": ("#4a66d9", "#3081e9"),
    "token-recycling": ("#477430", "#c4e4a4"),
    "suffix": ("#4a1b31", "#bf8999"),
    "medusa": ("#986812", "#e6bd4a"),
    "medusa-typical": ("#3a380b", "#889367"),
    "eagle": ("#0200e5", "#0ecd04"),
    "mtp": ("#d60395", "#f90dff"),
    "glide": ("#001c11", "#a558fe"),
    "blockwise": ("#02066e", "#8cff1f"),
    "speculative": ("#3d4486", "#8a86c8"),
    "specinfer": ("#781c5a", "#d44e9f"),
    "ouroboros": ("#020009", "#fcd2f5"),
    "aded-medusa": ("#7e3d2b", "#ef9f8c"),
    "aded-eagle": ("#b110fd", "#05980f"),
}
"""On a light and on a dark background. Tests check that they can be told apart, also with colour blindness."""
