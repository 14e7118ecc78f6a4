/* Lines of the log as fields of the journal, read back from a socket in its place. */
#include "base/journal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static struct sockaddr_un place = {.sun_family = AF_UNIX};
static int reader, sender;

static int
setup(void **state)
{
	snprintf(place.sun_path, sizeof place.sun_path, "/tmp/pgrab-journal.%d", (int)getpid());
	unlink(place.sun_path);
	reader = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (bind(reader, (struct sockaddr *)&place, sizeof place) != 0)
		return -1;
	sender = journal_open(place.sun_path);
	return sender < 0 ? -1 : 0;
}

static int
teardown(void **state)
{
	close(sender);
	close(reader);
	unlink(place.sun_path);
	return 0;
}

static void
becomes(const char *line, const char *entry)
{
	char got[16 * 1024];
	ssize_t n;

	assert_true(journal_send(sender, line, strlen(line)));
	n = recv(reader, got, sizeof got - 1, 0);
	assert_true(n >= 0);
	got[n] = '\0';
	assert_string_equal(got, entry);
}

static void
journal_has_a_field_for_each_pair(void **state)
{
	becomes("2026-11-26T11:02:43.619Z warn  worker    node=n1 event=run task=17 key=\"a \\\"b\\\" c\" "
		"error=\"\"\n",
	    "SYSLOG_IDENTIFIER=pgrab\nPRIORITY=4\nPGRAB_THREAD=worker\n"
	    "MESSAGE=node=n1 event=run task=17 key=\"a \\\"b\\\" c\" error=\"\"\n"
	    "PGRAB_NODE=n1\nPGRAB_EVENT=run\nPGRAB_TASK=17\nPGRAB_KEY=a \"b\" c\nPGRAB_ERROR=\n");
	becomes("2026-11-26T11:02:43.619Z error main      event=failed a.b-c=1 cut=1\n",
	    "SYSLOG_IDENTIFIER=pgrab\nPRIORITY=3\nPGRAB_THREAD=main\nMESSAGE=event=failed a.b-c=1 cut=1\n"
	    "PGRAB_EVENT=failed\nPGRAB_A_B_C=1\nPGRAB_CUT=1\n");
	becomes("2026-11-26T11:02:43.619Z debug athreadname event=x\n",
	    "SYSLOG_IDENTIFIER=pgrab\nPRIORITY=7\nPGRAB_THREAD=athreadname\nMESSAGE=event=x\nPGRAB_EVENT="
	    "x\n");
}

/* No value ends a field: the log has escaped what would. */
static void
journal_is_not_deceived_by_values(void **state)
{
	becomes("2026-11-26T11:02:43.619Z info  main      event=x text=\"\\nPGRAB_TASK=1 \\\" task=2\" n=3\n",
	    "SYSLOG_IDENTIFIER=pgrab\nPRIORITY=6\nPGRAB_THREAD=main\n"
	    "MESSAGE=event=x text=\"\\nPGRAB_TASK=1 \\\" task=2\" n=3\n"
	    "PGRAB_EVENT=x\nPGRAB_TEXT=\\nPGRAB_TASK=1 \" task=2\nPGRAB_N=3\n");
}

static void
journal_that_is_not_there_takes_nothing(void **state)
{
	const char *line = "2026-11-26T11:02:43.619Z info  main      event=x\n";

	assert_int_equal(journal_open("/nowhere/socket"), -1);
	assert_false(journal_send(-1, line, strlen(line)));
	close(reader);
	assert_false(journal_send(sender, line, strlen(line)));
	reader = dup(sender);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(journal_has_a_field_for_each_pair, setup, teardown),
	    cmocka_unit_test_setup_teardown(journal_is_not_deceived_by_values, setup, teardown),
	    cmocka_unit_test_setup_teardown(journal_that_is_not_there_takes_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
