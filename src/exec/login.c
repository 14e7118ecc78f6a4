/* Whose connection is this? */
#include <string.h>

#include "db/store_node.h"
#include "exec/exec.h"

enum rc
exec_login_check(
    struct db *db, const struct exec_env *env, const char *owner, struct login *out, struct err *err)
{
	enum rc rc = db_connect(db, err);

	if (rc == RC_OK)
		rc = store_login(db, out, err);
	if (rc != RC_OK)
		return rc;
	if (strcmp(out->role, owner) != 0)
		return err_set(err, RC_BAD,
		    "the connection for owner %s is one of role %s: sql tasks run as their owner or not at "
		    "all; fix its service or dsn",
		    owner, out->role);
	if (strcmp(out->database, env->database) != 0)
		return err_set(err, RC_BAD,
		    "the connection for owner %s is to database %s, and the tasks are in %s: name it in its "
		    "service or dsn",
		    owner, out->database, env->database);
	if (out->superuser && !env->superuser_ok)
		return err_set(err, RC_BAD,
		    "the role %s is a superuser, whose text could do anything to the server: give the tasks "
		    "another owner (or say allow_superuser = yes)",
		    owner);
	return RC_OK;
}
