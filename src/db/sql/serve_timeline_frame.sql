-- Serves: the page Timeline.  The window, the middle of the one before it and of the one after it, and a row
-- for each mark on its scale.
-- $1 the middle of the window (null: it ends now), $2 how long it is, $3 between two marks, of which there
-- are eight or so: a hundred are the end of it.
with frame as (
  select e.at, e.until - $2::interval as since, e.until
  from (
    select m.at, coalesce(m.at + $2::interval / 2, statement_timestamp()) as until
    from (select pgrab_tool.moment($1::text) as at) m) e)
select to_char(f.since, 'YYYY-MM-DD HH24:MI:SS') as since, to_char(f.until, 'YYYY-MM-DD HH24:MI:SS') as until,
  to_char(f.until - $2::interval / 2, 'YYYY-MM-DD"T"HH24:MI:SSOF') as middle,
  to_char(f.since - $2::interval / 2, 'YYYY-MM-DD"T"HH24:MI:SSOF') as earlier,
  case when f.until < statement_timestamp()
    then to_char(f.until + $2::interval / 2, 'YYYY-MM-DD"T"HH24:MI:SSOF') end as later,
  to_char(f.at, 'YYYY-MM-DD HH24:MI:SS') as at,
  to_char(m.mark, case when $3::interval < '1 minute' then 'HH24:MI:SS' else 'HH24:MI' end) as mark,
  (extract(epoch from m.mark - f.since) / extract(epoch from $2::interval))::float8 as x
from frame f
  cross join generate_series(1, 100) n(no)
  cross join lateral (
    select date_bin($3::interval, f.since, date_trunc('day', f.since)) + n.no * $3::interval as mark) m
where m.mark <= f.until
order by m.mark
