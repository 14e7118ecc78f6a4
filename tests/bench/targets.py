"""What pgrab is meant to reach, on the machine it is measured on: the last column of a comparison.

Of a ratio: (workload, measure, side, to which side) -> the bound.  Of a figure: (workload, measure, side) -> the bound.
"""
BOUNDS = {
    ("drain", "rate", "pgrab", "graphile-worker"): ">= 1.5",
    ("drain", "rate", "pgrab", "floor"): ">= 0.85",
    ("drain", "wal_b", "pgrab"): "<= 450",
    ("drain-args", "rate", "pgrab", "graphile-worker"): ">= 1.25",
    ("drain-lz4", "wal_b", "pgrab"): "<= 300",
    ("insert", "rate", "pgrab", "graphile-worker"): ">= 1.2",
    ("insert", "rate", "pgrab"): ">= 120000",
    ("insert-8", "rate", "pgrab", "graphile-worker"): ">= 1.5",
    ("latency", "p50_ms", "pgrab", "graphile-worker"): "<= 0.8",
    ("latency", "p99_ms", "pgrab", "graphile-worker"): "<= 0.8",
    ("due", "p99_ms", "pgrab"): "<= 2",
    ("sql", "rate", "pgrab"): ">= 4000",
    ("sql-group", "rate", "pgrab", "graphile-worker"): ">= 0.5",
    ("sql-group", "rate", "pgrab"): ">= 4000",
    ("shell", "rate", "pgrab", "graphile-worker"): ">= 2.0",
    ("shell", "rate", "pgrab"): ">= 1000",
    ("exec", "rate", "pgrab"): ">= 1000",
    ("http", "rate", "pgrab", "graphile-worker"): ">= 1.0",
    ("http", "rate", "pgrab"): ">= 3000",
    ("handlers", "rate", "pgrab-js", "graphile-worker"): ">= 1.0",
    ("handlers", "rate", "pgrab-js", "graphile-plain"): ">= 1.0",
    ("handlers", "rate", "pgrab-js"): ">= 8000",
    ("chain", "rate", "links, 10 deep", "independent"): ">= 0.77",
    ("chain", "server_us", "links, 10 deep", "independent"): "<= 1.5",
    ("recurring-burst", "clear_ms", "pgrab"): "<= 1500",
    ("nodes", "rate", "8 nodes", "1 node"): ">= 0.95",
    ("backlog", "rate", "10M", "no backlog"): ">= 0.95",
    ("history", "rate", "10M", "no history"): ">= 0.95",
    ("snapshot", "rate", "pgrab, held", "pgrab"): ">= 0.8",
}


def verdict(key, value):
    """'>= 1.5, missed' and the like; empty without a bound."""
    return judged(BOUNDS[key], value) if key in BOUNDS else ""


def judged(bound, value):
    number = float(bound.split()[1])
    met = value >= number if bound.startswith(">") else value <= number
    return f"{bound}, {'met' if met else 'missed'}"
