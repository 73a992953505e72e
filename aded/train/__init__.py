"""Training of Medusa heads and draft models for any Transformers causal model."""
