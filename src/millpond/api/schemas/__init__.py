"""Requests and responses of the API as pydantic models, one module a noun."""
