/*
 * Kind http: one request, and whether its reply is what the task expects; many at once.
 *
 * One multi handle, kept for its DNS cache, and a share for TLS sessions.  Names are resolved by threads of
 * libcurl's.  The thread waits in curl_multi_poll on all transfers and on a descriptor of the caller's; the
 * node enforces the time limits of runs.
 *
 * The server is asked to close the connection, and gets a moment to do so, in which others go on: the side
 * that closes first cannot use its port again for a minute, and a node would run out of them.
 */
#include "exec/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "exec/bounds.h"
#include "exec/exec.h"
#include "exec/http_transfer.h"
#include "exec/result.h"

#define REDIRECTS_MAX 5
#define CLOSE_US      (20 * US_PER_MS) /* for the server to close the connection first */
#define CLOSING_MAX   256              /* connections that wait for that */
#define WAIT_MAX_MS   60000            /* every wait has an end; a needless wake-up does no harm */

struct closing {
	int fd;
	int64_t until_us;
};

struct http {
	CURLM *multi;
	CURLSH *share;
	const struct exec_env *env;
	struct http_transfers under_way;
	struct http_transfers over;          /* their hop has ended, as ->code says, or could not begin */
	struct closing closing[CLOSING_MAX]; /* the oldest first */
	size_t n_closing;
	bool nowhere_told;
};

static pthread_once_t global_once = PTHREAD_ONCE_INIT;
static CURLcode global_code; /* written inside global_once only */

static void
global_init(void)
{
	global_code = curl_global_init(CURL_GLOBAL_DEFAULT);
}

void
http_close(struct http *h)
{
	curl_multi_cleanup(h->multi); /* closes what it still has */
	for (size_t i = 0; i < h->n_closing; i++)
		close(h->closing[i].fd);
	curl_share_cleanup(h->share);
	free(h);
}

struct http *
http_open(const struct exec_env *env, char *err, size_t err_size)
{
	struct http *h;

	pthread_once(&global_once, global_init);
	if (global_code != CURLE_OK) {
		snprintf(err, err_size, "libcurl cannot be used: %s", curl_easy_strerror(global_code));
		return NULL;
	}
	h = xcalloc(1, sizeof(*h));
	h->env = env;
	TAILQ_INIT(&h->under_way);
	TAILQ_INIT(&h->over);
	h->multi = curl_multi_init();
	h->share = curl_share_init(); /* of one thread: no locks */
	if (h->multi == NULL || h->share == NULL ||
	    curl_share_setopt(h->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION) != CURLSHE_OK) {
		snprintf(err, err_size, "libcurl could not be started: out of memory");
		http_close(h);
		return NULL;
	}
	return h;
}

/* Has the other side closed?  What it still sends is not wanted. */
static bool
has_closed(int fd)
{
	char junk[4096];
	ssize_t n = recv(fd, junk, sizeof junk, MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* Closes the socket when the other side has, or soon. */
static int
let_close(struct http *h, int fd)
{
	if (h->n_closing == CLOSING_MAX || has_closed(fd))
		return close(fd);
	h->closing[h->n_closing++] = (struct closing){fd, clock_mono_us() + CLOSE_US};
	return 0;
}

static struct http_transfer *
transfer_of(struct http_transfers *all, int fd)
{
	struct http_transfer *t;

	TAILQ_FOREACH (t, all, link) {
		if (t->fd[0] == fd || t->fd[1] == fd)
			break;
	}
	return t;
}

/* When a whole reply has come the server is about to close, too. */
int
http_on_close(void *http, curl_socket_t fd)
{
	struct http *h = http;
	struct http_transfer *t = transfer_of(&h->under_way, fd);
	bool whole;

	if (t == NULL)
		t = transfer_of(&h->over, fd);
	if (t == NULL)
		return close(fd);
	t->fd[t->fd[1] == fd] = -1;
	whole = t->stopped == PGRAB_STOP_NONE && http_status(t->easy) != 0;
	return whole ? let_close(h, fd) : close(fd);
}

static void
see_closing(struct http *h)
{
	int64_t now = clock_mono_us();
	size_t left = 0;

	for (size_t i = 0; i < h->n_closing; i++) {
		if (h->closing[i].until_us <= now || has_closed(h->closing[i].fd))
			close(h->closing[i].fd);
		else
			h->closing[left++] = h->closing[i];
	}
	h->n_closing = left;
}

static void
hop_over(struct http *h, struct http_transfer *t, CURLcode code)
{
	if (t->easy != NULL)
		curl_multi_remove_handle(h->multi, t->easy); /* it may not have been added */
	t->code = code;
	TAILQ_REMOVE(&h->under_way, t, link);
	TAILQ_INSERT_TAIL(&h->over, t, link);
}

static void
begin_hop(struct http *h, struct http_transfer *t)
{
	CURLcode code = http_hop_make(t, h->share);

	TAILQ_INSERT_TAIL(&h->under_way, t, link);
	if (code == CURLE_OK && curl_multi_add_handle(h->multi, t->easy) != CURLM_OK)
		code = CURLE_OUT_OF_MEMORY;
	if (code != CURLE_OK)
		hop_over(h, t, code);
}

/* Its receiver has a token, and cannot know where to bring it. */
static void
tell_nowhere(struct http *h, const struct pgrab_run *run)
{
	if (h->nowhere_told)
		return;
	h->nowhere_told = true;
	log_warn("no_callback_url",
	    "task=%" PRId64 " hint=\"args.await: without callback_url the request has no header "
	    "Pgrab-Callback, and only SQL can answer it\"",
	    run->task_id);
}

void
http_begin(struct http *h, const struct pgrab_run *run, const struct pgrab_host *host, http_ended_fn *ended)
{
	struct http_transfer *t = xcalloc(1, sizeof *t);
	struct err err;

	t->http = h;
	t->fd[0] = t->fd[1] = -1;
	t->run = run;
	t->host = host;
	t->ended = ended;
	t->result.size = sizeof t->result;
	t->hosts = &bounds_of(h->env->bounds, run->owner)->hosts;
	if (http_request_init(&t->request, run, &err) == RC_OK) {
		t->request.callback_url = h->env->callback_url;
		if (t->request.await && t->request.callback_url == NULL)
			tell_nowhere(h, run);
		begin_hop(h, t);
		return;
	}
	result_fail(&t->result, "%s", err.text);
	TAILQ_INSERT_TAIL(&h->over, t, link);
}

static bool
must_stop(struct http_transfer *t)
{
	t->stopped = t->host->stop(t->host->ctx);
	return t->stopped != PGRAB_STOP_NONE;
}

/* Where to go on after this reply; NULL: nowhere, the result says why. */
static const char *
judge(struct http_transfer *t)
{
	const char *location = NULL;

	if (t->result.error[0] != '\0') /* it was no request */
		return NULL;
	if (t->code != CURLE_OK) {
		http_explain(t, t->code, &t->result);
		t->result.not_started =
		    t->hops == 0 && t->stopped == PGRAB_STOP_NONE && http_could_not_start(t, t->code);
		return NULL;
	}
	location = http_hop_next(t);
	if (location == NULL)
		http_judge(t, &t->result);
	else if (t->hops == REDIRECTS_MAX)
		result_fail(&t->result, "more than %d redirects", REDIRECTS_MAX);
	else if (must_stop(t)) /* a node that was frozen reads its replies before it is told so */
		http_explain(t, CURLE_ABORTED_BY_CALLBACK, &t->result);
	else
		return location;
	return NULL;
}

/* Redirects or ends what is over. */
static void
settle(struct http *h, struct http_transfer *t)
{
	const char *location = judge(t);
	struct err err;

	TAILQ_REMOVE(&h->over, t, link);
	if (location != NULL &&
	    http_request_redirect(&t->request, http_status(t->easy), location, &err) == RC_OK) {
		t->hops++;
		begin_hop(h, t);
		return;
	}
	if (location != NULL)
		result_fail(&t->result, "%s", err.text);
	t->result.exit_code = http_status(t->easy);
	t->result.has_exit_code = t->result.exit_code != 0;
	http_hop_free(t);
	http_request_fini(&t->request);
	t->ended(t->host->ctx, &t->result);
	free(t);
}

void
http_look_at_stops(struct http *h)
{
	struct http_transfer *t, *next;

	for (t = TAILQ_FIRST(&h->under_way); t != NULL; t = next) {
		next = TAILQ_NEXT(t, link);
		if (must_stop(t))
			hop_over(h, t, CURLE_ABORTED_BY_CALLBACK);
	}
}

static int
wait_ms(const struct http *h, int64_t until_us)
{
	int64_t ms;

	if (!TAILQ_EMPTY(&h->over))
		return 0;
	if (h->n_closing > 0 && h->closing[0].until_us < until_us)
		until_us = h->closing[0].until_us;
	if (until_us == CLOCK_NEVER)
		return WAIT_MAX_MS;
	ms = (until_us - clock_mono_us() + US_PER_MS - 1) / US_PER_MS;
	return ms < 0 ? 0 : ms < WAIT_MAX_MS ? (int)ms : WAIT_MAX_MS;
}

bool
http_drive(struct http *h, int fd, int64_t until_us)
{
	struct curl_waitfd extra[1 + CLOSING_MAX] = {{.fd = fd, .events = CURL_WAIT_POLLIN}};
	struct http_transfer *t;
	int running, left;
	CURLMsg *m;

	for (size_t i = 0; i < h->n_closing; i++)
		extra[1 + i] = (struct curl_waitfd){.fd = h->closing[i].fd, .events = CURL_WAIT_POLLIN};
	curl_multi_poll(h->multi, extra, 1 + (unsigned)h->n_closing, wait_ms(h, until_us), NULL);
	curl_multi_perform(h->multi, &running);
	while ((m = curl_multi_info_read(h->multi, &left)) != NULL) {
		CURLcode code = m->data.result; /* m goes with its handle */

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
		hop_over(h, t, code);
	}
	see_closing(h);
	while ((t = TAILQ_FIRST(&h->over)) != NULL)
		settle(h, t);
	return extra[0].revents != 0;
}

/* Carried out by a crew of its own, not by workers. */
const struct pgrab_executor exec_http = {
    .abi = PGRAB_EXECUTOR_ABI,
    .size = sizeof(struct pgrab_executor),
    .kind = "http",
    .summary = "send an HTTP request and check the status of the reply",
};
