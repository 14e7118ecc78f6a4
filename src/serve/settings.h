/* The settings of `pgrab serve`: one table of keys gives flag, ini key, environment variable,
 * default, range and help. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/option.h"
#include "base/rc.h"

/* [role NAME] of the file: how to log in as that role of the database, and who may act as it. */
struct serve_role {
	char *name;
	char *service, *dsn;
	/* Users of the operating system who act as it over the Unix socket, comma-separated; NULL: none. */
	char *peers;
};

/* [database NAME] of the file: a further one beside that of dsn. */
struct serve_database {
	char *name;
	char *dsn; /* what takes the place of the same in the login of the role that asks */
};

enum serve_auth { SERVE_OPEN, SERVE_TOKEN };

struct serve_settings {
	char *dsn;
	char *schema; /* as schema_use() takes it */
	char *config;
	char *listen;          /* comma-separated: 127.0.0.1:8080, [::1]:8080, unix:/path */
	char *callback_listen; /* the same, for the door of callbacks instead; NULL: it is none */
	int auth;              /* enum serve_auth */
	char *hosts;           /* names under which a proxy offers it, comma-separated */
	char *title;
	char *timezone;            /* of the page; the API has UTC */
	char *otlp, *otlp_headers; /* where spans go; NULL: nowhere */
	int64_t otlp_behind_us;
	int64_t connections, clients, rate;
	int64_t timeout_us;
	int log_level, log_format;
	struct serve_role *roles;
	size_t n_roles;
	struct serve_database *databases;
	size_t n_databases;
};

extern const struct option_key serve_keys[];

/* Where it listens, as what it is. */
const char *serve_addresses(const struct serve_settings *s);

/* Reads environment, file and flags (argv[1..argc)), and checks how they fit together.  RC_BAD: err
 * says what and where. */
CHECKED enum rc
serve_settings_load(int argc, char **argv, struct serve_settings *out, bool *help_out, struct err *err);
void serve_settings_fini(struct serve_settings *s);

/* The name of a database, and how that role (CALL_OWN_ROLE: that of dsn) logs in to it: 0 is that of dsn, 1
 * that of the first section.  For the caller to free. */
const char *serve_database_name(const struct serve_settings *s, size_t database);
char *serve_login(const struct serve_settings *s, size_t database, int role);

/* Index of that role's section, or -1. */
int serve_settings_role(const struct serve_settings *s, const char *name);

/* Is `word` one of a comma-separated list?  list may be NULL. */
bool serve_in_list(const char *list, const char *word);

/* An address of `listen`. */
struct serve_address {
	char text[256]; /* host or path */
	int port;       /* 0: a Unix socket */
	bool local;     /* it can be reached only from this machine */
};

/* The next of the list that *at points into; false at its end, or with err->text set at
 * one that is not an address. */
bool serve_next_address(const char **at, struct serve_address *out, struct err *err);
