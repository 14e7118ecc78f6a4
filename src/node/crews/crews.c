#include "node/crews/crews.h"

#include <string.h>

#include "core/args.h"
#include "node/context.h"
#include "node/crews/http_crew.h"
#include "node/handlers/handlers.h"

#define HTTP "http"

static size_t
http_number(const struct node *n)
{
	return n->http_crew == NULL ? 0 : 1 + handlers_count(n->handlers);
}

size_t
crews_count(const struct node *n)
{
	return 1 + handlers_count(n->handlers) + (n->http_crew != NULL);
}

size_t
crews_of(const struct node *n, const char *kind)
{
	return kind != NULL && strcmp(kind, HTTP) == 0 ? http_number(n) : handlers_crew(n->handlers, kind);
}

const char *
crews_name(const struct node *n, size_t crew)
{
	return crew == 0 ? "" : crew == http_number(n) ? HTTP : handlers_name(n->handlers, crew);
}

int64_t
crews_room(const struct node *n, const char *kind)
{
	size_t crew = crews_of(n, kind);

	return crew == 0                ? atomic_load(&n->workers)
	       : crew == http_number(n) ? n->set->http_slots
					: handlers_room(n->handlers, crew);
}

int64_t
crews_slots(const struct node *n)
{
	return atomic_load(&n->workers) + handlers_slots(n->handlers) +
	       (n->http_crew == NULL ? 0 : n->set->http_slots);
}

void
crews_kinds(const struct node *n, void (*each)(void *ctx, const char *kind), void *ctx)
{
	handlers_kinds(n->handlers, each, ctx);
	if (n->http_crew != NULL)
		each(ctx, HTTP);
}

void
crews_args(const struct node *n, struct run *r)
{
	args_take(&r->task, handlers_crew(n->handlers, r->task.kind) > 0);
}

void
crews_take(struct node *n, struct run *r)
{
	if (r->crew == http_number(n))
		http_crew_take(n->http_crew, r);
	else
		handlers_take(n->handlers, r);
}

int
crews_wake_fd(const struct node *n, size_t crew)
{
	return crew == http_number(n) ? http_crew_wake_fd(n->http_crew) : handlers_wake_fd(n->handlers);
}
