"""Making of trained parts: Medusa heads and draft models for any Transformers causal model."""
