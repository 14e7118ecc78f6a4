/* What this node runs for which owner: the owners it can log in as, whose sql tasks it runs, and the kinds
 * that its file allows each.  Constant after the start, except for logins that are refused later
 * (logins.h). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "base/texts.h"
#include "exec/exec.h"

struct db;
struct settings;

struct owners {
	char *role, *database;             /* the role that the node itself logs in as, and where */
	_Atomic(const char *) all, others; /* array text: for whom it can log in, with and without itself */
	char *bounds;                      /* JSON: {"alice": ["sql", "noop"]}, where the file says `allow` */
	char *users;              /* JSON: {"node": "pgrab", "run_as": "jobs", "owners": {"etl": "etl"}} */
	struct exec_login *login; /* of the others; owned, with what is in them */
	size_t n_logins;
	/* passed to owners_take_out by its caller */
	bool *out;          /* by login */
	struct texts texts; /* all that were `all` or `others`: a thread may still read them */
};

/* From the sections of the file.  RC_BAD: they say something impossible. */
CHECKED enum rc owners_make(struct owners *o, const struct settings *set, struct err *err);

/* Asks the server who the node is, and tries each login.  RC_BAD: a role is a superuser, or not the
 * one that the file names. */
CHECKED enum rc owners_meet(
    struct owners *o, const struct settings *set, const struct exec_env *env, struct db *db, struct err *err);

/* Tries a login, by its number.  RC_BAD: it is refused, or not the owner's. */
CHECKED enum rc owners_try(const struct owners *o, size_t i, const struct exec_env *env, struct err *err);

/* Takes it out of what is announced and asked for, or puts it back.  One thread. */
void owners_take_out(struct owners *o, size_t i, bool out);

/* Any thread; they live as long as o. */
const char *owners_all(const struct owners *o);
const char *owners_others(const struct owners *o);

/* Ends the sql backends that nodes which are gone have left running, for owners that
 * this node can log in as. */
void owners_end_orphans(const struct owners *o, struct db *db);

void owners_fini(struct owners *o);

/* The last check, before a run is begun: may tasks of this owner be of this kind here? */
bool owners_allow(const struct settings *set, const char *owner, const char *kind);
