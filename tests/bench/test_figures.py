"""What a comparison makes of the figures it was given."""
import compare
import meter
import pytest
import server
import table
import targets
from workloads import WORKLOADS, Sizes, Workload


def test_a_ratio_is_the_median_of_the_ratios_of_neighbouring_rounds():
    # The machine was twice as slow in the second round and four times in the third, for both: the ratio is 2 in each.
    workload = Workload("w", "", None, ("pgrab", "other"))
    results = {"pgrab": [{"rate": 400.0}, {"rate": 200.0}, {"rate": 100.0}], "other": [{"rate": 200.0}, {"rate": 100.0}, {"rate": 50.0}]}
    assert compare.ratios(workload, results) == {("rate", "pgrab", "other"): 2.0}
    assert compare.medians(results) == {"pgrab": {"rate": 200.0}, "other": {"rate": 100.0}}


def test_a_contender_that_was_left_out_makes_no_ratio():
    workload = Workload("w", "", None, ("pgrab", "other"))
    assert compare.ratios(workload, {"pgrab": [{"rate": 1.0}]}) == {}


@pytest.mark.parametrize("value, words", [(1.49, "missed"), (1.5, "met"), (1.6, "met")])
def test_a_lower_bound(value, words):
    assert targets.verdict(("drain", "rate", "pgrab", "graphile-worker"), value) == f">= 1.5, {words}"


@pytest.mark.parametrize("value, words", [(2.01, "missed"), (2.0, "met")])
def test_an_upper_bound(value, words):
    assert targets.verdict(("due", "p99_ms", "pgrab"), value) == f"<= 2, {words}"


def test_every_bound_is_of_a_workload():
    named = {workload.name: workload for workload in WORKLOADS}
    for name, measure, *sides in targets.BOUNDS:
        assert name in named
        if len(sides) == 2:
            assert measure in named[name].measures and tuple(sides) in named[name].pairs


def test_the_summary_has_ratios_and_bounded_figures():
    report = {"due": {"ratios": [["p50_ms", "pgrab", "pg-boss", 0.001]], "medians": {"pgrab": {"p99_ms": 3.0}}}}
    assert compare.summary(report) == [["due: pgrab / pg-boss", "p50_ms", "0.00", ""], ["due: pgrab", "p99_ms", "3.00", "<= 2, missed"]]


def test_the_brief_comparison_has_every_target_that_needs_no_millions_of_rows():
    class args:
        workload, without, brief, scale = [], [], True, 1.0
    assert {w.name for w in compare.chosen(args)} == {name for name, *_ in targets.BOUNDS} - {"history", "backlog", "snapshot"}
    assert args.scale == compare.BRIEF_SCALE


def test_what_a_target_names_is_the_same_at_every_scale():
    assert [Sizes(scale, False).same(100_000) for scale in (0.5, 1)] == [100_000, 100_000]
    assert Sizes(1, True).same(100_000) == Sizes(1, True).of(100_000) == 50


def test_the_table_says_where_others_are_faster():
    compared = {"benchmark": "compare", "runs": 5, "workloads": {
        "drain": {"ratios": [["rate", "pgrab", "graphile-worker", 0.8], ["rate", "pgrab", "floor", 0.9], ["wal_b", "pgrab", "pg-boss", 1.5]],
                  "medians": {"pgrab": {"rate": 8000.0, "wal_b": 9.0}, "graphile-worker": {"rate": 10000.0}, "floor": {"rate": 9000.0}}},
        "latency": {"ratios": [["p50_ms", "pgrab", "pg-boss", 1.1], ["p99_ms", "pgrab", "pg-boss", 0.9]],
                    "medians": {"pgrab": {"p50_ms": 1.1, "p99_ms": 9.0}, "pg-boss": {"p50_ms": 1.0, "p99_ms": 10.0}}}}}
    counted = {"benchmark": "statements", "head": ["statement", "ratio", "should be"], "rows": [["look", "1.00", "<= 1.05, met"]]}
    lines = table.tables([compared, counted])
    assert lines[:5] == ["| where | side | beside | of | is | the other | ratio |", "| --- | --- | --- | --- | --: | --: | --: |",
                         "| drain | pgrab | graphile-worker | /s | 8,000 | 10,000 | 0.80 |",
                         "| latency | pgrab | pg-boss | p50 ms | 1.10 | 1.00 | 1.10 |", ""]
    assert lines[-4:] == ["", "| statement | ratio | should be |", "| --- | --: | --- |", "| look | 1.00 | <= 1.05, met |"]


def test_cpu_of_a_tree_counts_each_tick_once():
    # pid -> (parent, own ticks, those of children it has waited for)
    table = {1: (0, 1000, 0), 10: (1, 5, 7), 11: (10, 3, 0), 12: (11, 2, 1), 20: (1, 50, 0)}
    assert meter.tree_cpu_s([10], table=table) * meter.TICKS == 18
    assert meter.tree_cpu_s([10], without=(11,), table=table) * meter.TICKS == 15
    assert meter.tree_cpu_s([99], table=table) == 0


def test_the_committed_configuration_keeps_commits_durable():
    settings = server.settings_of(server.CONFIG)
    assert settings["shared_preload_libraries"] == "pg_stat_statements"
    assert not {"fsync", "synchronous_commit", "full_page_writes"} & set(settings)
