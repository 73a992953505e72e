"""Sampling of tokens and verification of drafts: what makes decoding lossless."""
