"""Faster replacements for stock layers: tree attention, fused projections, prepacked linear layers."""
