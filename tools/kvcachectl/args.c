// SPDX-License-Identifier: MIT
/*
 * args.c - the command line: one table of options, of which each command takes
 * some; --help is made of it.
 */
#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "name.h"
#include "util.h"

const struct ctl_option ctl_options[OPT_NR] = {
	[OPT_DEVICE] = { "device", 'd', "PATH",
		"a device or a broker's socket; else what KVCACHE says,\n"
		"else the first that is there" },
	[OPT_JSON] = { "json", 0, NULL, "print JSON" },
	[OPT_HELP] = { "help", 'h', NULL, "show this" },
	[OPT_VERSION] = { "version", 'V', NULL, "show the version" },
	[OPT_TENANT] = { "tenant", 't', "NAME", "of this tenant only" },
	[OPT_POOL] = { "pool", 'p', "NAME", "the pool, if there are several" },
	[OPT_MIN] = { "min", 0, "LIMIT", "promised: nobody else can take it (0)" },
	[OPT_LOW] = { "low", 0, "LIMIT", "spared while others have more (0)" },
	[OPT_MAX] = { "max", 0, "LIMIT", "the most that it can have (max)" },
	[OPT_DEADLINE] = { "deadline", 0, "TIME",
		"take away what is above --max after this time (never)" },
	[OPT_TTL] = { "ttl", 0, "TIME",
		"what nobody used for so long is given up (never)" },
	[OPT_OWNER] = { "owner", 0, "USER[:GROUP]", "whose it is (yours)" },
	[OPT_MODE] = { "mode", 0, "MODE",
		"who may attach: 0400 the owner, 0040 the group, 0004\n"
		"everybody, or a sum of these (0400)" },
	[OPT_CGROUP] = { "cgroup", 0, "PATH",
		"a cgroup v2 whose processes attach to it, or none" },
	[OPT_TRUST] = { "trust", 0, "yes|no",
		"take opaque memory handles from it (no)" },
	[OPT_RIGHTS] = { "rights", 0, "LIST",
		"lookup, publish, lookup,publish, or none, which takes\n"
		"the grant back" },
	[OPT_HOLD] = { "hold", 0, "PAGES",
		"pages that TO may hold through the grant (max)" },
	[OPT_SIZE] = { "size", 0, "SIZE", "of the pool" },
	[OPT_PAGE] = { "page", 0, "SIZE",
		"of a page, a power of two from 64K to 64M (2M)" },
	[OPT_RESUME] = { "resume", 0, NULL, "end a drain" },
	[OPT_STATE] = { "state", 0, "STATE",
		"private, shared, cached or retiring only" },
	[OPT_FOLLOW] = { "follow", 'f', NULL, "go on until interrupted" },
	[OPT_TIMEOUT] = { "timeout", 0, "TIME", "wait no longer than this (never)" },
	[OPT_CONTEXT] = { "context", 'c', "N",
		"tokens in a conversation (the model's context)" },
	[OPT_CONVERSATIONS] = { "conversations", 'n', "N",
		"conversations at a time (1)" },
	[OPT_KV] = { "kv", 0, "TYPE",
		"of keys and values, or K,V of each: f32, f16 (default),\nbf16, int8, e4m3, e4m3t, int4, int4h; all compares them" },
	[OPT_POOL_SIZE] = { "pool", 0, "SIZE", "of the pool they are to fit into" },
	[OPT_BY] = { "by", 0, "tenant|state", "what tells cells apart (tenant)" },
	[OPT_SVG] = { "svg", 0, "FILE", "write the picture there, as SVG; - is standard output" },
	[OPT_WIDTH] = { "width", 0, "N", "columns of the picture (the terminal's)" },
	[OPT_INTERVAL] = { "interval", 'n', "SECONDS", "between two lists (1)" },
};

const char *command_name(const struct ctl_command *cmd)
{
	static char buf[32];

	snprintf(buf, sizeof(buf), "%s%s%s", cmd->group, cmd->name ? " " : "",
		 cmd->name ? cmd->name : "");
	return buf;
}

/* ---- help ------------------------------------------------------------- */

static void help_options(uint64_t opts)
{
	char left[64];
	const char *s;
	size_t n;
	int i;

	for (i = 0; i < OPT_NR; i++) {
		if (!(opts >> i & 1))
			continue;
		n = ctl_options[i].letter ?
		    sprintf(left, "  -%c, ", ctl_options[i].letter) :
		    sprintf(left, "      ");
		snprintf(left + n, sizeof(left) - n, "--%s%s%s",
			 ctl_options[i].name, ctl_options[i].arg ? " " : "",
			 ctl_options[i].arg ? ctl_options[i].arg : "");
		for (s = ctl_options[i].help; *s; s += n + (s[n] == '\n')) {
			n = strcspn(s, "\n");
			printf("%-28s %.*s\n", left, (int)n, s);
			left[0] = 0;
		}
	}
}

static void help_command(const struct ctl_command *cmd)
{
	printf("Usage: kvcachectl %s%s%s [OPTION]...\n", command_name(cmd),
	       *cmd->args ? " " : "", cmd->args);
	printf("%c%s.\n\n", toupper(cmd->help[0]), cmd->help + 1);
	help_options(cmd->opts);
	help_options(OPTS_COMMON);
	if (cmd->opts & (OPT(MIN) | OPT(TTL)))
		printf("\nLIMIT is a size such as 64M or 1.5G, \"25%%\" of the pool, or \"max\"; TIME is 30s,\n10m, 2h, 7d or \"never\".\n");
}

static void help_all(void)
{
	const struct ctl_command *cmd;
	char left[64];

	printf("Usage: kvcachectl COMMAND [ARGUMENT]... [OPTION]...\n"
	       "See who holds which pages, and say who may.\n\n");
	for (cmd = ctl_commands; cmd->group; cmd++) {
		snprintf(left, sizeof(left), "%s%s%s", command_name(cmd),
			 *cmd->args ? " " : "", cmd->args);
		printf("  %-26s %s\n", left, cmd->help);
	}
	printf("\n");
	help_options(OPTS_COMMON | OPT(VERSION));
	printf("\nEach command takes --help. Exit status: 0; 1 refused or failed; 2 usage.\n");
}

static void help_group(const char *group)
{
	const struct ctl_command *cmd;
	const char *sep = "";

	for (cmd = ctl_commands; cmd->group; cmd++) {
		if (strcmp(cmd->group, group))
			continue;
		fputs(sep, stdout);
		help_command(cmd);
		sep = "\n";
	}
}

/* ---- parsing ---------------------------------------------------------- */

/* Options of a mask, up to those of two strings that getopt_long() takes. */
struct accepted {
	struct option longs[OPT_NR + 1];
	char shorts[2 * OPT_NR + 3];
};

static void accept(struct accepted *a, uint64_t opts)
{
	char *s = a->shorts;
	int i, n = 0;

	memset(a, 0, sizeof(*a));
	*s++ = '+';
	*s++ = ':';
	for (i = 0; i < OPT_NR; i++) {
		if (!(opts >> i & 1))
			continue;
		a->longs[n++] = (struct option){
			.name = ctl_options[i].name,
			.has_arg = ctl_options[i].arg ? required_argument :
						    no_argument,
			.val = 256 + i,
		};
		if (!ctl_options[i].letter)
			continue;
		*s++ = ctl_options[i].letter;
		if (ctl_options[i].arg)
			*s++ = ':';
	}
}

static enum ctl_opt by_letter(int letter, uint64_t opts)
{
	int i;

	for (i = 0; i < OPT_NR; i++)
		if ((opts >> i & 1) && ctl_options[i].letter == letter)
			break;
	return i;
}

/* Nothing but arguments is behind it. */
static bool is_end(const char *arg)
{
	return arg && !strcmp(arg, "--");
}

/* What getopt_long() did not like: in a cluster of letters it is one of them. */
static const char *culprit(char *const *argv, char buf[3])
{
	if (optopt <= 0 || optopt >= 256 || argv[optind - 1][1] == '-')
		return argv[optind - 1];
	snprintf(buf, 3, "-%c", optopt);
	return buf;
}

/*
 * Options up to the next argument, or to "--", behind which getopt_long() must
 * not be called again; 0 or CTL_USAGE.
 */
static int take_options(struct ctl *c, int argc, char **argv, uint64_t opts)
{
	static struct accepted a;
	char letter[3];
	int o;

	accept(&a, opts);
	opterr = 0;
	while (!is_end(argv[optind]) &&
	       (o = getopt_long(argc, argv, a.shorts, a.longs, NULL)) != -1) {
		if (o == ':') {
			complain("%s: give a value behind it",
				 culprit(argv, letter));
			return CTL_USAGE;
		}
		if (o == '?') {
			complain("%s: no option of%s%s: --help shows them",
				 culprit(argv, letter), c->command ? " " :
				 " kvcachectl itself",
				 c->command ? command_name(c->command) : "");
			return CTL_USAGE;
		}
		o = o >= 256 ? o - 256 : (int)by_letter(o, opts);
		c->value[o] = optarg ? optarg : "";
	}
	return 0;
}

static const struct ctl_command *find(const char *group, const char *name)
{
	const struct ctl_command *cmd;

	for (cmd = ctl_commands; cmd->group; cmd++)
		if (!strcmp(cmd->group, group) &&
		    (!cmd->name || (name && !strcmp(cmd->name, name))))
			return cmd;
	return NULL;
}

static bool is_group(const char *group)
{
	const struct ctl_command *cmd;

	for (cmd = ctl_commands; cmd->group; cmd++)
		if (!strcmp(cmd->group, group))
			return true;
	return false;
}

/* "ls, create, ..." of a group, or all groups. */
static void names_text(const char *group, char *buf, size_t len)
{
	const struct ctl_command *cmd;
	const char *last = "", *name;
	size_t n = 0;

	for (cmd = ctl_commands; cmd->group; cmd++) {
		name = group ? cmd->name : cmd->group;
		if ((group && strcmp(cmd->group, group)) || !strcmp(name, last))
			continue;
		n += snprintf(buf + n, len - n, "%s%s", n ? ", " : "", name);
		last = name;
	}
}

/* The command's words; 0, 1 or CTL_USAGE. */
static int take_command(struct ctl *c, int argc, char **argv)
{
	const char *group = optind < argc ? argv[optind++] : NULL;
	const char *name = optind < argc ? argv[optind] : NULL;
	char names[256];

	if (!group || !is_group(group)) {
		names_text(NULL, names, sizeof(names));
		complain("%s%s: give one of %s", group ? group : "no command",
			 group ? " is no command" : "", names);
		return CTL_USAGE;
	}
	if (name && (!strcmp(name, "--help") || !strcmp(name, "-h"))) {
		help_group(group);
		return 1;
	}
	c->command = find(group, name);
	if (!c->command) {
		names_text(group, names, sizeof(names));
		complain("%s %s: give one of %s", group,
			 name ? name : "what?", names);
		return CTL_USAGE;
	}
	optind += !!c->command->name;
	return 0;
}

/* What every command takes so, if it takes it: 0 or CTL_USAGE. */
static int check_values(const struct ctl *c)
{
	const char *device = c->value[OPT_DEVICE];

	if (device && !*device) {
		complain("--device \"\": give the path of a device or of a broker's socket");
		return CTL_USAGE;
	}
	if (c->value[OPT_TENANT] && args_name("--tenant", c->value[OPT_TENANT]))
		return CTL_USAGE;
	if (c->value[OPT_POOL] && args_name("--pool", c->value[OPT_POOL]))
		return CTL_USAGE;
	return 0;
}

int args_parse(struct ctl *c, int argc, char **argv)
{
	const uint64_t common = OPTS_COMMON | OPT(VERSION);
	int ret;

	ret = take_options(c, argc, argv, common);
	if (ret)
		return ret;
	if (c->value[OPT_HELP]) {
		help_all();
		return 1;
	}
	if (c->value[OPT_VERSION]) {
		puts("kvcachectl " KVC_VERSION);
		return 1;
	}
	ret = take_command(c, argc, argv);
	if (ret)
		return ret;
	c->arg = xcalloc(argc, sizeof(*c->arg));
	while (optind < argc && !is_end(argv[optind])) {
		ret = take_options(c, argc, argv, c->command->opts | OPTS_COMMON);
		if (ret)
			return ret;
		if (optind < argc && !is_end(argv[optind]))
			c->arg[c->nargs++] = argv[optind++];
	}
	while (++optind < argc)
		c->arg[c->nargs++] = argv[optind];
	if (c->value[OPT_HELP]) {
		help_command(c->command);
		return 1;
	}
	if (c->nargs >= c->command->min && c->nargs <= c->command->max)
		return check_values(c);
	if (c->nargs > c->command->max)
		complain("%s: %s is too much: give %s", command_name(c->command),
			 c->arg[c->command->max], c->command->max ?
			 c->command->args : "options only");
	else
		complain("%s: something is missing: give %s",
			 command_name(c->command), c->command->args);
	return CTL_USAGE;
}

/* ---- values ----------------------------------------------------------- */

static int bad(const struct ctl *c, enum ctl_opt opt, const char *remedy)
{
	complain("--%s \"%s\": give %s", ctl_options[opt].name, c->value[opt],
		 remedy);
	return CTL_USAGE;
}

int args_need(const struct ctl *c, enum ctl_opt opt)
{
	if (c->value[opt])
		return 0;
	complain("%s: give --%s %s", command_name(c->command),
		 ctl_options[opt].name, ctl_options[opt].arg);
	return CTL_USAGE;
}

int args_size(const struct ctl *c, enum ctl_opt opt, uint64_t *out)
{
	if (!c->value[opt] || (parse_size(c->value[opt], out) && *out))
		return 0;
	return bad(c, opt, "a size such as 65536, 64M or 1.5G");
}

int args_count(const struct ctl *c, enum ctl_opt opt, uint64_t max,
	       uint64_t *out)
{
	char remedy[64];

	if (!c->value[opt] || parse_u64(c->value[opt], 1, max, out))
		return 0;
	snprintf(remedy, sizeof(remedy), "a whole number from 1 to %llu",
		 (unsigned long long)max);
	return bad(c, opt, remedy);
}

int args_time(const struct ctl *c, enum ctl_opt opt, uint64_t *out)
{
	if (!c->value[opt] || (parse_time(c->value[opt], out) && *out))
		return 0;
	return bad(c, opt, "a time such as 500ms, 30s, 10m, 2h, 7d or never");
}

int args_limit(const struct ctl *c, enum ctl_opt opt, struct limit *out)
{
	if (!c->value[opt] || parse_limit(c->value[opt], out))
		return 0;
	return bad(c, opt, "a size such as 64M or 1.5G, max, or a share of the pool from 0% to 100%");
}

int args_page(const struct ctl *c, uint64_t *out)
{
	uint64_t size = *out;

	if (args_size(c, OPT_PAGE, &size))
		return CTL_USAGE;
	if (size >= KVCACHE_PAGE_SIZE_MIN && size <= KVCACHE_PAGE_SIZE_MAX &&
	    !(size & (size - 1))) {
		*out = size;
		return 0;
	}
	return bad(c, OPT_PAGE, "a power of two from 64K to 64M");
}

int args_name(const char *what, const char *name)
{
	if (name_ok(name))
		return 0;
	complain("%s \"%s\": give " NAME_RULE, what, name,
		 KVCACHE_NAME_LEN - 1);
	return CTL_USAGE;
}
