-- Executing the text of a sql task, inside the transaction of its finish.

-- Why a function: EXECUTE inside PL/pgSQL refuses COMMIT, ROLLBACK, SAVEPOINT, COPY from or to the client,
-- and CALL of a procedure that commits. Each with an error of PostgreSQL's own, and nothing of the
-- transaction survives it.
create or replace function pgrab_internal.run_sql(p_statements text[], p_params text[], p_limit integer)
returns text
language plpgsql as $$
declare
  v_last constant integer := cardinality(p_statements);
  v_text text;
  v_cursor refcursor;
  v_row record;
  v_line text;
  v_lines text[] := '{}';
  v_bytes bigint := 0;
  v_is_query boolean := true;
begin
  for i in 1 .. v_last - 1 loop
    execute p_statements[i];
  end loop;
  v_text := p_statements[v_last];
  if cardinality(p_params) > 0 then
    -- Parameters get their types from the statement, as in any driver; only quoted literals reach EXECUTE.
    execute 'prepare pgrab_statement as ' || v_text;
    v_text := 'execute pgrab_statement (' || (
      select string_agg(quote_nullable(p), ', ' order by n)
      from unnest(p_params) with ordinality u(p, n)) || ')';
  end if;
  begin
    open v_cursor for execute v_text;
  exception when invalid_cursor_definition then
    v_is_query := false; -- it returns no rows; nothing was executed yet
  end;
  if v_is_query then
    loop
      fetch v_cursor into v_row;
      exit when not found;
      v_line := coalesce((
        select left(string_agg(coalesce(left(j.value, p_limit + 1), ''), '|'), p_limit + 1)
        from json_each_text(row_to_json(v_row)) j), '');
      v_lines := array_append(v_lines, v_line);
      v_bytes := v_bytes + octet_length(v_line) + 1;
      if v_bytes > p_limit then
        move forward all in v_cursor; -- the rest is executed, not kept
        v_lines := v_lines || '... (more rows not kept)'::text;
        exit;
      end if;
    end loop;
    close v_cursor;
  else
    execute v_text;
  end if;
  if cardinality(p_params) > 0 then
    deallocate pgrab_statement;
  end if;
  -- What would run at COMMIT runs here, before the finish: deferred constraint triggers, and cursors held
  -- beyond the transaction.
  set constraints all immediate;
  execute 'close all';
  -- A role, a path or a time-out that the text has set is not for the finish.
  execute 'reset role';
  execute 'reset all';
  return array_to_string(v_lines, E'\n');
end $$;
comment on function pgrab_internal.run_sql(text[], text[], integer) is
  'Internal: executes the statements of a sql task; returns the rows of the last one as text, columns '
  'separated by |, about so many bytes of them at most.';

-- By name and database alone: the nodes of one cluster may use several roles. One that this role may not end,
-- or that does not end in time, is kept, and hinders nobody else's end.
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
comment on function pgrab_internal.end_sql_backends(text[]) is
  'Internal: ends the backends of this database with one of these application names; returns how many are '
  'gone, and how many could not be ended.';
