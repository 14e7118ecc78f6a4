"""Days pass in seconds; two years of them: scripts/years."""
import datetime as dt

import pytest
from years import DAY, LIBRARY, UTC, Years, moments

pytestmark = [pytest.mark.private_server, pytest.mark.deadline(120), pytest.mark.skipif(not LIBRARY.exists(), reason="faketime is not installed")]


@pytest.mark.parametrize("begin, count", [(dt.datetime(2027, 10, 30, 0, 0, 30, tzinfo=UTC), 2), (dt.datetime(2028, 2, 28, 0, 0, 30, tzinfo=UTC), 2)],
                         ids=["clocks change, on a 31st", "29 February"])
def test_each_fire_comes_once_however_the_clock_jumps(cluster, tmp_path, begin, count):
    end = begin + count * DAY
    years = Years(cluster, tmp_path, seed=begin.year)
    try:
        assert years.run(begin, end) == []
        # And the judge would see it.
        last = moments(begin, end)[-1]
        lost = next(row for row in years.rows if row[0] == "quarter" and row[1] <= last)
        del years.rows[lost]
        years.rows["last", last - DAY / 3, 1, 1, "succeeded"] = "succeeded"
        years.judge(last)
        assert len(years.faults) == 2
    finally:
        years.close()
