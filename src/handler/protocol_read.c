/* What a handler process writes, read and checked. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "exec/exec.h"
#include "handler/protocol.h"

#define INTEGER_MAX 9007199254740992.0 /* 2^53: up to here every JSON reader is exact */
#define RETRY_MAX_S (365.0 * 86400)
#define SCHEMA_MAX  (64 * 1024)
#define WAIT_MAX_S  (3650.0 * 86400)
#define NAME_CHARS  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:"

struct reading {
	const cJSON *all;
	const char *line;
	size_t n;
	struct err *err;
};

static const cJSON *
member(const struct reading *r, const char *name)
{
	const cJSON *m = cJSON_GetObjectItemCaseSensitive(r->all, name);

	return cJSON_IsNull(m) ? NULL : m;
}

static enum rc
take_integer(const struct reading *r, const char *name, double most, int64_t *out)
{
	const cJSON *m = member(r, name);

	if (!cJSON_IsNumber(m) || !(m->valuedouble >= 0 && m->valuedouble <= most) ||
	    m->valuedouble != floor(m->valuedouble))
		return err_set(r->err, RC_BAD, "its \"%s\" is not a whole number from 0 to %.0f", name, most);
	*out = (int64_t)m->valuedouble;
	return RC_OK;
}

/* *out stays NULL when there is no such member. */
static enum rc
take_text(const struct reading *r, const char *name, char **out)
{
	const cJSON *m = member(r, name);

	if (m != NULL && !cJSON_IsString(m))
		return err_set(r->err, RC_BAD, "its \"%s\" is not a text", name);
	*out = m == NULL ? NULL : xstrdup(m->valuestring);
	return RC_OK;
}

/* The JSON value that begins at *p; moves *p to what follows it.  The line has been parsed: it is there. */
static cJSON *
next_value(const struct reading *r, const char **p)
{
	return cJSON_ParseWithLengthOpts(*p, (size_t)(r->line + r->n - *p), p, false);
}

/* The value of a member exactly as in the line, because a number of many digits must not be rounded. */
static char *
raw_member(const struct reading *r, const char *name)
{
	const char *p = (const char *)memchr(r->line, '{', r->n) + 1, *value;
	bool found = false;

	do {
		cJSON *key = next_value(r, &p);

		found = strcmp(key->valuestring, name) == 0;
		cJSON_Delete(key);
		value = p + strspn(p, " \t\r") + 1; /* the colon */
		value += strspn(value, " \t\r");
		p = value;
		cJSON_Delete(next_value(r, &p));
		p += found ? 0 : strspn(p, " \t\r") + 1; /* the comma */
	} while (!found);
	return xmemdup0(value, (size_t)(p - value));
}

static enum rc
take_schema(const struct reading *r, const char *kind, const cJSON *about, char **out)
{
	const cJSON *schema = cJSON_GetObjectItemCaseSensitive(about, "schema");
	char *text;

	*out = NULL;
	if (schema == NULL || cJSON_IsNull(schema))
		return RC_OK;
	if (!cJSON_IsObject(schema))
		return err_set(r->err, RC_BAD, "the schema of kind %s is not a JSON object", kind);
	text = cJSON_PrintUnformatted(schema);
	*out = xstrdup(text == NULL ? "{}" : text);
	cJSON_free(text);
	if (strlen(*out) > SCHEMA_MAX)
		return err_set(
		    r->err, RC_BAD, "the schema of kind %s is longer than %d bytes", kind, SCHEMA_MAX);
	return RC_OK;
}

static enum rc
take_kinds(const struct reading *r, struct message *m)
{
	const cJSON *kinds = member(r, "kinds"), *one;
	enum rc rc = RC_OK;

	if (!cJSON_IsObject(kinds) || cJSON_GetArraySize(kinds) > PROTOCOL_KINDS)
		return err_set(r->err, RC_BAD,
		    "its \"kinds\" is not an object with at most %d kinds as its members", PROTOCOL_KINDS);
	m->kind = xcalloc((size_t)cJSON_GetArraySize(kinds) + 1, sizeof *m->kind);
	cJSON_ArrayForEach(one, kinds)
	{
		struct hello_kind *k = &m->kind[m->n_kinds];

		if (!exec_kind_valid(one->string))
			return err_set(r->err, RC_BAD,
			    "\"%.64s\" is not a kind: a lower-case letter, then lower-case letters, digits "
			    "and _, at most 32 characters",
			    one->string);
		k->kind = xstrdup(one->string);
		m->n_kinds++;
		rc = take_schema(r, k->kind, one, &k->schema);
		if (rc != RC_OK)
			return rc;
	}
	return rc;
}

static enum rc
take_hello(const struct reading *r, struct message *m)
{
	int64_t version = 0, at_once = 1;
	enum rc rc = take_integer(r, "version", INTEGER_MAX, &version);

	if (rc == RC_OK && (version < 1 || version > PROTOCOL_VERSION))
		rc = err_set(r->err, RC_BAD,
		    "it speaks version %" PRId64 " of the protocol, this node speaks versions 1 to %d",
		    version, PROTOCOL_VERSION);
	m->version = (int)version;
	if (rc == RC_OK && member(r, "concurrency") != NULL)
		rc = take_integer(r, "concurrency", PROTOCOL_AT_ONCE, &at_once);
	if (rc == RC_OK && at_once == 0)
		rc = err_set(r->err, RC_BAD, "its \"concurrency\" is 0");
	m->at_once = (int)at_once;
	if (rc == RC_OK)
		rc = take_text(r, "library", &m->library);
	return rc == RC_OK ? take_kinds(r, m) : rc;
}

static enum rc
take_retry(const struct reading *r, struct message *m)
{
	const cJSON *retry = member(r, "retry");

	m->retry_us = RETRY_DEFAULT;
	if (retry == NULL || (cJSON_IsString(retry) && strcmp(retry->valuestring, "default") == 0))
		return RC_OK;
	if (cJSON_IsString(retry) && strcmp(retry->valuestring, "no") == 0) {
		m->retry_us = RETRY_NO;
		return RC_OK;
	}
	if (!cJSON_IsNumber(retry) || !(retry->valuedouble >= 0 && retry->valuedouble <= RETRY_MAX_S))
		return err_set(r->err, RC_BAD,
		    "its \"retry\" is none of \"no\", \"default\" and a number of seconds from 0 to %.0f",
		    RETRY_MAX_S);
	m->retry_us = (int64_t)(retry->valuedouble * (double)US_PER_S) + 1; /* 0 is the default */
	return RC_OK;
}

static enum rc
take_wait(const struct reading *r, struct message *m)
{
	const cJSON *timeout = member(r, "timeout");
	enum rc rc = take_text(r, "wait", &m->wait);

	if (rc != RC_OK || m->wait == NULL)
		return rc;
	if (m->ok || m->wait[0] == '\0' || strlen(m->wait) > SIGNAL_NAME_MAX ||
	    m->wait[strspn(m->wait, NAME_CHARS)] != '\0')
		return err_set(r->err, RC_BAD,
		    "its \"wait\" is not the name of a signal, 1 to %d letters, digits and _-.:, with \"ok\" "
		    "false",
		    SIGNAL_NAME_MAX);
	if (timeout == NULL)
		return RC_OK;
	if (!cJSON_IsNumber(timeout) || !(timeout->valuedouble >= 0 && timeout->valuedouble <= WAIT_MAX_S))
		return err_set(
		    r->err, RC_BAD, "its \"timeout\" is not a number of seconds from 0 to %.0f", WAIT_MAX_S);
	m->retry_us = (int64_t)(timeout->valuedouble * (double)US_PER_S) + 1; /* 0 is for ever */
	return RC_OK;
}

static enum rc
take_result(const struct reading *r, struct message *m)
{
	const cJSON *ok = member(r, "ok");
	enum rc rc = take_integer(r, "run", INTEGER_MAX, &m->run);

	if (rc == RC_OK && !cJSON_IsBool(ok))
		rc = err_set(r->err, RC_BAD, "its \"ok\" is neither true nor false");
	m->ok = cJSON_IsTrue(ok);
	if (rc == RC_OK && m->ok && member(r, "value") != NULL)
		m->value = raw_member(r, "value");
	if (rc == RC_OK)
		rc = take_text(r, "error", &m->text);
	if (rc == RC_OK)
		rc = take_text(r, "detail", &m->detail);
	if (rc == RC_OK)
		rc = take_retry(r, m);
	return rc == RC_OK ? take_wait(r, m) : rc;
}

static enum rc
take_log(const struct reading *r, struct message *m)
{
	enum rc rc = take_integer(r, "run", INTEGER_MAX, &m->run);

	if (rc == RC_OK)
		rc = take_text(r, "text", &m->text);
	if (rc == RC_OK && m->text == NULL)
		rc = err_set(r->err, RC_BAD, "it has no \"text\"");
	return rc;
}

static enum rc
take_step(const struct reading *r, struct message *m)
{
	enum rc rc = take_integer(r, "run", INTEGER_MAX, &m->run);

	if (rc == RC_OK)
		rc = take_text(r, "name", &m->text);
	if (rc == RC_OK && (m->text == NULL || m->text[0] == '\0' || strlen(m->text) > STEP_NAME_MAX))
		rc = err_set(r->err, RC_BAD, "its \"name\" is not a text of 1 to %d bytes", STEP_NAME_MAX);
	if (rc == RC_OK && cJSON_GetObjectItemCaseSensitive(r->all, "result") != NULL)
		m->value = raw_member(r, "result");
	return rc;
}

static enum rc
take_progress(const struct reading *r, struct message *m)
{
	const cJSON *percent = member(r, "percent");
	enum rc rc = take_integer(r, "run", INTEGER_MAX, &m->run);

	m->percent = -1;
	if (rc == RC_OK && percent != NULL) {
		if (!cJSON_IsNumber(percent) || !(percent->valuedouble >= 0 && percent->valuedouble <= 100))
			return err_set(r->err, RC_BAD, "its \"percent\" is not a number from 0 to 100");
		m->percent = percent->valuedouble;
	}
	return rc == RC_OK ? take_text(r, "text", &m->text) : rc;
}

static enum rc
take_pong(const struct reading *r, struct message *m)
{
	return take_integer(r, "n", INTEGER_MAX, &m->number);
}

static const struct {
	const char *type;
	enum message_what what;
	enum rc (*take)(const struct reading *r, struct message *m);
} messages[] = {
    {"hello", MESSAGE_HELLO, take_hello},
    {"pong", MESSAGE_PONG, take_pong},
    {"progress", MESSAGE_PROGRESS, take_progress},
    {"log", MESSAGE_LOG, take_log},
    {"step", MESSAGE_STEP, take_step},
    {"result", MESSAGE_RESULT, take_result},
};

static enum rc
take_message(const struct reading *r, struct message *m)
{
	const cJSON *type = member(r, "type");

	for (size_t i = 0; cJSON_IsString(type) && i < sizeof messages / sizeof *messages; i++) {
		if (strcmp(type->valuestring, messages[i].type) != 0)
			continue;
		enum rc rc = messages[i].take(r, m);

		m->what = messages[i].what;
		if (rc != RC_OK)
			err_prefix(r->err, "its %s message is wrong", messages[i].type);
		return rc;
	}
	return err_set(r->err, RC_BAD, "it has no \"type\" that this node knows");
}

/* UTF-8 with no control characters but blanks: cJSON skips any of them like a blank,
 * and a NUL would cut a value. */
static bool
is_text(const char *p, size_t n)
{
	for (size_t i = 0, len; i < n; i += len) {
		len = utf8_sequence(p + i, n - i);
		if (len == 0 || ((unsigned char)p[i] < ' ' && p[i] != '\t' && p[i] != '\r'))
			return false;
	}
	return true;
}

/* NULL: it is not one, or something follows it. */
static cJSON *
parse_object(const char *line, size_t n)
{
	const char *end = NULL;
	cJSON *all = cJSON_ParseWithLengthOpts(line, n, &end, false);

	while (all != NULL && end < line + n && strchr(" \t\r", *end) != NULL && *end != '\0')
		end++;
	if (cJSON_IsObject(all) && end == line + n)
		return all;
	cJSON_Delete(all);
	return NULL;
}

enum rc
message_parse(const char *line, size_t n, struct message *out, struct err *err)
{
	struct reading r = {.line = line, .n = n, .err = err};
	cJSON *all = n > PROTOCOL_LINE || !is_text(line, n) ? NULL : parse_object(line, n);
	enum rc rc;

	*out = (struct message){.retry_us = RETRY_DEFAULT};
	r.all = all;
	if (n > PROTOCOL_LINE)
		rc = err_set(err, RC_BAD, "a line is longer than %d bytes", PROTOCOL_LINE);
	else if (all == NULL)
		rc = err_set(err, RC_BAD, "it is not a JSON object in UTF-8");
	else
		rc = take_message(&r, out);
	cJSON_Delete(all);
	return rc;
}

void
message_fini(struct message *m)
{
	for (size_t i = 0; i < m->n_kinds; i++) {
		free(m->kind[i].kind);
		free(m->kind[i].schema);
	}
	free(m->kind);
	free(m->library);
	free(m->value);
	free(m->wait);
	free(m->detail);
	free(m->text);
	*m = (struct message){0};
}
