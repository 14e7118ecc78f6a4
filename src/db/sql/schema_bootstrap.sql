-- What migrations are recorded in.  Serves: migrate.
create schema if not exists pgrab;
comment on schema pgrab is 'pgrab, a task scheduler: insert rows into pgrab.task, look around through the views.';
create table if not exists pgrab.migration (
  version    integer     not null,
  name       text        not null,
  breaking   boolean     not null,
  applied_at timestamptz not null default now(),
  applied_by text        not null default session_user,
  constraint migration_pkey primary key (version)
);
comment on table pgrab.migration is 'Numbered changes of the structure that were applied, by `pgrab migrate`.';
comment on column pgrab.migration.version is 'Number of the file in migrations/.';
comment on column pgrab.migration.name is 'Its name.';
comment on column pgrab.migration.breaking is 'True: programs that do not know it must not touch the schema.';
comment on column pgrab.migration.applied_at is 'When.';
comment on column pgrab.migration.applied_by is 'By which role.';
create table if not exists pgrab.api (
  hash       text        not null,
  applied_at timestamptz not null default now()
);
comment on table pgrab.api is 'One row: which text of the views and functions is installed. They are replaced as a whole.';
comment on column pgrab.api.hash is 'Hash of the text.';
comment on column pgrab.api.applied_at is 'When it was applied.';
