"""Workload traces of other systems, read with positions, and made into worlds that can be simulated (scheduling §9)."""
