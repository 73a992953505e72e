"""Draft trees, traces, errors and files. Independent of models and methods."""
