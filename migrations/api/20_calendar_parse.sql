-- The calendar, first part: reading a schedule.  Only functions, no tables, no state between calls.
--
-- A schedule is first compiled (schedule_compile) into bit sets, then asked for its next fire: see
-- 21_calendar_next.sql for going from one fire to the next, 22_calendar_fires.sql for what others call.
--
-- The compiled form, bigint[10]:
--   1  flags: 1 wildcard hour, 2 every day, 4 either day field is enough, 16 @every, 32 @after
--   2  seconds 0-59 (@every, @after: the interval in seconds)     3  minutes 0-59     4  hours 0-23
--   5  days 1-31 in bits 1-31; bit 0 = L; bits 32-62 = 1W-31W; bit 63 = LW           6  months 1-12
--   7  days of the week in bits 0-6 (Sunday 0); bits 7-41 = d#n at 7n+d; bits 42-48 = dL
--   8  first second of the day, 9 of the hour, 10 of the minute, that the time fields allow
-- Every name is schema-qualified, because a SET clause would cost more than the work itself.  Operators are
-- not: a SECURITY DEFINER caller sets its search_path, as it must anyway, and that applies here, too.

-- --------------------------------------------------------------------------------------------- small helpers

-- x & -x is a power of two up to 2^62, exact in a float8, so the rounded logarithm is exact too.
create or replace function pgrab_internal.lowest_bit(p_bits bigint) returns integer
language sql immutable parallel safe
return (pg_catalog.ln((p_bits & -p_bits)::pg_catalog.float8) * 1.4426950408889634)::pg_catalog.int4;
comment on function pgrab_internal.lowest_bit is
  'Number of the lowest bit set, 0-62. The caller makes sure that one is set.';

create or replace function pgrab_internal.schedule_quote(p_text text) returns text
language sql immutable parallel safe
return '"' || pg_catalog.regexp_replace(pg_catalog.left(p_text, 80), '[[:cntrl:]]', '?', 'g')
  || case when pg_catalog.length(p_text) > 80 then '...' else '' end || '"';
comment on function pgrab_internal.schedule_quote is
  'A value as error messages show it: quoted, cut at 80 characters, control characters replaced.';

create or replace function pgrab_internal.schedule_refuse(p_schedule text, p_what text, p_hint text)
returns bigint
language plpgsql immutable parallel safe as $$
begin
  raise exception using errcode = '22023',
    message = 'invalid schedule ' || pgrab_internal.schedule_quote(p_schedule) || ': ' || p_what,
    hint = p_hint;
end $$;
comment on function pgrab_internal.schedule_refuse is
  'Raises the error for every bad schedule: SQLSTATE 22023, the value, what is wrong, and a HINT.';

-- ------------------------------------------------------------------------------------------------ time zones

create or replace function pgrab_internal.zone_hint(p_timezone text) returns text
language sql stable parallel safe
begin atomic
  select coalesce('Did you mean "' || pg_catalog.min(z.name) || '"? ', '')
    || 'Use an IANA zone name such as UTC or Europe/Berlin: select name from pg_timezone_names.'
  from pg_catalog.pg_timezone_names as z
  where z.name ~ '^[A-Z][A-Za-z]+/'
    and pg_catalog.lower(pg_catalog.split_part(z.name, '/', -1))
      = pg_catalog.lower(pg_catalog.split_part(p_timezone, '/', -1));
end;
comment on function pgrab_internal.zone_hint is
  'What to write instead of an unknown zone; slow (it reads the whole zone directory), so only for errors.';

-- Names of places, and the few other names that mean the same to IANA and to AT TIME ZONE.
create or replace function pgrab_internal.zone_known(p_timezone text) returns boolean
language sql immutable parallel safe
return p_timezone ~* ('^(Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Brazil|Canada|Chile'
    || '|Europe|Indian|Mexico|Pacific|US)/[a-z_/-]+$')
  or p_timezone ~* '^Etc/(UTC|UCT|GMT|Universal|Zulu|Greenwich|GMT0|GMT[+-]([0-9]|1[0-2])|GMT-1[34])$'
  or pg_catalog.lower(p_timezone) in (
    'utc', 'uct', 'gmt', 'gmt0', 'gmt+0', 'gmt-0', 'zulu', 'universal', 'greenwich', 'est', 'mst', 'hst',
    'est5edt', 'cst6cdt', 'mst7mdt', 'pst8pdt', 'gb', 'gb-eire', 'nz', 'nz-chat', 'cuba', 'egypt', 'eire',
    'hongkong', 'iceland', 'iran', 'israel', 'jamaica', 'japan', 'kwajalein', 'libya', 'navajo', 'poland',
    'portugal', 'prc', 'roc', 'rok', 'singapore', 'turkey', 'w-su');
comment on function pgrab_internal.zone_known is 'Does this text have the form of an IANA zone name?';

create or replace function pgrab_internal.zone_check(p_timezone text) returns void
language plpgsql stable parallel safe as $$
begin
  if not pgrab_internal.zone_known(p_timezone) then
    raise exception using errcode = '22023',
      message = 'invalid timezone ' || pgrab_internal.schedule_quote(p_timezone)
        || ': not the name of a time zone',
      hint = case
        when p_timezone ~* '^(CET|EET|MET|WET)$' then
          'PostgreSQL reads it as a fixed offset without summer time. '
          'Name a place instead, such as Europe/Berlin or Europe/Athens.'
        when p_timezone ~ '^[A-Za-z]{0,5} ?[+-][0-9:]+$' then
          'In POSIX, the sign of such an offset is reversed. '
          'Name a place such as Europe/Berlin, or Etc/GMT-2 for two hours east of UTC.'
        else pgrab_internal.zone_hint(p_timezone) end;
  end if;
end $$;
comment on function pgrab_internal.zone_check is
  'Refuses what AT TIME ZONE accepts but IANA does not know: abbreviations (CEST, CET: fixed offsets, no '
  'summer time), POSIX forms (UTC+2 is two hours WEST there, and so is a misspelt Europe/Berlin2), the '
  'posix/ and right/ trees, localtime, paths. A well-formed name that does not exist is left to PostgreSQL: '
  'time zone "..." not recognized.';

-- --------------------------------------------------------------------------------- reading a cron expression

create or replace function pgrab_internal.cron_help(p_place integer) returns text
language sql immutable parallel safe
return case p_place
  when 1 then 'Seconds: *, 0-59, a range 10-30, a step */5, 10/5 or 10-30/5, or a list of those: 0,15,30.'
  when 2 then 'Minutes: *, 0-59, a range 10-30, a step */5, 10/5 or 10-30/5, or a list of those: 0,15,30.'
  when 3 then 'Hours: *, 0-23, a range 9-17, a step */2, 8/2 or 8-18/2, or a list of those: 8,12,18.'
  when 4 then 'Days of the month: *, 1-31, a range 1-15, a step */2, 1/2 or 1-15/2, L (last day), 15W '
    '(weekday nearest to the 15th), LW (last weekday), or a list of those: 1,15,L.'
  when 5 then 'Months: *, 1-12 or JAN-DEC, a range 4-9, a step */3, 2/3 or 2-11/3, or a list of those: '
    '3,6,9,12.'
  else 'Days of the week: *, 0-7 or SUN-SAT (0 and 7 are Sunday), a range MON-FRI, a step */2, 1/2 or '
    '1-5/2, 5L (last Friday), 5#3 (third Friday), or a list of those: MON,WED.'
end;
comment on function pgrab_internal.cron_help is
  'The HINT for a field of a cron expression, by its place: 1 second, 2 minute, 3 hour, 4 day-of-month, 5 '
  'month, 6 day-of-week.';

create or replace function pgrab_internal.cron_refuse(
  p_schedule text, p_place integer, p_what text, p_hint text default null) returns bigint
language sql immutable parallel safe
return pgrab_internal.schedule_refuse(
  p_schedule,
  (array['second', 'minute', 'hour', 'day-of-month', 'month', 'day-of-week'])[p_place] || ' ' || p_what,
  coalesce(p_hint, pgrab_internal.cron_help(p_place)));
comment on function pgrab_internal.cron_refuse is
  'Refuses a schedule because of one of its fields, naming the field; the HINT is the field''s grammar '
  'unless a better one is given.';

create or replace function pgrab_internal.cron_value(p_schedule text, p_place integer, p_text text)
returns integer
language plpgsql immutable parallel safe as $$
declare
  c_low constant integer := (array[0, 0, 0, 1, 1, 0])[p_place];
  c_high constant integer := (array[59, 59, 23, 31, 12, 7])[p_place];
  v_value integer;
begin
  if p_text ~ '^[0-9]+$' then
    v_value := pg_catalog.left(p_text, 9);
    if v_value < c_low or v_value > c_high or pg_catalog.length(p_text) > 9 then
      perform pgrab_internal.cron_refuse(
        p_schedule, p_place, p_text || ' is out of range ' || c_low || '-' || c_high);
    end if;
    return v_value;
  elsif p_place = 5 then
    v_value := pg_catalog.array_position('{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}'::text[], p_text);
  elsif p_place = 6 then
    v_value := pg_catalog.array_position('{SUN,MON,TUE,WED,THU,FRI,SAT}'::text[], p_text) - 1;
  end if;
  if v_value is null then
    perform pgrab_internal.cron_refuse(
      p_schedule, p_place, pgrab_internal.schedule_quote(p_text) || ' is not a number or a name');
  end if;
  return v_value;
end $$;
comment on function pgrab_internal.cron_value is
  'One number or name of a cron field, checked against the range of the field; the text is in capitals. '
  'Sunday may be 0 or 7.';

create or replace function pgrab_internal.cron_day(p_schedule text, p_place integer, p_part text)
returns bigint
language plpgsql immutable parallel safe as $$
declare
  v_match text[];
begin
  if p_place = 4 then
    if p_part = 'L' then
      return 1;
    elsif p_part in ('LW', 'WL') then
      return 1::bigint << 63;
    elsif p_part ~ '^[0-9]+W$' then
      return 1::bigint << (31 + pgrab_internal.cron_value(p_schedule, 4, pg_catalog.rtrim(p_part, 'W')));
    end if;
  elsif p_place = 6 then
    v_match := pg_catalog.regexp_match(p_part, '^([0-9]+|[A-Z]{3})(L|#[1-5])$');
    if v_match is not null then
      return 1::bigint << (pgrab_internal.cron_value(p_schedule, 6, v_match[1]) % 7
        + case v_match[2] when 'L' then 42 else 7 * pg_catalog.substr(v_match[2], 2)::integer end);
    end if;
  end if;
  return pgrab_internal.cron_refuse(p_schedule, p_place,
    case p_part when '' then 'is empty somewhere between its commas'
      else pgrab_internal.schedule_quote(p_part) || ' cannot be read' end);
end $$;
comment on function pgrab_internal.cron_day is
  'The parts of day fields that depend on the month: L, LW, nW in day-of-month, dL and d#n in day-of-week. '
  'Refuses anything else.';

-- The usual two digits are read here; cron_value() reads and checks everything else.
create or replace function pgrab_internal.cron_bound(
  p_schedule text, p_place integer, p_text text, p_low integer, p_high integer) returns integer
language sql immutable parallel safe
return case when p_text ~ '^[0-9]{1,2}$' and p_text::integer between p_low and p_high then p_text::integer
  else pgrab_internal.cron_value(p_schedule, p_place, p_text) end;
comment on function pgrab_internal.cron_bound is 'One end of a range in a cron field.';

create or replace function pgrab_internal.cron_step(
  p_schedule text, p_place integer, p_text text, p_places integer)
returns bigint
language plpgsql immutable parallel safe as $$
declare
  v_step integer := pg_catalog.left(p_text, 9);
  v_bits bigint := 1;
begin
  if v_step not between 1 and p_places then
    perform pgrab_internal.cron_refuse(
      p_schedule, p_place, 'step ' || pg_catalog.left(p_text, 20) || ' is out of range 1-' || p_places,
      'A step counts within its field and starts again in the next '
        || (array['minute', 'hour', 'day', 'month', 'year', 'week'])[p_place]
        || '. For a fixed distance use @every, such as @every 90m.');
  end if;
  while v_step < 60 loop
    v_bits := v_bits | (v_bits << v_step);
    v_step := 2 * v_step;
  end loop;
  return v_bits;
end $$;
comment on function pgrab_internal.cron_step is
  'Every n-th bit, made by doubling; refuses a step that is longer than its field.';

create or replace function pgrab_internal.cron_range(p_schedule text, p_place integer, p_part text[])
returns bigint
language plpgsql immutable parallel safe as $$
declare
  c_low constant integer := (array[0, 0, 0, 1, 1, 0])[p_place];
  c_high constant integer := (array[59, 59, 23, 31, 12, 6])[p_place];
  v_from integer := c_low;
  v_to integer := c_high;
  v_bits bigint := -1;
begin
  if p_part[1] <> '*' then
    v_from := pgrab_internal.cron_bound(p_schedule, p_place, p_part[1], c_low, c_high);
    if p_part[2] is not null then
      v_to := case when p_place = 6 and p_part[2] = 'SUN' then 7
        else pgrab_internal.cron_bound(p_schedule, p_place, p_part[2], c_low, c_high) end;
    elsif p_part[3] is null then
      v_to := v_from;
    elsif v_from > v_to then
      v_from := 0;                        -- 7/n: Sunday, as 0/n
    end if;
  elsif p_part[2] is not null then
    perform pgrab_internal.cron_refuse(
      p_schedule, p_place, pgrab_internal.schedule_quote('*-' || p_part[2]) || ' cannot be read');
  end if;
  if v_from > v_to then
    perform pgrab_internal.cron_refuse(
      p_schedule, p_place, 'range ' || p_part[1] || '-' || p_part[2] || ' goes backwards',
      pg_catalog.format('A range does not wrap around: write %s-%s,%s-%s.',
        p_part[1], c_high, c_low, p_part[2]));
  end if;
  if p_part[3] is not null then
    v_bits := pgrab_internal.cron_step(p_schedule, p_place, p_part[3], c_high - c_low + 1);
  end if;
  return (v_bits << v_from) & ((1::bigint << (v_to + 1)) - 1);
end $$;
comment on function pgrab_internal.cron_range is
  'Bits of one part [from, to, step] of a cron field: *, a, a-b, */n, a-b/n, and a/n = from a to the end of '
  'the field every n.';

create or replace function pgrab_internal.cron_field(p_schedule text, p_place integer, p_field text)
returns bigint
language plpgsql immutable parallel safe as $$
declare
  c_range constant text := '^([*]|[0-9]+|[A-Z]{3})(?:-([0-9]+|[A-Z]{3}))?(?:/([0-9]+))?$';
  v_part text;
  v_match text[];
  v_bits bigint := 0;
  v_days bigint := 0;
begin
  foreach v_part in array
    pg_catalog.string_to_array(pg_catalog.translate(pg_catalog.upper(p_field), '?', '*'), ',')
  loop
    -- the commonest parts, valid in all these fields, need no regular expression
    if v_part in ('0', '15', '30', '45') and p_place <= 2 or v_part in ('1', '2', '3', '4', '5', '6') then
      v_bits := v_bits | (1::bigint << v_part::integer);
      continue;
    end if;
    v_match := pg_catalog.regexp_match(v_part, c_range);
    if v_match is not null then
      v_bits := v_bits | pgrab_internal.cron_range(p_schedule, p_place, v_match);
    else
      v_days := v_days | pgrab_internal.cron_day(p_schedule, p_place, v_part);
    end if;
  end loop;
  if p_place = 6 then
    v_bits := (v_bits | (v_bits >> 7)) & 127;
  end if;
  return v_bits | v_days;
end $$;
comment on function pgrab_internal.cron_field is
  'The bit set of one field of a cron expression, by its place (1 second ... 6 day-of-week); refuses what '
  'it cannot read.';

-- A short cut for the most common fields; cron_field() reads the others, five times slower.  Every n-th of 60
-- bits, when n divides 60, is (2^60 - 1) / (2^n - 1).
create or replace function pgrab_internal.cron_time_field(p_schedule text, p_place integer, p_field text)
returns bigint
language sql immutable parallel safe
return case when p_field = '*' then case p_place when 3 then 16777215 else 1152921504606846975 end
  when p_field ~ '^([01]?[0-9]|2[0-3])$' or p_place < 3 and p_field ~ '^[0-5]?[0-9]$'
    then 1::bigint << p_field::integer
  when p_place < 3 and p_field ~ '^[*]/([1-6]|10|12|15|20|30)$'
    then 1152921504606846975 / ((1::bigint << pg_catalog.substr(p_field, 3)::integer) - 1)
  else pgrab_internal.cron_field(p_schedule, p_place, p_field) end;
comment on function pgrab_internal.cron_time_field is 'The bit set of a second, a minute or an hour.';

create or replace function pgrab_internal.cron_day_field(p_schedule text, p_place integer, p_field text)
returns bigint
language sql immutable parallel safe
return case when p_field = '*' then case p_place when 4 then 4294967294 when 5 then 8190 else 127 end
  when p_place = 4 and p_field ~ '^([1-9]|[12][0-9]|3[01])$' or p_place = 5 and p_field ~ '^([1-9]|1[0-2])$'
    or p_place = 6 and p_field ~ '^[0-6]$' then 1::bigint << p_field::integer
  when p_place = 6 and p_field in ('1-5', 'MON-FRI') then 62
  else pgrab_internal.cron_field(p_schedule, p_place, p_field) end;
comment on function pgrab_internal.cron_day_field is
  'The bit set of a day of the month, a month or a day of the week.';

-- -------------------------------------------------------------------------------------- reading the schedule

create or replace function pgrab_internal.schedule_interval(p_schedule text) returns bigint
language plpgsql immutable parallel safe as $$
declare
  v_text text := pg_catalog.lower(
    pg_catalog.btrim(pg_catalog.substr(p_schedule, pg_catalog.strpos(p_schedule, ' ') + 1)));
  v_seconds numeric;
begin
  if v_text ~ '^[1-9][0-9]{0,3}[smhd]$' then
    return pg_catalog.rtrim(v_text, 'smhd')::bigint
      * case pg_catalog.right(v_text, 1) when 's' then 1 when 'm' then 60 when 'h' then 3600 else 86400 end;
  elsif pg_catalog.strpos(p_schedule, ' ') = 0 or v_text !~ ('^([0-9]+ ?(w|weeks?|d|days?|h|hrs?|hours?'
      || '|m|mins?|minutes?|s|secs?|seconds?) ?)+$') then
    perform pgrab_internal.schedule_refuse(p_schedule, 'its interval cannot be read',
      'Write whole numbers with units w, d, h, m, s: @every 90s, @every 1h30m, @after 5m. '
      'A month has no fixed length: use a cron expression.');
  end if;
  select pg_catalog.sum(m.part[1]::numeric
    * case m.part[2] when 'w' then 604800 when 'd' then 86400 when 'h' then 3600 when 'm' then 60 else 1 end)
  into v_seconds
  from pg_catalog.regexp_matches(v_text, '([0-9]+) ?([a-z])', 'g') as m(part);
  if v_seconds < 1 or v_seconds > 3155760000 then
    perform pgrab_internal.schedule_refuse(p_schedule, 'its interval is out of range',
      'An interval is at least one second and at most 100 years (36525d).');
  end if;
  return v_seconds;
end $$;
comment on function pgrab_internal.schedule_interval is
  'Seconds of "@every 1h30m" or "@after 90 s". A day is 24 hours here, whatever the clocks do.';

create or replace function pgrab_internal.schedule_fields_refuse(
  p_schedule text, p_text text, p_fields integer)
returns bigint
language sql immutable parallel safe
return case
  when p_text like '@%' then pgrab_internal.schedule_refuse(p_schedule, 'unknown word',
    'The words are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every 90s and '
    '@after 90s.')
  when p_text = '' then pgrab_internal.schedule_refuse(p_schedule, 'it is empty',
    'Write null for a task that runs once; a schedule is like */5 * * * *, @daily or @every 90s.')
  when p_text ~* '^(every )?[0-9]+ ?(w|d|h|m|s|weeks?|days?|hours?|min|minutes?|sec|seconds?)$'
    then pgrab_internal.schedule_refuse(p_schedule, 'it is not a cron expression',
    'For a fixed distance write @every 90s (or @after 90s: from the end of the last run).')
  when p_fields = 7 then pgrab_internal.schedule_refuse(p_schedule, 'it has 7 fields',
    'The year field of Quartz is not supported: leave it out and set ends_at.')
  when p_fields not in (5, 6) then pgrab_internal.schedule_refuse(p_schedule,
    'it has ' || p_fields || case p_fields when 1 then ' field' else ' fields' end,
    'Write five fields (minute hour day-of-month month day-of-week), six with leading seconds, or @daily, '
    '@every 90s, @after 90s.') end;
comment on function pgrab_internal.schedule_fields_refuse is
  'Refuses what is not a cron expression; p_text is the schedule with single spaces, p_fields the number of '
  'its fields.';

create or replace function pgrab_internal.schedule_fields(p_schedule text) returns text[]
language plpgsql immutable parallel safe as $$
declare
  v_text text;
  v_field text[];
begin
  if pg_catalog.length(p_schedule) > 1000 then
    perform pgrab_internal.schedule_refuse(p_schedule,
      'it has ' || pg_catalog.length(p_schedule) || ' characters', 'A schedule has at most 1000 characters.');
  end if;
  v_text := pg_catalog.btrim(pg_catalog.regexp_replace(p_schedule, E'[ \t]+', ' ', 'g'));
  v_text := case pg_catalog.lower(v_text)
    when '@yearly' then '0 0 1 1 *' when '@annually' then '0 0 1 1 *' when '@monthly' then '0 0 1 * *'
    when '@weekly' then '0 0 * * 0' when '@daily' then '0 0 * * *' when '@midnight' then '0 0 * * *'
    when '@hourly' then '0 * * * *' else v_text end;
  v_field := pg_catalog.string_to_array(v_text, ' ');
  if v_text ~* '^@(every|after)( |$)' then
    return array[pg_catalog.lower(v_field[1]), pgrab_internal.schedule_interval(v_text)::text];
  end if;
  perform pgrab_internal.schedule_fields_refuse(p_schedule, v_text, pg_catalog.cardinality(v_field));
  return v_field;
end $$;
comment on function pgrab_internal.schedule_fields is
  'The fields of a schedule that is not simply five or six fields with single spaces: with extra white '
  'space, an @word, or @every/@after (returned as {@every,seconds}). Refuses what is none of these.';

create or replace function pgrab_internal.cron_compile(p_schedule text, p_field text[]) returns bigint[]
language plpgsql immutable parallel safe as $$
declare
  c_at constant integer := pg_catalog.cardinality(p_field) - 5;  -- p_field[c_at + 1] is the minute
  v_second bigint := 1;
  v_minute bigint;
  v_hour bigint;
  v_day bigint;
  v_month bigint;
  v_weekday bigint;
  v_first integer[];
  v_flags integer;
begin
  if c_at = 1 then
    v_second := pgrab_internal.cron_time_field(p_schedule, 1, p_field[1]);
  end if;
  v_minute := pgrab_internal.cron_time_field(p_schedule, 2, p_field[c_at + 1]);
  v_hour := pgrab_internal.cron_time_field(p_schedule, 3, p_field[c_at + 2]);
  v_day := pgrab_internal.cron_day_field(p_schedule, 4, p_field[c_at + 3]);
  v_month := pgrab_internal.cron_day_field(p_schedule, 5, p_field[c_at + 4]);
  v_weekday := pgrab_internal.cron_day_field(p_schedule, 6, p_field[c_at + 5]);
  v_first := array[pgrab_internal.lowest_bit(v_hour) * 3600, pgrab_internal.lowest_bit(v_minute) * 60,
    pgrab_internal.lowest_bit(v_second)];
  v_flags := case when p_field[c_at + 2] ~ '^[*?]' then 1 else 0 end
    | case when v_day = 4294967294 and v_weekday = 127 then case when v_month = 8190 then 2 else 0 end
      when p_field[c_at + 3] !~ '^[*?]' and p_field[c_at + 5] !~ '^[*?]' then 4 else 0 end;
  return array[v_flags, v_second, v_minute, v_hour, v_day, v_month, v_weekday,
    v_first[1] + v_first[2] + v_first[3], v_first[2] + v_first[3], v_first[3]];
end $$;
comment on function pgrab_internal.cron_compile is
  'The fields of a cron expression, five or six, as bit sets.';

create or replace function pgrab_internal.schedule_compile(p_schedule text) returns bigint[]
language plpgsql immutable strict parallel safe as $$
declare
  v_field text[] := pg_catalog.string_to_array(p_schedule, ' ');
  v_cron bigint[];
begin
  if pg_catalog.cardinality(v_field) not in (5, 6) or '' = any (v_field) or v_field[1] like '@%'
     or pg_catalog.strpos(p_schedule, e'\t') > 0 or pg_catalog.length(p_schedule) > 1000 then
    v_field := pgrab_internal.schedule_fields(p_schedule);
    if pg_catalog.cardinality(v_field) = 2 then
      return array[case v_field[1] when '@every' then 16 else 32 end, v_field[2]::bigint, 0, 0, 0, 0, 0, 0, 0,
        0];
    end if;
  end if;
  v_cron := pgrab_internal.cron_compile(p_schedule, v_field);
  -- Like 30 February: only days that some months lack, or two day fields that must both match, need checking.
  if v_cron[1] & 6 = 0 and v_cron[5] <> 4294967294 and (v_cron[5] & 536870910 = 0 or v_cron[7] <> 127)
     and pgrab_internal.cron_next(v_cron, 946684800) is null then
    perform pgrab_internal.schedule_refuse(p_schedule, 'it can never fire',
      'No month that it names has such a day: check the day fields against the month field.');
  end if;
  return v_cron;
end $$;
comment on function pgrab_internal.schedule_compile is
  'A schedule as bit sets, for next_fire_compiled(). Immutable: keep the result next to the text to save '
  'reading it again. Refuses (22023, with a HINT) whatever cannot be read or can never fire.';
