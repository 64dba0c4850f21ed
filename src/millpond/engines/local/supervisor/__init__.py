"""The supervisor: a process of its own that starts jobs' processes, watches them and reports what happened.

It uses the standard library only and imports nothing of millpond, so that neither an upgrade nor a broken package can
keep it from starting: ``python -I -S .../supervisor --engine-dir DIR --run-dir DIR``.

    engine.py ──unix socket──▶ server.py ─▶ orders.py ─▶ journal.py (fsync) ─▶ keeper.py (one per rank) ─▶ the job
                                                             ▲                      │ files in engine_dir/ranks
                                                             └──── lifecycle.py ◀───┘ + a datagram when it runs

What must be durable is in the journal (orders, drains, facts) or in the files that keepers leave (who keeps a rank,
its main process, its exit status).  Everything else is rebuilt from these two, so that killing any of these processes
at any moment loses no job, runs none twice and loses no exit code.
"""
