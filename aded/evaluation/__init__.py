"""Measuring: replayed drafts, ablations, how near the matrix is to its model, benchmarks."""
