"""The page: panels, their data, and the run behind the button. No tensor arithmetic."""
