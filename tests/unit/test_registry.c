/*
 * The set of executors: the built-in ones and plug-ins, good and broken (plugin_echo.c in its variants).
 */
#include "exec/exec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "fake_host.h"

/* The plug-ins lie beside this program. */
static char *
plugin(const char *name)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	assert_true(n > 0);
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	return xasprintf("%s/%s", self, name);
}

static void
expect_refused(const char *allow, const char *plugins, const char *words)
{
	struct exec_set *set = NULL;
	struct err err = {0};

	assert_int_equal(exec_set_create(allow, plugins, &set, &err), RC_BAD);
	assert_null(set);
	if (strstr(err.text, words) == NULL)
		fail_msg("got  \"%s\"\nwant \"%s\"", err.text, words);
}

/* The error must name the file and say what is wrong with it. */
static void
expect_file_refused(const char *file, const char *words)
{
	char *path = plugin(file);

	expect_refused("noop", path, words);
	expect_refused("noop", path, path);
	free(path);
}

static void
registry_has_exactly_the_allowed_kinds(void **state)
{
	struct exec_set *set = NULL;
	struct err err = {0};

	assert_int_equal(exec_set_create(" noop,notify ,, http,noop", NULL, &set, &err), RC_OK);
	assert_int_equal(exec_set_count(set), 3);
	assert_ptr_equal(exec_set_at(set, 0), &exec_noop);
	assert_ptr_equal(exec_set_at(set, 2), &exec_http);
	assert_null(exec_set_at(set, 3));
	assert_ptr_equal(exec_set_find(set, "notify"), &exec_notify);
	assert_null(exec_set_find(set, "shell"));
	assert_null(exec_set_find(set, ""));
	exec_set_destroy(&set);
	assert_null(set);
	exec_set_destroy(&set);
}

static void
registry_may_be_empty(void **state)
{
	struct exec_set *set = NULL;
	struct err err = {0};

	assert_int_equal(exec_set_create("", "", &set, &err), RC_OK);
	assert_int_equal(exec_set_count(set), 0);
	exec_set_destroy(&set);
}

static void
registry_names_what_there_is_for_an_unknown_kind(void **state)
{
	expect_refused("noop,shel", NULL, "no kind \"shel\"");
	expect_refused("noop,shel", NULL, "sql, shell, exec, http, notify, noop");
	expect_refused("NOOP", NULL, "no kind \"NOOP\"");
}

static void
registry_built_in_executors_are_well_formed(void **state)
{
	for (size_t i = 0; exec_builtin[i] != NULL; i++) {
		const struct pgrab_executor *x = exec_builtin[i];

		assert_int_equal(x->abi, PGRAB_EXECUTOR_ABI);
		assert_non_null(x->summary);
		assert_true(x == &exec_http || (x->open != NULL && x->run != NULL)); /* that one has a crew */
		assert_true(strspn(x->kind, "abcdefghijklmnopqrstuvwxyz_") == strlen(x->kind));
	}
}

static void
registry_runs_a_plugin_and_allows_it_by_loading(void **state)
{
	char *path = plugin("plugin_echo.so");
	struct pgrab_run run = {.size = sizeof(run), .kind = "echo", .command = "ping"};
	struct pgrab_result result = {0};
	const struct pgrab_executor *x;
	struct exec_set *set = NULL;
	struct fake_host f;
	struct err err = {0};
	void *self;

	fake_host_init(&f);
	if (exec_set_create("noop,echo", path, &set, &err) != RC_OK)
		fail_msg("%s", err.text);
	assert_int_equal(exec_set_count(set), 2);
	x = exec_set_find(set, "echo");
	assert_non_null(x);
	self = x->open(NULL, err.text, sizeof(err.text));
	x->run(self, &run, &f.host, &result);
	x->close(self);
	assert_true(result.succeeded);
	assert_string_equal(buf_str(&f.output), "ping");
	exec_set_destroy(&set);
	fake_host_fini(&f);
	free(path);
}

static void
registry_refuses_broken_plugins_with_the_reason(void **state)
{
	expect_file_refused("plugin_abi.so", "built for executor ABI 99, this pgrab has ABI 2");
	expect_file_refused("plugin_size.so", "its struct pgrab_executor has 8 bytes");
	expect_file_refused("plugin_entry.so", "does not export the function pgrab_executor_v2");
	expect_file_refused("plugin_run.so", "its executor \"echo\" has no run()");
	expect_file_refused("plugin_name.so", "its kind \"Echo!\" is not a name");
	expect_file_refused("plugin_builtin.so", "the kind \"shell\" exists: it is built in");
	expect_file_refused("no_such_file.so", "No such file or directory");
	expect_refused("noop", "/dev/null", "could not load the executor /dev/null");
}

static void
registry_refuses_the_second_of_a_kind(void **state)
{
	char *path = plugin("plugin_echo.so");
	char *twice = xasprintf("%s, %s", path, path);

	expect_refused("noop", twice, "the kind \"echo\" exists: another");
	free(twice);
	free(path);
}

static void
registry_looks_for_a_bare_name_in_the_working_directory_only(void **state)
{
	expect_refused("noop", "libm.so.6", "./libm.so.6");
}

static void
registry_noop_succeeds(void **state)
{
	struct pgrab_run run = {.size = sizeof(run), .kind = "noop", .command = ""};
	struct pgrab_result result = {0};
	struct fake_host f;
	void *self = exec_noop.open(NULL, NULL, 0);

	fake_host_init(&f);
	assert_non_null(self);
	exec_noop.run(self, &run, &f.host, &result);
	exec_noop.close(self);
	assert_true(result.succeeded && (exec_noop.flags & PGRAB_EXECUTOR_INSTANT) != 0);
	fake_host_fini(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(registry_has_exactly_the_allowed_kinds),
	    cmocka_unit_test(registry_may_be_empty),
	    cmocka_unit_test(registry_names_what_there_is_for_an_unknown_kind),
	    cmocka_unit_test(registry_built_in_executors_are_well_formed),
	    cmocka_unit_test(registry_runs_a_plugin_and_allows_it_by_loading),
	    cmocka_unit_test(registry_refuses_broken_plugins_with_the_reason),
	    cmocka_unit_test(registry_refuses_the_second_of_a_kind),
	    cmocka_unit_test(registry_looks_for_a_bare_name_in_the_working_directory_only),
	    cmocka_unit_test(registry_noop_succeeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
