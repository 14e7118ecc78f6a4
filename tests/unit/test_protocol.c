/* What a handler process may say, and what is no message: nothing of it is believed before it is checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "handler/pool.h"
#include "handler/protocol.h"

static enum rc
parse(const char *line, struct message *m, struct err *err)
{
	memset(err, 0, sizeof *err);
	return message_parse(line, strlen(line), m, err);
}

static void
accepts(const char *line, struct message *m)
{
	struct err err;

	if (parse(line, m, &err) != RC_OK)
		fail_msg("%s: %s", line, err.text);
}

static void
refuses(const char *line, const char *why)
{
	struct message m;
	struct err err;

	if (parse(line, &m, &err) != RC_BAD)
		fail_msg("accepted: %s", line);
	if (strstr(err.text, why) == NULL)
		fail_msg("%s: %s, not %s", line, err.text, why);
	message_fini(&m);
}

static void
hello_names_kinds_and_schemas(void **state)
{
	struct message m;

	accepts("{\"type\":\"hello\",\"version\":1,\"concurrency\":7,\"library\":\"x 1\",\"new\":[1],"
		"\"kinds\":{\"a\":{},\"b_2\":{\"schema\":{\"type\":\"object\"}}}}",
	    &m);
	assert_int_equal(m.what, MESSAGE_HELLO);
	assert_int_equal(m.n_kinds, 2);
	assert_string_equal(m.kind[0].kind, "a");
	assert_null(m.kind[0].schema);
	assert_string_equal(m.kind[1].kind, "b_2");
	assert_string_equal(m.kind[1].schema, "{\"type\":\"object\"}");
	assert_int_equal(m.at_once, 7);
	assert_string_equal(m.library, "x 1");
	message_fini(&m);
	accepts("{\"type\":\"hello\",\"version\":1,\"kinds\":{}}", &m);
	assert_int_equal(m.at_once, 1);
	message_fini(&m);
}

/* cJSON takes them for blanks, and what we keep of the value would end there. */
static void
a_line_with_a_control_character_is_refused(void **state)
{
	static const char line[] = "{\"type\":\"result\",\"run\":1,\"ok\":true,\"value\":{\"a\"\0:1}}";
	struct message m;
	struct err err = {0};

	assert_int_equal(message_parse(line, sizeof line - 1, &m, &err), RC_BAD);
	assert_non_null(strstr(err.text, "not a JSON object in UTF-8"));
	message_fini(&m);
	refuses("{\"type\":\"pong\",\x01\"n\":1}", "not a JSON object in UTF-8");
	accepts("{\"type\":\"pong\",\t\"n\":1}\r", &m);
	message_fini(&m);
}

static void
a_wrong_hello_says_what_is_wrong(void **state)
{
	refuses("{\"type\":\"hello\",\"kinds\":{}}", "\"version\" is not a whole number");
	refuses(
	    "{\"type\":\"hello\",\"version\":3,\"kinds\":{}}", "speaks version 3 of the protocol, this node");
	refuses(
	    "{\"type\":\"hello\",\"version\":0,\"kinds\":{}}", "speaks version 0 of the protocol, this node");
	refuses("{\"type\":\"hello\",\"version\":1}", "\"kinds\" is not an object");
	refuses("{\"type\":\"hello\",\"version\":1,\"kinds\":[\"a\"]}", "\"kinds\" is not an object");
	refuses("{\"type\":\"hello\",\"version\":1,\"kinds\":{\"A\":{}}}", "\"A\" is not a kind");
	refuses("{\"type\":\"hello\",\"version\":1,\"kinds\":{\"a\":{\"schema\":1}}}", "schema of kind a");
	refuses("{\"type\":\"hello\",\"version\":1,\"concurrency\":0,\"kinds\":{}}", "\"concurrency\" is 0");
	refuses(
	    "{\"type\":\"hello\",\"version\":1,\"concurrency\":1e9,\"kinds\":{}}", "\"concurrency\" is not");
	refuses("{\"type\":\"hello\",\"version\":1,\"library\":1,\"kinds\":{}}", "\"library\" is not a text");
}

static void
a_result_keeps_its_value_as_it_was_written(void **state)
{
	struct message m;

	accepts("{\"type\":\"result\",\"run\":12,\"ok\":true,\"value\":{\"n\":123456789012345678901234,\"s\":"
		"\"a,}\\\"]\"}}",
	    &m);
	assert_int_equal(m.run, 12);
	assert_true(m.ok);
	assert_string_equal(m.value, "{\"n\":123456789012345678901234,\"s\":\"a,}\\\"]\"}");
	message_fini(&m);
	accepts("{ \"value\" : [1, {\"value\": 2}] , \"type\":\"result\",\"run\":0,\"ok\":true}", &m);
	assert_string_equal(m.value, "[1, {\"value\": 2}]");
	message_fini(&m);
	accepts("{\"type\":\"result\",\"run\":1,\"ok\":true,\"value\":null}", &m);
	assert_null(m.value);
	message_fini(&m);
}

static void
a_step_has_a_name_and_perhaps_a_result(void **state)
{
	struct message m;

	accepts("{\"type\":\"step\",\"run\":3,\"name\":\"pay\",\"result\":{\"n\":12345678901234567890}}", &m);
	assert_int_equal(m.what, MESSAGE_STEP);
	assert_int_equal(m.run, 3);
	assert_string_equal(m.text, "pay");
	assert_string_equal(m.value, "{\"n\":12345678901234567890}");
	message_fini(&m);
	accepts("{\"type\":\"step\",\"run\":3,\"name\":\"pay\",\"result\":null}", &m);
	assert_string_equal(m.value, "null");
	message_fini(&m);
	accepts("{\"type\":\"step\",\"run\":3,\"name\":\"pay\"}", &m);
	assert_null(m.value);
	message_fini(&m);
	accepts("{\"type\":\"step\",\"run\":3,\"name\":\"pay\",\"Result\":1}", &m);
	assert_null(m.value); /* that is another member */
	message_fini(&m);
	refuses("{\"type\":\"step\",\"run\":3}", "\"name\" is not a text of 1 to 200 bytes");
	refuses("{\"type\":\"step\",\"run\":3,\"name\":\"\"}", "\"name\" is not a text of 1 to 200 bytes");
	refuses("{\"type\":\"step\",\"name\":\"a\"}", "\"run\" is not a whole number");
}

static void
the_answer_to_a_step(void **state)
{
	char name[] = "a \"b\"", result[] = "[1, 2]";
	struct step s = {.name = name, .result = result, .state = STEP_RECORDED};
	struct buf b = {0};

	protocol_step(&b, 4, &s, NULL);
	s.state = STEP_NONE;
	protocol_step(&b, 4, &s, step_fault(&s));
	s.state = STEP_LOST;
	protocol_step(&b, 4, &s, "over");
	assert_string_equal(buf_str(&b),
	    "{\"type\":\"step\",\"run\":4,\"name\":\"a \\\"b\\\"\",\"recorded\":true,\"result\":[1, 2]}\n"
	    "{\"type\":\"step\",\"run\":4,\"name\":\"a \\\"b\\\"\",\"recorded\":false}\n"
	    "{\"type\":\"step\",\"run\":4,\"name\":\"a \\\"b\\\"\",\"recorded\":false,\"error\":\"over\"}\n");
	buf_fini(&b);
}

static void
a_failure_says_when_to_try_again(void **state)
{
	struct message m;

	accepts(
	    "{\"type\":\"result\",\"run\":1,\"ok\":false,\"error\":\"e\",\"detail\":\"d\",\"retry\":\"no\"}",
	    &m);
	assert_false(m.ok);
	assert_string_equal(m.text, "e");
	assert_string_equal(m.detail, "d");
	assert_int_equal(m.retry_us, RETRY_NO);
	message_fini(&m);
	accepts("{\"type\":\"result\",\"run\":1,\"ok\":false,\"retry\":1.5}", &m);
	assert_int_equal(m.retry_us, 1500001);
	message_fini(&m);
	accepts("{\"type\":\"result\",\"run\":1,\"ok\":false,\"retry\":0}", &m);
	assert_true(m.retry_us > 0);
	message_fini(&m);
	accepts("{\"type\":\"result\",\"run\":1,\"ok\":false}", &m);
	assert_int_equal(m.retry_us, RETRY_DEFAULT);
	message_fini(&m);
	refuses("{\"type\":\"result\",\"run\":1,\"ok\":false,\"retry\":\"later\"}", "\"retry\" is none of");
	refuses("{\"type\":\"result\",\"run\":1,\"ok\":false,\"retry\":-1}", "\"retry\" is none of");
	refuses("{\"type\":\"result\",\"run\":1,\"ok\":false,\"retry\":1e300}", "\"retry\" is none of");
	accepts("{\"type\":\"result\",\"run\":1,\"ok\":false,\"wait\":\"go.1\",\"timeout\":1.5}", &m);
	assert_string_equal(m.wait, "go.1");
	assert_int_equal(m.retry_us, 1500001);
	message_fini(&m);
	accepts("{\"type\":\"result\",\"run\":1,\"ok\":false,\"wait\":\"go\",\"timeout\":null}", &m);
	assert_int_equal(m.retry_us, RETRY_DEFAULT);
	message_fini(&m);
	refuses("{\"type\":\"result\",\"run\":1,\"ok\":false,\"wait\":\"a b\"}", "not the name of a signal");
	refuses("{\"type\":\"result\",\"run\":1,\"ok\":false,\"wait\":\"\"}", "not the name of a signal");
	refuses("{\"type\":\"result\",\"run\":1,\"ok\":true,\"wait\":\"go\"}", "with \"ok\" false");
	refuses("{\"type\":\"result\",\"run\":1,\"ok\":false,\"wait\":\"go\",\"timeout\":-1}",
	    "\"timeout\" is not");
	refuses("{\"type\":\"result\",\"run\":1}", "neither true nor false");
	refuses("{\"type\":\"result\",\"ok\":true}", "\"run\" is not a whole number");
	refuses("{\"type\":\"result\",\"run\":1.5,\"ok\":true}", "\"run\" is not a whole number");
}

static void
progress_and_log_name_their_run(void **state)
{
	struct message m;

	accepts("{\"type\":\"progress\",\"run\":3,\"percent\":42.7,\"text\":\"half\"}", &m);
	assert_true(m.percent > 42.6 && m.percent < 42.8);
	assert_string_equal(m.text, "half");
	message_fini(&m);
	accepts("{\"type\":\"progress\",\"run\":3,\"percent\":null}", &m);
	assert_true(m.percent < 0);
	message_fini(&m);
	accepts("{\"type\":\"log\",\"run\":3,\"text\":\"a\\nb\"}", &m);
	assert_string_equal(m.text, "a\nb");
	message_fini(&m);
	refuses("{\"type\":\"progress\",\"run\":3,\"percent\":101}", "\"percent\" is not a number");
	refuses("{\"type\":\"log\",\"run\":3}", "it has no \"text\"");
}

static void
what_is_no_message_is_refused(void **state)
{
	refuses("", "not a JSON object");
	refuses("hello", "not a JSON object");
	refuses("[]", "not a JSON object");
	refuses("{\"type\":\"pong\",\"n\":1} {}", "not a JSON object");
	refuses("{\"type\":\"pong\",\"n\":1", "not a JSON object");
	refuses("{\"type\":\"pong\",\"n\":1,\"x\":\"\xff\"}", "not a JSON object");
	refuses("{}", "no \"type\" that this node knows");
	refuses("{\"type\":\"fetch\"}", "no \"type\" that this node knows");
	refuses("{\"type\":1}", "no \"type\" that this node knows");
	refuses("{\"type\":\"pong\",\"n\":\"1\"}", "\"n\" is not a whole number");
}

static void
deep_and_long_lines_are_refused(void **state)
{
	struct buf b = {0};
	struct message m;
	struct err err = {0};

	for (int i = 0; i < 100000; i++)
		buf_adds(&b, "{\"a\":");
	assert_int_equal(message_parse(b.data, b.len, &m, &err), RC_BAD);
	message_fini(&m);
	buf_reset(&b);
	buf_adds(&b, "{\"type\":\"log\",\"run\":1,\"text\":\"");
	while (b.len < PROTOCOL_LINE - 2)
		buf_addc(&b, 'x');
	buf_adds(&b, "\"}");
	assert_int_equal(message_parse(b.data, b.len, &m, &err), RC_OK);
	message_fini(&m);
	buf_addc(&b, ' ');
	assert_int_equal(message_parse(b.data, b.len, &m, &err), RC_BAD);
	message_fini(&m);
	buf_fini(&b);
}

/* Under the sanitizers: whatever is broken in a message, reading it does no harm. */
static void
broken_messages_do_no_harm(void **state)
{
	static const char *const seed[] = {
	    "{\"type\":\"hello\",\"version\":1,\"kinds\":{\"a\":{\"schema\":{\"type\":\"object\"}}}}",
	    "{\"type\":\"result\",\"run\":1,\"ok\":true,\"value\":[1,{\"a\":\"\\\\\\\"b\"}]}",
	    "{\"value\":\"\\\\\",\"type\":\"result\",\"run\":1,\"ok\":true}",
	};
	uint64_t random = 7;

	for (int i = 0; i < 60000; i++) {
		char *line = xstrdup(seed[i % 3]);
		size_t n = strlen(line);
		struct message m;
		struct err err;

		for (int k = 0; k < 3; k++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			line[(random >> 33) % n] = "{}[]\",:\\0a \x80"[(random >> 20) % 12];
		}
		n -= (random >> 50) % n;
		(void)!message_parse(line, n, &m, &err);
		message_fini(&m);
		free(line);
	}
}

static void
a_task_is_one_line_of_json(void **state)
{
	struct run *r = run_create(17, 5, 3);
	struct buf b = {0};
	struct err err = {0};

	r->task.kind = xstrdup("send_email");
	r->task.name = xstrdup("a \"name\"\nof two lines \x01");
	r->task.command = xstrdup("");
	r->task.attempt = 2;
	r->task.max_attempts = 3;
	r->task.timeout_us = 1500000;
	r->task.traceparent = xstrdup("00-1-2-01");
	assert_int_equal(
	    pairs_parse("4:args,15:{\"user_id\": 7.},7:parents,8:{\"p\": 1},", 47, &r->task.args, &err),
	    RC_OK);
	protocol_task(&b, 9, r, "T", "3-5");
	assert_string_equal(buf_str(&b),
	    "{\"type\":\"task\",\"run\":9,\"id\":17,\"kind\":\"send_email\",\"attempt\":2,\"max_attempts\":3,"
	    "\"fire_at\":\"T\",\"fence\":\"3-5\",\"timeout\":1.500,\"traceparent\":\"00-1-2-01\",\"name\":"
	    "\"a \\\"name\\\"\\u000aof two "
	    "lines \\u0001\","
	    "\"args\":{\"user_id\": 7.},\"parents\":{\"p\": 1}}\n");
	buf_reset(&b);
	protocol_stop(&b, 9, PGRAB_STOP_CANCEL);
	protocol_ping(&b, 1);
	protocol_end(&b);
	assert_string_equal(buf_str(&b),
	    "{\"type\":\"stop\",\"run\":9,\"reason\":\"cancel\"}\n{\"type\":\"ping\",\"n\":1}\n"
	    "{\"type\":\"end\"}\n");
	buf_fini(&b);
	run_free(r);
}

static void
a_command_is_taken_apart_at_blanks(void **state)
{
	struct err err = {0};
	char **words;

	assert_int_equal(pool_words("  python3  'a b'\"c\" -x ''", &words, &err), RC_OK);
	assert_string_equal(words[0], "python3");
	assert_string_equal(words[1], "a bc");
	assert_string_equal(words[2], "-x");
	assert_string_equal(words[3], "");
	assert_null(words[4]);
	free(words);
	assert_int_equal(pool_words("a b c d e f g h", &words, &err), RC_OK);
	assert_null(words[8]);
	free(words);
	assert_int_equal(pool_words(" ", &words, &err), RC_BAD);
	assert_int_equal(pool_words("a 'b", &words, &err), RC_BAD);
	assert_non_null(strstr(err.text, "quote"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hello_names_kinds_and_schemas),
	    cmocka_unit_test(a_line_with_a_control_character_is_refused),
	    cmocka_unit_test(a_wrong_hello_says_what_is_wrong),
	    cmocka_unit_test(a_result_keeps_its_value_as_it_was_written),
	    cmocka_unit_test(a_step_has_a_name_and_perhaps_a_result),
	    cmocka_unit_test(the_answer_to_a_step),
	    cmocka_unit_test(a_failure_says_when_to_try_again),
	    cmocka_unit_test(progress_and_log_name_their_run),
	    cmocka_unit_test(what_is_no_message_is_refused),
	    cmocka_unit_test(deep_and_long_lines_are_refused),
	    cmocka_unit_test(broken_messages_do_no_harm),
	    cmocka_unit_test(a_task_is_one_line_of_json),
	    cmocka_unit_test(a_command_is_taken_apart_at_blanks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
