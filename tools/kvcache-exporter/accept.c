// SPDX-License-Identifier: MIT
/*
 * accept.c - what a client asked: which text it wants, and whom it means.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "exporter.h"

/**
 * struct range - one of the media ranges of an Accept header
 * @type: at its beginning, @len bytes
 * @q: how much it is wanted, 0 to 1
 * @version: its version, @version_len bytes; none: any
 */
struct range {
	const char *type;
	size_t len;
	double q;
	const char *version;
	size_t version_len;
};

static bool is(const char *s, size_t len, const char *what)
{
	return len == strlen(what) && !strncasecmp(s, what, len);
}

/* "; NAME=VALUE", of which only two names matter. */
static void parameter(struct range *r, const char *s, size_t len)
{
	const char *equals = memchr(s, '=', len);
	size_t name = equals ? (size_t)(equals - s) : len;

	if (!equals)
		return;
	if (is(s, name, "q")) {
		r->q = strtod(equals + 1, NULL);
	} else if (is(s, name, "version")) {
		r->version = equals + 1;
		r->version_len = len - name - 1;
	}
}

/* Reads one; where the next one begins, or NULL. */
static const char *next_range(const char *s, struct range *r)
{
	size_t len;
	bool first = true;

	*r = (struct range){ .q = 1 };
	for (;; first = false) {
		s += strspn(s, " \t");
		len = strcspn(s, ";, \t");
		if (first) {
			r->type = s;
			r->len = len;
		} else {
			parameter(r, s, len);
		}
		s += len;
		s += strspn(s, " \t");
		if (*s != ';')
			break;
		s++;
	}
	s = strchr(s, ',');
	return s ? s + 1 : NULL;
}

static bool version_is(const struct range *r, const char *version)
{
	return !r->version || is(r->version, r->version_len, version);
}

enum metrics_format accept_format(const char *accept)
{
	double open = 0, text = 0;
	struct range r;

	while (accept && *accept) {
		accept = next_range(accept, &r);
		if (is(r.type, r.len, "application/openmetrics-text") &&
		    version_is(&r, "1.0.0") && r.q > open)
			open = r.q;
		if (is(r.type, r.len, "text/plain") &&
		    version_is(&r, "0.0.4") && r.q > text)
			text = r.q;
	}
	/* The older text for all who do not ask for the other one by name. */
	return open > 0 && open >= text ? METRICS_OPENMETRICS :
					  METRICS_PROMETHEUS;
}

/*
 * Names of others can be made to mean 127.0.0.1, by which a web page would read
 * what is here: only names are taken that no name server answers for.
 */
bool accept_host(const char *host)
{
	size_t len = strcspn(host, ":");
	char name[INET_ADDRSTRLEN];
	struct in_addr a;

	if (*host == '[')
		len = strcspn(host, "]") + 1;
	if (len < strlen(host) &&
	    (host[len] != ':' ||
	     strspn(host + len + 1, "0123456789") != strlen(host + len + 1)))
		return false;
	if (is(host, len, "localhost") || is(host, len, "[::1]"))
		return true;
	if (len >= sizeof(name))
		return false;
	memcpy(name, host, len);
	name[len] = 0;
	return inet_pton(AF_INET, name, &a) == 1 &&
	       ntohl(a.s_addr) >> 24 == IN_LOOPBACKNET;
}
