"""ADED: adaptive draft-verification decoding, and every method it is compared with, on one loop."""

from aded import environment

__version__ = "0.1.0"

environment.prepare()  # before PyTorch is loaded
