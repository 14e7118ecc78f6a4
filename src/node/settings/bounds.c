/* From settings to what tasks may do: exec/bounds.h. */
#include <string.h>

#include "base/alloc.h"
#include "node/settings/settings.h"

static bool
names_kind(const char *list, const char *kind)
{
	size_t n = strlen(kind);

	for (; *list != '\0'; list += strcspn(list, ",")) {
		list += strspn(list, ", \t");
		if (strncmp(list, kind, n) == 0 && strchr(", \t", list[n]) != NULL)
			return true;
	}
	return false;
}

/* Refused at the start, not run by run: nobody wants this by accident. */
static enum rc
check_root(const struct settings *s, const struct bounds_list *l, struct err *err)
{
	const char *allow = s->allow == NULL ? "" : s->allow;

	if (!bounds_all_root(l) || !(names_kind(allow, "shell") || names_kind(allow, "exec")))
		return RC_OK;
	return err_set(err, RC_BAD,
	    "this node is root and allows shell or exec: anyone who may insert a task would be root here. "
	    "Name the user that tasks run as (run_as = USER), or say allow_root = yes");
}

enum rc
settings_bounds(const struct settings *s, struct bounds_list *out, struct err *err)
{
	const struct bounds_common common = {.job_env = s->job_env,
	    .job_cwd = s->job_cwd,
	    .job_umask = s->job_umask,
	    .job_nice = (int)s->job_nice,
	    .allow_root = s->allow_root};
	AUTO_FREE struct bounds_texts *texts = xcalloc(s->n_owners + 1, sizeof *texts);
	enum rc rc;

	texts[0] =
	    (struct bounds_texts){.run_as = s->run_as, .http_hosts = s->http_hosts, .limits = s->job_limits};
	for (size_t i = 0; i < s->n_owners; i++) {
		const struct owner_settings *o = &s->owners[i];

		texts[i + 1] = (struct bounds_texts){.owner = o->name,
		    .run_as = o->run_as,
		    .directory = o->directory,
		    .programs = o->programs,
		    .variables = o->variables,
		    .http_hosts = o->http_hosts,
		    .limits = o->limits};
	}
	rc = bounds_make(out, &common, texts, s->n_owners + 1, err);
	if (rc == RC_OK)
		rc = check_root(s, out, err);
	return rc;
}
