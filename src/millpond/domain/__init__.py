"""Words of the field as types: amounts, cards, jobs, queues, nodes, reasons, errors.

Imports the standard library only.
"""
