/*
 * The kinds shell and exec, with a real keeper: what the child gets, what is made of its end, and
 * that nothing holds the worker up.
 */
#include <setjmp.h>
#include <signal.h>
#include <poll.h>
#include <pwd.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "exec/bounds.h"
#include "exec/exec.h"
#include "fake_host.h"
#include "keeper/keeper.h"

#define GRACE_US (300 * US_PER_MS)

static struct exec_env env = {.dsn = "", .node_name = "test", .kill_grace_us = GRACE_US};

/* A host that can stop the run when it has printed a word, and need not keep what it prints. */
struct stage {
	struct fake_host f; /* first: f.host.ctx is the stage too */
	const char *stop_at;
	enum pgrab_stop why;
	bool stopped, drop;
	size_t bytes;
	unsigned lines_logged;
	struct pgrab_result result;
};

static void
stage_output(void *ctx, const void *bytes, size_t n)
{
	struct stage *s = ctx;

	s->bytes += n;
	if (!s->drop)
		buf_add(&s->f.output, bytes, n);
	if (s->stop_at != NULL && !s->stopped && strstr(buf_str(&s->f.output), s->stop_at) != NULL) {
		s->stopped = true;
		s->drop = true;
		fake_host_stop(&s->f, s->why);
	}
}

static void
stage_log(void *ctx, const char *text)
{
	((struct stage *)ctx)->lines_logged++;
}

static void
stage_init(struct stage *s)
{
	*s = (struct stage){0};
	fake_host_init(&s->f);
	s->f.host.output = stage_output;
	s->f.host.log = stage_log;
}

static const char *traceparent; /* of the runs of the test that runs */

static void
perform(struct stage *s, const struct pgrab_executor *x, const char *command, const struct pgrab_arg *args)
{
	struct pgrab_run run = {.size = sizeof run,
	    .task_id = 42,
	    .version = 7,
	    .incarnation = 99,
	    .name = "",
	    .kind = x->kind,
	    .command = command,
	    .fire_at = "2026-11-21T05:00:00.000000Z",
	    .fence = "99-7",
	    .attempt = 2,
	    .max_attempts = 3,
	    .args = args,
	    .traceparent = traceparent};
	char err[200] = "";
	void *self = x->open(&env, err, sizeof err);

	while (args != NULL && args[run.n_args].key != NULL)
		run.n_args++;
	assert_non_null(self);
	x->run(self, &run, &s->f.host, &s->result);
	x->close(self);
}

static void
expect_failure(const struct stage *s, int exit_code, const char *error)
{
	assert_false(s->result.succeeded);
	assert_false(s->result.not_started);
	assert_string_equal(s->result.error, error);
	assert_int_equal(s->result.has_exit_code, exit_code >= 0);
	if (exit_code >= 0)
		assert_int_equal(s->result.exit_code, exit_code);
}

static void
shell_fails(const char *line, int exit_code, const char *error)
{
	struct stage s;

	stage_init(&s);
	perform(&s, &exec_shell, line, NULL);
	expect_failure(&s, exit_code, error);
	fake_host_fini(&s.f);
}

static void
exec_fails(const char *program, const struct pgrab_arg *args, int exit_code, const char *error)
{
	struct stage s;

	stage_init(&s);
	perform(&s, &exec_exec, program, args);
	expect_failure(&s, exit_code, error);
	fake_host_fini(&s.f);
}

static void
prints(const struct pgrab_executor *x, const char *command, const struct pgrab_arg *args, const char *output)
{
	struct stage s;

	stage_init(&s);
	perform(&s, x, command, args);
	if (!s.result.succeeded)
		fail_msg("%s", s.result.error);
	assert_true(s.result.has_exit_code && s.result.exit_code == 0);
	assert_string_equal(buf_str(&s.f.output), output);
	fake_host_fini(&s.f);
}

static void
shell_runs_a_line(void **state)
{
	prints(&exec_shell, "echo out; echo err >&2; false || echo \"$0\"", NULL, "out\nerr\n/bin/sh\n");
	prints(&exec_shell, "-x 2>/dev/null; echo no options", NULL, "no options\n");
}

static void
exec_passes_its_arguments_untouched(void **state)
{
	const struct pgrab_arg args[] = {{"argv", "<%s>"}, {"argv", "a b"}, {"argv", "$(id)"}, {"argv", ""},
	    {"argv", "*;'\""}, {NULL, NULL}};

	prints(&exec_exec, "/usr/bin/printf", args, "<a b><$(id)><><*;'\">");
}

static struct bounds_list bounds, no_bounds;

/* From here to unbind() these hold for the task that runs. */
static void
bind_to(struct bounds_common common, struct bounds_texts texts)
{
	struct err err = {0};

	common.job_cwd = common.job_cwd == NULL ? "/" : common.job_cwd;
	common.job_umask = common.job_umask == NULL ? "077" : common.job_umask;
	if (bounds_make(&bounds, &common, &texts, 1, &err) != RC_OK)
		fail_msg("%s", err.text);
	env.bounds = &bounds;
}

static void
unbind(void)
{
	env.bounds = &no_bounds;
	bounds_fini(&bounds);
}

static void
child_gets_exactly_its_environment(void **state)
{
	const struct pgrab_arg args[] = {{"env", "A=1 2"}, {"env", "PGRAB_FENCE=mine"}, {"env", "HOME=/tmp"},
	    {"env", "A=3"}, {"env", "EMPTY="}, {NULL, NULL}};

	bind_to((struct bounds_common){.allow_root = true,
		    .job_env = "PATH=/srv/bin:/usr/bin:/bin, TZ=Europe/Berlin,USER=me,LOGNAME=me"},
	    (struct bounds_texts){0});
	setenv("PGPASSWORD", "secret", 1);
	setenv("PGRAB_DSN", "secret", 1);
	prints(&exec_exec, "/usr/bin/env", args,
	    "PATH=/srv/bin:/usr/bin:/bin\nLANG=C.UTF-8\nHOME=/tmp\nSHELL=/bin/sh\nUSER=me\nLOGNAME=me\n"
	    "TZ=Europe/"
	    "Berlin\nA=3\nPGRAB_FENCE=99-7\nEMPTY=\nPGRAB_TASK_ID=42\nPGRAB_FIRE_AT=2026-11-21T05:00:00."
	    "000000Z\n"
	    "PGRAB_ATTEMPT=2\nPGRAB_IDEMPOTENCY_KEY=42-2026-11-21T05:00:00.000000Z\n");
	unbind();
}

static void
child_gets_the_trace_of_its_run(void **state)
{
	const struct pgrab_arg args[] = {{"env", "TRACEPARENT=mine"}, {NULL, NULL}};

	prints(&exec_shell, "echo $TRACEPARENT", args, "mine\n");
	traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
	prints(&exec_shell, "echo $TRACEPARENT", args,
	    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n");
	traceparent = NULL;
}

static void
child_gets_its_input_and_its_folder(void **state)
{
	const struct pgrab_arg args[] = {{"stdin", "in\nput"}, {"cwd", "/usr"}, {NULL, NULL}};

	prints(&exec_shell, "cat; pwd", args, "in\nput/usr\n");
	prints(&exec_shell, "cat; pwd", NULL, "/\n");
}

static void
child_gets_the_umask_that_its_task_asks_for(void **state)
{
	const struct pgrab_arg args[] = {{"umask", "022"}, {NULL, NULL}};

	prints(&exec_shell, "umask", args, "0022\n");
	prints(&exec_shell, "umask", NULL, "0077\n");
}

static void
child_gets_the_surroundings_of_its_node(void **state)
{
	struct passwd *me = getpwuid(getuid());
	char want[300];

	snprintf(want, sizeof want, "%s %s %s /bin/sh C.UTF-8\n", me->pw_dir, me->pw_name, me->pw_name);
	prints(&exec_shell, "echo $HOME $USER $LOGNAME $SHELL $LANG", NULL, want);
	bind_to(
	    (struct bounds_common){.allow_root = true, .job_cwd = "/usr", .job_umask = "027", .job_nice = 3},
	    (struct bounds_texts){0});
	snprintf(want, sizeof want, "/usr\n0027\n%d\n", getpriority(PRIO_PROCESS, 0) + 3);
	prints(&exec_shell, "pwd; umask; nice", NULL, want);
	unbind();
}

static void
surroundings_are_checked(const char *job_env, const char *cwd, const char *mask, const char *error)
{
	struct surroundings around;
	struct err err = {0};

	assert_int_equal(surroundings_make(&around, job_env, cwd, mask, 0, &err), RC_BAD);
	assert_string_equal(err.text, error);
	surroundings_fini(&around);
}

static void
wrong_surroundings_are_named(void **state)
{
	surroundings_are_checked(
	    "A", "/", "077", "job_env: \"A\" is not NAME=value; write it as HOME=/srv/jobs,TZ=Europe/Berlin");
	surroundings_are_checked(NULL, "tmp", "077", "job_cwd: \"tmp\" does not begin with a slash");
	surroundings_are_checked(NULL, "/", "8", "job_umask: \"8\" is not an octal number from 001 to 777");
}

static void
limits_are_read_and_bounded(void **state)
{
	const struct pgrab_arg size[] = {{"limits", "memory=12"}, {NULL, NULL}},
			       word[] = {{"limits", "disk=1GB"}, {NULL, NULL}},
			       half[] = {{"limits", "processes=0.5"}, {NULL, NULL}},
			       cpu[] = {{"limits", "cpu=much"}, {NULL, NULL}},
			       more[] = {{"limits", "memory=2GB"}, {NULL, NULL}},
			       less[] = {{"limits", "memory=512MB"}, {NULL, NULL}};
	const struct bounds_common common = {.allow_root = true};

	exec_fails("/bin/true", size, -1,
	    "args.limits: \"memory=12\": memory is a size of 1MB or more, such as 512MB");
	exec_fails(
	    "/bin/true", word, -1, "args.limits: \"disk=1GB\": the limits are memory, processes and cpu");
	exec_fails("/bin/true", half, -1,
	    "args.limits: \"processes=0.5\": processes is a whole number of 1 or more");
	exec_fails(
	    "/bin/true", cpu, -1, "args.limits: \"cpu=much\": cpu is a number of processors, such as 0.5");
	bind_to(common, (struct bounds_texts){.limits = "memory=1GB"});
	exec_fails("/bin/true", more, -1,
	    "could not start: args.limits: memory is more than this node allows (job_limits)");
	prints(&exec_shell, "ulimit -v", NULL, "1048576\n"); /* without control groups, as here */
	prints(&exec_shell, "ulimit -v", less, "524288\n");
	unbind();
	bind_to(common, (struct bounds_texts){.limits = "processes=10"});
	exec_fails("/bin/true", NULL, -1,
	    "could not start: this node cannot enforce limits on processes and cpu (Operation not "
	    "supported)");
	unbind();
}

static void
job_is_the_user_that_the_file_names_in_his_folder(void **state)
{
	const struct bounds_common common = {0};

	if (!keeper_can_switch()) {
		print_message("# skipped: another user is only for root\n");
		skip();
	}
	bind_to(common, (struct bounds_texts){.run_as = "nobody:daemon"});
	prints(&exec_shell, "id -un; id -gn; echo $USER $LOGNAME $HOME; pwd", NULL,
	    "nobody\ndaemon\nnobody nobody /nonexistent\n/\n");
	unbind();
	bind_to(common, (struct bounds_texts){.run_as = "nobody", .directory = "/tmp"});
	prints(&exec_shell, "id -un; id -gn; echo $HOME; pwd; cat /etc/shadow 2>&1 | cut -c1-30", NULL,
	    "nobody\nnogroup\n/tmp\n/tmp\ncat: /etc/shadow: Permission d\n");
	unbind();
	bind_to(common, (struct bounds_texts){.run_as = "4321:65"}); /* nobody has this number */
	prints(&exec_shell, "id -u; id -g; id -G; echo $HOME", NULL, "4321\n65\n65\n/\n");
	unbind();
}

static void
nothing_is_root_unless_the_file_says_so(void **state)
{
	if (geteuid() != 0) {
		print_message("# skipped: this is about root\n");
		skip();
	}
	bind_to((struct bounds_common){0}, (struct bounds_texts){0});
	exec_fails("/bin/true", NULL, -1,
	    "could not start: this node runs as root, and its file neither names a user for the "
	    "task (run_as) nor says allow_root = yes");
	unbind();
	bind_to((struct bounds_common){0}, (struct bounds_texts){.run_as = "root"});
	prints(&exec_shell, "id -u", NULL, "0\n");
	unbind();
}

static void
only_listed_programs_are_started(void **state)
{
	static const char *const steering[] = {"LD_PRELOAD=/x.so", "SHELLOPTS=xtrace", "PERL5OPT=-d",
	    "PYTHONPATH=/x", "NODE_OPTIONS=-r/x", "AB=1", "a=1"};
	const struct pgrab_arg fine[] = {{"env", "A=1"}, {NULL, NULL}};

	bind_to((struct bounds_common){.allow_root = true},
	    (struct bounds_texts){.programs = "/usr/bin/env, /bin/true", .variables = "A, B"});
	exec_fails("/bin/echo", NULL, -1,
	    "could not start: /bin/echo is not among the programs that the file of this node allows "
	    "(programs)");
	exec_fails("true", NULL, -1,
	    "could not start: true is not among the programs that the file of this node allows (programs)");
	exec_fails("/bin/../bin/true", NULL, -1,
	    "could not start: /bin/../bin/true is not among the programs that the file of this node allows "
	    "(programs)");
	for (size_t i = 0; i < sizeof steering / sizeof *steering; i++) {
		char said[200];

		snprintf(said, sizeof said,
		    "could not start: args.env has %.*s; where the file of this node lists programs, it "
		    "must list the variables that a task may set, too (variables)",
		    (int)strcspn(steering[i], "="), steering[i]);
		exec_fails(
		    "/bin/true", (const struct pgrab_arg[]){{"env", steering[i]}, {NULL, NULL}}, -1, said);
	}
	prints(&exec_exec, "/bin/true", fine, "");
	assert_int_equal(
	    bounds_program(&bounds.item[0], "/bin/sh", (const char *const[]){NULL}, NULL), RC_BAD);
	unbind();
	bind_to((struct bounds_common){.allow_root = true}, (struct bounds_texts){.programs = "/bin/sh"});
	prints(&exec_shell, "echo x", NULL, "x\n");
	assert_int_equal(
	    bounds_program(&bounds.item[0], "/bin/sh", (const char *const[]){"A=1", NULL}, NULL), RC_BAD);
	unbind();
}

static void
bounds_are_refused(struct bounds_texts texts, const char *error)
{
	const struct bounds_common common = {.job_cwd = "/", .job_umask = "077"};
	struct bounds_texts all[2] = {{0}, texts};
	struct bounds_list l;
	struct err err = {0};

	assert_int_equal(bounds_make(&l, &common, all, 2, &err), RC_BAD);
	assert_string_equal(err.text, error);
	bounds_fini(&l);
}

static void
wrong_bounds_are_named(void **state)
{
	bounds_are_refused((struct bounds_texts){.owner = "app", .run_as = "no such"},
	    "[owner app] run_as: there is no user \"no such\" on this machine");
	bounds_are_refused((struct bounds_texts){.owner = "app", .run_as = "nobody:none"},
	    "[owner app] run_as: there is no group \"none\" on this machine");
	bounds_are_refused((struct bounds_texts){.owner = "app", .run_as = ""},
	    "[owner app] run_as: there is no user \"\" on this machine");
	bounds_are_refused((struct bounds_texts){.owner = "app", .directory = "srv"},
	    "[owner app] directory: \"srv\" does not begin with a slash");
	bounds_are_refused((struct bounds_texts){.owner = "app", .programs = "/bin/true, backup"},
	    "[owner app] programs: \"backup\" does not begin with a slash; name programs by their whole "
	    "path");
	bounds_are_refused((struct bounds_texts){.owner = "app", .limits = "memory=1"},
	    "[owner app] limits: \"memory=1\": memory is a size of 1MB or more, such as 512MB");
	bounds_are_refused((struct bounds_texts){.owner = "app", .http_hosts = "10.0.0.0/33"},
	    "[owner app] http_hosts: \"10.0.0.0/33\" is not a host; write api.example.org, "
	    "*.example.org:443, "
	    "10.0.0.0/8 or [fd00::]/8:8080");
}

/* What a section leaves out is as for everybody; who has no section is everybody. */
static void
bounds_belong_to_their_owner(void **state)
{
	const struct bounds_common common = {.job_cwd = "/", .job_umask = "077", .allow_root = true};
	const struct bounds_texts texts[] = {{.limits = "memory=1GB"}, {.owner = "app", .directory = "/srv"},
	    {.owner = "etl", .limits = "memory=2GB"}};
	struct bounds_list l;
	struct err err = {0};

	assert_int_equal(bounds_make(&l, &common, texts, 3, &err), RC_OK);
	assert_ptr_equal(bounds_of(&l, "app"), &l.item[1]);
	assert_ptr_equal(bounds_of(&l, "ap"), &l.item[0]);
	assert_ptr_equal(bounds_of(&l, NULL), &l.item[0]);
	assert_int_equal(l.item[1].around.limits.memory, 1 << 30);
	assert_int_equal(l.item[2].around.limits.memory, INT64_C(2) << 30);
	assert_string_equal(l.item[1].around.cwd, "/srv");
	assert_string_equal(l.item[2].around.cwd, "/");
	bounds_fini(&l);
}

/* The kernel takes 128 KiB in one argument. */
static void
shell_runs_a_text_of_a_mebibyte(void **state)
{
	size_t size = 1024 * 1024;
	char *text = malloc(size + 1);
	const char end[] = "\nls /proc/self/fd; cat; echo \"$x\"; exit 0";
	const struct pgrab_arg args[] = {{"stdin", "in\n"}, {NULL, NULL}};

	memset(text, ' ', size);
	memcpy(text, "x=seen; : '", 11);
	memset(text + 11, 'y', size / 2);
	memcpy(text + 11 + size / 2, "'", 1);
	memcpy(text + size - strlen(end), end, sizeof end);
	prints(&exec_shell, text, NULL, "0\n1\n2\n3\nseen\n"); /* 3 is the folder that ls reads */
	prints(&exec_shell, text, args, "0\n1\n2\n3\nin\nseen\n");
	free(text);
}

static void
child_gets_input_of_a_megabyte(void **state)
{
	char *text = malloc(1000001);
	const struct pgrab_arg args[] = {{"stdin", text}, {NULL, NULL}};

	memset(text, 'x', 1000000);
	text[1000000] = '\0';
	prints(&exec_exec, "/bin/true", args, ""); /* nobody has to read it */
	prints(&exec_shell, "wc -c", args, "1000000\n");
	free(text);
}

static void
wrong_args_are_named(void **state)
{
	const struct pgrab_arg unknown[] = {{"comand", "x"}, {NULL, NULL}},
			       argv[] = {{"argv", "x"}, {NULL, NULL}},
			       twice[] = {{"cwd", "/"}, {"cwd", "/"}, {NULL, NULL}},
			       name[] = {{"env", "A"}, {NULL, NULL}};

	exec_fails("/bin/true", unknown, -1,
	    "kind exec knows no args.comand; it knows argv, env, stdin, cwd, umask, limits");
	exec_fails("/bin/true", twice, -1, "args.cwd must be one text, not an array or an object");
	exec_fails("/bin/true", name, -1,
	    "args.env must be an object of names and values, {\"NAME\": \"value\"}; it has \"A\"");
	exec_fails("", NULL, -1, "command is empty; for kind exec it is the path of a program");
	shell_fails(" \n", -1, "command is empty; for kind shell it is a line for /bin/sh");
	struct stage s;

	stage_init(&s);
	perform(&s, &exec_shell, "true", argv);
	expect_failure(&s, -1, "kind shell knows no args.argv; it knows env, stdin, cwd, umask, limits");
	fake_host_fini(&s.f);
}

static void
ends_are_told_apart(void **state)
{
	shell_fails("exit 3", 3, "exit code 3");
	shell_fails("kill -KILL $$", 137, "killed by signal 9 (Killed)");
	shell_fails("kill -SEGV $$", 139, "killed by signal 11 (Segmentation fault)");
	shell_fails("/no/such/program 2>/dev/null", 127, "exit code 127");
	shell_fails("echo begun; echo 'disk full' >&2; echo; exit 3", 3, "exit code 3: disk full");
	shell_fails("echo on my own; kill -KILL $$", 137, "killed by signal 9 (Killed): on my own");
}

static void
what_can_not_be_executed_is_the_tasks_failure(void **state)
{
	const struct pgrab_arg cwd[] = {{"cwd", "/no/such"}, {NULL, NULL}};
	char *large = malloc(200001);
	const struct pgrab_arg args[] = {{"argv", large}, {NULL, NULL}};

	memset(large, 'x', 200000);
	large[200000] = '\0';
	exec_fails("/exec/x/y", NULL, -1, "could not start: No such file or directory (exec /exec/x/y)");
	exec_fails("/etc/passwd", NULL, -1, "could not start: Permission denied (exec /etc/passwd)");
	exec_fails("/bin/true", cwd, -1, "could not start: No such file or directory (chdir /no/such)");
	exec_fails("/bin/true", args, -1, "could not start: Argument list too long (exec /bin/true)");
	free(large);
}

static void
output_is_taken_whole_and_as_it_is(void **state)
{
	struct stage s;

	stage_init(&s);
	s.drop = true;
	perform(&s, &exec_shell, "head -c 10000000 /dev/zero", NULL);
	assert_true(s.result.succeeded);
	assert_int_equal(s.bytes, 10000000);
	fake_host_fini(&s.f);
	stage_init(&s);
	perform(&s, &exec_shell, "printf 'a\\000b\\377'", NULL);
	assert_int_equal(s.f.output.len, 4);
	assert_memory_equal(s.f.output.data, "a\0b\377", 4);
	fake_host_fini(&s.f);
}

static void
child_that_closes_its_output_is_waited_for(void **state)
{
	shell_fails("exec >&- 2>&-; sleep 0.2; exit 5", 5, "exit code 5");
}

static void
grandchild_that_keeps_the_pipe_holds_nobody_up(void **state)
{
	struct stage s;
	int64_t at = clock_mono_us();

	stage_init(&s);
	perform(&s, &exec_shell, "(setsid sleep 300 &); (sleep 300 &); echo started", NULL);
	assert_true(s.result.succeeded);
	assert_string_equal(buf_str(&s.f.output), "started\n");
	assert_true(clock_mono_us() - at < 15 * US_PER_S);
	assert_int_equal(s.lines_logged, 1); /* that they were killed */
	fake_host_fini(&s.f);
}

static void
stopped_on_ready(const char *line, enum pgrab_stop why, int exit_code, const char *error)
{
	struct stage s;
	int64_t at = clock_mono_us();

	stage_init(&s);
	s.stop_at = "ready";
	s.why = why;
	perform(&s, &exec_shell, line, NULL);
	assert_true(s.stopped);
	expect_failure(&s, exit_code, error);
	assert_true(clock_mono_us() - at < 15 * US_PER_S);
	fake_host_fini(&s.f);
}

static void
stops_are_told_apart(void **state)
{
	stopped_on_ready("echo ready; sleep 100", PGRAB_STOP_TIMEOUT, 143, "timed out");
	stopped_on_ready("echo ready; sleep 100", PGRAB_STOP_CANCEL, 143, "cancelled");
	stopped_on_ready(
	    "echo ready; sleep 100", PGRAB_STOP_FENCED, 143, "stopped because the node lost its lease");
	stopped_on_ready(
	    "echo ready; sleep 100", PGRAB_STOP_SHUTDOWN, 143, "stopped because the node shuts down");
}

static void
stop_ends_the_deaf_and_those_who_say_that_all_is_well(void **state)
{
	stopped_on_ready(
	    "trap '' TERM; echo ready; sleep 100; sleep 100", PGRAB_STOP_TIMEOUT, 137, "timed out");
	stopped_on_ready(
	    "trap 'exit 0' TERM; sleep 100 & echo ready; wait", PGRAB_STOP_TIMEOUT, 0, "timed out");
}

static void
stop_is_heard_through_a_flood_of_output(void **state)
{
	stopped_on_ready("trap '' TERM; echo ready; yes; yes", PGRAB_STOP_CANCEL, 137, "cancelled");
}

/* Ended, waited for or not. */
static bool
is_dead(pid_t pid)
{
	struct pollfd p = {.fd = pidfd_open(pid, 0), .events = POLLIN};
	bool dead = p.fd < 0 || poll(&p, 1, 0) == 1;

	if (p.fd >= 0)
		close(p.fd);
	return dead;
}

/* The line freezes or kills what watches over it, then says its id, "ready", and hears no TERM. */
#define KEEPER_OF_PPID "$(cut -d' ' -f4 /proc/$PPID/stat)"
static void
is_dead_when_it_is_reported(const char *harm, enum pgrab_stop why, const char *error, unsigned lines_logged)
{
	char line[300];
	struct stage s;

	snprintf(line, sizeof line, "trap '' TERM; %s; echo $$ ready; sleep 100; sleep 100", harm);
	stage_init(&s);
	s.stop_at = "ready";
	s.why = why;
	perform(&s, &exec_shell, line, NULL);
	assert_true(s.stopped && !s.result.succeeded);
	assert_true(is_dead((pid_t)atoi(buf_str(&s.f.output))));
	assert_string_equal(s.result.error, error);
	assert_true(s.lines_logged >= lines_logged);
	fake_host_fini(&s.f);
}

static void
no_run_is_reported_while_it_still_runs(void **state)
{
	is_dead_when_it_is_reported("kill -STOP $PPID", PGRAB_STOP_TIMEOUT, "timed out", 0);
	is_dead_when_it_is_reported("kill -STOP $PPID", PGRAB_STOP_CANCEL, "cancelled", 0);
	is_dead_when_it_is_reported(
	    "kill -STOP $PPID; kill -KILL " KEEPER_OF_PPID, PGRAB_STOP_TIMEOUT, "timed out", 0);
	/* Until it is noticed that the keeper does nothing, the log says what is waited for. */
	is_dead_when_it_is_reported(
	    "kill -STOP $PPID; kill -STOP " KEEPER_OF_PPID, PGRAB_STOP_CANCEL, "cancelled", 1);
	/* A shim that is well says itself that nothing is left. */
	is_dead_when_it_is_reported("kill -STOP " KEEPER_OF_PPID, PGRAB_STOP_TIMEOUT, "timed out", 0);
}

static void
stop_before_the_start_counts(void **state)
{
	struct stage s;

	stage_init(&s);
	fake_host_stop(&s.f, PGRAB_STOP_CANCEL);
	perform(&s, &exec_shell, "sleep 100", NULL);
	assert_false(s.result.succeeded || s.result.not_started);
	assert_string_equal(s.result.error, "cancelled");
	fake_host_fini(&s.f);
}

static void
stop_that_comes_too_late_takes_nothing_away(void **state)
{
	struct stage s;

	stage_init(&s);
	s.stop_at = "ready";
	s.why = PGRAB_STOP_TIMEOUT;
	perform(&s, &exec_shell, "echo ready", NULL);
	/* Either the shell had ended when the stop came, or the stop was first; never something in
	 * between. */
	assert_true(
	    s.result.succeeded ? s.result.error[0] == '\0' : strcmp(s.result.error, "timed out") == 0);
	fake_host_fini(&s.f);
}

static void
lease_that_is_over_is_no_attempt(void **state)
{
	struct stage s;

	stage_init(&s);
	keeper_lease(env.keeper, clock_boot_us());
	perform(&s, &exec_shell, "echo executed", NULL);
	keeper_lease(env.keeper, CLOCK_NEVER);
	assert_true(s.result.not_started);
	assert_string_equal(buf_str(&s.f.output), "");
	assert_string_equal(s.result.error, "could not start: the node's lease is over");
	fake_host_fini(&s.f);
}

static void
watcher_that_is_killed_leaves_the_outcome_unknown(void **state)
{
	shell_fails("kill -KILL $PPID; sleep 100", -1,
	    "the process that watched over the run was killed; how the run ended is unknown");
}

static void
without_a_keeper_nothing_opens_and_nothing_counts(void **state)
{
	struct exec_env none = {0};
	const struct keeper_setup setup = {.kill_grace_us = GRACE_US, .will_fd = -1};
	struct keeper *dead = NULL, *alive = env.keeper;
	struct err err = {0};
	struct stage s;
	char text[100] = "";

	assert_null(exec_shell.open(&none, text, sizeof text));
	assert_non_null(strstr(text, "keeper"));
	assert_int_equal(keeper_start(&dead, &setup, &err), RC_OK);
	kill(keeper_pid(dead), SIGKILL);
	env.keeper = dead;
	stage_init(&s);
	perform(&s, &exec_shell, "echo executed", NULL);
	env.keeper = alive;
	assert_true(!s.result.succeeded && s.bytes == 0);
	keeper_stop(&dead);
	fake_host_fini(&s.f);
}

static int
start_keeper(void **state)
{
	const struct keeper_setup setup = {.kill_grace_us = GRACE_US, .will_fd = -1};
	const struct bounds_common common = {.job_cwd = "/", .job_umask = "077", .allow_root = true};
	const struct bounds_texts nobody = {0};
	struct err err = {0};

	if (bounds_make(&no_bounds, &common, &nobody, 1, &err) != RC_OK ||
	    keeper_start(&env.keeper, &setup, &err) != RC_OK)
		return -1;
	env.bounds = &no_bounds;
	keeper_lease(env.keeper, CLOCK_NEVER);
	return 0;
}

static int
stop_keeper(void **state)
{
	keeper_stop(&env.keeper);
	bounds_fini(&no_bounds);
	return waitpid(-1, NULL, WNOHANG) == -1 ? 0 : -1;
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(shell_runs_a_line),
	    cmocka_unit_test(exec_passes_its_arguments_untouched),
	    cmocka_unit_test(child_gets_exactly_its_environment),
	    cmocka_unit_test(child_gets_the_trace_of_its_run),
	    cmocka_unit_test(child_gets_its_input_and_its_folder),
	    cmocka_unit_test(child_gets_the_umask_that_its_task_asks_for),
	    cmocka_unit_test(child_gets_the_surroundings_of_its_node),
	    cmocka_unit_test(wrong_surroundings_are_named),
	    cmocka_unit_test(job_is_the_user_that_the_file_names_in_his_folder),
	    cmocka_unit_test(nothing_is_root_unless_the_file_says_so),
	    cmocka_unit_test(only_listed_programs_are_started),
	    cmocka_unit_test(wrong_bounds_are_named),
	    cmocka_unit_test(bounds_belong_to_their_owner),
	    cmocka_unit_test(limits_are_read_and_bounded),
	    cmocka_unit_test(shell_runs_a_text_of_a_mebibyte),
	    cmocka_unit_test(child_gets_input_of_a_megabyte),
	    cmocka_unit_test(wrong_args_are_named),
	    cmocka_unit_test(ends_are_told_apart),
	    cmocka_unit_test(what_can_not_be_executed_is_the_tasks_failure),
	    cmocka_unit_test(output_is_taken_whole_and_as_it_is),
	    cmocka_unit_test(child_that_closes_its_output_is_waited_for),
	    cmocka_unit_test(grandchild_that_keeps_the_pipe_holds_nobody_up),
	    cmocka_unit_test(stops_are_told_apart),
	    cmocka_unit_test(stop_ends_the_deaf_and_those_who_say_that_all_is_well),
	    cmocka_unit_test(stop_is_heard_through_a_flood_of_output),
	    cmocka_unit_test(no_run_is_reported_while_it_still_runs),
	    cmocka_unit_test(stop_before_the_start_counts),
	    cmocka_unit_test(stop_that_comes_too_late_takes_nothing_away),
	    cmocka_unit_test(lease_that_is_over_is_no_attempt),
	    cmocka_unit_test(watcher_that_is_killed_leaves_the_outcome_unknown),
	    cmocka_unit_test(without_a_keeper_nothing_opens_and_nothing_counts),
	};

	if (argc > 1 && strcmp(argv[1], KEEPER_ARGV1) == 0)
		return keeper_main(argc, argv);
	return cmocka_run_group_tests(tests, start_keeper, stop_keeper);
}
