"""Sampling of tokens: settings, the logits pipeline and random numbers, which make the draw of every token repeatable."""
