/* The sections of the file: [owner NAME]. */
#include "node/settings_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define NAME_MAX_BYTES 63 /* of a role */
#define OWNERS_MAX     1000

static const struct option_key owner_keys[] = {
    {"service", 0, OPTION_TEXT, offsetof(struct owner_settings, service), NULL, 0, 0, NULL, "NAME",
	"how to log in as this owner, for its sql tasks: a service of libpq's", false},
    {"dsn", 0, OPTION_TEXT, offsetof(struct owner_settings, dsn), NULL, 0, 0, NULL, "DSN",
	"the same as a connection string", true},
    {"run_as", 0, OPTION_TEXT, offsetof(struct owner_settings, run_as), NULL, 0, 0, NULL, "USER[:GROUP]",
	"who its shell and exec tasks run as", false},
    {"directory", 0, OPTION_TEXT, offsetof(struct owner_settings, directory), NULL, 0, 0, NULL, "FOLDER",
	"where its shell and exec tasks start", false},
    {"allow", 0, OPTION_TEXT, offsetof(struct owner_settings, allow), NULL, 0, 0, NULL, "KIND,...",
	"kinds that this node runs for it, of those it runs at all", false},
    {"programs", 0, OPTION_TEXT, offsetof(struct owner_settings, programs), NULL, 0, 0, NULL, "PATH,...",
	"programs that its exec tasks may start", false},
    {"http_hosts", 0, OPTION_TEXT, offsetof(struct owner_settings, http_hosts), NULL, 0, 0, NULL, "HOST,...",
	"hosts that its http tasks may talk to", false},
    {"limits", 0, OPTION_TEXT, offsetof(struct owner_settings, limits), NULL, 0, 0, NULL,
	"memory=SIZE,processes=N,cpu=N", "what its shell and exec tasks may use at most", false},
    {NULL, 0, OPTION_TEXT, 0, NULL, 0, 0, NULL, NULL, NULL, false},
};

const struct owner_settings *
settings_owner(const struct settings *s, const char *name)
{
	for (size_t i = 0; i < s->n_owners; i++) {
		if (strcmp(s->owners[i].name, name) == 0)
			return &s->owners[i];
	}
	return NULL;
}

static void *
add_owner(void *settings, const char *name, struct err *err)
{
	struct settings *s = settings;
	struct owner_settings *o;

	if (strlen(name) > NAME_MAX_BYTES)
		err_set(err, RC_BAD, "the name of a role is at most %d bytes long", NAME_MAX_BYTES);
	else if (settings_owner(s, name) != NULL)
		err_set(err, RC_BAD, "[owner %s] stands twice", name);
	else if (s->n_owners == OWNERS_MAX)
		err_set(err, RC_BAD, "a file holds at most %d owners", OWNERS_MAX);
	else {
		s->owners = xrealloc(s->owners, (s->n_owners + 1) * sizeof *s->owners);
		o = &s->owners[s->n_owners++];
		memset(o, 0, sizeof *o);
		option_defaults(owner_keys, o);
		o->name = xstrdup(name);
		return o;
	}
	return NULL;
}

const struct option_section settings_sections[] = {
    {"owner", owner_keys, add_owner},
    {NULL, NULL, NULL},
};

void
settings_free_sections(struct settings *s)
{
	for (size_t i = 0; i < s->n_owners; i++) {
		free(s->owners[i].name);
		option_free(owner_keys, &s->owners[i]);
	}
	free(s->owners);
}
