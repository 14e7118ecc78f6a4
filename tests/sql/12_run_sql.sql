-- What a sql task hands back (migrations/api/12_run_sql.sql): bounded, whatever the rows look like.
begin;
select plan(12);

create function pg_temp.output(p_text text, p_limit integer default 65536) returns text
language sql as $$ select pgrab_sql.run_last(p_text, '{}', p_limit) $$;

select is(pg_temp.output($$values (1, 'a', null::text), (2, 'b', 'c')$$), E'1|a|\n2|b|c',
  'columns by |, rows by line, null is empty');
select is(pg_temp.output('select from generate_series(1, 3)'), E'\n\n',
  'a row without columns is an empty line');
select is(pg_temp.output('create temporary table no_rows (a int)'), '', 'no rows');
select is(pg_temp.output($$values ('aaaaaaaaaa'), ('bbbbb'), ('ccccc'), ('dddd')$$, 12),
  E'aaaaaaaaaa\nbbbbb\n... 2 rows dropped ...', 'cut after the row that goes over the limit');
select is(pgrab_sql.run_last('select $1 + 1, $2', '{41,NULL}', 100), '42|', 'parameters');
select cmp_ok(octet_length(pg_temp.output($$select repeat('x', 20000000)$$)), '<', 66000,
  'one long value is cut');
select cmp_ok(octet_length(pg_temp.output($$select repeat('x', 200000), repeat('y', 200000)$$)), '<', 66000,
  'long values side by side are cut together');
select cmp_ok(octet_length(pg_temp.output($$select repeat('€', 200000)$$)), '<', 4 * 66000,
  'characters of several bytes');
select cmp_ok(octet_length(pg_temp.output('select from generate_series(1, 1000000)')), '<', 66000,
  'a million rows without columns are cut');
select cmp_ok(octet_length(pg_temp.output('select null::int from generate_series(1, 1000000)')), '<', 66000,
  'a million nulls are cut');

create temporary table effect (n int);
select pg_temp.output(
  'with i as (insert into effect select generate_series(1, 100000) returning n) select n from i', 1000);
select is((select count(*) from effect), 100000::bigint, 'what is not kept is executed all the same');
select performs_ok($$select pg_temp.output('select from generate_series(1, 65000)')$$, 2000,
  '65,000 short rows in two seconds, even on a slow machine');

select * from finish();
rollback;
