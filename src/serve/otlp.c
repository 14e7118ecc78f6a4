/* See otlp.h.  The spans themselves are made by the database: migrations/api/73_spans.sql. */
#include "serve/otlp.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <curl/curl.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/version.h"
#include "core/backoff.h"
#include "db/pg.h"
#include "db/sql.h"

#define SLICE      "500" /* runs */
#define EVERY_US   (1 * US_PER_S)
#define ANSWER_MAX ((size_t)64 * 1024)
#define WITHIN_S   10L

struct otlp {
	const struct serve_settings *set;
	pthread_t thread;
	struct gate gate;
	_Atomic int64_t sent, refused, dropped, behind_us;
	/* the thread's */
	struct db *db;
	CURL *curl;
	struct curl_slist *headers;
	char *url, *behind;
	char at[64], id[24], version[24]; /* how far it has come; at "": it has yet to begin */
	struct backoff backoff;
	bool failing; /* and has said so */
};

/* Of serve_spans. */
enum column { AT, ID, VERSION, DROPPED, RUNS, SPANS, BEHIND };

static size_t
on_answer(char *data, size_t size, size_t n, void *arg)
{
	struct buf *answer = arg;

	if (answer->len + size * n <= ANSWER_MAX) /* the rest is not looked at: the status says enough */
		buf_add(answer, data, size * n);
	return size * n;
}

static int
on_progress(void *arg, curl_off_t down_all, curl_off_t down, curl_off_t up_all, curl_off_t up)
{
	return gate_stopped(arg) ? 1 : 0;
}

/* Says it once, until it is over. */
static void
tell_failing(struct otlp *o, const char *why)
{
	if (!o->failing)
		log_warn("otlp", "error=\"%s\" note=\"it is tried again\"", why);
	o->failing = true;
}

static void
put_request(const struct otlp *o, const char *spans, struct buf *out)
{
	buf_adds(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
		      "{\"key\":\"service.name\",\"value\":{\"stringValue\":");
	buf_json(out, o->set->title);
	buf_adds(out, "}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"pgrab\",\"version\":");
	buf_json(out, version_text());
	buf_addf(out, "},\"spans\":[%s]}]}]}", spans);
}

/* What an answer of 200 says that it has not taken. */
static int64_t
count_rejected(const struct buf *answer)
{
	cJSON *all = cJSON_ParseWithLength(answer->data == NULL ? "" : answer->data, answer->len);
	const cJSON *partial = cJSON_GetObjectItemCaseSensitive(all, "partialSuccess");
	const cJSON *n = cJSON_GetObjectItemCaseSensitive(partial, "rejectedSpans");
	int64_t rejected = cJSON_IsNumber(n)   ? n->valueint /* however large the number is */
			   : cJSON_IsString(n) ? strtoll(n->valuestring, NULL, 10)
					       : 0;

	cJSON_Delete(all);
	return rejected;
}

static void
refuse(struct otlp *o, int64_t n, const char *why)
{
	atomic_fetch_add(&o->refused, n);
	log_warn("otlp", "refused=%" PRId64 " error=\"%s\"", n, why);
}

/* The protocol says which statuses may pass.  False: send it again. */
static bool
take_answer(struct otlp *o, CURLcode code, const struct buf *answer, int64_t runs)
{
	long status = 0;
	int64_t rejected;
	char why[200];

	curl_easy_getinfo(o->curl, CURLINFO_RESPONSE_CODE, &status);
	if (code == CURLE_ABORTED_BY_CALLBACK)
		return false; /* by otlp_stop() */
	if (code != CURLE_OK)
		snprintf(why, sizeof why, "the collector cannot be reached: %s", curl_easy_strerror(code));
	else
		snprintf(why, sizeof why, "the collector answered %ld", status);
	if (code != CURLE_OK || status == 429 || status == 502 || status == 503 || status == 504) {
		tell_failing(o, why);
		return false;
	}
	rejected = status / 100 == 2 ? count_rejected(answer) : runs;
	rejected = rejected < 0 ? 0 : rejected > runs ? runs : rejected;
	atomic_fetch_add(&o->sent, runs - rejected);
	if (rejected > 0)
		refuse(o, rejected, why);
	return true;
}

static bool
post(struct otlp *o, const char *spans, int64_t runs)
{
	AUTO_BUF struct buf body = {0}, answer = {0};

	put_request(o, spans, &body);
	curl_easy_setopt(o->curl, CURLOPT_POSTFIELDS, body.data);
	curl_easy_setopt(o->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
	curl_easy_setopt(o->curl, CURLOPT_WRITEDATA, &answer);
	return take_answer(o, curl_easy_perform(o->curl), &answer, runs);
}

/* Behind, only while there is something to send.  RC_OK: *more_out says whether there may be more already. */
static enum rc
send_slice(struct otlp *o, bool *more_out)
{
	const char *begun = o->at[0] == '\0' ? NULL : o->at;
	const char *params[] = {
	    begun, begun == NULL ? NULL : o->id, begun == NULL ? NULL : o->version, o->behind, SLICE};
	AUTO_CLEAR PGresult *r = NULL;
	struct err err = {0};
	int64_t runs, dropped;
	bool moved;
	enum rc rc;

	*more_out = false;
	db_drop_dead(o->db);
	rc = db_connect(o->db, &err);
	if (rc == RC_OK)
		rc = db_query(o->db, sql_text("serve_spans"), 5, params, &r, &err);
	if (rc != RC_OK) {
		tell_failing(o, err.text);
		return rc;
	}
	runs = db_int64(r, 0, RUNS);
	dropped = db_int64(r, 0, DROPPED);
	moved = begun != NULL &&
		(strcmp(o->version, db_text(r, 0, VERSION)) != 0 || strcmp(o->id, db_text(r, 0, ID)) != 0);
	atomic_store(&o->behind_us, moved ? (int64_t)(db_double(r, 0, BEHIND) * (double)US_PER_S) : 0);
	if (runs > 0 && !post(o, db_text(r, 0, SPANS), runs)) {
		rc = RC_AGAIN;
		return rc;
	}
	*more_out = moved;
	snprintf(o->at, sizeof o->at, "%s", db_text(r, 0, AT));
	snprintf(o->id, sizeof o->id, "%s", db_text(r, 0, ID));
	snprintf(o->version, sizeof o->version, "%s", db_text(r, 0, VERSION));
	if (dropped > 0) {
		atomic_fetch_add(&o->dropped, dropped);
		log_warn(
		    "otlp", "dropped=%" PRId64 " error=\"it is too far behind: see otlp_behind\"", dropped);
	}
	return rc;
}

static void *
run(void *arg)
{
	struct otlp *o = arg;
	int64_t wait_us = 0;
	bool more;

	while (gate_wait(&o->gate, clock_mono_us() + wait_us) != GATE_STOPPED) {
		if (send_slice(o, &more) != RC_OK) {
			wait_us = backoff_next_us(&o->backoff);
			continue;
		}
		if (o->failing)
			log_info("otlp", "note=\"it is sent again\"");
		o->failing = false;
		backoff_reset(&o->backoff);
		wait_us = more ? 0 : EVERY_US;
	}
	return NULL;
}

/* "name=value,name=value", as in OTEL_EXPORTER_OTLP_HEADERS. */
static struct curl_slist *
headers_of(const char *list)
{
	struct curl_slist *all = curl_slist_append(NULL, "Content-Type: application/json");

	while (list != NULL && *list != '\0') {
		size_t n = strcspn(list, ","), name = strcspn(list, "=");

		if (name < n) {
			AUTO_FREE char *line =
			    xasprintf("%.*s: %.*s", (int)name, list, (int)(n - name - 1), list + name + 1);

			all = curl_slist_append(all, line);
		}
		list += n + strspn(list + n, ", ");
	}
	return all;
}

static void
make_handle(struct otlp *o)
{
	size_t n = strlen(o->set->otlp);

	while (n > 0 && o->set->otlp[n - 1] == '/')
		n--;
	o->url = xasprintf("%.*s/v1/traces", (int)n, o->set->otlp);
	o->behind = xasprintf("%" PRId64 " us", o->set->otlp_behind_us);
	o->headers = headers_of(o->set->otlp_headers);
	o->curl = xgiven(curl_easy_init());
	curl_easy_setopt(o->curl, CURLOPT_URL, o->url);
	curl_easy_setopt(o->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(o->curl, CURLOPT_HTTPHEADER, o->headers);
	curl_easy_setopt(o->curl, CURLOPT_TIMEOUT, WITHIN_S);
	curl_easy_setopt(o->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(o->curl, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(o->curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(o->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(o->curl, CURLOPT_XFERINFODATA, &o->gate);
}

struct otlp *
otlp_start(const struct serve_settings *set)
{
	struct otlp *o = xcalloc(1, sizeof *o);

	o->set = set;
	gate_init(&o->gate);
	backoff_init(&o->backoff, EVERY_US, 30 * US_PER_S, (uint64_t)clock_mono_us());
	o->db = db_create(set->dsn, "pgrab serve otlp", set->timeout_us);
	db_be(o->db, DB_ENDS);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	make_handle(o);
	thread_start(&o->thread, "otlp", run, o);
	return o;
}

void
otlp_stop(struct otlp **out)
{
	struct otlp *o = *out;

	if (o == NULL)
		return;
	gate_stop(&o->gate);
	thread_join(o->thread);
	gate_fini(&o->gate);
	db_destroy(&o->db);
	curl_easy_cleanup(o->curl);
	curl_slist_free_all(o->headers);
	free(o->url);
	free(o->behind);
	free(o);
	*out = NULL;
}

void
otlp_figures(const struct otlp *o, struct otlp_figures *out)
{
	*out = (struct otlp_figures){.sent = atomic_load(&o->sent),
	    .refused = atomic_load(&o->refused),
	    .dropped = atomic_load(&o->dropped),
	    .behind = (double)atomic_load(&o->behind_us) / (double)US_PER_S};
}
