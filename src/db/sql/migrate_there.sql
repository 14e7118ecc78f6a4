-- Is there a schema at all?  Serves: db/migrate.c.
select to_regclass('pgrab.migration') is not null
