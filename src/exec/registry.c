/*
 * Which executors this node has: the built-in kinds that its file allows, and those loaded from shared
 * objects.
 *
 * A shared object is loaded because the node's own file names it, so its kind is allowed by that alone;
 * naming it in `allow` too does no harm.  Nothing of an executor is trusted before its ABI number is checked,
 * and a kind has exactly one executor: a plug-in cannot take the name of a built-in kind, not even of one
 * that is switched off here.
 *
 * A set does not change after exec_set_create, so any thread may read it without a lock.
 */
#include "exec/exec.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/texts.h"

#define KIND_MAX    32
#define KNOWN_FLAGS PGRAB_EXECUTOR_INSTANT

struct entry {
	const struct pgrab_executor *executor; /* borrowed: static data here or in a plug-in */
	void *handle;                          /* of dlopen; NULL: it is built in */
};

struct exec_set {
	size_t count;
	struct entry *item; /* plug-ins first */
};

bool
exec_kind_valid(const char *kind)
{
	size_t n;

	if (kind == NULL || kind[0] < 'a' || kind[0] > 'z')
		return false;
	n = strspn(kind, "abcdefghijklmnopqrstuvwxyz0123456789_");
	return kind[n] == '\0' && n <= KIND_MAX;
}

static const struct pgrab_executor *
builtin_find(const char *kind)
{
	for (size_t i = 0; exec_builtin[i] != NULL; i++) {
		if (strcmp(exec_builtin[i]->kind, kind) == 0)
			return exec_builtin[i];
	}
	return NULL;
}

bool
exec_kind_builtin(const char *kind)
{
	return builtin_find(kind) != NULL;
}

static void
set_add(struct exec_set *s, const struct pgrab_executor *x, void *handle)
{
	s->item = xrealloc(s->item, (s->count + 1) * sizeof *s->item);
	s->item[s->count++] = (struct entry){x, handle};
}

/* Is this an executor we can work with?  The ABI number comes first: under another one the
 * fields mean something else. */
static enum rc
executor_check(const struct exec_set *s, const struct pgrab_executor *x, struct err *err)
{
	if (x == NULL)
		return err_set(err, RC_BAD, "%s() returned NULL", PGRAB_EXECUTOR_ENTRY);
	if (x->abi != PGRAB_EXECUTOR_ABI)
		return err_set(err, RC_BAD,
		    "it was built for executor ABI %u, this pgrab has ABI %u: rebuild it against this "
		    "version's pgrab/executor.h",
		    (unsigned)x->abi, (unsigned)PGRAB_EXECUTOR_ABI);
	if (x->size < sizeof *x)
		return err_set(err, RC_BAD,
		    "its struct pgrab_executor has %u bytes, %zu are needed: set size to "
		    "sizeof(struct pgrab_executor)",
		    (unsigned)x->size, sizeof *x);
	if (!exec_kind_valid(x->kind))
		return err_set(err, RC_BAD,
		    "its kind \"%.*s\" is not a name: a lower-case letter, then lower-case letters, digits "
		    "and _, at most %d characters",
		    2 * KIND_MAX, x->kind == NULL ? "" : x->kind, KIND_MAX);
	if (x->summary == NULL || x->open == NULL || x->close == NULL || x->run == NULL)
		return err_set(err, RC_BAD, "its executor \"%s\" has no %s", x->kind,
		    x->summary == NULL ? "summary"
		    : x->open == NULL  ? "open()"
		    : x->close == NULL ? "close()"
				       : "run()");
	if ((x->flags & ~KNOWN_FLAGS) != 0)
		return err_set(err, RC_BAD,
		    "its executor \"%s\" has flags that this pgrab does not know (0x%x)", x->kind,
		    (unsigned)(x->flags & ~KNOWN_FLAGS));
	if (builtin_find(x->kind) != NULL)
		return err_set(err, RC_BAD, "the kind \"%s\" exists: it is built in", x->kind);
	if (exec_set_find(s, x->kind) != NULL)
		return err_set(err, RC_BAD, "the kind \"%s\" exists: another loaded file has it", x->kind);
	return RC_OK;
}

/* dlopen looks for a name without a slash in the system's library folders; we mean the working directory. */
static void *
open_file(const char *path, struct err *err)
{
	AUTO_FREE char *name = strchr(path, '/') == NULL ? xasprintf("./%s", path) : xstrdup(path);
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (handle == NULL)
		(void)err_set(err, RC_BAD, "%s", dlerror());
	return handle;
}

static enum rc
load(struct exec_set *s, const char *path, struct err *err)
{
	void *handle = open_file(path, err), *symbol;
	const struct pgrab_executor *x = NULL;
	pgrab_executor_entry_fn entry;
	enum rc rc = RC_BAD;

	symbol = handle == NULL ? NULL : dlsym(handle, PGRAB_EXECUTOR_ENTRY);
	if (symbol != NULL) {
		memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from void * to a function */
		x = entry();
		rc = executor_check(s, x, err);
	} else if (handle != NULL) {
		rc = err_set(err, RC_BAD, "it does not export the function %s, so it is not a pgrab executor",
		    PGRAB_EXECUTOR_ENTRY);
	}
	if (rc == RC_OK) {
		set_add(s, x, handle);
		return RC_OK;
	}
	if (handle != NULL)
		dlclose(handle);
	err_prefix(err, "could not load the executor %s", path);
	return rc;
}

static enum rc
unknown_kind(const struct exec_set *s, const char *kind, struct err *err)
{
	AUTO_BUF struct buf names = {0};

	for (size_t i = 0; exec_builtin[i] != NULL; i++)
		buf_addf(&names, "%s%s", i == 0 ? "" : ", ", exec_builtin[i]->kind);
	for (size_t i = 0; i < s->count && s->item[i].handle != NULL; i++)
		buf_addf(&names, ", %s", s->item[i].executor->kind);
	return err_set(err, RC_BAD,
	    "there is no kind \"%.64s\" to allow; the kinds are: %s (more can be loaded: setting "
	    "`executors`)",
	    kind, buf_str(&names));
}

static enum rc
allow(struct exec_set *s, const char *kind, struct err *err)
{
	const struct pgrab_executor *x = builtin_find(kind);

	if (exec_set_find(s, kind) != NULL)
		return RC_OK; /* a plug-in's, or named twice */
	if (x == NULL)
		return unknown_kind(s, kind, err);
	set_add(s, x, NULL);
	return RC_OK;
}

/* For each word of a comma-separated list, without the blanks around it. */
static enum rc
add_each(struct exec_set *s, const char *list, enum rc (*add)(struct exec_set *, const char *, struct err *),
    struct err *err)
{
	struct texts words = {0};
	enum rc rc = RC_OK;

	texts_split(&words, list == NULL ? "" : list, ",");
	for (size_t i = 0; i < words.n && rc == RC_OK; i++) {
		char *word = words.item[i] + strspn(words.item[i], " \t\r\n");
		size_t n = strlen(word);

		while (n > 0 && isspace((unsigned char)word[n - 1]))
			word[--n] = '\0';
		if (n > 0)
			rc = add(s, word, err);
	}
	texts_fini(&words);
	return rc;
}

enum rc
exec_set_create(const char *kinds, const char *plugins, struct exec_set **out, struct err *err)
{
	struct exec_set *s = xcalloc(1, sizeof(*s));
	enum rc rc;

	*out = NULL;
	rc = add_each(s, plugins, load, err);
	if (rc == RC_OK)
		rc = add_each(s, kinds, allow, err);
	if (rc == RC_OK)
		*out = s;
	else
		exec_set_destroy(&s);
	return rc;
}

void
exec_set_destroy(struct exec_set **s)
{
	struct exec_set *set = *s;

	if (set == NULL)
		return;
	for (size_t i = 0; i < set->count && set->item[i].handle != NULL; i++)
		dlclose(set->item[i].handle);
	free(set->item);
	free(set);
	*s = NULL;
}

size_t
exec_set_count(const struct exec_set *s)
{
	return s->count;
}

const struct pgrab_executor *
exec_set_at(const struct exec_set *s, size_t i)
{
	return i < s->count ? s->item[i].executor : NULL;
}

const struct pgrab_executor *
exec_set_find(const struct exec_set *s, const char *kind)
{
	for (size_t i = 0; s != NULL && i < s->count; i++) {
		if (strcmp(s->item[i].executor->kind, kind) == 0)
			return s->item[i].executor;
	}
	return NULL;
}
