"""A real HTTP server that replays the API's answers, for the tests of its clients."""
