"""Usage, counted: facts about attempts in, spans of use and alarms out.  Pure: every instant is an input.

``facts`` → ``seen`` (repeats) → ``meter`` (attempts, lost work, overlaps) → ``buckets`` (clock hours) → billing.
"""
