"""Files that people write: jobs, queues, nodes and snapshots, read with the position of every value.

Pure: text in, domain values out.  Imports the pure rooms and PyYAML.
"""
