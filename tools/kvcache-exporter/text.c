// SPDX-License-Identifier: MIT
/*
 * text.c - answers, which as many clients hold as asked for the same.
 */
#include <stdlib.h>
#include <string.h>

#include "http.h"
#include "util.h"

static bool add_headers(struct MHD_Response *r, unsigned int status,
			const char *type)
{
	return MHD_add_response_header(r, "Content-Type", type) == MHD_YES &&
	       MHD_add_response_header(r, "Connection", "close") == MHD_YES &&
	       MHD_add_response_header(r, "X-Content-Type-Options",
				       "nosniff") == MHD_YES &&
	       (status != MHD_HTTP_METHOD_NOT_ALLOWED ||
		MHD_add_response_header(r, "Allow", "GET, HEAD") == MHD_YES);
}

struct text *text_new(unsigned int status, const char *type, char *s,
		      size_t len)
{
	struct MHD_Response *r;
	struct text *t;

	r = MHD_create_response_from_buffer(len, s, MHD_RESPMEM_MUST_FREE);
	if (!r) {
		free(s);
		return NULL;
	}
	if (!add_headers(r, status, type)) {
		MHD_destroy_response(r);
		return NULL;
	}
	t = xcalloc(1, sizeof(*t));
	*t = (struct text){ .r = r, .status = status, .len = len, .refs = 1 };
	return t;
}

struct text *text_line(unsigned int status, const char *line)
{
	char *s = xasprintf("%s\n", line);

	return text_new(status, "text/plain; charset=utf-8", s, strlen(s));
}

struct text *text_get(struct text *t)
{
	if (t)
		t->refs++;
	return t;
}

void text_put(struct text *t)
{
	if (!t || --t->refs)
		return;
	if (t->total)
		*t->total -= t->len;
	MHD_destroy_response(t->r);
	free(t);
}
