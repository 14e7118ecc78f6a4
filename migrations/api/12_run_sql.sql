-- What a node calls to run the text of a sql task, on a connection whose session_user is the task's owner:
--
--   begin; check_run(); the statements; settle(); finish(); commit
--
-- The node sends SELECT, INSERT and the like as they are, and reads their rows as they arrive.  Other
-- statements go through run(), and the last one through run_last().
--
-- These functions have a schema of their own, so that an owner needs no other right: every role may call
-- them.  check_run() and finish() have the rights of pgrab's owner and require the run's proof (run_proof(),
-- 26_finish.sql), which the node has and the text does not.  The others do only what the owner could do
-- directly.  They run with the search_path of the text, so all names are schema-qualified, operators
-- included.

-- Why a function: EXECUTE inside PL/pgSQL refuses COMMIT, ROLLBACK, SAVEPOINT, COPY from or to the client,
-- and CALL of a procedure that commits.  Each fails with PostgreSQL's own error and aborts the transaction.
create or replace function pgrab_sql.run(p_statement text) returns void
language plpgsql as $$
begin
  execute p_statement;
end $$;
comment on function pgrab_sql.run is 'Executes one statement of a sql task.';

create or replace function pgrab_sql.call_of(p_params text[]) returns text
language sql immutable
begin atomic
  -- Parameters get their types from the statement, as in any driver; only quoted literals reach EXECUTE.
  select 'execute pgrab_statement (' || string_agg(quote_nullable(p), ', ' order by n) || ')'
  from unnest(p_params) with ordinality u(p, n);
end;
comment on function pgrab_sql.call_of is
  'The EXECUTE of the prepared statement with these parameters, as a text.';

create or replace function pgrab_sql.line_of(p_row json, p_limit integer) returns text
language sql immutable
begin atomic
  select coalesce(
    (select left(string_agg(coalesce(left(j.value, p_limit + 1), ''), '|'), p_limit + 1)
    from json_each_text(p_row) j), '');
end;
comment on function pgrab_sql.line_of is
  'A row as text, columns separated by |, cut just beyond p_limit characters.';

-- Rows that are not kept are still executed.
create or replace function pgrab_sql.rows_of(p_cursor refcursor, p_limit integer) returns text
language plpgsql as $$
declare
  v_row record;
  v_line text;
  v_lines text[] := '{}';
  v_left integer := p_limit; -- bytes
  v_moved bigint := 0;
begin
  loop
    fetch p_cursor into v_row;
    exit when not found;
    v_line := pgrab_sql.line_of(pg_catalog.row_to_json(v_row), p_limit);
    v_lines := pg_catalog.array_append(v_lines, v_line);
    v_left := v_left operator(pg_catalog.-) pg_catalog.octet_length(v_line) operator(pg_catalog.-) 1;
    if v_left operator(pg_catalog.<) 0 then
      move forward all in p_cursor;
      get diagnostics v_moved = row_count;
    end if;
  end loop;
  if v_moved operator(pg_catalog.>) 0 then
    v_lines := pg_catalog.array_append(v_lines, pg_catalog.concat('... ', v_moved, ' rows dropped ...'));
  end if;
  return pg_catalog.array_to_string(v_lines, E'\n');
end $$;
comment on function pgrab_sql.rows_of is 'The rows of a cursor as text, about p_limit bytes of them.';

create or replace function pgrab_sql.run_last(p_statement text, p_params text[], p_limit integer)
returns text
language plpgsql as $$
declare
  v_text text := p_statement;
  v_cursor refcursor;
  v_output text := '';
begin
  if pg_catalog.cardinality(p_params) operator(pg_catalog.>) 0 then
    execute pg_catalog.concat('prepare pgrab_statement as ', p_statement);
    v_text := pgrab_sql.call_of(p_params);
  end if;
  begin
    open v_cursor for execute v_text;
  exception when invalid_cursor_definition then
    v_cursor := null; -- it returns no rows; nothing was executed yet
  end;
  if v_cursor is null then
    execute v_text;
  else
    v_output := pgrab_sql.rows_of(v_cursor, p_limit);
    close v_cursor;
  end if;
  if v_text operator(pg_catalog.<>) p_statement then
    deallocate pgrab_statement;
  end if;
  return v_output;
end $$;
comment on function pgrab_sql.run_last is
  'Executes the last statement of a sql task, with parameters; returns its rows as text, columns separated '
  'by |, about p_limit bytes of them.';

-- DISCARD ALL, which no function may call, but without DISCARD PLANS: plans are no user's state, and planning
-- the finish again costs more than the finish.  The node's own prepared statements stay, too.  Nothing here
-- can end what an extension keeps in the session (dblink its connections, a language its variables); the ones
-- listed are known to keep nothing.  Advisory locks are not released here: that would be before the commit,
-- and a session that waits for one would not see the work that the lock guards.
create or replace function pgrab_sql.clean() returns text
language plpgsql as $$
declare
  v_name text;
  v_made text[];
  v_names_kept boolean;
  v_unknown boolean;
begin
  execute 'close all';
  set session authorization default;
  reset all;
  unlisten *;
  discard temp;
  discard sequences;
  -- One query, because reading pg_prepared_statements copies the text of each.
  select exists (
      select from pg_catalog.pg_extension e
      where e.extname operator(pg_catalog.<>) all ('{plpgsql,pg_stat_statements,pgcrypto,uuid-ossp,citext,
        hstore,ltree,pg_trgm,btree_gin,btree_gist,intarray,cube,earthdistance,fuzzystrmatch,isn,seg,unaccent,
        tablefunc,lo,bloom,pg_buffercache,pgstattuple,pageinspect,pg_visibility,pg_freespacemap,pgrowlocks,
        pg_prewarm,pg_walinspect,amcheck,tsm_system_rows,tsm_system_time,dict_int,pgtap,postgis,vector,
        pg_cron,pg_partman}'::pg_catalog.name[])),
    pg_catalog.bool_or(not p.from_sql)
      and pg_catalog.bool_and(not (p.from_sql and pg_catalog.starts_with(p.name, 'pgrab_'))),
    pg_catalog.array_agg(p.name) filter (where p.from_sql)
  into v_unknown, v_names_kept, v_made
  from pg_catalog.pg_prepared_statements p;
  foreach v_name in array coalesce(v_made, '{}') loop
    execute pg_catalog.format('deallocate %I', v_name);
  end loop;
  return case when v_unknown then 'extension' when v_names_kept then null else 'names' end;
end $$;
comment on function pgrab_sql.clean is
  'Leaves nothing but advisory locks in the session of a sql task that the next one would find. Returns '
  'null, or what may be wrong all the same. extension: one may keep something, and the connection must be '
  'closed. names: the text has dropped what the node had prepared (DEALLOCATE ALL), or replaced it with its '
  'own.';

-- What would run at COMMIT runs here, before the finish: deferred constraint triggers, and cursors WITH HOLD
-- (clean()).  A role, a search_path or a timeout that the text has set must not affect the finish, and
-- nothing of a user's runs after this.  So the settings that sql_open.sql makes are made again; and a timeout
-- of the role itself must not end the finish: the work is done, and its end may wait for a lock for as long
-- as the run may take.
create or replace function pgrab_sql.settle(p_application_name text) returns text
language plpgsql as $$
declare
  v_left text;
begin
  set constraints all immediate;
  v_left := pgrab_sql.clean();
  perform pg_catalog.set_config('application_name', p_application_name, true),
    pg_catalog.set_config('client_connection_check_interval', '1s', true),
    pg_catalog.set_config('idle_in_transaction_session_timeout', '60s', true),
    pg_catalog.set_config('lock_timeout', '0', true), pg_catalog.set_config('statement_timeout', '0', true);
  if pg_catalog.current_setting('transaction_read_only') operator(pg_catalog.=) 'on'
    and not pg_catalog.pg_is_in_recovery()
  then
    raise exception using errcode = 'feature_not_supported',
      message = 'the transaction is read-only, so the end of the run cannot be written in it',
      hint = 'Neither the text nor its role (default_transaction_read_only) may make it read-only.';
  end if;
  return v_left;
end $$;
comment on function pgrab_sql.settle is
  'Ends what the text of a sql task has left open, before the finish; returns what clean() returns. Refuses '
  'a transaction that was made read-only.';

create or replace function pgrab_sql.check_run(p_id bigint, p_version bigint, p_proof text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pgrab_internal.trace_set(t.traceparent, t.id, t.version) from pgrab.task t
  where t.id = p_id and t.version = p_version and t.status = 'running' and t.owner = session_user
    and p_proof = pgrab_internal.run_proof(t.incarnation, t.id, t.version);
  if not found then
    perform pgrab_internal.run_lost(p_id);
  end if;
end $$;
comment on function pgrab_sql.check_run is
  'For a node: is this run of a task of session_user still the node''s own? Raises serialization_failure if '
  'not.';

create or replace function pgrab_sql.finish(
  p_id bigint, p_version bigint, p_proof text, p_began_us bigint, p_output text, p_truncated boolean)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_incarnation bigint;
  v_node_id bigint;
  v_node text;
begin
  select t.incarnation, t.node_id, n.name into v_incarnation, v_node_id, v_node
  from pgrab.task t left join pgrab.registration n on n.id = t.node_id
  where t.id = p_id and t.version = p_version and t.status = 'running' and t.owner = session_user
    and p_proof = pgrab_internal.run_proof(t.incarnation, t.id, t.version);
  if not found then
    perform pgrab_internal.run_lost(p_id);
  end if;
  perform pgrab_internal.finish_run(p_id, p_version, v_incarnation, p_began_us,
    left(p_output, 65536), p_truncated, v_node_id, v_node);
end $$;
comment on function pgrab_sql.finish is
  'For a node: records the success of a run of a task of session_user, in the transaction of the text. '
  'Raises serialization_failure when the run is no longer the node''s own.';

-- Each run of the group has its own proof.
create or replace function pgrab_sql.finish_runs(
  p_ids bigint[], p_versions bigint[], p_proofs text[], p_began_us bigint[], p_ended_us bigint[],
  p_outputs text[], p_truncated boolean[])
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  v_incarnations bigint[];
  v_proven bigint[];
  v_node_id bigint;
  v_node text;
begin
  select array_agg(distinct t.incarnation), array_agg(t.id), min(t.node_id), min(n.name)
  into v_incarnations, v_proven, v_node_id, v_node
  from unnest(p_ids, p_versions, p_proofs) u(id, version, proof)
    join pgrab.task t on t.id = any (array[u.id]) and t.version = u.version
    left join pgrab.registration n on n.id = t.node_id
  where t.status = 'running' and t.owner = session_user
    and u.proof = pgrab_internal.run_proof(t.incarnation, t.id, t.version);
  if cardinality(v_proven) is distinct from cardinality(p_ids) or cardinality(v_incarnations) > 1 then
    perform pgrab_internal.run_lost(u.id) from unnest(p_ids) u(id)
    where cardinality(v_incarnations) > 1 or u.id <> all (coalesce(v_proven, '{}'));
  end if;
  perform pgrab_internal.finish_runs(p_ids, p_versions, v_incarnations[1], p_began_us, p_ended_us,
    array(select left(o.output, 65536) from unnest(p_outputs) with ordinality o(output, n) order by o.n),
    p_truncated, v_node_id, v_node);
end $$;
comment on function pgrab_sql.finish_runs is
  'For a node: records the success of several runs of tasks of session_user, in the transaction of their '
  'texts. Raises serialization_failure when one of them is no longer the node''s own.';

create or replace function pgrab_internal.run_lost(p_id bigint) returns void
language plpgsql as $$
begin
  raise exception using errcode = 'serialization_failure',
    message = format('the run of task %s is no longer this node''s', p_id);
end $$;
comment on function pgrab_internal.run_lost is
  'Raises serialization_failure: the run no longer belongs to the node that asks.';

create or replace function pgrab_sql.step(
  p_id bigint, p_version bigint, p_proof text, p_name text, p_output text)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_incarnation bigint;
begin
  select t.incarnation into v_incarnation from pgrab.task t
  where t.id = p_id and t.version = p_version and t.status = 'running' and t.owner = session_user
    and p_proof = pgrab_internal.run_proof(t.incarnation, t.id, t.version);
  perform pgrab_internal.step_run(p_id, p_version, v_incarnation, p_name, p_output);
end $$;
comment on function pgrab_sql.step is
  'For a node: records a step of a run of a task of session_user, in the transaction of its text. Raises '
  'serialization_failure when the run is no longer the node''s own.';

-- For a connection of the node's own role.
create or replace function pgrab_internal.check_run(p_id bigint, p_version bigint, p_incarnation bigint)
returns void
language plpgsql as $$
begin
  perform pgrab_internal.trace_set(t.traceparent, t.id, t.version) from pgrab.task t
  where t.id = p_id and t.version = p_version and t.incarnation = p_incarnation and t.status = 'running';
  if not found then
    perform pgrab_internal.run_lost(p_id);
  end if;
end $$;
comment on function pgrab_internal.check_run is
  'Does this run still belong to that incarnation? Raises serialization_failure if not.';

-- Backends are found by name and database alone: the nodes of one cluster may use several roles.  A backend
-- that this role may not end, or that does not end in time, is left, and does not keep others from being
-- ended.
create or replace function pgrab_internal.end_sql_backends(p_names text[], out ended bigint, out kept bigint)
language plpgsql as $$
declare
  v_pid integer;
  v_until timestamptz := clock_timestamp() + interval '3 s'; -- for all of them
begin
  ended := 0;
  kept := 0;
  for v_pid in
    select a.pid from pg_stat_activity a
    where a.datname = current_database() and a.application_name = any (p_names)
      and a.pid <> pg_backend_pid()
  loop
    begin
      if pg_terminate_backend(
        v_pid, greatest(1, (date_part('epoch', v_until - clock_timestamp()) * 1000)::bigint)) then
        ended := ended + 1;
      else
        kept := kept + 1;
      end if;
    exception when insufficient_privilege then
      kept := kept + 1;
    end;
  end loop;
end $$;
comment on function pgrab_internal.end_sql_backends is
  'Internal: ends the backends of this database that have one of these application names; returns how many '
  'are gone, and how many could not be ended.';
