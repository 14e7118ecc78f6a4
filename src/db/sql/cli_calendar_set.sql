-- Serves: pgrab calendar NAME.  Makes it, if there is none.  $1 name, $2 weekdays that are closed, with
-- commas between them, or the text none; null: as it is, and Saturday and Sunday of a new one.
with days as (
  select case lower($2::text) when 'none' then '{}'::text[]
    else string_to_array(replace(lower($2), ' ', ''), ',') end as closed),
there as (
  update pgrab.calendar c set closed_weekdays = coalesce(d.closed, c.closed_weekdays)
  from days d where c.name = $1::text and $2 is not null returning c.name)
insert into pgrab.calendar (name, closed_weekdays)
select $1, coalesce(d.closed, '{sat,sun}') from days d
where not exists (select from there) and not exists (select from pgrab.calendar c where c.name = $1)
