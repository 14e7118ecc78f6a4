-- Is anything installed?  Serves: migrate.
select to_regclass('pgrab.migration') is not null and to_regclass('pgrab.api') is not null
