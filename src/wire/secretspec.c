// SPDX-License-Identifier: Apache-2.0
#include "wire/secretspec.h"

#include "base/own.h"
#include "wire/dnsname.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *const secret_source_str[] = { "env", "file", "command" };
_Static_assert(ARRAY_LEN(secret_source_str) == SECRET_SOURCE_MAX, "a source lacks its word");

/* --- hosts ------------------------------------------------------------------------------------ */

int secret_host_read(const char *text, struct secret_host *ret)
{
	ret->below = strncmp(text, "*.", 2) == 0;
	text += ret->below ? 2 : 0;
	return dnsname_read(text, strlen(text), ret->name) < 0 ? -EINVAL : 0;
}

static bool ends_below(const char *name, const char *above)
{
	size_t n = strlen(name), len = strlen(above);

	return n > len + 1 && name[n - len - 1] == '.' && strcmp(name + n - len, above) == 0;
}

bool secret_hosts_have(const struct secret_host *v, unsigned int n, const char *name)
{
	for (unsigned int i = 0; i < n; i++)
		if (v[i].below ? ends_below(name, v[i].name) : strcmp(name, v[i].name) == 0)
			return true;
	return false;
}

bool secret_hosts_cover(const struct secret_host *v, unsigned int n, const struct net_rule *r)
{
	if (r->kind == NET_EXACT)
		return secret_hosts_have(v, n, r->name);
	for (unsigned int i = 0; i < n && r->kind == NET_BELOW; i++)
		if (v[i].below &&
		    (strcmp(r->name, v[i].name) == 0 || ends_below(r->name, v[i].name)))
			return true;
	return false;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int bad(struct err *e, const char *name, const char *why)
{
	return err_set(e, ERR_USAGE, 0, "secret '%s': %s", name, why);
}

/* "[TENANT/]NAME" */
static int read_name(char *text, struct secret_spec *ret, struct err *e)
{
	char *slash = strchr(text, '/');
	const char *name = slash != NULL ? slash + 1 : text;

	if (slash != NULL)
		*slash = '\0';
	if (slash != NULL && (text[0] == '\0' || strlen(text) >= sizeof(ret->tenant)))
		return err_set(e, ERR_USAGE, 0,
			       "secret: what stands in front of '/' is the name of a tenant");
	if (!net_secret_is_name(name))
		return err_set(e, ERR_USAGE, 0,
			       "secret: '%.64s' is no name for one: a-z, 0-9, '_', '-', '.'", name);
	if (slash != NULL)
		(void)snprintf(ret->tenant, sizeof(ret->tenant), "%.64s", text);
	(void)snprintf(ret->name, sizeof(ret->name), "%.63s", name);
	if (slash != NULL &&
	    strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-.") != strlen(text))
		return bad(e, ret->name, "its tenant is made of a-z, 0-9, '_', '-', '.'");
	return 0;
}

static int read_hosts(char *text, struct secret_spec *ret, struct err *e)
{
	char *save = NULL;

	for (char *w = strtok_r(text, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
		if (ret->nhosts == SECRET_HOSTS)
			return bad(e, ret->name, "it is for too many hosts");
		if (secret_host_read(w, &ret->hosts[ret->nhosts++]) < 0)
			return bad(e, ret->name,
				   "behind '@' are the hosts that it is for: names, or '*.name', "
				   "with spaces between them");
	}
	return ret->nhosts > 0 ? 0
			       : bad(e, ret->name, "it lacks '@HOST': the hosts that it is for");
}

/* "env:VARIABLE" */
static int read_source(const char *text, struct secret_spec *ret, struct err *e)
{
	for (int i = 0; i < SECRET_SOURCE_MAX; i++) {
		size_t n = strlen(secret_source_str[i]);

		if (strncmp(text, secret_source_str[i], n) != 0 || text[n] != ':')
			continue;
		ret->source = (enum secret_source)i;
		text += n + 1;
		if (text[0] == '\0' || (i != SECRET_ENV && text[0] != '/'))
			return bad(e, ret->name,
				   i == SECRET_ENV
					   ? "behind 'env:' is the name of a variable"
					   : "the path of a file or a program begins with '/'");
		(void)snprintf(ret->where, sizeof(ret->where), "%s", text);
		return 0;
	}
	return bad(e, ret->name,
		   "it comes from 'env:VARIABLE', 'file:/PATH' or 'command:/PROGRAM …'");
}

void secret_spec_key(const struct secret_spec *s, char ret[NET_SECRET])
{
	(void)snprintf(ret, NET_SECRET, "%s%s%s", s->tenant, s->tenant[0] != '\0' ? "/" : "",
		       s->name);
}

int secret_spec_read(const char *text, struct secret_spec *ret, struct err *e)
{
	char copy[SECRET_TEXT], *equals, *at;

	*ret = (struct secret_spec){ 0 };
	if (strlen(text) >= sizeof(copy))
		return err_set(e, ERR_USAGE, 0, "secret: it is too long");
	(void)snprintf(copy, sizeof(copy), "%s", text);
	equals = strchr(copy, '=');
	at = strrchr(copy, '@');
	if (equals == NULL || (at != NULL && at < equals))
		return err_set(e, ERR_USAGE, 0,
			       "secret: it is NAME=SOURCE@HOST, for example "
			       "'github=env:GITHUB_TOKEN@api.github.com'");
	*equals++ = '\0';
	if (at != NULL)
		*at++ = '\0';
	if (read_name(copy, ret, e) < 0)
		return -1;
	return read_hosts(at != NULL ? at : equals + strlen(equals), ret, e) < 0 ||
			       read_source(equals, ret, e) < 0
		       ? -1
		       : 0;
}
