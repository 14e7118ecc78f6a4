-- The calendar: when does a schedule fire?  Functions only, no tables, nothing remembered between calls.
--
-- A schedule is first compiled (schedule_compile) into bit sets, then asked for its next fire (next_fire_compiled).
-- Two kinds of numbers run through this file, both bigint seconds since 1970:
--   an *instant* counts elapsed seconds (UTC); a *local* second is what a wall clock in the zone shows, read as if UTC.
--   local = instant + shift, and the shift is all that a time zone is.
-- Daylight saving: a schedule with a wildcard hour matches every instant whose local time matches (elapsed time).
-- Any other follows a clock that never goes back: it fires at the first instant at which local time has *reached* the
-- wanted time.  So what a gap skips fires once, right after the gap, and what an overlap repeats fires the first time.
-- No zone since 1970 changed its shift twice within three days; the look-arounds of one and two days below rely on it.
--
-- The compiled form, bigint[10]:
--   1  flags: 1 wildcard hour, 2 every day, 4 either day field is enough, 16 @every, 32 @after
--   2  seconds 0-59 (@every, @after: the interval in seconds)     3  minutes 0-59     4  hours 0-23
--   5  days 1-31 in bits 1-31; bit 0 = L; bits 32-62 = 1W-31W; bit 63 = LW           6  months 1-12
--   7  days of the week in bits 0-6 (Sunday 0); bits 7-41 = d#n at 7n+d; bits 42-48 = dL
--   8  first second of the day, 9 of the hour, 10 of the minute, that the time fields allow
-- Every name is schema-qualified instead of a SET clause, which would cost more than the work itself. Operators are not:
-- a SECURITY DEFINER caller sets its search_path, as it must anyway, and that holds in here.

-- ---------------------------------------------------------------------------------------------- small helpers

create or replace function pgrab_internal.lowest_bit(p_bits bigint) returns integer
language sql immutable parallel safe as $$
  -- x & -x is a power of two up to 2^62, exact in a float8, so the rounded logarithm is exact too
  select (pg_catalog.ln((p_bits & -p_bits)::pg_catalog.float8) * 1.4426950408889634)::pg_catalog.int4
$$;
comment on function pgrab_internal.lowest_bit(bigint) is
  'Number of the lowest bit set, 0-62. The caller makes sure that one is set.';

create or replace function pgrab_internal.zone_shift(p_timezone text, p_instant bigint) returns bigint
language sql stable parallel safe as $$
  select pg_catalog.date_part('epoch', pg_catalog.timezone(p_timezone, pg_catalog.to_timestamp(p_instant)))::pg_catalog.int8
         - p_instant
$$;
comment on function pgrab_internal.zone_shift(text, bigint) is
  'Seconds by which local time in the zone is ahead of UTC at that instant.';

create or replace function pgrab_internal.schedule_quote(p_text text) returns text
language sql immutable parallel safe as $$
  select '"' || pg_catalog.regexp_replace(pg_catalog.left(p_text, 80), '[[:cntrl:]]', '?', 'g')
             || case when pg_catalog.length(p_text) > 80 then '...' else '' end || '"'
$$;
comment on function pgrab_internal.schedule_quote(text) is
  'A value as error messages show it: quoted, cut at 80 characters, control characters replaced.';

create or replace function pgrab_internal.schedule_refuse(p_schedule text, p_what text, p_hint text) returns bigint
language plpgsql immutable parallel safe as $$
begin
  raise exception using
    errcode = '22023',
    message = 'invalid schedule ' || pgrab_internal.schedule_quote(p_schedule) || ': ' || p_what,
    hint = p_hint;
end
$$;
comment on function pgrab_internal.schedule_refuse(text, text, text) is
  'Raises the one error that every bad schedule ends in: SQLSTATE 22023, the value, what is wrong, and a HINT.';

-- ------------------------------------------------------------------------------------------------- time zones

create or replace function pgrab_internal.zone_hint(p_timezone text) returns text
language sql stable parallel safe as $$
  select coalesce('Did you mean "' || pg_catalog.min(z.name) || '"? ', '')
         || 'Use an IANA zone name such as UTC or Europe/Berlin: select name from pg_timezone_names.'
    from pg_catalog.pg_timezone_names as z
   where z.name ~ '^[A-Z][A-Za-z]+/'
     and pg_catalog.lower(pg_catalog.split_part(z.name, '/', -1)) = pg_catalog.lower(pg_catalog.split_part(p_timezone, '/', -1))
$$;
comment on function pgrab_internal.zone_hint(text) is
  'What to write instead of an unknown zone; slow (it reads the whole zone directory), so only for errors.';

create or replace function pgrab_internal.zone_check(p_timezone text) returns void
language plpgsql stable parallel safe as $$
declare
  v_hint text;
begin
  -- names of places, and those few without a place that mean the same to IANA and to AT TIME ZONE
  if p_timezone ~* ('^(Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Brazil|Canada|Chile|Europe|Indian|Mexico|Pacific|US)'
                    || '/[a-z_/-]+$')
     or p_timezone ~* '^Etc/(UTC|UCT|GMT|Universal|Zulu|Greenwich|GMT0|GMT[+-]([0-9]|1[0-2])|GMT-1[34])$'
     or pg_catalog.lower(p_timezone) in (
       'utc', 'uct', 'gmt', 'gmt0', 'gmt+0', 'gmt-0', 'zulu', 'universal', 'greenwich', 'est', 'mst', 'hst', 'est5edt', 'cst6cdt',
       'mst7mdt', 'pst8pdt', 'gb', 'gb-eire', 'nz', 'nz-chat', 'cuba', 'egypt', 'eire', 'hongkong', 'iceland', 'iran', 'israel',
       'jamaica', 'japan', 'kwajalein', 'libya', 'navajo', 'poland', 'portugal', 'prc', 'roc', 'rok', 'singapore', 'turkey', 'w-su')
  then
    return;
  end if;
  v_hint := case
    when p_timezone ~* '^(CET|EET|MET|WET)$' then
      'PostgreSQL reads it as a fixed offset without summer time. Name a place instead, such as Europe/Berlin or Europe/Athens.'
    when p_timezone ~ '^[A-Za-z]{0,5} ?[+-][0-9:]+$' then
      'Such an offset has its sign the wrong way round in POSIX. '
        || 'Name a place such as Europe/Berlin, or Etc/GMT-2 for two hours east of UTC.'
    else pgrab_internal.zone_hint(p_timezone)
  end;
  raise exception using
    errcode = '22023', message = 'invalid timezone ' || pgrab_internal.schedule_quote(p_timezone) || ': not the name of a time zone', hint = v_hint;
end
$$;
comment on function pgrab_internal.zone_check(text) is
  'Refuses what AT TIME ZONE takes but IANA does not know: abbreviations (CEST, CET: fixed offsets, no summer time), POSIX '
  'forms (UTC+2 is two hours WEST there, and so is a misspelt Europe/Berlin2), the posix/ and right/ trees, localtime, paths. '
  'A well-formed name that does not exist is left to PostgreSQL itself: time zone "..." not recognized.';

-- ------------------------------------------------------------------------------------- reading a cron expression

create or replace function pgrab_internal.cron_help(p_place integer) returns text
language sql immutable parallel safe as $$
  select case p_place
    when 1 then 'Seconds: *, 0-59, a range 10-30, a step */5, 10/5 or 10-30/5, or a list of those: 0,15,30.'
    when 2 then 'Minutes: *, 0-59, a range 10-30, a step */5, 10/5 or 10-30/5, or a list of those: 0,15,30.'
    when 3 then 'Hours: *, 0-23, a range 9-17, a step */2, 8/2 or 8-18/2, or a list of those: 8,12,18.'
    when 4 then 'Days of the month: *, 1-31, a range 1-15, a step */2, 1/2 or 1-15/2, L (last day), 15W (weekday nearest to the 15th), '
             || 'LW (last weekday), or a list of those: 1,15,L.'
    when 5 then 'Months: *, 1-12 or JAN-DEC, a range 4-9, a step */3, 2/3 or 2-11/3, or a list of those: 3,6,9,12.'
    else 'Days of the week: *, 0-7 or SUN-SAT (0 and 7 are Sunday), a range MON-FRI, a step */2, 1/2 or 1-5/2, 5L (last Friday), '
             || '5#3 (third Friday), or a list of those: MON,WED.'
  end
$$;
comment on function pgrab_internal.cron_help(integer) is
  'The HINT for a field of a cron expression, by its place: 1 second, 2 minute, 3 hour, 4 day-of-month, 5 month, 6 day-of-week.';

create or replace function pgrab_internal.cron_refuse(p_schedule text, p_place integer, p_what text, p_hint text default null) returns bigint
language sql immutable parallel safe as $$
  select pgrab_internal.schedule_refuse(
    p_schedule,
    (array['second', 'minute', 'hour', 'day-of-month', 'month', 'day-of-week'])[p_place] || ' ' || p_what,
    coalesce(p_hint, pgrab_internal.cron_help(p_place)))
$$;
comment on function pgrab_internal.cron_refuse(text, integer, text, text) is
  'Refuses a schedule for one of its fields, naming the field; the HINT is the field''s grammar unless a better one is given.';

create or replace function pgrab_internal.cron_value(p_schedule text, p_place integer, p_text text) returns integer
language plpgsql immutable parallel safe as $$
declare
  v_low integer := (array[0, 0, 0, 1, 1, 0])[p_place];
  v_high integer := (array[59, 59, 23, 31, 12, 7])[p_place];
  v_value integer;
begin
  if p_text ~ '^[0-9]+$' then
    v_value := pg_catalog.left(p_text, 9);
    if v_value < v_low or v_value > v_high or pg_catalog.length(p_text) > 9 then
      perform pgrab_internal.cron_refuse(p_schedule, p_place, p_text || ' is out of range ' || v_low || '-' || v_high);
    end if;
    return v_value;
  end if;
  if p_place = 5 then
    v_value := pg_catalog.array_position('{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}'::text[], p_text);
  elsif p_place = 6 then
    v_value := pg_catalog.array_position('{SUN,MON,TUE,WED,THU,FRI,SAT}'::text[], p_text) - 1;
  end if;
  if v_value is null then
    perform pgrab_internal.cron_refuse(p_schedule, p_place, pgrab_internal.schedule_quote(p_text) || ' is not a number or a name');
  end if;
  return v_value;
end
$$;
comment on function pgrab_internal.cron_value(text, integer, text) is
  'One number or name of a cron field, checked against the range of the field; the text is in capitals. Sunday may come as 0 or 7.';

create or replace function pgrab_internal.cron_day(p_schedule text, p_place integer, p_part text) returns bigint
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
    if v_match[2] = 'L' then
      return 1::bigint << (42 + pgrab_internal.cron_value(p_schedule, 6, v_match[1]) % 7);
    elsif v_match is not null then
      return 1::bigint << (7 * pg_catalog.substr(v_match[2], 2)::integer + pgrab_internal.cron_value(p_schedule, 6, v_match[1]) % 7);
    end if;
  end if;
  return pgrab_internal.cron_refuse(p_schedule, p_place, case p_part when '' then 'is empty somewhere between its commas'
                                                 else pgrab_internal.schedule_quote(p_part) || ' cannot be read' end);
end
$$;
comment on function pgrab_internal.cron_day(text, integer, text) is
  'The parts of day fields that depend on the month: L, LW, nW in day-of-month, dL and d#n in day-of-week. Refuses anything else.';

create or replace function pgrab_internal.cron_range(p_schedule text, p_place integer, p_part text[]) returns bigint
language plpgsql immutable parallel safe as $$
declare
  v_low integer := (array[0, 0, 0, 1, 1, 0])[p_place];
  v_high integer := (array[59, 59, 23, 31, 12, 6])[p_place];
  v_from integer := v_low;
  v_to integer := v_high;
  v_step integer;
  v_bits bigint := -1;
begin
  if p_part[1] <> '*' then
    -- the usual two digits right here, cron_value() reads and judges everything else
    v_from := case when p_part[1] ~ '^[0-9]{1,2}$' and p_part[1]::integer between v_low and v_high then p_part[1]::integer
                   else pgrab_internal.cron_value(p_schedule, p_place, p_part[1]) end;
    if p_part[2] is not null then
      v_to := case when p_part[2] ~ '^[0-9]{1,2}$' and p_part[2]::integer between v_low and v_high then p_part[2]::integer
                   when p_place = 6 and p_part[2] = 'SUN' then 7
                   else pgrab_internal.cron_value(p_schedule, p_place, p_part[2]) end;
    elsif p_part[3] is null then
      v_to := v_from;
    elsif v_from > v_to then
      v_from := 0;                        -- 7/n: Sunday, as 0/n
    end if;
  elsif p_part[2] is not null then
    perform pgrab_internal.cron_refuse(p_schedule, p_place, pgrab_internal.schedule_quote('*-' || p_part[2]) || ' cannot be read');
  end if;
  if v_from > v_to then
    perform pgrab_internal.cron_refuse(
      p_schedule, p_place, 'range ' || p_part[1] || '-' || p_part[2] || ' goes backwards',
      pg_catalog.format('A range does not wrap around: write %s-%s,%s-%s.', p_part[1], v_high, v_low, p_part[2]));
  end if;
  if p_part[3] is not null then
    v_step := pg_catalog.left(p_part[3], 9);
    if v_step not between 1 and v_high - v_low + 1 then
      perform pgrab_internal.cron_refuse(
        p_schedule, p_place, 'step ' || pg_catalog.left(p_part[3], 20) || ' is out of range 1-' || v_high - v_low + 1,
        'A step counts within its field and starts anew in the next '
          || (array['minute', 'hour', 'day', 'month', 'year', 'week'])[p_place]
          || '. For a fixed distance use @every, such as @every 90m.');
    end if;
    v_bits := 1;
    while v_step < 60 loop                -- every n-th bit, by doubling
      v_bits := v_bits | (v_bits << v_step);
      v_step := 2 * v_step;
    end loop;
  end if;
  return (v_bits << v_from) & ((1::bigint << (v_to + 1)) - 1);
end
$$;
comment on function pgrab_internal.cron_range(text, integer, text[]) is
  'Bits of one part [from, to, step] of a cron field: *, a, a-b, */n, a-b/n, and a/n = from a to the end of the field every n.';

create or replace function pgrab_internal.cron_field(p_schedule text, p_place integer, p_field text) returns bigint
language plpgsql immutable parallel safe as $$
declare
  v_part text;
  v_match text[];
  v_bits bigint := 0;
  v_days bigint := 0;
begin
  foreach v_part in array pg_catalog.string_to_array(pg_catalog.translate(pg_catalog.upper(p_field), '?', '*'), ',') loop
    -- the parts most lists are made of, valid in these fields, need no expression
    if v_part in ('0', '15', '30', '45') and p_place <= 2 or v_part in ('1', '2', '3', '4', '5', '6') then
      v_bits := v_bits | (1::bigint << v_part::integer);
    else
      v_match := pg_catalog.regexp_match(v_part, '^(\*|[0-9]+|[A-Z]{3})(?:-([0-9]+|[A-Z]{3}))?(?:/([0-9]+))?$');
      if v_match is not null then
        v_bits := v_bits | pgrab_internal.cron_range(p_schedule, p_place, v_match);
      else
        v_days := v_days | pgrab_internal.cron_day(p_schedule, p_place, v_part);
      end if;
    end if;
  end loop;
  if p_place = 6 then
    v_bits := (v_bits | (v_bits >> 7)) & 127;
  end if;
  return v_bits | v_days;
end
$$;
comment on function pgrab_internal.cron_field(text, integer, text) is
  'The bit set of one field of a cron expression, by its place (1 second ... 6 day-of-week); refuses what it cannot read.';

create or replace function pgrab_internal.schedule_interval(p_schedule text) returns bigint
language plpgsql immutable parallel safe as $$
declare
  v_text text := pg_catalog.lower(pg_catalog.btrim(pg_catalog.substr(p_schedule, pg_catalog.strpos(p_schedule, ' ') + 1)));
  v_seconds numeric;
begin
  if v_text ~ '^[1-9][0-9]{0,3}[smhd]$' then
    return pg_catalog.rtrim(v_text, 'smhd')::bigint
           * case pg_catalog.right(v_text, 1) when 's' then 1 when 'm' then 60 when 'h' then 3600 else 86400 end;
  elsif pg_catalog.strpos(p_schedule, ' ') = 0
     or v_text !~ '^([0-9]+ ?(w|weeks?|d|days?|h|hrs?|hours?|m|mins?|minutes?|s|secs?|seconds?) ?)+$' then
    perform pgrab_internal.schedule_refuse(p_schedule, 'its interval cannot be read',
      'Write whole numbers with units w, d, h, m, s: @every 90s, @every 1h30m, @after 5m. '
      || 'A month has no fixed length: use a cron expression.');
  end if;
  select pg_catalog.sum(m.part[1]::numeric * case m.part[2] when 'w' then 604800 when 'd' then 86400 when 'h' then 3600
                                                             when 'm' then 60 else 1 end)
    into v_seconds
    from pg_catalog.regexp_matches(v_text, '([0-9]+) ?([a-z])', 'g') as m(part);
  if v_seconds < 1 or v_seconds > 3155760000 then
    perform pgrab_internal.schedule_refuse(p_schedule, 'its interval is out of range',
      'An interval is at least one second and at most 100 years (36525d).');
  end if;
  return v_seconds;
end
$$;
comment on function pgrab_internal.schedule_interval(text) is
  'Seconds of "@every 1h30m" or "@after 90 s". A day is 24 hours here, whatever the clocks do.';

create or replace function pgrab_internal.schedule_fields(p_schedule text) returns text[]
language plpgsql immutable parallel safe as $$
declare
  v_text text;
  v_field text[];
begin
  if pg_catalog.length(p_schedule) > 1000 then
    perform pgrab_internal.schedule_refuse(p_schedule, 'it has ' || pg_catalog.length(p_schedule) || ' characters',
      'A schedule has at most 1000 characters.');
  end if;
  v_text := pg_catalog.btrim(pg_catalog.regexp_replace(p_schedule, '[ \t]+', ' ', 'g'));
  v_text := case pg_catalog.lower(v_text)
    when '@yearly' then '0 0 1 1 *' when '@annually' then '0 0 1 1 *' when '@monthly' then '0 0 1 * *' when '@weekly' then '0 0 * * 0'
    when '@daily' then '0 0 * * *' when '@midnight' then '0 0 * * *' when '@hourly' then '0 * * * *' else v_text end;
  v_field := pg_catalog.string_to_array(v_text, ' ');
  if v_text ~* '^@(every|after)( |$)' then
    return array[pg_catalog.lower(v_field[1]), pgrab_internal.schedule_interval(v_text)::text];
  elsif v_text like '@%' then
    perform pgrab_internal.schedule_refuse(p_schedule, 'unknown word',
      'The words are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every 90s and @after 90s.');
  elsif v_text = '' then
    perform pgrab_internal.schedule_refuse(p_schedule, 'it is empty',
      'Write null for a task that runs once; a schedule is like */5 * * * *, @daily or @every 90s.');
  elsif v_text ~* '^(every )?[0-9]+ ?(w|d|h|m|s|weeks?|days?|hours?|min|minutes?|sec|seconds?)$' then
    perform pgrab_internal.schedule_refuse(p_schedule, 'it is no cron expression',
      'For a fixed distance write @every 90s (or @after 90s: from the end of the last run).');
  elsif pg_catalog.cardinality(v_field) = 7 then
    perform pgrab_internal.schedule_refuse(p_schedule, 'it has 7 fields',
      'The year field of Quartz is not supported: leave it out and set ends_at.');
  elsif pg_catalog.cardinality(v_field) not in (5, 6) then
    perform pgrab_internal.schedule_refuse(p_schedule,
      'it has ' || pg_catalog.cardinality(v_field) || case pg_catalog.cardinality(v_field) when 1 then ' field' else ' fields' end,
      'Write five fields (minute hour day-of-month month day-of-week), six with leading seconds, or @daily, @every 90s, @after 90s.');
  end if;
  return v_field;
end
$$;
comment on function pgrab_internal.schedule_fields(text) is
  'A schedule that is not simply five or six fields with single spaces: extra white space, @words, @every/@after (answered as '
  '{@every,seconds}), and everything to be refused at this level.';

create or replace function pgrab_internal.schedule_compile(p_schedule text) returns bigint[]
language plpgsql immutable strict parallel safe as $$
declare
  v_field text[] := pg_catalog.string_to_array(p_schedule, ' ');
  v_at integer;                           -- v_field[v_at + 1] is the minute
  v_second bigint := 1;
  v_minute bigint;
  v_hour bigint;
  v_day bigint;
  v_month bigint;
  v_weekday bigint;
  v_flags integer;
  v_cron bigint[];
begin
  if pg_catalog.cardinality(v_field) not in (5, 6) or '' = any (v_field) or v_field[1] like '@%'
     or pg_catalog.strpos(p_schedule, e'\t') > 0 or pg_catalog.length(p_schedule) > 1000 then
    v_field := pgrab_internal.schedule_fields(p_schedule);
    if pg_catalog.cardinality(v_field) = 2 then
      return array[case v_field[1] when '@every' then 16 else 32 end, v_field[2]::bigint, 0, 0, 0, 0, 0, 0, 0, 0];
    end if;
  end if;

  -- the fields that nearly everybody writes are read right here, the others five times slower by cron_field();
  -- every n-th of 60 bits, when n divides 60, is (2^60 - 1) / (2^n - 1)
  v_at := pg_catalog.cardinality(v_field) - 5;
  if v_at = 1 then
    v_second := case when v_field[1] ~ '^[0-5]?[0-9]$' then 1::bigint << v_field[1]::integer
                     else pgrab_internal.cron_field(p_schedule, 1, v_field[1]) end;
  end if;
  v_minute := case when v_field[v_at + 1] = '*' then 1152921504606846975
                   when v_field[v_at + 1] ~ '^[0-5]?[0-9]$' then 1::bigint << v_field[v_at + 1]::integer
                   when v_field[v_at + 1] ~ '^[*]/([1-6]|10|12|15|20|30)$'
                   then 1152921504606846975 / ((1::bigint << pg_catalog.substr(v_field[v_at + 1], 3)::integer) - 1)
                   else pgrab_internal.cron_field(p_schedule, 2, v_field[v_at + 1]) end;
  v_hour := case when v_field[v_at + 2] = '*' then 16777215
                 when v_field[v_at + 2] ~ '^([01]?[0-9]|2[0-3])$' then 1::bigint << v_field[v_at + 2]::integer
                 else pgrab_internal.cron_field(p_schedule, 3, v_field[v_at + 2]) end;
  v_day := case when v_field[v_at + 3] = '*' then 4294967294
                when v_field[v_at + 3] ~ '^([1-9]|[12][0-9]|3[01])$' then 1::bigint << v_field[v_at + 3]::integer
                else pgrab_internal.cron_field(p_schedule, 4, v_field[v_at + 3]) end;
  v_month := case when v_field[v_at + 4] = '*' then 8190
                  when v_field[v_at + 4] ~ '^([1-9]|1[0-2])$' then 1::bigint << v_field[v_at + 4]::integer
                  else pgrab_internal.cron_field(p_schedule, 5, v_field[v_at + 4]) end;
  v_weekday := case when v_field[v_at + 5] = '*' then 127
                    when v_field[v_at + 5] ~ '^[0-6]$' then 1::bigint << v_field[v_at + 5]::integer
                    when v_field[v_at + 5] in ('1-5', 'MON-FRI') then 62
                    else pgrab_internal.cron_field(p_schedule, 6, v_field[v_at + 5]) end;

  v_flags := case when v_field[v_at + 2] ~ '^[*?]' then 1 else 0 end;
  if v_day = 4294967294 and v_weekday = 127 then
    v_flags := v_flags | case when v_month = 8190 then 2 else 0 end;
  elsif v_field[v_at + 3] !~ '^[*?]' and v_field[v_at + 5] !~ '^[*?]' then
    v_flags := v_flags | 4;
  end if;
  v_cron := array[v_flags, v_second, v_minute, v_hour, v_day, v_month, v_weekday,
                  pgrab_internal.lowest_bit(v_hour) * 3600 + pgrab_internal.lowest_bit(v_minute) * 60 + pgrab_internal.lowest_bit(v_second),
                  pgrab_internal.lowest_bit(v_minute) * 60 + pgrab_internal.lowest_bit(v_second), pgrab_internal.lowest_bit(v_second)];

  -- 30 February: only days that some month lacks, or two day fields that must both match, need a look
  if v_flags & 6 = 0 and v_day <> 4294967294 and (v_day & 536870910 = 0 or v_weekday <> 127)
     and pgrab_internal.cron_next(v_cron, 946684800) is null then
    perform pgrab_internal.schedule_refuse(p_schedule, 'it can never fire',
      'No month that it names has such a day: check the day fields against the month field.');
  end if;
  return v_cron;
end
$$;
comment on function pgrab_internal.schedule_compile(text) is
  'A schedule as bit sets, for next_fire_compiled(). Immutable: keep the result beside the text to spare the reading. '
  'Refuses (22023, with a HINT) whatever cannot be read or can never fire.';

-- ------------------------------------------------------------------------------------------- looking for the fire

create or replace function pgrab_internal.cron_days(p_day bigint, p_length integer, p_first integer) returns bigint
language plpgsql immutable parallel safe as $$
declare
  v_bits bigint := p_day & ((1::bigint << (p_length + 1)) - 2);
  v_near bigint := (p_day >> 31) & ((1::bigint << (p_length + 1)) - 2);
  v_day integer;
  v_weekday integer;
begin
  if p_day & 1 <> 0 then
    v_bits := v_bits | (1::bigint << p_length);
  end if;
  if p_day < 0 then                       -- LW: a Saturday goes back one day, a Sunday two
    v_weekday := (p_first + p_length - 1) % 7;
    v_bits := v_bits | (1::bigint << (p_length - case v_weekday when 6 then 1 when 0 then 2 else 0 end));
  end if;
  while v_near <> 0 loop
    v_day := pgrab_internal.lowest_bit(v_near);
    v_near := v_near & (v_near - 1);
    v_weekday := (p_first + v_day - 1) % 7;
    v_bits := v_bits | (1::bigint << (v_day + case
      when v_weekday = 6 then case v_day when 1 then 2 else -1 end
      when v_weekday = 0 then case v_day when p_length then -2 else 1 end
      else 0 end));
  end loop;
  return v_bits;
end
$$;
comment on function pgrab_internal.cron_days(bigint, integer, integer) is
  'Days (bits 1-31) that a day-of-month set with L, LW or nW means in a month of that length whose first is that day of the week. '
  'nW never leaves its month, and a month without day n has no nW.';

create or replace function pgrab_internal.cron_weekdays(p_weekday bigint, p_length integer, p_first integer) returns bigint
language plpgsql immutable parallel safe as $$
declare
  v_bits bigint := 0;
  v_weekday integer;
  v_nth bigint;                           -- bit 0 every such day, 1-5 the n-th, 6 the last
begin
  for v_day in 1 .. p_length loop
    v_weekday := (p_first + v_day - 1) % 7;
    v_nth := p_weekday >> v_weekday;
    if v_nth & 1 <> 0 or (v_nth >> (7 * ((v_day + 6) / 7))) & 1 <> 0 or (v_day > p_length - 7 and (v_nth >> 42) & 1 <> 0) then
      v_bits := v_bits | (1::bigint << v_day);
    end if;
  end loop;
  return v_bits;
end
$$;
comment on function pgrab_internal.cron_weekdays(bigint, integer, integer) is
  'Days (bits 1-31) that a day-of-week set with d#n or dL means in a month of that length whose first is that day of the week.';

create or replace function pgrab_internal.cron_next_day(p_cron bigint[], p_day integer) returns integer
language plpgsql immutable parallel safe as $$
declare
  v_date date := date '1970-01-01' + p_day;
  v_year integer := pg_catalog.date_part('year', v_date);
  v_month integer := pg_catalog.date_part('month', v_date);
  v_start integer := p_day + 1 - pg_catalog.date_part('day', v_date)::integer;   -- number of the first of the month
  v_last integer := v_year + 400;         -- the calendar repeats itself after 400 years
  v_length integer;
  v_first integer;
  v_days bigint;
  v_weekdays bigint;
begin
  while v_year <= v_last loop
    if (p_cron[6] >> v_month) & 1 <> 0 then
      v_length := case when v_month <> 2 then 30 + ((v_month + v_month / 8) & 1)
                       when v_year % 4 = 0 and (v_year % 100 <> 0 or v_year % 400 = 0) then 29 else 28 end;
      v_first := (v_start + 719163) % 7;  -- of the week; the constant makes it positive from the year 1 on
      v_days := case when p_cron[5] & -4294967295 = 0 then p_cron[5] else pgrab_internal.cron_days(p_cron[5], v_length, v_first) end;
      v_weekdays := case when p_cron[7] < 128
                         then (((p_cron[7] | (p_cron[7] << 7)) >> v_first) & 127) * 541098242
                         else pgrab_internal.cron_weekdays(p_cron[7], v_length, v_first) end;
      v_days := case when p_cron[1] & 4 <> 0 then v_days | v_weekdays else v_days & v_weekdays end
                & ((1::bigint << (v_length + 1)) - 1);
      if p_day > v_start then
        v_days := (v_days >> (p_day - v_start + 1)) << (p_day - v_start + 1);
      end if;
      if v_days <> 0 then
        return v_start + pgrab_internal.lowest_bit(v_days) - 1;
      end if;
    end if;
    -- on to the next month that is wanted, in this year or the next
    v_days := p_cron[6] >> (v_month + 1);
    if v_days <> 0 then
      v_month := v_month + 1 + pgrab_internal.lowest_bit(v_days);
    else
      v_month := pgrab_internal.lowest_bit(p_cron[6]);
      v_year := v_year + 1;
    end if;
    v_start := pg_catalog.make_date(v_year, v_month, 1) - date '1970-01-01';
  end loop;
  return null;
end
$$;
comment on function pgrab_internal.cron_next_day(bigint[], integer) is
  'First day that matches a compiled cron expression, from the given one on; days are counted from 1970-01-01. Goes month by month '
  'with the set of its days, and gives up (null) after 400 years, when every calendar has been seen.';

create or replace function pgrab_internal.cron_next(p_cron bigint[], p_local bigint) returns bigint
language plpgsql immutable parallel safe as $$
declare
  v_day integer := (p_local + 62135596800) / 86400 - 719162;
  v_time integer := (p_local + 62135596800) % 86400;
  v_bits bigint;
  v_next integer;
begin
  if p_cron[1] & 2 = 0 then
    v_next := pgrab_internal.cron_next_day(p_cron, v_day);
    if v_next > v_day or v_next is null then
      return v_next * 86400::bigint + p_cron[8];
    end if;
  end if;
  if (p_cron[4] >> (v_time / 3600)) & 1 <> 0 then
    if (p_cron[3] >> (v_time / 60 % 60)) & 1 <> 0 then
      v_bits := p_cron[2] >> (v_time % 60);
      if v_bits <> 0 then
        return p_local + pgrab_internal.lowest_bit(v_bits);
      end if;
    end if;
    v_bits := p_cron[3] >> (v_time / 60 % 60 + 1);
    if v_bits <> 0 then
      return p_local - v_time % 60 + 60 * (1 + pgrab_internal.lowest_bit(v_bits)) + p_cron[10];
    end if;
  end if;
  v_bits := p_cron[4] >> (v_time / 3600 + 1);
  if v_bits <> 0 then
    return p_local - v_time % 3600 + 3600 * (1 + pgrab_internal.lowest_bit(v_bits)) + p_cron[9];
  end if;
  v_day := case when p_cron[1] & 2 <> 0 then v_day + 1 else pgrab_internal.cron_next_day(p_cron, v_day + 1) end;
  return v_day * 86400::bigint + p_cron[8];
end
$$;
comment on function pgrab_internal.cron_next(bigint[], bigint) is
  'First local second that matches a compiled cron expression, from the given one on, whatever clocks do; null if there is none.';

create or replace function pgrab_internal.zone_change(p_timezone text, p_from bigint, p_to bigint) returns bigint
language plpgsql stable parallel safe as $$
declare
  v_shift bigint := pgrab_internal.zone_shift(p_timezone, p_from);
  v_low bigint := p_from;
  v_high bigint := p_to;
  v_middle bigint;
begin
  while v_high - v_low > 1 loop
    v_middle := (v_low + v_high) / 2;
    if pgrab_internal.zone_shift(p_timezone, v_middle) = v_shift then
      v_low := v_middle;
    else
      v_high := v_middle;
    end if;
  end loop;
  return v_high;
end
$$;
comment on function pgrab_internal.zone_change(text, bigint, bigint) is
  'The instant in (from, to] at which the zone changed its shift; there must be exactly one.';

create or replace function pgrab_internal.fire_walk(p_cron bigint[], p_timezone text, p_instant bigint) returns bigint
language plpgsql stable parallel safe as $$
declare
  v_fixed boolean := p_cron[1] & 1 = 0;
  v_from bigint := p_instant;
  v_shift bigint := pgrab_internal.zone_shift(p_timezone, v_from);
  v_done bigint := v_from + v_shift + 1;  -- local times before this are done with
  v_local bigint;
  v_fire bigint;
  v_end bigint;
begin
  if v_fixed and pgrab_internal.zone_shift(p_timezone, v_from - 86400) > v_shift then
    v_end := pgrab_internal.zone_change(p_timezone, v_from - 86400, v_from);
    v_done := greatest(v_done, v_end + pgrab_internal.zone_shift(p_timezone, v_end - 1));
  end if;
  loop
    v_local := pgrab_internal.cron_next(p_cron, greatest(v_from + v_shift, v_done));
    v_fire := v_local - v_shift;
    v_end := least(v_fire, v_from + 172800);
    if v_fire is null then
      return null;
    elsif pgrab_internal.zone_shift(p_timezone, v_end) = v_shift then
      exit when v_end = v_fire;
      -- nothing for two days, so no clock change near where we are: go on shortly before the fire
      v_from := greatest(v_end, v_fire - 259200);
    else
      v_end := pgrab_internal.zone_change(p_timezone, v_from, v_end);
      exit when v_fire < v_end;
      v_from := v_end;
      if v_fixed then
        if v_local < v_end + pgrab_internal.zone_shift(p_timezone, v_end) then
          return v_end;                   -- skipped by the gap: right after it
        end if;
      else
        v_done := v_end + pgrab_internal.zone_shift(p_timezone, v_end);   -- repeated times count again
      end if;
    end if;
    v_shift := pgrab_internal.zone_shift(p_timezone, v_from);
  end loop;
  return v_fire;
end
$$;
comment on function pgrab_internal.fire_walk(bigint[], text, bigint) is
  'First fire after an instant with a change of the clock near by: walks from one stretch of constant shift to the next. '
  'The rules of daylight saving are here and nowhere else.';

create or replace function pgrab_internal.next_fire_compiled(p_cron bigint[], p_timezone text, p_after timestamptz) returns timestamptz
language plpgsql stable strict parallel safe as $$
declare
  v_instant bigint;
  v_shift bigint;
  v_local bigint;
  v_fire bigint;
begin
  if p_cron[1] >= 16 then
    return p_after + pg_catalog.make_interval(secs => p_cron[2]);
  elsif p_after < '0001-01-03 00:00:00Z' or p_after > '9999-12-29 00:00:00Z' then
    return null;
  end if;
  v_instant := pg_catalog.floor(pg_catalog.date_part('epoch', p_after));
  if p_timezone = 'UTC' then
    return pg_catalog.to_timestamp(pgrab_internal.cron_next(p_cron, v_instant + 1));
  elsif p_timezone !~ '^(Europe|America|Asia|Africa|Australia)/[A-Za-z_]+$' then
    perform pgrab_internal.zone_check(p_timezone);
  end if;

  -- nearly always the clocks do not change near by, and two or three looks prove it
  v_shift := pgrab_internal.zone_shift(p_timezone, v_instant);
  v_local := pgrab_internal.cron_next(p_cron, v_instant + 1 + v_shift);
  v_fire := v_local - v_shift;
  if v_fire < v_instant + 172800 then
    if pgrab_internal.zone_shift(p_timezone, v_fire) = v_shift
       and (p_cron[1] & 1 <> 0 or pgrab_internal.zone_shift(p_timezone, v_instant - 86400) = v_shift) then
      return pg_catalog.to_timestamp(v_fire);
    end if;
  elsif p_cron[1] & 1 = 0 or pgrab_internal.zone_shift(p_timezone, v_instant + 86400) = v_shift then
    v_shift := pgrab_internal.zone_shift(p_timezone, v_fire);
    v_fire := v_local - v_shift;
    if pgrab_internal.zone_shift(p_timezone, v_fire - 86400) = v_shift and pgrab_internal.zone_shift(p_timezone, v_fire + 86400) = v_shift then
      return pg_catalog.to_timestamp(v_fire);
    end if;
  end if;
  return pg_catalog.to_timestamp(pgrab_internal.fire_walk(p_cron, p_timezone, v_instant));
end
$$;
comment on function pgrab_internal.next_fire_compiled(bigint[], text, timestamptz) is
  'next_fire() for a schedule that schedule_compile() has read. Null outside the years 1 to 9999.';

-- -------------------------------------------------------------------------------------------------- for everybody

create or replace function pgrab.next_fire(schedule text, timezone text default 'UTC', after timestamptz default pg_catalog.now())
returns timestamptz
language sql stable parallel safe as $$
  select pgrab_internal.next_fire_compiled(pgrab_internal.schedule_compile($1), $2, $3)
$$;
comment on function pgrab.next_fire(text, text, timestamptz) is
  'First fire of a schedule strictly after an instant (now). '
  'Cron: minute hour day-of-month month day-of-week, with an optional leading seconds field; * or ?, a, a-b, a-b/n, */n, a/n (from a, '
  'every n), lists; JAN-DEC, SUN-SAT; 0 and 7 are Sunday (not the 1 = Sunday of Quartz); L, LW, nW in day-of-month, dL (last) and d#n in '
  'day-of-week. When neither day field starts with * or ?, either is enough; otherwise both must match. '
  'Words: @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly. @every 1h30m and @after 90s answer after + the interval: the '
  'caller chooses whether after is the last planned time (every) or the end of the last run (after). '
  'Daylight saving: if the hour field starts with * or ?, every real local time that matches fires, so */15 fires in both repeated hours '
  'and */2 at every even hour the clock shows. Otherwise a time that the clock skips fires once, right after the gap (several: once), '
  'and a time that it repeats fires once, the first time. '
  'Many at once: next_fires(); the same schedule again and again: schedule_compile().';

create or replace function pgrab.fires(schedule text, timezone text, "from" timestamptz, "until" timestamptz) returns setof timestamptz
language sql stable parallel safe as $$
  with recursive rule as materialized (
    select pgrab_internal.schedule_compile($1) as cron
  ), fire(fire_at) as (
    select n.fire_at
      from rule as r
     cross join lateral (select pgrab_internal.next_fire_compiled(r.cron, $2, $3) as fire_at offset 0) as n
     where n.fire_at <= $4
     union all
    select n.fire_at
      from fire as f
     cross join rule as r
     cross join lateral (select pgrab_internal.next_fire_compiled(r.cron, $2, f.fire_at) as fire_at offset 0) as n
     where n.fire_at <= $4
  )
  select f.fire_at from fire as f
$$;
comment on function pgrab.fires(text, text, timestamptz, timestamptz) is
  'All fires of a schedule with from < fire <= until, in order. In FROM it is lazy: with LIMIT it stops there, even when until is '
  'infinity: select * from pgrab.fires(''0 9 * * MON-FRI'', ''Europe/Berlin'', now(), ''infinity'') limit 5.';

create or replace function pgrab_internal.next_fires(schedules text[], timezones text[], after timestamptz[])
returns table (ord integer, fire timestamptz)
language sql stable parallel safe rows 1000 as $$
  -- grouped and unnested rather than joined: a join of three parameter arrays is where the planner guesses badly
  select o.ord, g.fire
    from (select pg_catalog.array_agg(i.ord::integer) as ords,
                 pgrab.next_fire(i.schedule, i.timezone, i.after) as fire
            from rows from (pg_catalog.unnest($1), pg_catalog.unnest($2), pg_catalog.unnest($3)) with ordinality
                 as i(schedule, timezone, after, ord)
           group by i.schedule, i.timezone, i.after) as g
   cross join lateral pg_catalog.unnest(g.ords) as o(ord)
$$;
comment on function pgrab_internal.next_fires(text[], text[], timestamptz[]) is
  'next_fire() for many rows at once, given as three arrays of one length; ord is the place in them. Equal (schedule, timezone, after) '
  'are worked out once, so a hundred thousand tasks due at the same second cost little more than their distinct schedules.';

create or replace function pgrab_internal.schedule_kind(schedule text) returns text
language sql immutable parallel safe as $$
  select case when $1 ~* '^[ \t]*@every[ \t]' then 'every' when $1 ~* '^[ \t]*@after[ \t]' then 'after'
              when $1 is not null then 'cron' end
$$;
comment on function pgrab_internal.schedule_kind(text) is
  '''every'' (fixed rate: the next fire counts from the last planned one), ''after'' (fixed delay: from the end of the last run) '
  'or ''cron''.';

create or replace function pgrab_internal.schedule_fault(p_schedule text, p_timezone text, out fault text, out hint text)
language plpgsql stable as $$
declare
  v_cron bigint[];
  v_local timestamp;
begin
  v_cron := pgrab_internal.schedule_compile(p_schedule);
  if p_timezone is null then
    fault := 'invalid timezone: null';
    hint := 'Use an IANA zone name such as UTC or Europe/Berlin.';
  elsif p_timezone <> 'UTC' then
    perform pgrab_internal.zone_check(p_timezone);
    v_local := pg_catalog.timezone(p_timezone, timestamptz 'epoch');
  end if;
exception when invalid_parameter_value then
  get stacked diagnostics fault = message_text, hint = pg_exception_hint;
  if hint = '' then
    fault := 'invalid timezone ' || pgrab_internal.schedule_quote(p_timezone) || ': there is no such time zone';
    hint := pgrab_internal.zone_hint(p_timezone);
  end if;
end
$$;
comment on function pgrab_internal.schedule_fault(text, text) is
  'What is wrong with a schedule or its time zone, and what would be right: (message, hint), both null when all is well. For a trigger '
  'that raises its own error. Not parallel safe: it catches the error of the reader, which takes a subtransaction.';

create or replace function pgrab_internal.schedule_check(schedule text, timezone text) returns void
language plpgsql stable as $$
declare
  v_fault record;
begin
  v_fault := pgrab_internal.schedule_fault(schedule_check.schedule, schedule_check.timezone);
  if v_fault.fault is not null then
    raise exception using errcode = '22023', message = v_fault.fault, hint = v_fault.hint;
  end if;
end
$$;
comment on function pgrab_internal.schedule_check(text, text) is
  'Refuses a schedule that cannot be read or can never fire, and a time zone that does not exist: SQLSTATE 22023 with the value and '
  'a HINT. '
  'A null schedule (a task that runs once) is fine.';
