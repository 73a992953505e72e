"""Everything that a model needs for all methods, made in one run from one text that the model writes."""
