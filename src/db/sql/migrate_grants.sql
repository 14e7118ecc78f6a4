-- After the api: what the database's own roles had been granted on its views and functions before they were
-- dropped (migrate_drop_api.sql), where they are still there.
-- Serves: db/migrate.c, `pgrab sql --from`.
do $$
declare
  v_grant text;
begin
  for v_grant in
    select g from jsonb_array_elements_text(coalesce(nullif(
      current_setting('pgrab.grants', true), ''), '[]')::jsonb) g
  loop
    begin
      execute v_grant;
    exception when undefined_table or undefined_column or undefined_function or undefined_object then
      null; -- this version has it no more, or with other parameters
    end;
  end loop;
end $$
