/*
 * Options from text, file, environment and flags.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/option.h"
#include "random.h"

struct settings {
	char *name, *dsn;
	int64_t workers;
	double weight;
	int64_t dead_after_us;
	int level;
	bool json;
	struct pet {
		char *name;
		int64_t legs;
	} * pet;
	size_t n_pets;
};

static const char *const levels[] = {"debug", "info", "warn", NULL};

static const struct option_key table[] = {
    {.name = "name",
	.letter = 'n',
	.type = OPTION_TEXT,
	.offset = offsetof(struct settings, name),
	.help = "who it is"},
    {.name = "dsn",
	.type = OPTION_TEXT,
	.offset = offsetof(struct settings, dsn),
	.fallback = "host=x",
	.help = "where",
	.secret = true},
    {.name = "workers",
	.letter = 'w',
	.type = OPTION_INT,
	.offset = offsetof(struct settings, workers),
	.fallback = "8",
	.min = 1,
	.max = 1024,
	.metavar = "N",
	.help = "runs at once"},
    {.name = "weight",
	.type = OPTION_REAL,
	.offset = offsetof(struct settings, weight),
	.fallback = "1",
	.min = 0,
	.max = 1000,
	.help = "share"},
    {.name = "dead_after",
	.type = OPTION_DURATION,
	.offset = offsetof(struct settings, dead_after_us),
	.fallback = "10s",
	.min = 1e6,
	.max = 3600e6,
	.help = "silent for so long: others take its tasks, which this text says at such length that it must "
		"be wrapped"},
    {.name = "level",
	.type = OPTION_ENUM,
	.offset = offsetof(struct settings, level),
	.fallback = "info",
	.choices = levels,
	.help = "how much"},
    {.name = "json",
	.letter = 'j',
	.type = OPTION_FLAG,
	.offset = offsetof(struct settings, json),
	.help = "for programs"},
    {.name = NULL},
};

struct fixture {
	struct settings set;
	struct err err;
	char path[64]; /* of the ini file */
};

static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	int fd;

	assert_non_null(f);
	memset(&f->set, 0xa5, sizeof f->set);
	f->set.pet = NULL;
	f->set.n_pets = 0;
	option_defaults(table, &f->set);
	snprintf(f->path, sizeof f->path, P_tmpdir "/pgrab_test_option.XXXXXX");
	fd = mkstemp(f->path);
	assert_true(fd >= 0);
	close(fd);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	unlink(f->path);
	option_free(table, &f->set);
	assert_null(f->set.name);
	assert_null(f->set.dsn);
	free(f);
	return 0;
}

static void
duration_is_a_whole_number_and_a_unit(void **state)
{
	static const struct {
		const char *text;
		int64_t us;
	} good[] = {
	    {"0", 0},
	    {"00", 0},
	    {"0s", 0},
	    {"1us", 1},
	    {"200ms", 200000},
	    {"5s", 5000000},
	    {"010s", 10000000},
	    {"10m", 600000000},
	    {"1h", INT64_C(3600000000)},
	    {"7d", INT64_C(604800000000)},
	    {"9223372036854775us", INT64_C(9223372036854775)},
	    {"106751991d", INT64_C(106751991) * INT64_C(86400000000)},
	};
	static const char *const bad[] = {"", " ", "5", "1 s", " 1s", "1s ", "s", "-1s", "+1s", "1.5s",
	    "1e3s", "0x1s", "1S", "1sec", "1h30m", "1w", "106751992d", "9223372036854775807s",
	    "99999999999999999999999s", "00x", "1\n", "infs", "nans"};
	int64_t us;

	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		us = -1;
		assert_true(duration_parse(good[i].text, &us));
		assert_int_equal(us, good[i].us);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_false(duration_parse(bad[i], &us));
}

static void
duration_is_printed_in_its_shortest_exact_form(void **state)
{
	static const struct {
		int64_t us;
		const char *text;
	} want[] = {{0, "0"}, {1, "1us"}, {1000, "1ms"}, {1500000, "1500ms"}, {5000000, "5s"},
	    {60000000, "1m"}, {90000000, "90s"}, {INT64_C(3600000000), "1h"}, {INT64_C(604800000000), "7d"},
	    {-5000000, "-5s"}};
	char buf[32];

	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
		assert_string_equal(duration_format(want[i].us, buf, sizeof buf), want[i].text);
	random_start();
	for (int i = 0; i < 2000; i++) {
		int64_t us = (int64_t)random_below(1u << 31) * (int64_t)(random_below(3) == 0 ? 1000 : 1),
			back;

		assert_true(duration_parse(duration_format(us, buf, sizeof buf), &back));
		assert_int_equal(back, us);
	}
}

static void
defaults_set_every_field(void **state)
{
	struct fixture *f = *state;

	assert_null(f->set.name);
	assert_string_equal(f->set.dsn, "host=x");
	assert_int_equal(f->set.workers, 8);
	assert_true(f->set.weight == 1);
	assert_int_equal(f->set.dead_after_us, 10000000);
	assert_int_equal(f->set.level, 1);
	assert_false(f->set.json);
}

static void
values_out_of_their_range_or_type_are_refused_and_change_nothing(void **state)
{
	static const struct {
		const char *name, *value, *right;
	} bad[] = {
	    {"workers", "0", "from 1 to 1024"},
	    {"workers", "1025", "from 1 to 1024"},
	    {"workers", "-1", "whole number"},
	    {"workers", "8x", "whole number"},
	    {"workers", "", "whole number"},
	    {"workers", "1.5", "whole number"},
	    {"workers", "99999999999999999999", "whole number"},
	    {"weight", "nan", "number"},
	    {"weight", "inf", "number"},
	    {"weight", "1000.5", "from 0 to 1000"},
	    {"weight", "", "number"},
	    {"dead_after", "10", "200ms"},
	    {"dead_after", "999ms", "from 1s to 1h"},
	    {"dead_after", "2h", "from 1s to 1h"},
	    {"level", "loud", "debug info warn"},
	    {"level", "", "debug info warn"},
	    {"json", "maybe", "on or off"},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(
		    option_set(table, &f->set, bad[i].name, bad[i].value, "here", &f->err), RC_BAD);
		assert_non_null(strstr(f->err.text, "here: "));
		assert_non_null(strstr(f->err.text, bad[i].name));
		assert_non_null(strstr(f->err.text, bad[i].value));
		assert_non_null(strstr(f->err.text, bad[i].right));
	}
	defaults_set_every_field(state);
}

static void
values_at_the_ends_of_their_range_are_taken(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(option_set(table, &f->set, "workers", "1024", "here", &f->err), RC_OK);
	assert_int_equal(f->set.workers, 1024);
	assert_int_equal(option_set(table, &f->set, "dead-after", "1s", "here", &f->err), RC_OK);
	assert_int_equal(f->set.dead_after_us, 1000000);
	assert_int_equal(option_set(table, &f->set, "dead_after", "1h", "here", &f->err), RC_OK);
	assert_int_equal(option_set(table, &f->set, "weight", "0", "here", &f->err), RC_OK);
	assert_int_equal(option_set(table, &f->set, "level", "debug", "here", &f->err), RC_OK);
	assert_int_equal(f->set.level, 0);
	assert_int_equal(option_set(table, &f->set, "json", "Yes", "here", &f->err), RC_OK);
	assert_true(f->set.json);
	assert_int_equal(option_set(table, &f->set, "json", "0", "here", &f->err), RC_OK);
	assert_false(f->set.json);
	assert_int_equal(option_set(table, &f->set, "name", f->set.dsn, "here", &f->err), RC_OK);
	assert_int_equal(option_set(table, &f->set, "name", f->set.name, "here", &f->err), RC_OK);
	assert_string_equal(f->set.name, "host=x");
}

static void
nearest_key_is_named_when_there_is_one(void **state)
{
	struct fixture *f = *state;

	assert_string_equal(option_nearest(table, "worker"), "workers");
	assert_string_equal(option_nearest(table, "dead-aftr"), "dead_after");
	assert_null(option_nearest(table, "dns")); /* two of three letters wrong */
	assert_null(option_nearest(table, "completely_different"));
	assert_null(option_nearest(table, ""));
	assert_ptr_equal(option_find(table, "dead-after"), option_find(table, "dead_after"));
	assert_null(option_find(table, "dead_afte"));
	assert_null(option_find(table, "dead_after_"));
	assert_int_equal(option_set(table, &f->set, "wokers", "3", "here", &f->err), RC_BAD);
	assert_non_null(strstr(f->err.text, "did you mean workers?"));
}

static void
write_file(struct fixture *f, const char *text, size_t n)
{
	FILE *file = fopen(f->path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
}

static enum rc
read_text(struct fixture *f, const char *text)
{
	write_file(f, text, strlen(text));
	return option_read_file(table, NULL, &f->set, f->path, &f->err);
}

/* Refused at that line, with these words. */
static void
assert_refused(struct fixture *f, const char *text, int line, const char *words)
{
	char where[96];

	snprintf(where, sizeof where, "%s:%d: ", f->path, line);
	assert_int_equal(read_text(f, text), RC_BAD);
	assert_ptr_equal(strstr(f->err.text, where), f->err.text);
	assert_non_null(strstr(f->err.text, words));
}

static void
file_gives_values_in_its_section_and_before_it(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(read_text(f, "\xef\xbb\xbf# comment\n; another\nworkers = 3\r\n\n[pgrab]\nname=a b "
				      "; why\n  json: on\nlevel = warn"),
	    RC_OK);
	assert_int_equal(f->set.workers, 3);
	assert_string_equal(f->set.name, "a b");
	assert_true(f->set.json);
	assert_int_equal(f->set.level, 2);
	assert_int_equal(read_text(f, ""), RC_OK);
}

static const struct option_key pet_keys[] = {{.name = "legs",
						 .type = OPTION_INT,
						 .offset = offsetof(struct pet, legs),
						 .fallback = "4",
						 .max = 100,
						 .help = ""},
    {.name = NULL}};

static const struct option_section sections[] = {
    {"pet", pet_keys, offsetof(struct settings, pet), offsetof(struct settings, n_pets), sizeof(struct pet),
	2, 6, false, NULL},
    {.word = NULL}};

static enum rc
read_sections(struct fixture *f, const char *text)
{
	option_free_sections(sections, &f->set);
	write_file(f, text, strlen(text));
	return option_read_file(table, sections, &f->set, f->path, &f->err);
}

static void
file_sections_with_a_name_set_structs_of_their_own(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(
	    read_sections(f, "workers = 3\n[pet  a b ] ; mine\nlegs = 8\n[pet snake]\n[pgrab]\nname = me\n"),
	    RC_OK);
	assert_int_equal(f->set.workers, 3);
	assert_string_equal(f->set.name, "me");
	assert_int_equal(f->set.n_pets, 2);
	assert_string_equal(f->set.pet[0].name, "a b");
	assert_int_equal(f->set.pet[0].legs, 8);
	assert_string_equal(f->set.pet[1].name, "snake");
	assert_int_equal(f->set.pet[1].legs, 4);
	option_free_sections(sections, &f->set);
}

static void
file_sections_with_a_mistake_are_refused(void **state)
{
	static const struct {
		const char *text, *words;
	} bad[] = {{"[pet x]\nworkers = 3\n", ":2: unknown key"},
	    {"[pet]\n", "or under [pgrab] or [pet NAME]"}, {"[pet ]\n", "unknown section"},
	    {"[petx]\n", "unknown section"}, {"[pet x\n", "unknown section"},
	    {"[pet x] y\n", "unknown section"}, {"[pet a]\n[pet b]\n[pet c]\n", ":3: a file holds at most 2"},
	    {"[pet a]\n[pet a]\n", ":2: [pet a] is given twice"}, {"[pet too long]\n", "6 bytes"}};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(read_sections(f, bad[i].text), RC_BAD);
		assert_non_null(strstr(f->err.text, bad[i].words));
	}
	option_free_sections(sections, &f->set);
}

static void
file_with_a_mistake_is_refused_at_its_line(void **state)
{
	struct fixture *f = *state;

	assert_refused(f, "name = x\n\nwokers = 3\n", 3, "did you mean workers?");
	assert_refused(f, "zzzzzzzzz = 3\n", 1, "unknown key");
	assert_refused(f, "# c\nworkers = many\n", 2, "workers cannot be \"many\"");
	assert_refused(f, "name = x\nnonsense\n", 2, "key = value");
	assert_refused(f, "name = x\n   more of it\n", 2, "key = value"); /* not a continuation */
	assert_refused(f, "[pgrab]\nname = x\n[other]\n", 3, "section");  /* also without keys */
	assert_refused(f, "\xef\xbb\xbf[other]\n", 1, "section");
	assert_refused(f, "[pgrab\nname = x\n", 1, "section");
}

static void
file_line_is_taken_whole_however_long(void **state)
{
	struct fixture *f = *state;
	struct buf b = {0};

	buf_adds(&b, "# one\nname = ");
	for (int i = 0; i < 60000; i++)
		buf_addc(&b, 'x');
	buf_adds(&b, "\njson = on\n");
	assert_int_equal(read_text(f, buf_str(&b)), RC_OK);
	assert_int_equal(strlen(f->set.name), 60000);
	assert_true(f->set.json);
	buf_reset(&b);
	buf_adds(&b, "# one\nname = ");
	for (int i = 0; i < 70000; i++)
		buf_addc(&b, 'x');
	assert_refused(f, buf_str(&b), 2, "longer than 64 KiB");
	buf_fini(&b);
}

static void
file_value_ends_before_a_comment_and_blanks(void **state)
{
	static const struct {
		const char *text, *name;
	} good[] = {{"name = a;b", "a;b"}, {"name = a ;b", "a"}, {"name =;a", ";a"}, {"name = ; a", ""},
	    {"name\t:\ta = b : c \t\r", "a = b : c"}, {"name = [x] # y", "[x] # y"}, {"name =", ""}};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		assert_int_equal(read_text(f, good[i].text), RC_OK);
		assert_string_equal(f->set.name, good[i].name);
	}
	assert_refused(f, "name ; = x\n", 1, "key = value");
	assert_refused(f, "= x\n", 1, "key = value");
}

static void
file_with_a_nul_or_that_can_not_be_read_is_refused(void **state)
{
	struct fixture *f = *state;

	write_file(f, "name = a\0b\n", 11);
	assert_int_equal(option_read_file(table, NULL, &f->set, f->path, &f->err), RC_BAD);
	assert_non_null(strstr(f->err.text, ":1: the file holds a NUL byte"));
	assert_int_equal(option_read_file(table, NULL, &f->set, "/nowhere/pgrab.conf", &f->err), RC_BAD);
	assert_non_null(strstr(f->err.text, "/nowhere/pgrab.conf"));
	assert_int_equal(option_read_file(table, NULL, &f->set, "/", &f->err), RC_BAD);
}

static void
file_error_never_shows_a_secret(void **state)
{
	static const struct option_key secret[] = {{.name = "pin",
						       .type = OPTION_INT,
						       .offset = offsetof(struct settings, workers),
						       .secret = true,
						       .help = ""},
	    {.name = NULL}};
	struct fixture *f = *state;

	assert_int_equal(option_set(secret, &f->set, "pin", "swordfish", "here", &f->err), RC_BAD);
	assert_null(strstr(f->err.text, "swordfish"));
}

static void
secrets_of_a_command_line_are_hidden(void **state)
{
	char words[][40] = {"--dsn=host=y password=x", "--dsn", "postgres://u:p@h/d", "--name", "password",
	    "-w", "3", "--dsn", "host=z"};
	char *argv[12] = {words[0]};
	int argc = 1;

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		argv[argc++] = words[i];
	option_hide_secrets(table, argc, argv);
	assert_string_equal(words[0], "--dsn=*****************");
	assert_string_equal(words[2], "******************");
	assert_string_equal(words[4], "password");
	assert_string_equal(words[8], "host=z");
}

static void
environment_is_read_by_upper_case_names(void **state)
{
	struct fixture *f = *state;

	setenv("PGRAB_DEAD_AFTER", "20s", 1);
	setenv("PGRAB_UNKNOWN_THING", "1", 1);
	setenv("PGRAB_NAME", "", 1); /* as good as absent */
	assert_int_equal(option_read_env(table, &f->set, &f->err), RC_OK);
	assert_int_equal(f->set.dead_after_us, 20000000);
	assert_null(f->set.name);
	setenv("PGRAB_WORKERS", "lots", 1);
	assert_int_equal(option_read_env(table, &f->set, &f->err), RC_BAD);
	assert_non_null(strstr(f->err.text, "PGRAB_WORKERS: "));
	unsetenv("PGRAB_DEAD_AFTER");
	unsetenv("PGRAB_UNKNOWN_THING");
	unsetenv("PGRAB_NAME");
	unsetenv("PGRAB_WORKERS");
}

struct line {
	const char *operands[3];
	int n_operands;
	bool help;
};

/* At most three operands; words ends with NULL. */
static enum rc
read_flags(struct fixture *f, struct line *l, const char *const *words)
{
	char *argv[16] = {(char *)(uintptr_t) "pgrab"};
	int argc = 1;

	memset(l, 0, sizeof *l);
	for (; words[argc - 1] != NULL; argc++)
		argv[argc] = (char *)(uintptr_t)words[argc - 1];
	return option_read_argv(
	    table, &f->set, argc, argv, l->operands, 3, &l->n_operands, &l->help, &f->err);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void
flags_are_taken_in_all_their_forms(void **state)
{
	struct fixture *f = *state;
	struct line l;

	assert_int_equal(
	    read_flags(f, &l,
		WORDS("one", "--dead-after", "20s", "--workers=3", "two", "-n", "me", "-j", "--", "--json")),
	    RC_OK);
	assert_int_equal(f->set.dead_after_us, 20000000);
	assert_int_equal(f->set.workers, 3);
	assert_string_equal(f->set.name, "me");
	assert_true(f->set.json);
	assert_int_equal(l.n_operands, 3);
	assert_string_equal(l.operands[0], "one");
	assert_string_equal(l.operands[1], "two");
	assert_string_equal(l.operands[2], "--json");
	assert_false(l.help);
	assert_int_equal(read_flags(f, &l, WORDS("--dead_after=30s", "-", "--name=", "--dsn=a=b")), RC_OK);
	assert_int_equal(f->set.dead_after_us, 30000000);
	assert_string_equal(l.operands[0], "-");
	assert_string_equal(f->set.name, "");
	assert_string_equal(f->set.dsn, "a=b");
}

static void
flags_ask_for_help(void **state)
{
	struct fixture *f = *state;
	struct line l;

	assert_int_equal(read_flags(f, &l, WORDS("--help")), RC_OK);
	assert_true(l.help);
	assert_int_equal(read_flags(f, &l, WORDS("x", "-h")), RC_OK);
	assert_true(l.help);
	assert_int_equal(read_flags(f, &l, WORDS("--", "--help")), RC_OK);
	assert_false(l.help);
}

static void
flags_with_mistakes_are_refused(void **state)
{
	struct fixture *f = *state;
	struct line l;

	assert_int_equal(read_flags(f, &l, WORDS("--dead-aftr", "3s")), RC_BAD);
	assert_non_null(strstr(f->err.text, "--dead-aftr; did you mean --dead-after?"));
	assert_int_equal(read_flags(f, &l, WORDS("--zzzzzzzzzz")), RC_BAD);
	assert_int_equal(read_flags(f, &l, WORDS("-x")), RC_BAD);
	assert_non_null(strstr(f->err.text, "-x"));
	assert_int_equal(read_flags(f, &l, WORDS("--workers")), RC_BAD);
	assert_non_null(strstr(f->err.text, "needs a value"));
	assert_int_equal(read_flags(f, &l, WORDS("-w")), RC_BAD);
	assert_int_equal(read_flags(f, &l, WORDS("--workers", "0")), RC_BAD);
	assert_non_null(strstr(f->err.text, "--workers: "));
	assert_int_equal(read_flags(f, &l, WORDS("--json=junk")), RC_BAD);
	assert_int_equal(read_flags(f, &l, WORDS("a", "b", "c", "d")), RC_BAD);
	assert_non_null(strstr(f->err.text, "\"d\""));
}

static void
later_sources_win(void **state)
{
	struct fixture *f = *state;
	struct line l;

	setenv("PGRAB_WORKERS", "2", 1);
	setenv("PGRAB_LEVEL", "warn", 1);
	assert_int_equal(option_read_env(table, &f->set, &f->err), RC_OK);
	assert_int_equal(read_text(f, "workers = 3\nweight = 3\n"), RC_OK);
	assert_int_equal(read_flags(f, &l, WORDS("--workers", "4")), RC_OK);
	assert_int_equal(f->set.workers, 4);
	assert_true(f->set.weight == 3);
	assert_int_equal(f->set.level, 2);
	unsetenv("PGRAB_WORKERS");
	unsetenv("PGRAB_LEVEL");
}

/* Prints the help into the file of the fixture; stdout is put back. */
static void
help_into_file(struct fixture *f)
{
	int saved = dup(STDOUT_FILENO);

	fflush(stdout);
	assert_non_null(freopen(f->path, "w", stdout));
	option_print_help(table);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
}

static void
help_names_every_key_and_fits_100_columns(void **state)
{
	struct fixture *f = *state;
	char line[400], all[4000] = "";
	size_t n = 0;
	FILE *file;

	help_into_file(f);
	file = fopen(f->path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof line, file) != NULL) {
		assert_true(strlen(line) <= 101);
		n += (size_t)snprintf(all + n, sizeof all - n, "%s", line);
		assert_true(n < sizeof all);
	}
	fclose(file);
	assert_non_null(strstr(all, "  -w, --workers N "));
	assert_non_null(strstr(all, "      --dead-after DURATION "));
	assert_non_null(strstr(all, "(default 10s)"));
	assert_non_null(strstr(all, "  -j, --json "));
	assert_null(strstr(all, "host=x")); /* a secret's default */
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(duration_is_a_whole_number_and_a_unit),
	    cmocka_unit_test(duration_is_printed_in_its_shortest_exact_form),
	    TEST(defaults_set_every_field),
	    TEST(values_out_of_their_range_or_type_are_refused_and_change_nothing),
	    TEST(values_at_the_ends_of_their_range_are_taken),
	    TEST(nearest_key_is_named_when_there_is_one),
	    TEST(file_gives_values_in_its_section_and_before_it),
	    TEST(file_sections_with_a_name_set_structs_of_their_own),
	    TEST(file_sections_with_a_mistake_are_refused),
	    TEST(file_with_a_mistake_is_refused_at_its_line),
	    TEST(file_line_is_taken_whole_however_long),
	    TEST(file_value_ends_before_a_comment_and_blanks),
	    TEST(file_with_a_nul_or_that_can_not_be_read_is_refused),
	    TEST(file_error_never_shows_a_secret),
	    TEST(secrets_of_a_command_line_are_hidden),
	    TEST(environment_is_read_by_upper_case_names),
	    TEST(flags_are_taken_in_all_their_forms),
	    TEST(flags_ask_for_help),
	    TEST(flags_with_mistakes_are_refused),
	    TEST(later_sources_win),
	    TEST(help_names_every_key_and_fits_100_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
