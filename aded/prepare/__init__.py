"""All artifacts that methods need for a model, its parts here, made in one run from one text that the model writes."""
