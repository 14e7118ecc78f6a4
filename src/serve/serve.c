#include "serve/serve.h"

#include <signal.h>
#include <stdlib.h>

#include <event2/event.h>

#include "base/log.h"
#include "base/version.h"
#include "serve/http.h"

struct serve {
	struct event_base *base;
	struct http *http;
	bool stopping;
};

static void
end(void *arg)
{
	event_base_loopbreak(((struct serve *)arg)->base);
}

/* Requests under way are still answered; a second signal ends that. */
static void
on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct serve *s = arg;

	log_info("signal", "name=%s", sig == SIGTERM ? "TERM" : "INT");
	if (s->stopping) {
		end(s);
		return;
	}
	s->stopping = true;
	http_drain(s->http, end, s);
}

int
serve_main(const struct serve_settings *set)
{
	struct serve s = {0};
	struct event *term, *intr;
	struct err err = {0};

	log_init((enum log_level)set->log_level, (enum log_format)set->log_format, NULL);
	log_thread("http");
	signal(SIGPIPE, SIG_IGN);
	s.base = event_base_new();
	if (s.base == NULL)
		abort();
	term = evsignal_new(s.base, SIGTERM, on_signal, &s);
	intr = evsignal_new(s.base, SIGINT, on_signal, &s);
	event_add(term, NULL);
	event_add(intr, NULL);
	if (log_start(&err) != RC_OK)
		log_warn("log_thread", "error=\"%s\"", err.text);
	if (http_create(s.base, set, &s.http, &err) != RC_OK) {
		log_error("start", "error=\"%s\"", err.text);
		log_stop();
		return 1;
	}
	log_info("serve", "version=%s", version_text());
	event_base_dispatch(s.base);
	http_destroy(&s.http);
	event_free(term);
	event_free(intr);
	event_base_free(s.base);
	log_info("stopped", "version=%s", version_text());
	log_stop();
	return 0;
}
