"""Compiled code: numba's functions and their folder, and CUDA graphs."""
