-- Creates the schemas and the tables of migrate itself, if they do not exist.  A schema that an administrator
-- has created for us is used as it is.
--
-- The setting is for this transaction.  Without it, Citus creates our functions on other servers, where our
-- tables are not; on a server without Citus nobody reads it.  See docs/adr/0026-one-server.md.
-- Serves: db/migrate.c, before every migration; `pgrab sql`.
do $$
begin
  perform set_config('citus.enable_ddl_propagation', 'off', true);
  if to_regnamespace('pgrab') is null then
    create schema pgrab;
    comment on schema pgrab is
      'Distributed task scheduler. Insert into pgrab.task; look at pgrab.overview, pgrab.tasks, pgrab.late, '
      'pgrab.history, pgrab.nodes.';
  end if;
  if to_regnamespace('pgrab_internal') is null then
    create schema pgrab_internal;
    comment on schema pgrab_internal is
      'What only nodes, triggers and views of pgrab call. For users there is the schema pgrab.';
  end if;
  if to_regnamespace('pgrab_tool') is null then
    create schema pgrab_tool;
    comment on schema pgrab_tool is
      'What the commands, pages, views and triggers of pgrab call with the rights of their caller. For users '
      'there is the schema pgrab.';
  end if;
  if to_regnamespace('pgrab_sql') is null then
    create schema pgrab_sql;
    grant usage on schema pgrab_sql to public;
    comment on schema pgrab_sql is
      'What nodes call on connections of the owners of sql tasks. The owners need no other right.';
  end if;
  if to_regclass('pgrab.migration') is null then
    create table pgrab.migration (
      version       integer     not null,
      name          text        not null,
      breaking      boolean     not null,
      pgrab_version text        not null,
      applied_at    timestamptz not null default clock_timestamp(),
      applied_by    text        not null default session_user,
      constraint migration_pkey primary key (version)
    );
    comment on table pgrab.migration is
      'Which numbered migrations this schema has. Written by `pgrab migrate`.';
    comment on column pgrab.migration.version is 'Number of the migration.';
    comment on column pgrab.migration.name is 'Its file.';
    comment on column pgrab.migration.breaking is
      'True: a program that does not know this migration must not use the schema.';
    comment on column pgrab.migration.pgrab_version is 'Version of the program that applied it.';
    comment on column pgrab.migration.applied_at is 'When.';
    comment on column pgrab.migration.applied_by is 'The role that applied it.';
    create table pgrab.api (
      only_row      boolean     not null default true,
      hash          text        not null,
      pgrab_version text        not null,
      applied_at    timestamptz not null default clock_timestamp(),
      applied_by    text        not null default session_user,
      constraint api_pkey primary key (only_row),
      constraint api_only_row_check check (only_row)
    );
    comment on table pgrab.api is
      'Which functions and views this schema has: one row. Written by `pgrab migrate`.';
    comment on column pgrab.api.only_row is 'Always true: there is one row.';
    comment on column pgrab.api.hash is
      'Hash of the text of all functions and views; when it differs, `pgrab migrate` applies them again.';
    comment on column pgrab.api.pgrab_version is 'Version of the program that applied them.';
    comment on column pgrab.api.applied_at is 'When.';
    comment on column pgrab.api.applied_by is 'The role that applied them.';
  end if;
end $$
