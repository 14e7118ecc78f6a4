-- One heartbeat: the row after the last one of this node (see pgrab.beat).  0 rows: another node has declared
-- us dead, or our name has a new owner; we are fenced.  It waits for no row lock: a row that another session
-- has locked is left for upkeep to delete.  When the node has become busy, or takes nothing new from here on
-- (or does again), the doorbell tells the others at once.  Returns what users want of us: whether to drain,
-- which of our runs to stop (task and version, separated by spaces), whether an output was requested, and
-- labels, if ours are overridden; and with $10 whether the server can lose nothing that it acknowledges.
-- Serves: heartbeat.  Plan: beat_pkey from the end.  What is the same in all rows is asked once, in
-- subqueries of its own.
-- $1 node, $2 incarnation, $3 state, $4 bell, $5 gauges, $6 what to add to the counts (both arrays: see
-- pgrab.node), $7 busy, $8 ill, $9 do its runs outlast this life of the server, $10 null: they cannot; else:
-- are asynchronous standbys accepted? $11 its crews, $12 the tasks it doubts, $13 why it is so fit, $14 what
-- its runs came to.
:beat
from beat b
