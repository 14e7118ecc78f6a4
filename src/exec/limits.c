#include "exec/surroundings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_MIN  (1024 * 1024)
#define MEMORY_MAX  1e15
#define CPU_MIN     0.01
#define PROCESS_MAX 1e6

/* As PostgreSQL spells sizes; a bare number is bytes.  0: no unit. */
static double
unit(const char *text)
{
	static const struct {
		const char *name;
		double bytes;
	} units[] = {{"", 1}, {"B", 1}, {"kB", 1024.0}, {"MB", 1048576.0}, {"GB", 1073741824.0},
	    {"TB", 1099511627776.0}};

	text += strspn(text, " ");
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		if (strcmp(text, units[i].name) == 0)
			return units[i].bytes;
	}
	return 0;
}

enum rc
limits_read(struct keeper_limits *l, const char *where, const char *text, struct err *err)
{
	const char *value = strchr(text, '=');
	char *end = NULL;
	double n = value == NULL ? NAN : strtod(value + 1, &end);
	bool number = value != NULL && end != value + 1 && isfinite(n);

	if (strncmp(text, "memory=", 7) == 0) {
		n *= number ? unit(end) : 0;
		if (!(n >= MEMORY_MIN && n <= MEMORY_MAX))
			return err_set(err, RC_BAD,
			    "%s: \"%.60s\": memory is a size of 1MB or more, such as 512MB", where, text);
		l->memory = (int64_t)n;
	} else if (strncmp(text, "processes=", 10) == 0) {
		if (!number || *end != '\0' || n < 1 || n > PROCESS_MAX || n != floor(n))
			return err_set(err, RC_BAD, "%s: \"%.60s\": processes is a whole number of 1 or more",
			    where, text);
		l->processes = (int64_t)n;
	} else if (strncmp(text, "cpu=", 4) == 0) {
		if (!number || *end != '\0' || n < CPU_MIN || n > PROCESS_MAX)
			return err_set(err, RC_BAD,
			    "%s: \"%.60s\": cpu is a number of processors, such as 0.5", where, text);
		l->cpu_percent = (int64_t)ceil(n * 100);
	} else {
		return err_set(
		    err, RC_BAD, "%s: \"%.60s\": the limits are memory, processes and cpu", where, text);
	}
	return RC_OK;
}

static enum rc
within(const char *what, int64_t node, int64_t task, int64_t *out, struct err *err)
{
	if (node > 0 && task > node)
		return err_set(
		    err, RC_BAD, "args.limits: %s is more than this node allows (job_limits)", what);
	*out = task > 0 ? task : node;
	return RC_OK;
}

enum rc
limits_within(const struct keeper_limits *node, const struct keeper_limits *task, struct keeper_limits *out,
    struct err *err)
{
	enum rc rc = within("memory", node->memory, task->memory, &out->memory, err);

	if (rc == RC_OK)
		rc = within("processes", node->processes, task->processes, &out->processes, err);
	if (rc == RC_OK)
		rc = within("cpu", node->cpu_percent, task->cpu_percent, &out->cpu_percent, err);
	return rc;
}
