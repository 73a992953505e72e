"""ADED: adaptive draft-verification decoding, and every method it is compared with, on one loop."""

__version__ = "0.1.0"
