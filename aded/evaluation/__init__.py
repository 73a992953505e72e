"""Evaluation: replay of drafts on recorded text, ablations, fidelity of the tri-gram matrix, benchmarks."""
