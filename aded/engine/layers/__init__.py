"""Faster layers that take the place of stock ones: tree attention, fused and prepacked projections."""
