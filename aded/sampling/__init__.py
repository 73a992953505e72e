"""How tokens are chosen and drafts are verified: where losslessness is decided."""
