from tests.replay.calls import millpond, server

__all__ = ["millpond", "server"]
