#include "serve/expose.h"

#include <string.h>

void
expose_family(struct expose *e, const struct family *f)
{
	const char *suffix = strcmp(f->type, "counter") == 0 && !e->open ? "_total" : "";

	buf_addf(e->out, "# HELP pgrab_%s%s %s.\n# TYPE pgrab_%s%s %s\n", f->name, suffix, f->help, f->name,
	    suffix, f->type);
}

static void
put_label(struct buf *out, char before, const char *name, const char *value)
{
	buf_addf(out, "%c%s=\"", before, name);
	for (; *value != '\0'; value++) {
		if (*value == '\n')
			buf_adds(out, "\\n");
		else if (*value == '"' || *value == '\\')
			buf_addf(out, "\\%c", *value);
		else
			buf_addc(out, *value);
	}
	buf_addc(out, '"');
}

void
expose_sample(struct expose *e, const char *name, const char *suffix, const char *label, const char *value_of,
    const char *label2, const char *value_of2, double value)
{
	buf_addf(e->out, "pgrab_%s%s", name, suffix);
	if (label != NULL)
		put_label(e->out, '{', label, value_of);
	if (label2 != NULL)
		put_label(e->out, label != NULL ? ',' : '{', label2, value_of2);
	buf_addf(e->out, "%s %.15g\n", label != NULL || label2 != NULL ? "}" : "", value);
}

void
expose_one(struct expose *e, const char *name, const char *help, double value)
{
	struct family f = {name, "gauge", help};

	expose_family(e, &f);
	expose_sample(e, name, "", NULL, NULL, NULL, NULL, value);
}
