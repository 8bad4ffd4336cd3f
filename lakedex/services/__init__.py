"""Table services: compaction, clustering, rollback, indexes, verification, repair, advice."""
