/*
 * A task's args: the JSON that the database prints, taken apart; and what is no such JSON is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "core/args.h"
#include "random.h"

/* The exact bytes and nothing behind them, so that reading too far is seen by ASan. */
static enum rc
read_args(const char *text, size_t n, struct pairs *out)
{
	char *copy = malloc(n > 0 ? n : 1);
	struct err err;
	enum rc rc;

	assert_non_null(copy);
	memcpy(copy, text, n);
	rc = args_read(copy, n, out, &err);
	free(copy);
	return rc;
}

static void
assert_reads_as(const char *text, const char *list)
{
	struct pairs got, want;
	struct err err;

	assert_int_equal(pairs_parse(list, strlen(list), &want, &err), RC_OK);
	assert_int_equal(read_args(text, strlen(text), &got), RC_OK);
	assert_int_equal(got.count, want.count);
	for (size_t i = 0; i < want.count; i++) {
		assert_string_equal(got.item[i].key, want.item[i].key);
		assert_string_equal(got.item[i].value, want.item[i].value);
	}
	pairs_fini(&got);
	pairs_fini(&want);
}

static void
each_form_becomes_its_pairs(void **state)
{
	(void)state;
	static const struct {
		const char *json, *list;
	} forms[] = {
	    {"{}", ""},
	    {"{\"cwd\": \"/tmp\"}", "3:cwd,4:/tmp,"},
	    {"{\"cwd\": null}", ""},
	    {"{\"argv\": [\"a\", \"\", \"b c\"]}", "4:argv,1:a,4:argv,0:,4:argv,3:b c,"},
	    {"{\"argv\": []}", ""},
	    {"{\"argv\": [\"a\", null, \"b\"]}", "4:argv,1:a,4:argv,1:b,"},
	    {"{\"env\": {\"A\": \"1\", \"B\": \"x=y\"}}", "3:env,3:A=1,3:env,5:B=x=y,"},
	    {"{\"env\": {\"A\": null}}", ""},
	    {"{\"body\": {\"a\": [1]}}", "4:body,10:{\"a\": [1]},"},
	    {"{\"body\": \"text\"}", "4:body,4:text,"},
	    {"{\"expect\": [200, \"404\"], \"follow\": true}",
		"6:expect,3:200,6:expect,3:404,6:follow,4:true,"},
	    {"{\"stdin\": \"é,\\n1:x,\"}", "5:stdin,8:é,\n1:x,,"},
	    {"{\"payload\": \"\"}", "7:payload,0:,"},
	    {"{\"params\": [1, true, \"x\", null, [1, 2], {\"a\": 1}]}",
		"6:params,1:1,6:params,4:true,6:params,1:x,11:params:null,0:,6:params,6:[1, "
		"2],6:params,8:{\"a\": 1},"},
	    {"{\"env\": {\"A\": {\"secret\": \"s\"}, \"B\": {\"file\": \"f\"}, \"C\": {\"x\": 1, \"secret\": "
	     "\"s\"}, \"D\": {\"secret\": 3}, \"é\\\"=\": \"t\"}}",
		"10:env:secret,3:A=s,8:env:file,3:B=f,3:env,25:C={\"x\": 1, \"secret\": "
		"\"s\"},3:env,15:D={\"secret\": 3},3:env,6:é\"==t,"},
	    {"{\"n\": 12345678901234567890.10, \"t\": true, \"a\\\"b\": \"\\u0001\\t\\\\x\", \"big\": 1000}",
		"1:n,23:12345678901234567890.10,1:t,4:true,3:a\"b,4:\001\t\\x,3:big,4:1000,"},
	    {"{\"params\": [\"\\\"\", \"\\n\", {\"b\": [1, {\"c\": \"]}\"}]}, [], {}]}",
		"6:params,1:\",6:params,1:\n,6:params,23:{\"b\": [1, {\"c\": "
		"\"]}\"}]},6:params,2:[],6:params,2:{},"},
	    {"{\"body\": {\"a\": null}, \"headers\": {\"L\": [1, \"]\"], \"X\": \"y\", \"Z\": null}}",
		"4:body,11:{\"a\": null},7:headers,10:L=[1, \"]\"],7:headers,3:X=y,"},
	    {"{\"\": {\"\": \"\"}}", "0:,1:=,"},
	};

	for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
		assert_reads_as(forms[i].json, forms[i].list);
}

static void
what_parents_have_printed_follows(void **state)
{
	(void)state;
	assert_reads_as("", "");
	assert_reads_as("3:env,3:A=1,", "3:env,3:A=1,");
	assert_reads_as("{\"cwd\": \"/\"}3:env,3:A=1,", "3:cwd,1:/,3:env,3:A=1,");
	assert_reads_as("{}3:env,3:A=1,", "3:env,3:A=1,");
}

static void
what_is_no_args_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {"args cannot be filled: no", "{", "{\"a\"", "{\"a\": ", "{\"a\": }",
	    "{a: 1}", "{\"a\": [1}", "{\"a\": {\"b\"}}", "{\"a\": \"\\q\"}", "{\"a\": \"\\u12\"}",
	    "{\"a\": \"\\u0000\"}", "{\"a\": \"\\ud800\"}", "{\"a\": \"b}", "{\"a\": [,]}", "{}x", "{}3:env,",
	    "[1]"};
	struct pairs p;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(read_args(bad[i], strlen(bad[i]), &p), RC_BAD);
		pairs_fini(&p);
	}
}

/* No byte of it is read twice or past its end, whatever is cut off or written over. */
static void
what_is_cut_or_spoilt_ends(void **state)
{
	static const char whole[] = "{\"env\": {\"A\": {\"secret\": \"s\"}, \"B\": \"x\\\"\\u0001\"}, "
				    "\"params\": [1, null, {\"a\": [2]}]}3:env,1:b,";

	(void)state;
	random_start();
	for (int round = 0; round < 20000; round++) {
		char text[sizeof whole];
		size_t n = random_below(2) == 0 ? sizeof whole - 1 : random_below(sizeof whole);
		struct pairs p;

		memcpy(text, whole, sizeof whole);
		for (unsigned k = random_below(4); k > 0; k--)
			text[random_below(sizeof whole - 1)] = "{}[]\",: \\u1\0"[random_below(13)];
		if (read_args(text, n, &p) == RC_OK) {
			for (size_t i = 0; i < p.count; i++)
				assert_true(strlen(p.item[i].key) + strlen(p.item[i].value) <= 2 * n);
		}
		pairs_fini(&p);
	}
}

/* A handler gets the object as it is written, secrets and all; a list behind it, or in its place, is taken
 * apart for anybody. */
static void
who_takes_the_whole_object_gets_its_text(void **state)
{
	static const char object[] = "{\"env\": {\"A\": {\"secret\": \"s\"}}}";
	struct run_task t = {.args_text = xstrdup(object)};

	(void)state;
	args_take(&t, true);
	assert_int_equal(t.args.count, 1);
	assert_string_equal(pairs_get(&t.args, "args"), object);
	args_take(&t, true); /* there is no more */
	assert_int_equal(t.args.count, 1);
	pairs_fini(&t.args);
	t = (struct run_task){.args_text = xstrdup(object)};
	args_take(&t, false);
	assert_string_equal(pairs_get(&t.args, "env:secret"), "A=s");
	pairs_fini(&t.args);
	t = (struct run_task){.args_text = xstrdup("4:args,2:{},7:parents,2:{},")};
	args_take(&t, true);
	assert_string_equal(pairs_get(&t.args, "parents"), "{}");
	assert_null(t.args_text);
	pairs_fini(&t.args);
	t = (struct run_task){.args_text = xstrdup("args cannot be filled: no")};
	args_take(&t, true);
	assert_string_equal(t.refused, "args cannot be filled: no");
	free(t.refused);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_form_becomes_its_pairs),
	    cmocka_unit_test(what_parents_have_printed_follows),
	    cmocka_unit_test(what_is_no_args_is_refused),
	    cmocka_unit_test(what_is_cut_or_spoilt_ends),
	    cmocka_unit_test(who_takes_the_whole_object_gets_its_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
