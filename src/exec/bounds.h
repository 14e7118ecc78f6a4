/* The upper bound of what tasks may do on this node.  It comes from the node's file, by owner; a row in the
 * database can ask for less and never for more.  Made before any thread starts, and never changed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "base/texts.h"
#include "exec/http_guard.h"
#include "exec/surroundings.h"

/* What the file says about one owner; NULL: nothing.  Borrowed. */
struct bounds_texts {
	const char *owner;     /* NULL: all owners without a section of their own */
	const char *run_as;    /* "user" or "user:group" */
	const char *directory; /* NULL: job_cwd */
	const char *programs;  /* comma-separated */
	const char *variables; /* comma-separated */
	const char *http_hosts, *limits;
};

/* What it says about all owners. */
struct bounds_common {
	const char *job_env, *job_cwd, *job_umask;
	int job_nice;
	bool allow_root; /* shell and exec may be uid 0 even if no run_as says so */
};

struct bounds {
	char *owner;
	struct surroundings around; /* of shell and exec */
	struct texts programs;      /* item NULL: any */
	struct texts variables;     /* of args.env, where programs are listed */
	struct http_hosts hosts;
	bool no_root; /* shell and exec would be uid 0, and nothing allows that */
};

struct bounds_list {
	size_t n;
	struct bounds *item; /* [0]: of everybody else; owned */
};

/* texts[0] is for everybody; an owner's section inherits what it leaves out.  RC_BAD: the text names section
 * and key.  bounds_fini is needed even then. */
CHECKED enum rc bounds_make(struct bounds_list *l, const struct bounds_common *common,
    const struct bounds_texts *texts, size_t n, struct err *err);
void bounds_fini(struct bounds_list *l);

/* Never NULL. */
const struct bounds *bounds_of(const struct bounds_list *l, const char *owner);

/* May this program be started, with these variables of the task's own ("NAME=value", ended by NULL)? */
CHECKED enum rc
bounds_program(const struct bounds *b, const char *program, const char *const *env, struct err *err);

/* Would shell and exec be refused to every owner, because they would be root? */
bool bounds_all_root(const struct bounds_list *l);
