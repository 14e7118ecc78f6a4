"""A few seeds of the order of docs/waiting.md, and its checker held against histories that are wrong."""
import collections
import datetime

import pytest

from arena import run_seed
from orders import History, Order, OrderArena, check
from waits import Call, Sent

SEEDS = [1, 2, 3]

Run = collections.namedtuple("Run", "name outcome ended finished_at output signals")
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone.utc)
BY_ANN = {"chain": {"signals": [{"payload": {"by": "ann"}}]}, "order": {"output": 'x\n"ann"'}}


def run(name, outcome, seconds, ended=None, output=None, signals=None):
    return Run(name, outcome, ended, NOON + datetime.timedelta(seconds=seconds), output, signals)


def good(form, refunded):
    """The history of order 1, as a dict of what it is made of."""
    after = 2 if refunded else 9
    what = "refund" if refunded else "ship"
    h = {"orders": [Order(1, form, "never" if refunded else "approved", 2.0 if refunded else None)], "payments": [], "shipments": [], "calls": [],
         "sent": [] if refunded else [Sent("approve 1", "ann", True, 0)]}
    if form == "chain":
        h["payments"] = [(1, 9.9)] + [(1, -9.9)] * refunded
        h["shipments"] = [1] * (not refunded)
        h["runs"] = [run("pay 1", "succeeded", 0, "done"),
                     run("approve 1", "timed_out", after, "parked") if refunded else run("approve 1", "succeeded", after, "done", **BY_ANN[form])]
    else:
        h["calls"] = [Call("approve 1", "pay", "k-pay", "1", NOON.timestamp()), Call("approve 1", what, f"k-{what}", "1", NOON.timestamp() + after)]
        h["runs"] = [run("approve 1", "waited", 0), run("approve 1", "succeeded", after, "done", **({"output": '"refund 1"'} if refunded else BY_ANN[form]))]
    return h


def faults(h):
    return sorted({fault.split()[0] for fault in check(History(**h))})


@pytest.mark.parametrize("refunded", [False, True], ids=["shipped", "refunded"])
@pytest.mark.parametrize("form", ["chain", "order"])
def test_a_good_history_has_no_fault(form, refunded):
    assert faults(good(form, refunded)) == []


def repeated(calls, what, **changes):
    return calls + [next(c for c in calls if c.what == what)._replace(**changes)]


SHIPPED, REFUNDED = (lambda form: good(form, False)), (lambda form: good(form, True))


@pytest.mark.parametrize("what, h, changes", [
    ("I14 nothing follows", SHIPPED("chain"), {"shipments": []}),
    ("I14 nothing is paid", SHIPPED("chain"), {"payments": []}),
    ("I14 both", REFUNDED("chain"), {"shipments": [1]}),
    ("I14 handler: nothing follows", SHIPPED("order"), {"calls": good("order", False)["calls"][:1]}),
    ("I14 handler: it has not ended", SHIPPED("order"), {"runs": good("order", False)["runs"][:1]}),
    ("I14 approved and refunded", REFUNDED("chain"), {"sent": [Sent("approve 1", "ann", True, 0)]}),
    ("I14 its day was cut", {**REFUNDED("chain"), "orders": [Order(1, "chain", "approved", None)]}, {}),
    ("I14 nobody had approved", SHIPPED("order"), {"sent": []}),
    ("I15 paid twice", SHIPPED("chain"), {"payments": [(1, 9.9), (1, 9.9)]}),
    ("I15 refunded twice", REFUNDED("chain"), {"payments": [(1, 9.9), (1, -9.9), (1, -9.9)]}),
    ("I15 shipped twice", SHIPPED("chain"), {"shipments": [1, 1]}),
    ("I16 two keys", SHIPPED("order"), {"calls": repeated(good("order", False)["calls"], "pay", key="other"),
                                        "runs": [run("approve 1", "lost", 0)] + good("order", False)["runs"]}),
    ("I16 again, and nothing died", SHIPPED("order"), {"calls": repeated(good("order", False)["calls"], "pay")}),
    ("I17 two count", SHIPPED("chain"), {"sent": [Sent("approve 1", "ann", True, 0), Sent("approve 1", "bob", True, 0)]}),
    ("I17 another counts", SHIPPED("order"), {"sent": [Sent("approve 1", "bob", True, 0), Sent("approve 1", "ann", False, 0)]}),
    ("I18 early", {**REFUNDED("chain"), "orders": [Order(1, "chain", "never", 2.5)]}, {}),
    ("I18 handler: early", {**REFUNDED("order"), "orders": [Order(1, "order", "never", 2.5)]}, {}),
    ("I18 handler: without a wait", REFUNDED("order"), {"runs": good("order", True)["runs"][1:]}),
], ids=lambda value: value if isinstance(value, str) else "")
def test_the_checker_sees(what, h, changes):
    assert what.split()[0] in faults({**h, **changes})


@pytest.mark.private_server
@pytest.mark.deadline(120)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_of_orders_violates_nothing(cluster, tmp_path, seed):
    found, counts = run_seed(cluster, seed, str(tmp_path), OrderArena)
    assert not found, "\n".join(found)
    assert counts["starts"] >= 30, "handlers were called"
