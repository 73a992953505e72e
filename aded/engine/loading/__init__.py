"""Loading a model: where its weights are, converted GGUF files, the stock model and its tokenizer."""
