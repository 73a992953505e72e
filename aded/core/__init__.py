"""Ground of everything: trees, traces, errors, files. Knows no model and no method."""
