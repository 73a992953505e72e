"""How many tokens a draft has: from measured costs and acceptance."""
