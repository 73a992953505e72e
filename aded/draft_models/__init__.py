"""Networks that draft: draft models, run as chains or trees, and Medusa heads."""
