#include "core/secret.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum secret_from
secret_reference(const struct run *r, size_t i, const char **name_out)
{
	const struct pair *p = &r->task.args.item[i];
	const char *colon = strchr(p->key, ':'), *eq = strchr(p->value, '=');
	enum secret_from from = SECRET_NONE;

	if (colon != NULL && eq != NULL && strcmp(colon, ":secret") == 0)
		from = SECRET_TABLE;
	else if (colon != NULL && eq != NULL && strcmp(colon, ":file") == 0)
		from = SECRET_FILE;
	*name_out = from == SECRET_NONE ? NULL : eq + 1;
	return from;
}

bool
secret_wanted(const struct run *r)
{
	const char *name;

	for (size_t i = 0; i < r->task.args.count; i++) {
		if (secret_reference(r, i, &name) == SECRET_TABLE)
			return true;
	}
	return false;
}

void
secret_fill(struct run *r, size_t i, const char *value)
{
	struct pair *p = &r->task.args.item[i];
	char *key = r->task.args.memory + (p->key - r->task.args.memory);
	int name = (int)(strchr(p->value, '=') - p->value);
	char *text = xasprintf("%.*s=%s", name, p->value, value);

	key[strcspn(key, ":")] = '\0';
	r->task.secret = xrealloc(r->task.secret, (r->task.n_secrets + 1) * sizeof *r->task.secret);
	r->task.secret[r->task.n_secrets++] = text;
	p->value = text;
}

void
secret_hide(const struct run *r, char *text)
{
	for (size_t i = 0; text != NULL && i < r->task.n_secrets; i++) {
		const char *value = strchr(r->task.secret[i], '=') + 1;
		size_t n = strlen(value);

		for (char *at = text; n >= SECRET_HIDE && (at = strstr(at, value)) != NULL; at += n)
			memset(at, '*', n);
	}
}

void
secret_fini(struct run *r)
{
	for (size_t i = 0; i < r->task.n_secrets; i++) {
		explicit_bzero(r->task.secret[i], strlen(r->task.secret[i]));
		free(r->task.secret[i]);
	}
	free(r->task.secret);
	r->task.secret = NULL;
	r->task.n_secrets = 0;
}
