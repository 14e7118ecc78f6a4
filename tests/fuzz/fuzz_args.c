/*
 * What a row may ask of http, shell and exec, where a redirect may lead, and what a node's
 * http_hosts makes of it.  The first line is the command, each further one an arg, "key=value", but
 * for those that begin with
 *     >   a redirect: ">302 http://..."
 *     @   http_hosts
 *     %   an address that is connected to, of 4 or 16 bytes
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>

#include "base/netstr.h"
#include "exec/child.h"
#include "exec/surroundings.h"
#include "exec/http_guard.h"
#include "exec/http_request.h"
#include "fuzz.h"

#define LINES_MAX 64

struct row {
	char *line[LINES_MAX];
	struct pgrab_arg arg[LINES_MAX];
	struct pgrab_run run;
};

static void
check_headers(const struct http_request *r, const struct pgrab_run *run)
{
	struct curl_slist *all = http_request_headers(r, run);

	MUST(all != NULL);
	for (const struct curl_slist *h = all; h != NULL; h = h->next) {
		MUST(strpbrk(h->data, "\r\n") == NULL);
		MUST(strncasecmp(h->data, "content-length:", 15) != 0);
	}
	curl_slist_free_all(all);
}

static void
follow(struct http_request *r, const struct pgrab_run *run, char *line)
{
	char *location = line + strcspn(line, " "), host[256];
	int status = atoi(line);
	struct err err = {0};
	uint16_t port;

	location += strspn(location, " ");
	if (http_request_redirect(r, status, location, &err) != RC_OK) {
		MUST(err.text[0] != '\0');
		return;
	}
	check_headers(r, run);
	http_request_place(r, host, sizeof host, &port);
}

static void
ask_http(const struct row *row, size_t n)
{
	struct http_request r;
	struct err err = {0};

	if (http_request_init(&r, &row->run, &err) == RC_OK) {
		check_headers(&r, &row->run);
		for (size_t i = 0; i < n; i++) {
			if (row->line[i][0] == '>')
				follow(&r, &row->run, row->line[i] + 1);
		}
	} else {
		MUST(err.text[0] != '\0');
	}
	http_request_fini(&r);
}

static void
ask_child(const struct row *row, bool takes_argv)
{
	static const char *const argv[] = {"/bin/sh", "-c", NULL}, *const env[] = {"PATH=/bin", "A=", NULL};
	const struct keeper_limits node = {.memory = 1 << 30, .processes = 10};
	struct child_plan plan;
	struct keeper_limits limits;
	struct err err = {0};

	if (child_plan_make(&plan, argv, takes_argv, env, &row->run, &err) == RC_OK) {
		for (size_t i = 0; i < plan.env.n; i++)
			MUST(strchr(plan.env.item[i], '=') > plan.env.item[i]);
		MUST(plan.limits.memory >= 0 && plan.limits.processes >= 0 && plan.limits.cpu_percent >= 0);
		if (limits_within(&node, &plan.limits, &limits, &err) == RC_OK)
			MUST(limits.memory <= node.memory && limits.processes <= node.processes);
	} else {
		MUST(err.text[0] != '\0');
	}
	child_plan_fini(&plan);
}

/* An IPv4 address is judged alike in both of its forms. */
static void
judge(const struct http_hosts *hosts, const char *bytes)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(80)};
	char why[2][256] = {"", ""};
	size_t n = strnlen(bytes, 16);
	bool refused;

	memcpy(&four.sin_addr, bytes, n < 4 ? n : 4);
	memcpy(six.sin6_addr.s6_addr, (const uint8_t[12]){[10] = 0xff, [11] = 0xff}, 12);
	memcpy(six.sin6_addr.s6_addr + 12, &four.sin_addr, 4);
	refused = http_address_refused(hosts, false, (struct sockaddr *)&four, why[0], sizeof why[0]);
	MUST(refused == http_address_refused(hosts, false, (struct sockaddr *)&six, why[1], sizeof why[1]));
	MUST(strcmp(why[0], why[1]) == 0 && refused == (why[0][0] != '\0'));
	memcpy(six.sin6_addr.s6_addr, bytes, n);
	(void)http_address_refused(hosts, false, (struct sockaddr *)&six, why[0], sizeof why[0]);
}

static void
guard(const struct row *row, size_t n, const char *text)
{
	struct http_hosts hosts;
	struct err err = {0};
	char why[256] = "";
	bool listed;

	if (http_hosts_read(&hosts, "http_hosts", text, &err) == RC_OK) {
		for (size_t i = 0; i < n; i++) {
			if (row->line[i][0] == '%')
				judge(&hosts, row->line[i] + 1);
			else
				(void)http_host_refused(&hosts, row->line[i], 80, &listed, why, sizeof why);
		}
	} else {
		MUST(err.text[0] != '\0');
	}
	http_hosts_fini(&hosts);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	struct row row = {.run = {.size = sizeof row.run, .kind = "exec", .fire_at = "", .fence = "1-1"}};
	size_t n = 0;

	while (n < LINES_MAX && (row.line[n] = fuzz_next(&in, '\n')) != NULL)
		n++;
	for (size_t i = 1; i < n; i++) {
		char *value = strchr(row.line[i], '=');

		if (strchr(">@%", row.line[i][0]) != NULL || value == NULL)
			continue;
		*value = '\0';
		row.arg[row.run.n_args++] = (struct pgrab_arg){row.line[i], value + 1};
	}
	row.run.command = n == 0 ? "" : row.line[0];
	row.run.args = row.arg;
	ask_http(&row, n);
	ask_child(&row, false);
	ask_child(&row, true);
	guard(&row, n, NULL);
	for (size_t i = 0; i < n; i++) {
		if (row.line[i][0] == '@')
			guard(&row, n, row.line[i] + 1);
	}
	for (size_t i = 0; i < n; i++)
		free(row.line[i]);
	return 0;
}
