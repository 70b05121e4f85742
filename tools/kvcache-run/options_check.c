// SPDX-License-Identifier: MIT
/*
 * options_check.c - options that contradict each other, and what is missing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvattn.h>
#include <kvcache/uapi.h>

#include "kv_type.h"
#include "options.h"
#include "util.h"

#define PAGE_SIZE_MIN	64		/* of a pool in this process */

/* Kernels by a name that @opt gives, if any. */
static int check_isa(const char *opt, const char *name)
{
	const struct kva_ops *ops;
	char names[128] = "";
	bool known = false;
	int i, runs;

	if (!name || !*name)
		return 0;
	for (i = 0; (ops = kva_variant(i, &runs)); i++) {
		if (!strcmp(name, ops->name)) {
			if (runs)
				return 0;
			known = true;
		}
		if (runs)
			snprintf(names + strlen(names),
				 sizeof(names) - strlen(names), "%s%s",
				 *names ? ", " : "", ops->name);
	}
	return complain("%s %s: %s: give one of %s", opt, name,
			known ? "not for this CPU" : "no such kernels", names);
}

static int check_page_size(uint64_t size)
{
	if (!size || (size >= PAGE_SIZE_MIN && size <= KVCACHE_PAGE_SIZE_MAX &&
		      !(size & (size - 1))))
		return 0;
	return complain("--page-size %llu: give a power of two from %u to %lluM",
			(unsigned long long)size, PAGE_SIZE_MIN,
			(unsigned long long)KVCACHE_PAGE_SIZE_MAX >> 20);
}

/* Who reads standard input, in the order of reading; NULL past the last. */
static const char *reader(const struct options *o, unsigned int nth)
{
	unsigned int i;

	if (o->system_file && !strcmp(o->system_file, "-") && !nth--)
		return "--system-file -";
	for (i = 0; i < o->ninputs; i++) {
		if (strcmp(o->inputs[i].value, "-"))
			continue;
		if (o->inputs[i].kind == INPUT_FILE && !nth--)
			return "-f -";
		if (o->inputs[i].kind == INPUT_REQUESTS && !nth--)
			return "--requests -";
	}
	return o->chat && !nth ? "--chat" : NULL;
}

/* How texts are generated: what does not go together. */
static int check_ways(const struct options *o)
{
	const char *way = o->beams ? "--beams" :
			  o->samples > 1 ? "--samples" :
			  o->speculate ? "--speculate" :
			  o->shift ? "--keep" : o->fixed ? "--static" : NULL;
	unsigned int i;

	if (way && (o->no_cache || o->score))
		return complain("%s: is about pages, and %s holds none: leave one of them out",
				way, o->score ? "--score" : "--no-cache");
	if (o->beams && (o->samples > 1 || o->speculate || o->shift ||
			 o->fixed || o->chat || o->verify))
		return complain("--beams: leave out --samples, --speculate, --keep, --static, --chat and --verify");
	if (o->beams && o->sampling.temp > 0)
		return complain("--beams: looks for the likeliest text: leave out --temp");
	if (o->samples > 1 && (o->chat || o->fixed))
		return complain("--samples: leave out --chat and --static");
	if (o->no_share && !o->beams && o->samples < 2)
		return complain("--no-share: give --samples or --beams too");
	if (o->shift && (o->verify || o->fixed))
		return complain("--keep: leave out --verify and --static");
	if (o->shift && !o->sampling.max_new)
		return complain("--keep: -n 0 would never end: give a number");
	for (i = 0; (o->beams || o->samples > 1) && i < o->ninputs; i++)
		if (o->inputs[i].kind == INPUT_REQUESTS &&
		    !strcmp(o->inputs[i].value, "-"))
			return complain("--requests -: give a file with %s",
					way);
	return 0;
}

/* One conversation comes from a file, or goes to one. */
static int check_saved(const struct options *o)
{
	const char *opt = o->load ? "--load" : "--save";
	unsigned int i;

	if (!o->load && !o->save)
		return 0;
	for (i = 0; i < o->ninputs; i++)
		if (o->inputs[i].kind == INPUT_REQUESTS)
			return complain("%s: is for one conversation, and --requests are many: give -p, -f, --tokens or --chat",
					opt);
	if (o->ninputs > 1 && !o->chat)
		return complain("%s: is for one conversation, and there are %u: give one prompt, or --chat with a turn in each",
				opt, o->ninputs);
	if (o->no_cache || o->score)
		return complain("%s: %s keeps no keys and values: leave it out",
				opt, o->score ? "--score" : "--no-cache");
	if (o->beams || o->samples > 1)
		return complain("%s: is for one text, and %s makes several: leave it out",
				opt, o->beams ? "--beams" : "--samples");
	if (o->load && o->fixed)
		return complain("--load: takes pages for what was saved: leave out --static");
	if (o->load && (o->system || o->system_file))
		return complain("--load: the conversation has begun, with its system message: leave out %s",
				o->system ? "--system" : "--system-file");
	return 0;
}

/* Types that want scales, and the modes that take texts in windows. */
static int check_types(const struct options *o)
{
	bool scaled = kv_type_scaled(o->k_type) || kv_type_scaled(o->v_type);
	unsigned int i;

	for (i = 0; o->kld && i < o->nkv; i++)
		scaled |= kv_type_scaled(o->kv[i].k_type) ||
			  kv_type_scaled(o->kv[i].v_type);
	if (o->calibrate && (o->nkv || scaled || o->kv_scales))
		return complain("--calibrate measures f32 keys and values: leave out --kv and --kv-scales");
	if (scaled && !o->kv_scales)
		return complain("--kv e4m3t: it has no scales of its own: give --kv-scales FILE, which --calibrate writes");
	if (o->kv_scales && !scaled)
		return complain("--kv-scales %s: no type wants them: give --kv e4m3t, or leave it out",
				o->kv_scales);
	return 0;
}

static int check_windows(const struct options *o)
{
	const char *mode = o->kld ? "--kld" : "--calibrate";

	if (!options_windows(o))
		return 0;
	if (o->kld && o->calibrate)
		return complain("--kld and --calibrate: give one of them");
	if (o->chat || o->no_cache || o->verify || o->score)
		return complain("%s generates nothing: leave out --chat, --no-cache, --verify and --score",
				mode);
	if (o->jsonl || o->timing || (o->calibrate && o->json))
		return complain("%s has no conversations: leave out --jsonl and --timing%s",
				mode, o->calibrate ? ", and --json" : "");
	if (o->samples > 1 || o->beams || o->speculate || o->shift ||
	    o->fixed || o->save || o->load || o->ntiers)
		return complain("%s generates and keeps nothing: leave out --samples, --beams, --speculate, --keep, --static, --save, --load and --tier",
				mode);
	if (o->system || o->system_file)
		return complain("%s takes texts as they are: leave out --system and --system-file",
				mode);
	return 0;
}

int options_check(const struct options *o)
{
	unsigned int i;

	if (!o->model)
		return complain("no model: give -m FILE.gguf");
	if (!o->ninputs && !o->chat && !o->load)
		return complain("no prompt: give -p TEXT, -f FILE, --tokens IDS or --requests FILE");
	for (i = 0; o->chat && i < o->ninputs; i++)
		if (o->inputs[i].kind != INPUT_TEXT)
			return complain("--chat: turns come from -p and standard input: leave out -f, --tokens and --requests");
	if (o->system && o->system_file)
		return complain("--system and --system-file: give one of them");
	if (reader(o, 1))
		return complain("standard input is named twice, by %s and by %s: give a file to one of them",
				reader(o, 0), reader(o, 1));
	if (o->json && o->jsonl && !o->json_path && !o->jsonl_path)
		return complain("--json and --jsonl: give one of them a file");
	if (o->commons_salt && !o->commons)
		return complain("--commons-salt: there are no commons: give --commons too");
	if (o->score && o->jsonl)
		return complain("--jsonl: --score has no conversations: give --json");
	if (o->score && (o->chat || o->no_cache || o->verify))
		return complain("--score generates nothing: leave out --chat, --no-cache and --verify");
	if (o->ntiers && (o->score || o->no_cache || o->no_reuse))
		return complain("--tier: nothing is kept with --score, --no-cache and --no-reuse: leave them out");
	if (o->no_cache && o->verify)
		return complain("--verify checks the cache: leave out --no-cache");
	if (o->verify && o->weights != MODEL_WEIGHTS_F32)
		return complain("--weights %s: the bounds of --verify are for f32: leave it out",
				weights_name(o->weights));
	if (check_ways(o) || check_saved(o) || check_types(o) ||
	    check_windows(o) || check_page_size(o->page_size) ||
	    check_isa("--isa", o->isa))
		return -1;
	return check_isa("KVATTN_ISA", getenv("KVATTN_ISA"));
}
