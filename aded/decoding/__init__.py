"""The decoding loop: draft, verify, compact the KV cache, learn, record."""
