/* SPDX-License-Identifier: MIT */
/*
 * ctl.h - the commands of kvcachectl, and what they share.
 *
 * main.c has the table of commands, args.c the options, backend.c whom they
 * talk to. A command reads all its values before it opens anything, so that
 * what is refused has changed nothing.
 */
#ifndef CTL_H
#define CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <kvcache/kvcache.h>

#include "records.h"
#include "units.h"

struct table;

/* Exit codes. */
#define CTL_OK		0
#define CTL_FAILED	1	/* refused, or it did not work */
#define CTL_USAGE	2

/* Options. Two may have one name, if no command takes both. */
enum ctl_opt {
	OPT_DEVICE, OPT_JSON, OPT_HELP, OPT_VERSION, OPT_TENANT, OPT_POOL,
	OPT_MIN, OPT_LOW, OPT_MAX, OPT_DEADLINE, OPT_TTL, OPT_OWNER, OPT_MODE,
	OPT_CGROUP, OPT_TRUST, OPT_RIGHTS, OPT_HOLD, OPT_SIZE, OPT_PAGE,
	OPT_RESUME, OPT_STATE, OPT_FOLLOW, OPT_TIMEOUT, OPT_CONTEXT,
	OPT_CONVERSATIONS, OPT_KV, OPT_POOL_SIZE, OPT_BY, OPT_SVG, OPT_WIDTH,
	OPT_INTERVAL, OPT_NR
};

#define OPT(x) (1ULL << OPT_##x)

/**
 * struct ctl_option - one option
 * @name: without "--"
 * @letter: or 0
 * @arg: what its value is called; NULL if it takes none
 * @help: what it does; lines after the first are indented by --help
 */
struct ctl_option {
	const char *name;
	int letter;
	const char *arg;
	const char *help;
};

extern const struct ctl_option ctl_options[OPT_NR];

/* Options of every command. */
#define OPTS_COMMON (OPT(DEVICE) | OPT(JSON) | OPT(HELP))

struct ctl;

/**
 * struct ctl_command - one command
 * @group: "tenant", or the command itself
 * @name: "ls", or NULL
 * @args: its arguments, as --help shows them; "" for none
 * @help: what it does, in a few words
 * @opts: bit OPT_*: options that it takes beside the common ones
 * @min: arguments that it needs
 * @max: arguments that it takes
 * @run: returns 0, or -1 after a complaint, or CTL_USAGE after one about the
 *       command line
 */
struct ctl_command {
	const char *group;
	const char *name;
	const char *args;
	const char *help;
	uint64_t opts;
	int min;
	int max;
	int (*run)(struct ctl *c);
};

/* Ends with one that has no group. */
extern const struct ctl_command ctl_commands[];

/**
 * struct ctl - one run
 * @command: the command
 * @value: [OPT_NR] what was given with each option, "" for those without a
 *         value; NULL if it was not given
 * @arg: its arguments
 * @nargs: their number
 * @kvc: the backend, once it is open
 * @query: its pools, of ctl_pools()
 */
struct ctl {
	const struct ctl_command *command;
	const char *value[OPT_NR];
	char **arg;
	int nargs;
	struct kvc *kvc;
	struct kvcache_query query;
};

/* ---- args.c ----------------------------------------------------------- */

/*
 * The command line. Returns 0; 1 if there is nothing left to do (--help,
 * --version); or CTL_USAGE after a complaint.
 */
int args_parse(struct ctl *c, int argc, char **argv);

/* "tenant set": the command as it is called; valid until the next call. */
const char *command_name(const struct ctl_command *cmd);

/*
 * The value of an option in *@out, which stays as it is if the option was not
 * given. 0, or CTL_USAGE after a complaint with the value and the remedy.
 */
int args_size(const struct ctl *c, enum ctl_opt opt, uint64_t *out);
int args_count(const struct ctl *c, enum ctl_opt opt, uint64_t max,
	       uint64_t *out);
int args_time(const struct ctl *c, enum ctl_opt opt, uint64_t *out);
int args_limit(const struct ctl *c, enum ctl_opt opt, struct limit *out);
/* A size of a page that a pool can have. */
int args_page(const struct ctl *c, uint64_t *out);
/* A name that a pool or a tenant can have, of which @what says which. */
int args_name(const char *what, const char *name);
/* It is needed: CTL_USAGE after a complaint if it was not given. */
int args_need(const struct ctl *c, enum ctl_opt opt);

/* ---- backend.c -------------------------------------------------------- */

/* Open the device or the broker: 0, or -1 after a complaint. */
int ctl_open(struct ctl *c);

/*
 * One command of the ABI for readers: attaches where that is needed, to the
 * tenant of --tenant if that was given. 0, or -1 after a complaint about @what.
 */
int ctl_read(struct ctl *c, unsigned int nr, void *arg, const char *what);
/* Attach; 0, or -1 after a complaint. */
int ctl_attach(struct ctl *c);
/* A records_call of @arg, a struct kvc. */
int ctl_ask(void *arg, unsigned int nr, void *cmd);
/* Open, and may the caller administer? 0, or -1 after a complaint. */
int ctl_admin(struct ctl *c);

/* A remedy for one errno of a command; ends with { 0, NULL }. */
struct ctl_remedy {
	int err;
	const char *text;
};

/*
 * Complain that @what, such as "tenant a", was refused: why, and what helps. The
 * general errnos (who may, what went away) are known. Returns -1.
 */
int ctl_refused(const struct ctl *c, int err, const struct ctl_remedy *remedies,
		const char *what, ...) __attribute__((format(printf, 4, 5)));

/* Read the pools; 0, or -1 after a complaint. */
int ctl_pools(struct ctl *c);
/*
 * The pool of --pool, or the only one; NULL after a complaint. Reads the pools.
 */
const struct kvcache_pool_info *ctl_pool(struct ctl *c);
/*
 * Read the pools, of which there must be one. *@only is the one of --pool, or
 * NULL for all of @c->query. 0, or -1 after a complaint.
 */
int ctl_some_pools(struct ctl *c, const struct kvcache_pool_info **only);
/* A pool by its name; NULL after a complaint. */
const struct kvcache_pool_info *ctl_pool_named(struct ctl *c, const char *name);

/* ---- list.c ----------------------------------------------------------- */

/* 0, or -1 after a complaint; free(@out->v) in any case. */
int list_tenants(struct ctl *c, uint32_t pool, struct records *out);
int list_clients(struct ctl *c, uint32_t pool, struct records *out);
int list_pages(struct ctl *c, uint32_t pool, struct records *out);
/* Of all tenants that the caller may see. */
int list_grants(struct ctl *c, struct records *out);

/* A tenant's record by its name; 0, or -1 after a complaint. */
int find_tenant(struct ctl *c, const char *name, uint32_t pool,
		struct kvcache_tenant_info *out);

/**
 * struct names - names of tenants by their numbers
 * @list: of one pool
 */
struct names {
	struct records list;
};

int names_read(struct ctl *c, uint32_t pool, struct names *out);
/* "#7" for one that is not among them, "" for 0. */
const char *names_of(const struct names *n, uint32_t tenant, char *buf);
/* --tenant, if it was given, is one of them: 0, or -1 after a complaint. */
int names_only(const struct ctl *c, const struct names *n);

/* {"seq": first, "seq_last": last} */
json_t *json_list(const struct records *l);

/*
 * The end of a command that lists by pools: prints @json, or @t if that is
 * NULL, unless @ret says that it failed. Frees both; @ret, or -1.
 */
int ctl_pools_end(int ret, struct table *t, json_t *json);

/* ---- commands --------------------------------------------------------- */

int cmd_info(struct ctl *c);
int cmd_pool_ls(struct ctl *c);
int cmd_pool_show(struct ctl *c);
int cmd_pool_create(struct ctl *c);
int cmd_pool_set(struct ctl *c);
int cmd_pool_drain(struct ctl *c);
int cmd_pool_rm(struct ctl *c);
int cmd_tenant_ls(struct ctl *c);
int cmd_tenant_create(struct ctl *c);
int cmd_tenant_set(struct ctl *c);
int cmd_tenant_rm(struct ctl *c);
int cmd_tenant_grant(struct ctl *c);
int cmd_tenant_grants(struct ctl *c);
int cmd_tenant_flush(struct ctl *c);
int cmd_ps(struct ctl *c);
int cmd_page_ls(struct ctl *c);
int cmd_page_show(struct ctl *c);
int cmd_events(struct ctl *c);
int cmd_footprint(struct ctl *c);
int cmd_doctor(struct ctl *c);
int cmd_map(struct ctl *c);
int cmd_completion(struct ctl *c);
int cmd_list(struct ctl *c);
int cmd_limit(struct ctl *c);
int cmd_limit_percent(struct ctl *c);
int cmd_watch(struct ctl *c);
int cmd_delete(struct ctl *c);

#endif /* CTL_H */
