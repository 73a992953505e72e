"""Text and token ids: read, written by the model itself, counted into matrices."""
