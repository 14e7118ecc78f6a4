-- The search_path as it was.  Serves: `pgrab sql`.
do $$
begin
  perform pg_catalog.set_config('search_path', pg_catalog.current_setting('pgrab.search_path'), false);
end $$
