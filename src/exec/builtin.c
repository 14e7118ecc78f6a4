/* The table of built-in executors: the one place that knows them all.  A file of its own, so that a program
 * that brings its own table (a test) does not link the executors.  Its order is the order of lists and
 * help. */
#include "exec/exec.h"

const struct pgrab_executor *const exec_builtin[] = {
    &exec_sql,
    &exec_shell,
    &exec_exec,
    &exec_http,
    &exec_notify,
    &exec_noop,
    NULL,
};
