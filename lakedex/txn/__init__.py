"""From written files to one atomic instant: locks, heartbeats, markers, commit and rollback.

Nothing is re-exported here: workers import `txn.markers` and must not load the rest.
"""
