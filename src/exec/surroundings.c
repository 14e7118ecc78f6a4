#include "exec/surroundings.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

static void
set_defaults(struct surroundings *s)
{
	const struct passwd *user = getpwuid(getuid());

	texts_set(&s->env, "PATH=%s", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	texts_set(&s->env, "LANG=%s", "C.UTF-8");
	texts_set(&s->env, "HOME=%s", user == NULL ? "/" : user->pw_dir);
	texts_set(&s->env, "SHELL=%s", "/bin/sh");
	if (user != NULL) {
		texts_set(&s->env, "USER=%s", user->pw_name);
		texts_set(&s->env, "LOGNAME=%s", user->pw_name);
	}
}

enum rc
surroundings_env(struct surroundings *s, const char *where, const char *env, struct err *err)
{
	while (env != NULL && *env != '\0') {
		size_t n;

		env += strspn(env, " ");
		n = strcspn(env, ",");
		if (n == 0 || env[0] == '=' || memchr(env, '=', n) == NULL)
			return err_set(err, RC_BAD,
			    "%s: \"%.*s\" is not NAME=value; write it as HOME=/srv/jobs,TZ=Europe/Berlin",
			    where, (int)(n < 60 ? n : 60), env);
		texts_set(&s->env, "%.*s", (int)n, env);
		env += n + (env[n] == ',');
	}
	return RC_OK;
}

enum rc
surroundings_make(
    struct surroundings *s, const char *env, const char *cwd, const char *umask, int nice, struct err *err)
{
	char *end;
	long mask = strtol(umask, &end, 8);

	*s = (struct surroundings){.cwd = xstrdup(cwd), .nice = nice};
	set_defaults(s);
	if (*umask == '\0' || *end != '\0' || mask < 1 || mask > 0777)
		return err_set(
		    err, RC_BAD, "job_umask: \"%.20s\" is not an octal number from 001 to 777", umask);
	s->umask = (int)mask;
	if (cwd[0] != '/')
		return err_set(err, RC_BAD, "job_cwd: \"%.200s\" does not begin with a slash", cwd);
	return surroundings_env(s, "job_env", env, err);
}

struct user_entry {
	bool found;
	struct passwd entry; /* its texts are in text */
	char text[16384];
};

/* text is a number, for which there need be no entry, or a name. */
static bool
find_user(const char *text, struct keeper_user *u, struct user_entry *e)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);
	bool number = text[0] >= '0' && text[0] <= '9' && *end == '\0' && n < UINT32_MAX;
	struct passwd *p = NULL;

	if (number)
		(void)getpwuid_r((uid_t)n, &e->entry, e->text, sizeof e->text, &p);
	else
		(void)getpwnam_r(text, &e->entry, e->text, sizeof e->text, &p);
	e->found = p != NULL;
	u->uid = e->found ? p->pw_uid : (uid_t)n;
	u->gid = e->found ? p->pw_gid : (gid_t)n;
	return e->found || number;
}

static bool
find_group(const char *text, struct keeper_user *u)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);
	bool number = text[0] >= '0' && text[0] <= '9' && *end == '\0' && n < UINT32_MAX;
	struct group entry, *g = NULL;
	char space[16384];

	if (!number)
		(void)getgrnam_r(text, &entry, space, sizeof space, &g);
	u->gid = g != NULL ? g->gr_gid : (gid_t)n;
	return g != NULL || number;
}

/* As initgroups(3) would: those that the system's files name at this moment. */
static enum rc
find_groups(struct surroundings *s, const char *where, const char *name, struct err *err)
{
	int n = KEEPER_GROUPS_MAX;

	s->groups = xcalloc((size_t)n, sizeof *s->groups);
	if (name == NULL) {
		s->groups[0] = s->user.gid;
		n = 1;
	} else if (getgrouplist(name, s->user.gid, s->groups, &n) < 0) {
		return err_set(
		    err, RC_BAD, "%s: %.64s is in more than %d groups", where, name, KEEPER_GROUPS_MAX);
	}
	s->user.groups = s->groups;
	s->user.n_groups = (size_t)n;
	return RC_OK;
}

static enum rc
become(struct surroundings *s, const char *where, const char *name, const char *group, struct err *err)
{
	struct user_entry e;

	if (!find_user(name, &s->user, &e))
		return err_set(err, RC_BAD, "%s: there is no user \"%.64s\" on this machine", where, name);
	texts_set(&s->env, "HOME=%s", e.found ? e.entry.pw_dir : "/");
	if (e.found) {
		texts_set(&s->env, "USER=%s", e.entry.pw_name);
		texts_set(&s->env, "LOGNAME=%s", e.entry.pw_name);
	}
	name = e.found ? e.entry.pw_name : NULL;
	if (group != NULL && !find_group(group, &s->user))
		return err_set(err, RC_BAD, "%s: there is no group \"%.64s\" on this machine", where, group);
	if (s->user.uid == geteuid() && s->user.gid == getegid())
		return RC_OK;
	if (!keeper_can_switch())
		return err_set(err, RC_BAD,
		    "%s: this node is not root, so it cannot run anything as another user; start it as root "
		    "or with the capabilities CAP_SETUID, CAP_SETGID and CAP_KILL",
		    where);
	s->user.set = true;
	return find_groups(s, where, name, err);
}

enum rc
surroundings_user(struct surroundings *s, const char *where, const char *run_as, struct err *err)
{
	char *name = xstrdup(run_as == NULL ? "" : run_as), *colon = strchr(name, ':');
	enum rc rc = RC_OK;

	if (colon != NULL)
		*colon = '\0';
	if (run_as != NULL)
		rc = become(s, where, name, colon == NULL ? NULL : colon + 1, err);
	free(name);
	return rc;
}

enum rc
surroundings_folder(struct surroundings *s, const char *where, const char *folder, struct err *err)
{
	if (folder == NULL)
		return RC_OK;
	if (folder[0] != '/')
		return err_set(err, RC_BAD, "%s: \"%.200s\" does not begin with a slash", where, folder);
	free(s->cwd);
	s->cwd = xstrdup(folder);
	texts_set(&s->env, "HOME=%s", folder);
	return RC_OK;
}

enum rc
surroundings_limit(struct surroundings *s, const char *where, const char *limits, struct err *err)
{
	struct texts list = {0};
	enum rc rc = RC_OK;

	texts_split(&list, limits == NULL ? "" : limits, ", ");
	for (size_t i = 0; i < list.n && rc == RC_OK; i++)
		rc = limits_read(&s->limits, where, list.item[i], err);
	texts_fini(&list);
	return rc;
}

void
surroundings_fini(struct surroundings *s)
{
	texts_fini(&s->env);
	free(s->cwd);
	free(s->groups);
	*s = (struct surroundings){0};
}
