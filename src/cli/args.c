/* --arg NAME=TEXT and --arg NAME:=JSON, as one JSON object. */
#include "cli/cli.h"

#include <string.h>

#include <cjson/cJSON.h>

#include "base/alloc.h"

/* One --arg into the object. */
static enum rc
add_arg(cJSON *object, const char *arg, struct err *err)
{
	const char *eq = strchr(arg, '=');
	bool json = eq != NULL && eq > arg && eq[-1] == ':';
	size_t n = eq == NULL ? 0 : (size_t)(eq - arg) - (json ? 1 : 0);
	AUTO_FREE char *name = xmemdup0(arg, n);
	enum rc rc = RC_OK;

	if (n == 0) {
		rc = err_set(err, RC_BAD, "--arg \"%.100s\": write --arg name=text or --arg name:=json", arg);
	} else if (cJSON_GetObjectItemCaseSensitive(object, name) != NULL) {
		rc = err_set(err, RC_BAD, "--arg %.100s was given twice", name);
	} else if (json) {
		cJSON *parsed = cJSON_ParseWithOpts(eq + 1, NULL, true);

		/* The text itself is passed on: parsing would round large numbers. */
		if (parsed == NULL)
			rc = err_set(err, RC_BAD, "--arg %.60s: \"%.100s\" is not JSON", name, eq + 1);
		else
			cJSON_AddRawToObject(object, name, eq + 1);
		cJSON_Delete(parsed);
	} else {
		cJSON_AddStringToObject(object, name, eq + 1);
	}
	return rc;
}

enum rc
cli_args(struct cli *c, char **json_out)
{
	cJSON *object = cJSON_CreateObject();
	enum rc rc = RC_OK;

	for (int i = 0; i < c->n_repeated && rc == RC_OK; i++)
		rc = add_arg(object, c->repeated[i], &c->err);
	if (rc == RC_OK && c->n_repeated > 0)
		*json_out = cJSON_PrintUnformatted(object);
	cJSON_Delete(object);
	return rc;
}
