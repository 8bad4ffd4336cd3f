"""The soak: writers, readers and services, each a process of its own, on one table at once.

Every process tells in a ledger of its own what it did and what it read. When all counts are
reached the processes stop, and what they told is held against a model. LAKEDEX_SOAK=600 lets the
processes run for at least so many seconds, LAKEDEX_SEED draws other writes.
"""
