#include "node/owners/owners.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "db/pg.h"
#include "db/sql.h"
#include "db/store_node.h"
#include "node/settings/settings.h"

#define CALL_US (10 * US_PER_S)

/* Takes the next word of a comma-separated list and moves *at past it.  False: there are no more. */
static bool
next_word(const char **at, const char **word, size_t *len)
{
	const char *p = *at + strspn(*at, ", \t");
	size_t n = strcspn(p, ",");

	*at = p + n;
	while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t'))
		n--;
	*word = p;
	*len = n;
	return n > 0;
}

bool
owners_allow(const struct settings *set, const char *owner, const char *kind)
{
	const struct owner_settings *s = settings_owner(set, owner);
	const char *at, *word;
	size_t n;

	if (s == NULL || s->allow == NULL)
		return true;
	for (at = s->allow; next_word(&at, &word, &n);) {
		if (strlen(kind) == n && memcmp(kind, word, n) == 0)
			return true;
	}
	return false;
}

static cJSON *
words(const char *list)
{
	cJSON *array = cJSON_CreateArray();
	const char *at = list, *word;
	size_t n;

	while (next_word(&at, &word, &n)) {
		AUTO_FREE char *one = xmemdup0(word, n);

		cJSON_AddItemToArray(array, cJSON_CreateString(one));
	}
	return array;
}

static char *
bounds(const struct settings *set)
{
	cJSON *all = cJSON_CreateObject();

	for (size_t i = 0; i < set->n_owners; i++) {
		if (set->owners[i].allow != NULL)
			cJSON_AddItemToObject(all, set->owners[i].name, words(set->owners[i].allow));
	}
	return settings_json(all);
}

/* For people: the users that shell and exec tasks run as on this machine. */
static char *
users(const struct settings *set)
{
	cJSON *all = cJSON_CreateObject(), *owners = cJSON_AddObjectToObject(all, "owners");
	const struct passwd *self = getpwuid(geteuid());
	char number[24];

	snprintf(number, sizeof number, "%u", (unsigned)geteuid());
	cJSON_AddStringToObject(all, "node", self != NULL ? self->pw_name : number);
	if (set->run_as != NULL)
		cJSON_AddStringToObject(all, "run_as", set->run_as);
	for (size_t i = 0; i < set->n_owners; i++) {
		if (set->owners[i].run_as != NULL)
			cJSON_AddStringToObject(owners, set->owners[i].name, set->owners[i].run_as);
	}
	return settings_json(all);
}

/* A value of a connection string: ' and \ are escaped. */
static char *
service_dsn(const char *service)
{
	struct buf dsn = {0};

	buf_adds(&dsn, "service='");
	for (const char *p = service; *p != '\0'; p++)
		buf_addf(&dsn, *p == '\'' || *p == '\\' ? "\\%c" : "%c", *p);
	buf_adds(&dsn, "'");
	return buf_steal(&dsn);
}

enum rc
owners_make(struct owners *o, const struct settings *set, struct err *err)
{
	memset(o, 0, sizeof *o);
	o->bounds = bounds(set);
	o->users = users(set);
	o->login = xcalloc(set->n_owners + 1, sizeof *o->login);
	o->out = xcalloc(set->n_owners + 1, sizeof *o->out);
	for (size_t i = 0; i < set->n_owners; i++) {
		const struct owner_settings *s = &set->owners[i];

		if (s->service != NULL && s->dsn != NULL)
			return err_set(err, RC_BAD,
			    "[owner %s] has both a service and a dsn; give one of them", s->name);
		if (s->service == NULL && s->dsn == NULL)
			continue;
		o->login[o->n_logins++] = (struct exec_login){
		    .owner = s->name, .dsn = s->dsn != NULL ? xstrdup(s->dsn) : service_dsn(s->service)};
	}
	return RC_OK;
}

static void
drop_logins(struct owners *o)
{
	for (size_t i = 0; i < o->n_logins; i++)
		free((char *)o->login[i].dsn);
	o->n_logins = 0;
}

void
owners_fini(struct owners *o)
{
	drop_logins(o);
	free(o->login);
	free(o->role);
	free(o->database);
	texts_fini(&o->texts);
	free(o->out);
	free(o->bounds);
	free(o->users);
	memset(o, 0, sizeof *o);
}

enum rc
owners_try(const struct owners *o, size_t i, const struct exec_env *env, struct err *err)
{
	const struct exec_login *l = &o->login[i];
	AUTO_DB struct db *db = db_create(l->dsn, "pgrab start", CALL_US);
	struct login login;
	enum rc rc = exec_login_check(db, env, l->owner, &login, err);

	if (rc != RC_OK)
		err_prefix(err, "[owner %s]", l->owner);
	return rc;
}

static void
write_names(struct owners *o)
{
	AUTO_ARRAY struct pgarray all = {0}, others = {0};

	pgarray_text(&all, o->role);
	for (size_t i = 0; i < o->n_logins; i++) {
		if (o->out[i])
			continue;
		pgarray_text(&all, o->login[i].owner);
		pgarray_text(&others, o->login[i].owner);
	}
	atomic_store(&o->all, texts_keep(&o->texts, pgarray_str(&all)));
	atomic_store(&o->others, texts_keep(&o->texts, pgarray_str(&others)));
}

void
owners_take_out(struct owners *o, size_t i, bool out)
{
	o->out[i] = out;
	write_names(o);
}

const char *
owners_all(const struct owners *o)
{
	return atomic_load(&o->all);
}

const char *
owners_others(const struct owners *o)
{
	return atomic_load(&o->others);
}

/* A superuser's session can reach everything, so no text of a task may run in one. */
static enum rc
meet_superuser(struct owners *o, const struct settings *set, struct err *err)
{
	if (!set->allow_superuser)
		return err_set(err, RC_BAD,
		    "the role %s is a superuser, and anyone who may insert a task would be one too: let the "
		    "node log in as another role, one that owns the schema or was granted pgrab_node (or say "
		    "allow_superuser = yes)",
		    o->role);
	log_warn("superuser", "role=\"%s\" hint=\"%s\"", o->role,
	    "sql tasks of other owners are left to other nodes");
	drop_logins(o);
	return RC_OK;
}

enum rc
owners_meet(
    struct owners *o, const struct settings *set, const struct exec_env *env, struct db *db, struct err *err)
{
	struct login self;
	struct exec_env at = *env;
	enum rc rc = store_login(db, &self, err);

	if (rc != RC_OK)
		return rc;
	free(o->role);
	free(o->database);
	o->role = xstrdup(self.role);
	o->database = xstrdup(self.database);
	at.role = o->role;
	at.database = o->database;
	if (self.superuser)
		rc = meet_superuser(o, set, err);
	for (size_t i = 0; rc == RC_OK && i < o->n_logins; i++)
		rc = owners_try(o, i, &at, err);
	write_names(o);
	return rc;
}

static void
end_one(const struct exec_login *l, const char *pid, const char *app)
{
	const char *params[] = {pid, app};
	AUTO_DB struct db *db = db_create(l->dsn, "pgrab sql-end", CALL_US);
	struct err err = {0};

	if (db_query(db, sql_text("orphan_end"), 2, params, NULL, &err) != RC_OK)
		log_warn("sql_not_ended", "owner=%s pid=%s error=\"%s\"", l->owner, pid, err.text);
}

void
owners_end_orphans(const struct owners *o, struct db *db)
{
	const char *params[] = {owners_others(o)};
	AUTO_CLEAR PGresult *res = NULL;
	struct err ignored;

	if (o->n_logins > 0 &&
	    db_query(db, sql_text("orphan_backends"), 1, params, &res, &ignored) == RC_OK) {
		for (int i = 0; i < PQntuples(res); i++) {
			for (size_t k = 0; k < o->n_logins; k++) {
				if (strcmp(o->login[k].owner, db_text(res, i, 0)) == 0)
					end_one(&o->login[k], db_text(res, i, 1), db_text(res, i, 2));
			}
		}
	}
}
