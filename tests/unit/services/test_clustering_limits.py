"""Which partitions and how much of them a clustering takes, by Hudi's options."""

from __future__ import annotations

import pytest

from lakedex.config.service_options import ClusteringScope
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.filegroup import FileSlice, parse_data_file
from lakedex.services.clustering.limits import chosen_partitions, within_limits

DAYS = [f"dt=2026-01-{day:02}" for day in range(1, 31)]
FILTER = "hoodie.clustering.plan.partition.filter.mode"
PLAN = "hoodie.clustering.plan.strategy."


def chosen(hour: int | None = None, **settings: str) -> list[str]:
    named = {f"{PLAN}{name.replace('_', '.')}": value for name, value in settings.items()}
    if "filter" in settings:
        named[FILTER] = named.pop(f"{PLAN}filter")
    return chosen_partitions(DAYS, ClusteringScope.resolve(named), hour)


def test_partitions_are_chosen_as_hudi_does():
    assert chosen() == DAYS
    assert chosen(filter="RECENT_DAYS") == DAYS[:27:-1]
    some = {"daybased_lookback_partitions": "3", "daybased_skipfromlatest_partitions": "1"}
    assert chosen(filter="recent_days", **some) == [DAYS[28], DAYS[27], DAYS[26]]
    by_class = "org.apache.hudi.client.clustering.plan.strategy.SparkRecentDays"
    assert chosen(**{"class": f"{by_class}ClusteringPlanStrategy"}) == DAYS[:27:-1]
    ends = {"cluster_begin_partition": DAYS[3], "cluster_end_partition": DAYS[5]}
    assert chosen(filter="SELECTED_PARTITIONS", **ends) == DAYS[3:6]
    assert chosen(**ends) == DAYS, "the ends count for that filter only"
    assert chosen(filter="DAY_ROLLING", hour=4) == [DAYS[4], DAYS[28]]
    assert chosen(partition_regex_pattern=r"dt=2026-01-1\d") == DAYS[9:19]
    assert chosen(partition_regex_pattern="2026") == [], "the whole path has to match"
    assert chosen(partition_selected=f"{DAYS[7]},{DAYS[2]}") == [DAYS[2], DAYS[7]]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"partition_selected": "paris"}, "no partition 'paris'"),
        ({"partition_regex_pattern": "(?<=a)b"}, "not support|look"),
        ({"filter": "SOMETIMES"}, "filter.mode='SOMETIMES' must be one of NONE"),
        ({"max_num_groups": "0"}, "max.num.groups='0'"),
    ],
)
def test_wrong_options_are_named(settings, words):
    with pytest.raises((InvalidInput, UnsupportedFeature), match=words):
        chosen(**settings)


def test_classes_that_do_something_else_are_refused():
    for name, value in (
        (f"{PLAN}class", "SparkConsistentBucketClusteringPlanStrategy"),
        ("hoodie.clustering.execution.strategy.class", "org.example.Mine"),
    ):
        scope = ClusteringScope.resolve({name: value})
        with pytest.raises(UnsupportedFeature, match=value):
            scope.require_known_classes()
    ClusteringScope.resolve({}).require_known_classes()


def _slices(**sizes: int) -> tuple[FileSlice, ...]:
    time = "20260101000000000"
    names = {name: f"{name}-0_0-0-0_{time}.parquet" for name in sizes}
    return tuple(
        FileSlice("p", f"{name}-0", time, parse_data_file(names[name], size))
        for name, size in sizes.items()
    )


def test_a_plan_takes_no_more_groups_and_bytes_than_it_may():
    slices = {"p": _slices(a=10, b=40, c=30, d=20), "q": _slices(e=5)}

    def taken(**settings: str) -> dict[str, list[str]]:
        named = {f"{PLAN}{name.replace('_', '.')}": value for name, value in settings.items()}
        found = within_limits(slices, ClusteringScope.resolve(named))
        return {path: [each.file_id[0] for each in own] for path, own in found.items()}

    everything = {"p": ["a", "b", "c", "d"], "q": ["e"]}
    assert taken() == everything
    assert taken(max_num_groups="1") == {"p": everything["p"]}
    # Of the largest first: b and, as c goes beyond 55 with it, c with d.
    assert taken(max_bytes_per_group="55", max_num_groups="2") == {"p": ["b", "c", "d"]}
    assert taken(single_group_clustering_enabled="false") == {"p": everything["p"]}
