// SPDX-License-Identifier: Apache-2.0
/* Jupyter's REST calls that clients make first: what this is, and what kinds of kernels there are. */
#include "gate/jup.h"

#include "base/own.h"

#include "config.gen.h"

#include <string.h>

/* Names under which the one environment is known: Jupyter's, and that of clients which say what language they want. */
static const char *const names[] = { "python3", "python" };

bool jup_is_spec(const char *name)
{
	for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static void put_spec(struct json *j, const char *key, const char *name)
{
	json_open(j, key, '{');
	json_str(j, "name", name);
	json_open(j, "spec", '{');
	json_open(j, "argv", '[');
	json_close(j, ']');
	json_open(j, "env", '{');
	json_close(j, '}');
	json_str(j, "display_name", "Python 3 (Glovebox)");
	json_str(j, "language", "python");
	json_str(j, "interrupt_mode", "message");
	json_open(j, "metadata", '{');
	json_close(j, '}');
	json_close(j, '}');
	json_open(j, "resources", '{');
	json_close(j, '}');
	json_close(j, '}');
}

void jup_specs(struct req *r)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "default", names[0]);
	json_open(&j, "kernelspecs", '{');
	for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
		put_spec(&j, names[i], names[i]);
	json_close(&j, '}');
	json_close(&j, '}');
	req_json(r, 200, &j);
}

void jup_spec(struct req *r)
{
	struct http_slice name = r->param[0];
	struct json j;

	for (unsigned int i = 0; i < ARRAY_LEN(names); i++) {
		if (!http_slice_is(name, names[i]))
			continue;
		json_init(&j);
		put_spec(&j, NULL, names[i]);
		req_json(r, 200, &j);
		return;
	}
	req_refuse(r, 404, "not_found", NULL, "Kernel spec %.*s not found",
		   (int)(name.n < 64 ? name.n : 64), name.p);
}

void jup_api(struct req *r)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "version", GLOVEBOX_VERSION);
	json_close(&j, '}');
	req_json(r, 200, &j);
}

/* Files of a kernel's kind: there are none. */
void jup_nothing(struct req *r)
{
	req_refuse(r, 404, "not_found", NULL, "there is no such file");
}
