"""The page: panels, their data, and races. No tensor arithmetic."""
