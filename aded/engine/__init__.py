"""The target model: its loading, KV cache, attention masks and steps of fixed shape. Knows no drafter."""
