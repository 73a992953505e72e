"""Races in workers of a ZeroGPU Space."""
