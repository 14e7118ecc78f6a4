#include "serve/asset.h"

#include <string.h>

#include "serve/route.h"

static const char *
type_of(const char *name)
{
	const char *dot = strrchr(name, '.');

	if (dot != NULL && strcmp(dot, ".css") == 0)
		return "text/css; charset=utf-8";
	if (dot != NULL && strcmp(dot, ".js") == 0)
		return "text/javascript; charset=utf-8";
	if (dot != NULL && strcmp(dot, ".svg") == 0)
		return "image/svg+xml";
	return "application/json";
}

void
asset_answer(struct call *c, struct db *db)
{
	for (const struct asset *a = assets; a->name != NULL; a++) {
		if (strcmp(a->name, c->route->arg) == 0) {
			c->type = type_of(a->name);
			buf_adds(&c->out, a->text);
			return;
		}
	}
	call_problem(c, 404, "there is nothing here", NULL);
}
