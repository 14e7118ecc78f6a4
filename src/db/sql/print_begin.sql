-- Nothing below is looked up by the search_path of the role that applies it, which has more rights than those
-- that can create functions and operators in a schema on that path.  For the session, not for the
-- transaction, because a tool may apply the text without one.
-- Serves: `pgrab sql`.
do $$
begin
  perform pg_catalog.set_config('pgrab.search_path', pg_catalog.current_setting('search_path'), false),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
end $$
