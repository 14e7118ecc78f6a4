-- Makes the kinds of plugged-in executors and of handlers known, so that tasks can have them.  Serves:
-- register.
-- $1 kinds, $2 summaries, $3 kinds that handler processes carry out.
insert into pgrab.kind as k (kind, summary, handled)
  select u.kind, u.summary, false from unnest($1::text[], $2::text[]) u(kind, summary)
  union all
  select h.kind, 'a handler, see pgrab.pool', true from unnest($3::text[]) h(kind)
  on conflict (kind) do update set handled = true where excluded.handled and not k.handled
