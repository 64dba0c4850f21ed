"""Engines run attempts.  `base` is the contract; siblings are independent of each other and import only `domain`."""
