// SPDX-License-Identifier: MIT
/*
 * completion.c - what makes bash complete commands, options and names. It is
 * made of the tables of commands and options, so that it has all of them.
 */
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "util.h"

/* Values that are words; those with "|" in their argument's name are there. */
static const struct {
	enum ctl_opt opt;
	const char *words;
} values[] = {
	{ OPT_STATE, "private shared cached retiring" },
	{ OPT_RIGHTS, "lookup publish lookup,publish none" },
	{ OPT_KV, "f32 f16 bf16 int8 e4m3 e4m3t int4 int4h all" },
	{ OPT_TTL, "never" },
	{ OPT_MAX, "max" },
};

static void flags_of(enum ctl_opt o)
{
	if (ctl_options[o].letter)
		printf("-%c|", ctl_options[o].letter);
	printf("--%s", ctl_options[o].name);
}

/* "yes|no" as words. */
static void print_words(const char *s)
{
	for (; *s; s++)
		putchar(*s == '|' ? ' ' : *s);
}

/* What completes the value of an option, as a case of bash. */
static void option_value(enum ctl_opt o)
{
	const struct ctl_option *opt = &ctl_options[o];
	const char *words = strchr(opt->arg, '|') ? opt->arg : NULL;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (values[i].opt == o)
			words = values[i].words;
	/* Two have one name, one of footprint and one of all others. */
	if (o == OPT_POOL_SIZE)
		return;
	printf("\t");
	flags_of(o);
	printf(")\t");
	if (words) {
		printf("words='");
		print_words(words);
		printf("' ;;\n");
	} else if (o == OPT_TENANT || o == OPT_POOL) {
		printf("[[ $given = footprint* ]] || words=$(_kvcachectl_names %s \"$device\")\n\t\t[ -n \"$words\" ] || return ;;\n",
		       opt->name);
	} else if (!strcmp(opt->arg, "PATH") || !strcmp(opt->arg, "FILE")) {
		printf("COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n");
	} else {
		printf("return ;;\n");
	}
}

/* Words of a line up to the last that is a name, or as many as there may be. */
static int names_of_args(const struct ctl_command *cmd)
{
	if (strstr(cmd->args, "..."))
		return 1000;
	return 2 + !!cmd->name + !!strstr(cmd->args, "NAME TO");
}

/* What completes a command's arguments. */
static void arguments(const struct ctl_command *cmd)
{
	const char *names = "tenant";

	if (!strcmp(cmd->group, "pool"))
		names = "pool";
	if (cmd->name && !strcmp(cmd->name, "create"))
		return;
	if (strstr(cmd->args, "gguf"))
		printf(" files=1");
	else if (strstr(cmd->args, "NAME"))
		printf(" && [ $n -lt %d ] && words=$(_kvcachectl_names %s \"$device\")",
		       names_of_args(cmd), names);
	else if (strstr(cmd->args, "bash"))
		printf(" words=bash");
}

static void command(const struct ctl_command *cmd)
{
	uint64_t opts = cmd->opts | OPTS_COMMON;

	printf("\t'%s '*)\n\t\toptions='", command_name(cmd));
	for (int i = 0; i < OPT_NR; i++)
		if (opts >> i & 1)
			printf("--%s ", ctl_options[i].name);
	printf("'");
	arguments(cmd);
	printf(" ;;\n");
}

/* A group's commands, or all groups. */
static void names(const char *group)
{
	const struct ctl_command *cmd;
	const char *last = "", *name;

	for (cmd = ctl_commands; cmd->group; cmd++) {
		name = group ? cmd->name : cmd->group;
		if ((group && strcmp(group, cmd->group)) || !strcmp(name, last))
			continue;
		printf("%s ", name);
		last = name;
	}
}

static void groups(void)
{
	const struct ctl_command *cmd;
	const char *last = "";

	for (cmd = ctl_commands; cmd->group; cmd++) {
		if (!cmd->name || !strcmp(last, cmd->group))
			continue;
		last = cmd->group;
		printf("\t'%s ') words='", last);
		names(last);
		printf("' ;;\n");
	}
}

static void value_options(void)
{
	const char *sep = "";

	for (int i = 0; i < OPT_NR; i++) {
		if (!ctl_options[i].arg)
			continue;
		printf("%s", sep);
		flags_of(i);
		sep = "|";
	}
}

int cmd_completion(struct ctl *c)
{
	const struct ctl_command *cmd;

	if (strcmp(c->arg[0], "bash")) {
		complain("completion \"%s\": give bash", c->arg[0]);
		return CTL_USAGE;
	}
	puts("# bash completion of kvcachectl, as kvcachectl completion bash prints it\n"
	     "_kvcachectl_names()\n"
	     "{\n"
	     "\tkvcachectl \"$1\" ls ${2:+--device \"$2\"} 2>/dev/null </dev/null |\n"
	     "\t    awk 'NR > 1 { print $1 }' | sort -u\n"
	     "}\n"
	     "_kvcachectl()\n"
	     "{\n"
	     "\tlocal cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
	     "\tlocal given='' words='' options='' files='' device='' i word n=0\n"
	     "\tCOMPREPLY=()\n"
	     "\t# \"--pool=main\" comes as three words.\n"
	     "\tif [ \"$cur\" = = ]; then\n"
	     "\t\tcur=''\n"
	     "\telif [ \"$before\" = = ]; then\n"
	     "\t\tbefore=${COMP_WORDS[COMP_CWORD - 2]}\n"
	     "\tfi\n"
	     "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	     "\t\tword=${COMP_WORDS[i]}\n"
	     "\t\tcase $word in");
	printf("\t\t");
	value_options();
	puts(")\t[ \"${COMP_WORDS[i + 1]}\" != = ] || ((i++))\n"
	     "\t\t\t((i++))\n"
	     "\t\t\tcase $word in\n"
	     "\t\t\t--device | -d) device=${COMP_WORDS[i]} ;;\n"
	     "\t\t\tesac ;;\n"
	     "\t\t-*) ;;\n"
	     "\t\t*)\tgiven=\"$given$word \"\n"
	     "\t\t\t((n++)) ;;\n"
	     "\t\tesac\n"
	     "\tdone\n"
	     "\tcase $before in");
	for (int i = 0; i < OPT_NR; i++)
		if (ctl_options[i].arg)
			option_value(i);
	puts("\tesac\n"
	     "\tif [ -n \"$words\" ]; then\n"
	     "\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	     "\t\treturn\n"
	     "\tfi\n"
	     "\tcase $given in");
	printf("\t'') words='");
	names(NULL);
	printf("' options='--device --json --help --version' ;;\n");
	groups();
	for (cmd = ctl_commands; cmd->group; cmd++)
		command(cmd);
	puts("\tesac\n"
	     "\tcase $cur in\n"
	     "\t-*)\tCOMPREPLY=($(compgen -W \"$options\" -- \"$cur\")) ;;\n"
	     "\t*)\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	     "\t\t[ -z \"$files\" ] || COMPREPLY+=($(compgen -f -- \"$cur\")) ;;\n"
	     "\tesac\n"
	     "}\n"
	     "complete -F _kvcachectl kvcachectl");
	return 0;
}
