/* The table of keys, and the checks between keys. */
#include "node/settings/settings.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "db/dsn.h"
#include "db/schema.h"
#include "exec/surroundings.h"

#define FIELD(f) offsetof(struct settings, f)
#define S(n)     ((n)*1e6)
#define DAY      S(86400)

static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const auto_or_off[] = {"auto", "off", NULL};
static const char *const band_begins[] = {
    "none", "0", "1", "10", "100", NULL}; /* see pgrab_internal.band() */
static const char *const auto_yes_off[] = {"auto", "yes", "off", NULL};
static const char *const formats[] = {"text", "json", "journal", NULL};

const struct option_key settings_keys[] = {
    {"dsn", 'd', OPTION_TEXT, FIELD(dsn), "DSN",
	"database to connect to, a URI or key=value; default: libpq's environment (PGHOST, ...)",
	.secret = true},
    {"listen_dsn", 0, OPTION_TEXT, FIELD(listen_dsn), "DSN",
	"where to listen for new tasks if dsn is a pooler that does not pass on notifications; default: dsn",
	.secret = true},
    {"schema", 0, OPTION_TEXT, FIELD(schema), "NAME",
	"schema of the database to work in: there may be several pgrabs in one database", SCHEMA_DEFAULT},
    {"config", 'c', OPTION_TEXT, FIELD(config), "FILE", "read these settings from an ini file"},
    {"name", 'n', OPTION_TEXT, FIELD(name), "NAME",
	"name of this node; one live node per name; default: the host name"},
    {"strategy", 's', OPTION_TEXT, FIELD(strategy), "NAME|FILE.so",
	"which tasks this node takes: a built-in name or a shared object", "id_hash"},
    {"strategy_options", 0, OPTION_TEXT, FIELD(strategy_options), "TEXT", "options of the strategy"},
    {"weight", 0, OPTION_REAL, FIELD(weight), "NUMBER",
	"share under the strategy `weight`; 0: takes nothing unless all weights are 0", "1", 0, 1e6},
    {"labels", 0, OPTION_TEXT, FIELD(labels), "K=V,...",
	"labels of this node; a task's `require` must be contained in them"},
    {"min_priority", 0, OPTION_ENUM, FIELD(min_priority), "none|0|1|10|100",
	"take only tasks of this priority and above: the node is kept for them", .fallback = "none",
	.choices = band_begins},
    {"workers", 'w', OPTION_INT, FIELD(workers), "N",
	"runs at once; those of http and of handlers are not counted. A task may take several (slots)", "8",
	1, 1024},
    {"sql_group", 0, OPTION_INT, FIELD(sql_group), "N",
	"up to so many short sql runs of one owner, when they wait in a row, are one transaction; 1: each is "
	"one by itself",
	"1", 1, 50},
    {"memory", 0, OPTION_TEXT, FIELD(memory), "SIZE",
	"what args.limits.memory of all runs may come to together, such as 8GB; default: it is not counted"},
    {"loaders", 0, OPTION_INT, FIELD(loaders), "N", "threads that look for tasks", "1", 1, 16},
    {"lookahead", 0, OPTION_DURATION, FIELD(lookahead_us), "TIME", "how far ahead tasks are claimed", "5s", 0,
	S(3600)},
    {"poll", 0, OPTION_DURATION, FIELD(poll_us), "TIME",
	"longest wait between two looks of a node that has had something to do, or gets no notifications",
	"1s", S(0.01), S(3600)},
    {"heartbeat", 0, OPTION_DURATION, FIELD(heartbeat_us), "TIME",
	"how often the node reports that it is alive", "1s", S(0.05), S(60)},
    {"fence_after", 0, OPTION_DURATION, FIELD(fence_after_us), "TIME",
	"after this long without a heartbeat the node stops its own runs", "14s", S(0.2), S(3600)},
    {"dead_after", 0, OPTION_DURATION, FIELD(dead_after_us), "TIME",
	"after this long without a heartbeat others take its tasks", "20s", S(1), S(7200)},
    {"kill_grace", 0, OPTION_DURATION, FIELD(kill_grace_us), "TIME", "time between TERM and KILL", "2s", 0,
	S(600)},
    {"steal_after", 0, OPTION_DURATION, FIELD(steal_after_us), "TIME",
	"a due task that its owner has not taken for this long may be taken by any node", "2s", S(0.1),
	S(3600)},
    {"preempt_after", 0, OPTION_DURATION, FIELD(preempt_after_us), "TIME",
	"stop a preemptible run when much more important work has waited this long for its worker; 0: never",
	"0", 0, S(86400)},
    {"allow", 'a', OPTION_TEXT, FIELD(allow), "KIND,...",
	"kinds this node runs; shell, exec and http must be named to be allowed", "sql,noop,notify"},
    {"executors", 0, OPTION_TEXT, FIELD(executors), "FILE.so,...", "plug-in executors to load"},
    {"job_env", 0, OPTION_TEXT, FIELD(job_env), "NAME=VALUE,...",
	"environment of shell and exec tasks, on top of PATH, LANG, HOME, USER, LOGNAME, SHELL"},
    {"job_cwd", 0, OPTION_TEXT, FIELD(job_cwd), "FOLDER", "folder that shell and exec tasks start in", "/"},
    {"job_umask", 0, OPTION_TEXT, FIELD(job_umask), "OCTAL", "umask of shell and exec tasks", "077"},
    {"job_nice", 0, OPTION_INT, FIELD(job_nice), "N",
	"how much the priority of shell and exec tasks is below the node's", "0", 0, 19},
    {"job_limits", 0, OPTION_TEXT, FIELD(job_limits), "memory=SIZE,processes=N,cpu=N",
	"upper bounds for each shell or exec task; args.limits may ask for less"},
    {"run_as", 0, OPTION_TEXT, FIELD(run_as), "USER[:GROUP]",
	"the user, with its groups, that shell and exec tasks and handler processes run as; default: the "
	"user of the node"},
    {"allow_root", 0, OPTION_FLAG, FIELD(allow_root), NULL,
	"let shell and exec tasks and handler processes run as root if the node is root and run_as is not "
	"set"},
    {"http_slots", 0, OPTION_INT, FIELD(http_slots), "N",
	"http requests at once, by one thread, beside the workers", "64", 1, 1024},
    {"callback_url", 0, OPTION_TEXT, FIELD(callback_url), "URL",
	"where the receivers of http tasks with args.await call back: the address at which they reach the "
	"callback_listen of pgrab serve"},
    {"http_hosts", 0, OPTION_TEXT, FIELD(http_hosts), "HOST,...",
	"hosts that http tasks may talk to: names, *.names, addresses, networks, each with or without :PORT; "
	"default: all but those where clouds keep credentials"},
    {"secret_dir", 0, OPTION_TEXT, FIELD(secret_dir), "FOLDER",
	"folder with one folder per owner; args may take values from its files: {\"env\": {\"TOKEN\": "
	"{\"file\": "
	"\"api.key\"}}}"},
    {"job_cgroups", 0, OPTION_ENUM, FIELD(job_cgroups), "auto|off",
	"put each shell or exec task into a control group (version 2) where possible", .fallback = "auto",
	.choices = auto_or_off},
    {"drain_timeout", 0, OPTION_DURATION, FIELD(drain_timeout_us), "TIME",
	"how long running tasks may take after TERM", "30s", 0, S(86400)},
    {"exit_when_idle", 0, OPTION_DURATION, FIELD(exit_when_idle_us), "TIME",
	"stop in good order, with status 0, after so long without a task in hand; 0s: never", "0s", 0,
	S(86400 * 30)},
    {"retention", 0, OPTION_DURATION, FIELD(retention_us), "TIME",
	"history older than this is dropped, by whole days", "7d", DAY, 36500 * DAY},
    {"at_most_once_async", 0, OPTION_FLAG, FIELD(at_most_once_async), NULL,
	"run at_most_once tasks even if an asynchronous standby exists, whose promotion may run one twice"},
    {"outlast_restart", 0, OPTION_ENUM, FIELD(outlast_restart), "auto|yes|off",
	"let runs go on while the server restarts: auto: if dsn is the server's own local socket and nothing "
	"acknowledged can be lost; yes: also at an address where nobody else would refuse us, and beside "
	"standbys that may lack something",
	.fallback = "auto", .choices = auto_yes_off},
    {"allow_superuser", 0, OPTION_FLAG, FIELD(allow_superuser), NULL,
	"run even if a role that the node logs in as is a superuser"},
    {"core_dumps", 0, OPTION_FLAG, FIELD(core_dumps), NULL,
	"let a crashing node leave a core file; its jobs can then read its memory, including passwords"},
    {"log_level", 0, OPTION_ENUM, FIELD(log_level), "LEVEL", "debug, info, warn or error", .fallback = "info",
	.choices = levels},
    {"log_format", 0, OPTION_ENUM, FIELD(log_format), "FORMAT",
	"text, json, or journal: fields of systemd's journal, such as PGRAB_TASK", .fallback = "text",
	.choices = formats},
    {.name = NULL},
};

/* It becomes part of a header. */
static enum rc
check_callback(const struct settings *s, struct err *err)
{
	const char *url = s->callback_url;
	size_t n = url == NULL ? 0 : strlen(url);

	if (url == NULL || ((strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0) &&
			       n <= 1000 && url[n - 1] != '/' && strpbrk(url, " \t\r\n?#\"") == NULL))
		return RC_OK;
	return err_set(err, RC_BAD,
	    "callback_url: \"%.100s\" is no address to call back at; write https://callback.example.org, "
	    "without a / at its end",
	    url);
}

static enum rc
check_lease(const struct settings *s, struct err *err)
{
	char have[4][32];

	if (s->fence_after_us + s->kill_grace_us + 2 * US_PER_S > s->dead_after_us) {
		duration_format(s->fence_after_us, have[0], sizeof have[0]);
		duration_format(s->kill_grace_us, have[1], sizeof have[1]);
		duration_format(s->dead_after_us, have[2], sizeof have[2]);
		duration_format(s->fence_after_us + s->kill_grace_us + 2 * US_PER_S, have[3], sizeof have[3]);
		return err_set(err, RC_BAD,
		    "fence_after (%s) + kill_grace (%s) + 2s must not be more than dead_after (%s): others "
		    "would take tasks that still run here; set dead_after to %s or more",
		    have[0], have[1], have[2], have[3]);
	}
	if (s->heartbeat_us * 2 > s->fence_after_us)
		return err_set(err, RC_BAD,
		    "heartbeat must not be more than half of fence_after: one late heartbeat would fence the "
		    "node");
	return RC_OK;
}

static enum rc
check_memory(struct settings *s, struct err *err)
{
	struct keeper_limits l = {0};
	char *text;
	enum rc rc;

	if (s->memory == NULL)
		return RC_OK;
	text = xasprintf("memory=%s", s->memory);
	rc = limits_read(&l, "memory", text, err);
	s->memory_bytes = l.memory;
	free(text);
	return rc;
}

static enum rc
check_name(struct settings *s, struct err *err)
{
	char host[256] = "";

	if (s->name == NULL) {
		if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
			return err_set(
			    err, RC_BAD, "this machine has no host name; give the node a name: --name NAME");
		s->name = xstrdup(host);
	}
	size_t n = strlen(s->name);

	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)s->name[i] <= ' ' || s->name[i] == '"' || s->name[i] == '\\' ||
		    s->name[i] == 0x7f)
			return err_set(err, RC_BAD,
			    "name \"%.100s\": a node's name has no blanks, quotes or control characters",
			    s->name);
	}
	if (n == 0 || n > 200)
		return err_set(err, RC_BAD, "a node's name is 1 to 200 bytes long");
	return RC_OK;
}

/* Does the dsn come from the file, and hold a password? */
static bool
brought(const char *dsn, const char *before)
{
	return dsn != NULL && (before == NULL || strcmp(dsn, before) != 0) && dsn_has_password(dsn);
}

/* Write access to the file decides what jobs may do; read access gives its passwords away. */
static enum rc
check_file(
    const struct settings *s, const char *file, const char *dsn, const char *listen_dsn, struct err *err)
{
	bool secret = brought(s->dsn, dsn) || brought(s->listen_dsn, listen_dsn);
	struct stat st;

	for (size_t i = 0; i < s->n_owners; i++)
		secret = secret || brought(s->owners[i].dsn, NULL);
	if (stat(file, &st) != 0 || !S_ISREG(st.st_mode))
		return RC_OK; /* a pipe, say */
	if ((st.st_mode & S_IWOTH) != 0)
		return err_set(err, RC_BAD,
		    "everybody can write %s, which says what jobs may do; run: chmod o-w %s", file, file);
	if (secret && (st.st_mode & S_IROTH) != 0)
		return err_set(err, RC_BAD, "%s holds a password and everybody can read it; run: chmod o= %s",
		    file, file);
	return RC_OK;
}

static enum rc
read_file(void *settings, const char *file, struct err *err)
{
	struct settings *s = settings;
	AUTO_FREE char *dsn = s->dsn == NULL ? NULL : xstrdup(s->dsn);
	AUTO_FREE char *listen_dsn = s->listen_dsn == NULL ? NULL : xstrdup(s->listen_dsn);
	enum rc rc = option_read_file(settings_keys, settings_sections, s, file, err);

	if (rc == RC_OK)
		rc = check_file(s, file, dsn, listen_dsn, err);
	return rc;
}

static char **
copy_flags(int argc, char **argv)
{
	char **copy = xcalloc((size_t)argc + 1, sizeof *copy);

	for (int i = 0; i < argc; i++)
		copy[i] = xstrdup(argv[i]);
	return copy;
}

enum rc
settings_load(int argc, char **argv, struct settings *out, bool *help_out, struct err *err)
{
	AUTO_FREE char *json = NULL;
	enum rc rc;

	memset(out, 0, sizeof *out);
	option_defaults(settings_keys, out);
	out->flags = copy_flags(argc, argv);
	rc = option_read(settings_keys, "pgrab run", out, sizeof *out, read_file, argc, argv, help_out, err);
	if (rc == RC_OK && !*help_out) {
		rc = check_name(out, err);
		if (rc == RC_OK)
			rc = schema_check(out->schema, err);
		if (rc == RC_OK)
			rc = check_lease(out, err);
		if (rc == RC_OK)
			rc = check_callback(out, err);
		if (rc == RC_OK)
			rc = check_memory(out, err);
		if (rc == RC_OK)
			rc = settings_labels_json(out->labels, &json, err);
	}
	return rc;
}

enum rc
settings_reload(const struct settings *old, struct settings *out, struct err *err)
{
	bool help = false;
	int n = 0;

	while (old->flags[n] != NULL)
		n++;
	return settings_load(n, old->flags, out, &help, err);
}

void
settings_fini(struct settings *s)
{
	for (char **f = s->flags; f != NULL && *f != NULL; f++)
		free(*f);
	free(s->flags);
	option_free_sections(settings_sections, s);
	option_free(settings_keys, s);
}

char *
settings_json(struct cJSON *object)
{
	char *text = cJSON_PrintUnformatted(object);
	char *copy = xstrdup(text == NULL ? "{}" : text);

	cJSON_free(text);
	cJSON_Delete(object);
	return copy;
}

enum rc
settings_labels_json(const char *labels, char **out, struct err *err)
{
	cJSON *object = cJSON_CreateObject();
	char *copy = xstrdup(labels == NULL ? "" : labels), *save = NULL;
	enum rc rc = RC_OK;

	*out = NULL;
	for (char *item = strtok_r(copy, ",", &save); item != NULL; item = strtok_r(NULL, ",", &save)) {
		char *eq = strchr(item, '=');

		while (*item == ' ')
			item++;
		if (eq == NULL || eq <= item) {
			rc = err_set(err, RC_BAD,
			    "labels: \"%.60s\" is not key=value; write labels as zone=eu,disk=ssd", item);
			goto out;
		}
		*eq = '\0';
		if (cJSON_GetObjectItemCaseSensitive(object, item) != NULL) {
			rc = err_set(err, RC_BAD, "labels: \"%.60s\" is given twice", item);
			goto out;
		}
		cJSON_AddStringToObject(object, item, eq + 1);
	}
	*out = settings_json(object);
	object = NULL;
out:
	cJSON_Delete(object); /* NULL is fine */
	free(copy);
	return rc;
}
