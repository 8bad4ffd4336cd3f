"""Which blocks count: commits, rollbacks, log compaction."""

from __future__ import annotations

import pytest

from lakedex.errors import CorruptFile
from lakedex.format.logfile import BlockKind, HeaderKey, LogBlock, effective_blocks
from lakedex.storage.source import MemorySource, SourceWindow

_NOTHING = SourceWindow(MemorySource(b""), 0, 0)


def _data(instant: str, kind: BlockKind = BlockKind.AVRO_DATA) -> LogBlock:
    return LogBlock(kind, {HeaderKey.INSTANT_TIME: instant}, 0, _NOTHING)


def _compacted(instant: str, *times: str) -> LogBlock:
    header = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(times),
    }
    return LogBlock(BlockKind.HFILE_DATA, header, 0, _NOTHING)


def _rollback(instant: str, target: str) -> LogBlock:
    header = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.TARGET_INSTANT_TIME: target,
        HeaderKey.COMMAND_BLOCK_TYPE: "0",
    }
    return LogBlock(BlockKind.COMMAND, header, 0, _NOTHING)


def _corrupt() -> LogBlock:
    return LogBlock(BlockKind.CORRUPT, {}, 0, _NOTHING)


def _instants(*blocks: LogBlock, pending: tuple[str, ...] = ()) -> list[str]:
    found = effective_blocks(blocks, is_committed=lambda instant: instant not in pending)
    return [block.instant_time for block in found]


def test_committed_blocks_keep_their_order():
    assert _instants(_data("1"), _data("2"), _data("2"), _data("3")) == ["1", "2", "2", "3"]


def test_pending_blocks_do_not_count():
    assert _instants(_data("1"), _data("2"), _data("3"), pending=("2",)) == ["1", "3"]


def test_commits_are_asked_for_once_for_each_instant():
    asked: list[str] = []
    effective_blocks([_data("1")] * 5, is_committed=lambda time: asked.append(time) or True)
    assert asked == ["1"]


def test_rollback_takes_away_all_earlier_blocks_of_its_target():
    blocks = [_data("1"), _data("2"), _data("2", BlockKind.DELETE), _data("3"), _rollback("4", "2")]
    assert _instants(*blocks) == ["1", "3"]


def test_instant_used_again_after_its_rollback_stays():
    # case B34: a re-used instant after the rollback
    assert _instants(_data("1"), _data("2"), _rollback("3", "2"), _data("2")) == ["1", "2"]


def test_rollback_after_a_corrupt_block_still_applies():
    # case B35: a corrupt block, then the rollback
    assert _instants(_data("1"), _data("2"), _corrupt(), _rollback("3", "2")) == ["1"]


def test_rollback_of_a_torn_write_takes_nothing_else():
    # case B35: a corrupt block, then the rollback
    assert _instants(_data("1"), _corrupt(), _rollback("3", "2"), _data("4")) == ["1", "4"]


def test_rollback_command_applies_whether_or_not_its_own_instant_is_committed():
    assert _instants(_data("1"), _rollback("2", "1"), pending=("2",)) == []


def test_compacted_block_replaces_the_listed_instants():
    assert _instants(_data("1"), _data("2"), _compacted("3", "1", "2"), _data("4")) == ["3", "4"]


def test_compacted_block_stands_where_the_last_replaced_one_stood():
    blocks = [_data("1"), _data("2"), _data("3"), _compacted("4", "1", "2"), _data("5")]
    assert _instants(*blocks) == ["4", "3", "5"]


def test_compacted_block_that_is_not_committed_replaces_nothing():
    blocks = [_data("1"), _data("2"), _compacted("3", "1", "2")]
    assert _instants(*blocks, pending=("3",)) == ["1", "2"]


def test_compacted_block_that_was_rolled_back_replaces_nothing():
    assert _instants(_data("1"), _compacted("2", "1"), _rollback("3", "2")) == ["1"]


def test_compacted_block_compacted_again_is_replaced_with_what_it_replaced():
    blocks = [_data("1"), _data("2"), _compacted("3", "1", "2"), _data("4"), _data("5")]
    assert _instants(*blocks, _compacted("6", "3", "4")) == ["6", "5"]


def test_compacted_block_without_its_originals_keeps_its_own_place():
    assert _instants(_data("3"), _compacted("4", "1", "2"), _data("5")) == ["3", "4", "5"]


def test_chain_of_compacted_blocks_without_originals_keeps_the_place_of_the_last_replaced():
    blocks = [_compacted("3", "1", "2"), _data("4"), _compacted("5", "3"), _data("6")]
    assert _instants(*blocks) == ["5", "4", "6"]


def test_instants_after_the_compacted_block_are_not_replaced_by_it():
    assert _instants(_compacted("2", "1"), _data("1")) == ["2", "1"]


def test_data_block_without_an_instant_is_corrupt():
    with pytest.raises(CorruptFile, match="INSTANT_TIME"):
        _instants(LogBlock(BlockKind.DELETE, {}, 0, _NOTHING))
