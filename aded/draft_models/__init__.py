"""Neural drafting: draft models, which draft chains or trees, and Medusa heads."""
