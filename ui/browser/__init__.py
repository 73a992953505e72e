"""What the browser loads: files, recorded races, texts and draft trees with their layout."""
