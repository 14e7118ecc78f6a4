"""What a comparison makes of the figures it was given."""
import compare
import meter
import pytest
import server
import targets
import workers
from workloads import WORKLOADS, Workload


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
    named = {workload.name: workload for workload in [*WORKLOADS, *workers.WORKLOADS]}
    for name, measure, *sides in targets.BOUNDS:
        assert name in named
        if len(sides) == 2:
            assert measure in named[name].measures and tuple(sides) in named[name].pairs


def test_the_summary_has_ratios_and_bounded_figures():
    report = {"due": {"ratios": [["p50_ms", "pgrab", "pg-boss", 0.001]], "medians": {"pgrab": {"p99_ms": 3.0}}}}
    assert compare.summary(report) == [["due: pgrab / pg-boss", "p50_ms", "0.00", ""], ["due: pgrab", "p99_ms", "3.00", "<= 2, missed"]]


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
