"""The target model: loading, KV cache, attention masks, sessions and fixed-shape steps. Independent of drafters."""
