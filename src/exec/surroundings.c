/* See surroundings.h. */
#include "exec/surroundings.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "exec/limits.h"

static void
set(struct surroundings *s, const char *text, size_t len)
{
	size_t n = 0, name = strcspn(text, "=") + 1;

	while (s->env[n] != NULL && strncmp(s->env[n], text, name) != 0)
		n++;
	if (s->env[n] == NULL) {
		s->env = xrealloc(s->env, (n + 2) * sizeof *s->env);
		s->env[n + 1] = NULL;
	} else {
		free(s->env[n]);
	}
	s->env[n] = xasprintf("%.*s", (int)len, text);
}

static void
set_pair(struct surroundings *s, const char *name, const char *value)
{
	char *text = xasprintf("%s=%s", name, value);

	set(s, text, strlen(text));
	free(text);
}

static void
set_defaults(struct surroundings *s)
{
	const struct passwd *user = getpwuid(getuid());

	set_pair(s, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	set_pair(s, "LANG", "C.UTF-8");
	set_pair(s, "HOME", user == NULL ? "/" : user->pw_dir);
	set_pair(s, "SHELL", "/bin/sh");
	if (user != NULL) {
		set_pair(s, "USER", user->pw_name);
		set_pair(s, "LOGNAME", user->pw_name);
	}
}

static enum rc
set_wanted(struct surroundings *s, const char *env, struct err *err)
{
	while (env != NULL && *env != '\0') {
		size_t n;

		env += strspn(env, " ");
		n = strcspn(env, ",");
		if (n == 0 || env[0] == '=' || memchr(env, '=', n) == NULL)
			return err_set(err, RC_BAD,
			    "job_env: \"%.*s\" is not NAME=value; write it as "
			    "HOME=/srv/jobs,TZ=Europe/Berlin",
			    (int)(n < 60 ? n : 60), env);
		set(s, env, n);
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

	*s = (struct surroundings){.env = xcalloc(1, sizeof *s->env), .cwd = xstrdup(cwd), .nice = nice};
	set_defaults(s);
	if (*umask == '\0' || *end != '\0' || mask < 1 || mask > 0777)
		return err_set(
		    err, RC_BAD, "job_umask: \"%.20s\" is not an octal number from 001 to 777", umask);
	s->umask = (int)mask;
	if (cwd[0] != '/')
		return err_set(err, RC_BAD, "job_cwd: \"%.200s\" does not begin with a slash", cwd);
	return set_wanted(s, env, err);
}

enum rc
surroundings_limit(struct surroundings *s, const char *limits, struct err *err)
{
	char *copy = xstrdup(limits == NULL ? "" : limits), *save = NULL;
	enum rc rc = RC_OK;

	for (char *one = strtok_r(copy, ", ", &save); one != NULL && rc == RC_OK;
	     one = strtok_r(NULL, ", ", &save))
		rc = limits_read(&s->limits, "job_limits", one, err);
	free(copy);
	return rc;
}

void
surroundings_fini(struct surroundings *s)
{
	for (size_t i = 0; s->env != NULL && s->env[i] != NULL; i++)
		free(s->env[i]);
	free(s->env);
	free(s->cwd);
	*s = (struct surroundings){0};
}
