/* The table of keys, and the checks between keys. */
#include "serve/settings.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "db/dsn.h"
#include "db/schema.h"

#define FIELD(f)    offsetof(struct serve_settings, f)
#define ROLE(f)     offsetof(struct serve_role, f)
#define S(n)        ((n)*1e6)
#define DATABASE(f) offsetof(struct serve_database, f)

static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const formats[] = {"text", "json", "journal", NULL};
static const char *const auths[] = {"open", "token", NULL};

const struct option_key serve_keys[] = {
    {"dsn", 'd', OPTION_TEXT, FIELD(dsn), "DSN",
	"database to connect to, a URI or key=value; default: libpq's environment (PGHOST, ...)",
	.secret = true},
    {"schema", 0, OPTION_TEXT, FIELD(schema), "NAME",
	"schema of the database to work in: there may be several pgrabs in one database", SCHEMA_DEFAULT},
    {"config", 'c', OPTION_TEXT, FIELD(config), "FILE", "read these settings from an ini file"},
    {"listen", 'l', OPTION_TEXT, FIELD(listen), "ADDRESS,...",
	"where to listen: 127.0.0.1:8080, [::1]:8080, unix:/path", "127.0.0.1:8080"},
    {"callback_listen", 0, OPTION_TEXT, FIELD(callback_listen), "ADDRESS,...",
	"be the door at which receivers of http tasks with args.await call back, at these addresses, and "
	"nothing else: no page, no API, no `listen`"},
    {"auth", 0, OPTION_ENUM, FIELD(auth), "open|token",
	"open: anyone who reaches it acts as the role of dsn (this machine only); token: a token of "
	"pgrab.token",
	.fallback = "open", .choices = auths},
    {"hosts", 0, OPTION_TEXT, FIELD(hosts), "NAME,...",
	"names under which a reverse proxy offers it; requests for any other name are refused"},
    {"title", 0, OPTION_TEXT, FIELD(title), "TEXT", "what the page calls this installation", "pgrab"},
    {"timezone", 0, OPTION_TEXT, FIELD(timezone), "ZONE",
	"time zone of the page, such as Europe/Berlin, unless a visitor asks for another", "UTC"},
    {"otlp", 0, OPTION_TEXT, FIELD(otlp), "URL",
	"send each run that ends as a span to the collector of traces at this address, http://HOST:4318"},
    {"otlp_headers", 0, OPTION_TEXT, FIELD(otlp_headers), "NAME=VALUE,...",
	"headers that the collector asks for", .secret = true},
    {"otlp_behind", 0, OPTION_DURATION, FIELD(otlp_behind_us), "TIME",
	"how far behind it may fall; what ended before that is not sent, but counted", "10m", S(0.1),
	S(86400)},
    {"connections", 0, OPTION_INT, FIELD(connections), "N",
	"connections to the database, with a thread each; and as many for every role", "4", 1, 64},
    {"clients", 0, OPTION_INT, FIELD(clients), "N", "how many clients may be connected at once", "256", 8,
	10000},
    {"rate", 0, OPTION_INT, FIELD(rate), "N",
	"requests per second of one client (address, or user of the Unix socket)", "1000", 1, 1e6},
    {"timeout", 0, OPTION_DURATION, FIELD(timeout_us), "TIME", "longest wait for the database, per statement",
	"5s", S(0.1), S(300)},
    {"log_level", 0, OPTION_ENUM, FIELD(log_level), "LEVEL", "debug, info, warn or error", .fallback = "info",
	.choices = levels},
    {"log_format", 0, OPTION_ENUM, FIELD(log_format), "FORMAT",
	"text, json, or journal: fields of systemd's journal, such as PGRAB_TASK", .fallback = "text",
	.choices = formats},
    {.name = NULL},
};

static const struct option_key role_keys[] = {
    {"service", 0, OPTION_TEXT, ROLE(service), "NAME", "how to log in as this role: a libpq service"},
    {"dsn", 0, OPTION_TEXT, ROLE(dsn), "DSN", "the same as a connection string", .secret = true},
    {"peers", 0, OPTION_TEXT, ROLE(peers), "USER,...",
	"users of the operating system who act as this role over the Unix socket"},
    {.name = NULL},
};

static const struct option_key database_keys[] = {
    {"dsn", 0, OPTION_TEXT, DATABASE(dsn), "DSN",
	"where it is, such as host=db2 dbname=app: takes the place of the same in the login of each role",
	.secret = true},
    {.name = NULL},
};

int
serve_settings_role(const struct serve_settings *s, const char *name)
{
	for (size_t i = 0; i < s->n_roles; i++) {
		if (strcmp(s->roles[i].name, name) == 0)
			return (int)i;
	}
	return -1;
}

const char *
serve_database_name(const struct serve_settings *s, size_t database)
{
	return database == 0 ? s->title : s->databases[database - 1].name;
}

char *
serve_login(const struct serve_settings *s, size_t database, int role)
{
	const struct serve_role *r = role < 0 ? NULL : &s->roles[role];
	AUTO_FREE char *service =
	    r != NULL && r->dsn == NULL ? xasprintf("service='%.200s'", r->service) : NULL;
	const char *own = r == NULL ? s->dsn : r->dsn != NULL ? r->dsn : service;
	char *login =
	    database == 0 ? xstrdup(own == NULL ? "" : own) : dsn_over(own, s->databases[database - 1].dsn);

	return login;
}

/* The name of a database is a part of paths. */
static const struct option_section sections[] = {
    {"role", role_keys, FIELD(roles), FIELD(n_roles), sizeof(struct serve_role), 200, 63, false, NULL},
    {"database", database_keys, FIELD(databases), FIELD(n_databases), sizeof(struct serve_database), 50, 40,
	true, NULL},
    {.word = NULL}};

bool
serve_in_list(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = list; at != NULL && n > 0; at = strchr(at, ',')) {
		at += strspn(at, ", ");
		if (strncasecmp(at, word, n) == 0 && (at[n] == '\0' || at[n] == ',' || at[n] == ' '))
			return true;
	}
	return false;
}

static bool
is_loopback(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (inet_pton(AF_INET, host, &v4) == 1)
		return (ntohl(v4.s_addr) >> 24) == 127;
	return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* "127.0.0.1:8080" or "[::1]:8080": numbers only, so that nothing needs a lookup and
 * one can see what is local. */
static bool
read_tcp(const char *text, struct serve_address *out, struct err *err)
{
	const char *colon = strrchr(text, ':');
	size_t n = colon == NULL ? 0 : (size_t)(colon - text);
	unsigned char ignored[16];
	char *end;
	long port;

	port = n == 0 ? 0 : strtol(colon + 1, &end, 10);
	if (n == 0 || end == colon + 1 || *end != '\0' || port < 1 || port > 65535)
		goto bad;
	if (text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
	}
	snprintf(out->text, sizeof out->text, "%.*s", (int)n, text);
	if (inet_pton(AF_INET, out->text, ignored) != 1 && inet_pton(AF_INET6, out->text, ignored) != 1)
		goto bad;
	out->port = (int)port;
	out->local = is_loopback(out->text);
	return true;
bad:
	err_set(err, RC_BAD,
	    "listen: \"%.100s\" is not an address; use 127.0.0.1:8080, [::1]:8080 or unix:/path", text);
	return false;
}

bool
serve_next_address(const char **at, struct serve_address *out, struct err *err)
{
	char text[256];
	size_t n;

	err->text[0] = '\0';
	memset(out, 0, sizeof *out);
	*at += strspn(*at, ", ");
	if (**at == '\0')
		return false;
	n = strcspn(*at, ", ");
	snprintf(text, sizeof text, "%.*s", (int)n, *at);
	*at += n;
	if (strncmp(text, "unix:", 5) != 0)
		return read_tcp(text, out, err);
	if (text[5] != '/' || strlen(text + 5) >= sizeof((struct sockaddr_un *)0)->sun_path) {
		err_set(err, RC_BAD,
		    "listen: \"%.120s\": the path of a Unix socket begins with / and has at most 107 bytes",
		    text);
		return false;
	}
	snprintf(out->text, sizeof out->text, "%s", text + 5);
	out->local = true;
	return true;
}

const char *
serve_addresses(const struct serve_settings *s)
{
	return s->callback_listen != NULL ? s->callback_listen : s->listen;
}

/* Can each role log in there?  The default login, in its place, would be somebody else's. */
static bool
all_log_in(const struct serve_settings *s, size_t database)
{
	for (int role = -1; role < (int)s->n_roles; role++) {
		AUTO_FREE char *login = serve_login(s, database, role);

		if (login == NULL)
			return false;
	}
	return true;
}

/* A role must not come to another's rights by asking for another database. */
static enum rc
check_databases(const struct serve_settings *s, struct err *err)
{
	for (size_t i = 0; i < s->n_databases; i++) {
		const struct serve_database *d = &s->databases[i];

		if (d->dsn == NULL || !all_log_in(s, i + 1))
			return err_set(err, RC_BAD,
			    "[database %s]: give dsn, such as host=db2 dbname=app; it, the dsn of the file "
			    "and those of roles are key=value or a URI",
			    d->name);
		if (dsn_has_login(d->dsn) && (s->auth == SERVE_TOKEN || s->n_roles > 0))
			return err_set(err, RC_BAD,
			    "[database %s] dsn: say only where it is (host, port, dbname); who logs in, each "
			    "role has said",
			    d->name);
	}
	return RC_OK;
}

static enum rc
check(const struct serve_settings *s, struct err *err)
{
	const char *at = serve_addresses(s);
	struct serve_address a;
	int n = 0;

	for (; serve_next_address(&at, &a, err); n++) {
		if (!a.local && s->auth != SERVE_TOKEN && s->callback_listen == NULL)
			return err_set(err, RC_BAD,
			    "listen: %s can be reached from other machines, and anybody there could do what "
			    "the role of dsn may; ask for tokens (--auth token), or listen on 127.0.0.1 or "
			    "unix:/path",
			    a.text);
	}
	if (err->text[0] != '\0')
		return RC_BAD;
	if (n == 0)
		return err_set(err, RC_BAD, "listen: no address; for example 127.0.0.1:8080");
	if (s->otlp != NULL &&
	    ((strncmp(s->otlp, "http://", 7) != 0 && strncmp(s->otlp, "https://", 8) != 0) ||
		strstr(s->otlp, "/v1/traces") != NULL))
		return err_set(err, RC_BAD,
		    "otlp: \"%.100s\" is not the address of a collector; use http://HOST:4318, without "
		    "/v1/traces",
		    s->otlp);
	for (size_t i = 0; i < s->n_roles; i++) {
		if ((s->roles[i].dsn == NULL) == (s->roles[i].service == NULL))
			return err_set(
			    err, RC_BAD, "[role %s]: give service or dsn, one of them", s->roles[i].name);
	}
	return check_databases(s, err);
}

static enum rc
read_file(void *settings, const char *file, struct err *err)
{
	return option_read_file(serve_keys, sections, settings, file, err);
}

enum rc
serve_settings_load(int argc, char **argv, struct serve_settings *out, bool *help_out, struct err *err)
{
	enum rc rc;

	memset(out, 0, sizeof *out);
	option_defaults(serve_keys, out);
	rc = option_read(serve_keys, "pgrab serve", out, sizeof *out, read_file, argc, argv, help_out, err);
	if (rc == RC_OK && !*help_out)
		rc = schema_check(out->schema, err);
	if (rc == RC_OK && !*help_out)
		rc = check(out, err);
	return rc;
}

void
serve_settings_fini(struct serve_settings *s)
{
	option_free_sections(sections, s);
	option_free(serve_keys, s);
}
