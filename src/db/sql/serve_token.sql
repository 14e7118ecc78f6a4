-- Serves: every request with a token.  Plan: token_pkey.  The last use is written once a minute.  $1 the
-- token.
with t as materialized (
  select t.hash, t.role, t.last_used_at from pgrab.token t
  where t.hash = sha256(convert_to($1::text, 'UTF8')) and t.expires_at > statement_timestamp()),
used as (
  update pgrab.token x set last_used_at = statement_timestamp()
  from t
  where x.hash = t.hash
    and coalesce(t.last_used_at < statement_timestamp() - interval '1 minute', true))
select t.role from t
