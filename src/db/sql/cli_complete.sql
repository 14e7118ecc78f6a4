-- Serves: pgrab __complete.  Bounded, whatever the tables hold: keys come by index, from the typed text on;
-- names and sources from 20,000 rows; of ids, the newest.  $1 what, $2 the beginning.
select w.word from (
  (select t.key as word, 1 as rank from pgrab.task t
  where $1::text in ('task', 'key') and t.key >= $2::text order by t.key limit 500)
  union all
  (select t.name, 2 from pgrab.task t where $1::text in ('task', 'name') limit 20000)
  union all
  (select t.id::text, 3 from pgrab.task t
  where $1::text = 'task' and ($2::text ~ '^[0-9]+$' or coalesce(t.key, t.name) is null)
  order by t.id desc limit 500)
  union all
  select n.name, 1 from pgrab.node n where $1::text = 'node'
  union all
  select l.key, 1 from pgrab.limit l where $1::text = 'limit'
  union all
  select c.name, 1 from pgrab.calendar c where $1::text = 'calendar'
  union all
  select b.name, 1 from pgrab.blackout b where $1::text = 'blackout'
  union all
  (select t.source, 1 from pgrab.task t where $1::text = 'source' limit 20000)
  union all
  (select w.waits_for, 1 from pgrab.waits w
  where $1::text = 'signal' and w.waits_for not like '(%' limit 20000)
  union all
  select k.kind, 1 from pgrab.kind k where $1::text = 'kind') w
where w.word <> '' and starts_with(w.word, $2::text)
group by w.word
order by min(w.rank), w.word
limit 200
