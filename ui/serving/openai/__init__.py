"""Endpoints in the form of OpenAI's API."""
