-- What is to be done once in the cluster: those who wait in line of a limit and may go now; lanes that are
-- missing; is something held by nobody?  Serves: recover of the first node.  (Two that think they are first
-- find each other's marks.)  Answers whether there are limits at all: then it is to be asked every second.
select pgrab_internal.limit_tick(), pgrab_internal.lanes_tick(), exists (select from pgrab.limit),
  exists (select from pgrab_internal.orphans())
