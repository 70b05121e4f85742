// SPDX-License-Identifier: MIT
/*
 * options.c - the command line.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvattn.h>

#include "kv_type.h"
#include "options.h"
#include "util.h"

static const char help[] =
"Usage: kvcache-run -m MODEL.gguf [OPTION]... -p PROMPT [-p PROMPT]...\n"
"\n"
"Generate text. Keys and values of every conversation live in kvcache pages;\n"
"what conversations have in common is computed and held once.\n"
"\n"
"Input\n"
"  -m, --model FILE       a GGUF file, versions 2 and 3, of a llama, qwen2,\n"
"                         qwen3 or gemma3 model\n"
"  -p, --prompt TEXT      a conversation; may be repeated\n"
"  -f, --file FILE        a conversation whose prompt is the file's text\n"
"      --tokens IDS       a conversation that begins with these ids: 1,5,9\n"
"      --requests FILE    a conversation a line, as JSON; - is standard input.\n"
"                         prompt, messages or tokens; and id, system, max_tokens\n"
"                         (or n), temperature, top_p, min_p, seed. Those of\n"
"                         standard input are answered as they come, to its end;\n"
"                         one with \"keep\": true is gone on with by a line of\n"
"                         {\"continue\": ID, \"prompt\": TEXT}\n"
"      --system TEXT      system message of all conversations\n"
"      --system-file FILE the same, from a file\n"
"      --raw              prompts as they are, without a chat template\n"
"      --chat             go on with one conversation: a line, a turn\n"
"      --load FILE        begin with a conversation that --save wrote; without a\n"
"                         prompt go on where it ended\n"
"\n"
"Output\n"
"  -n, --predict N        tokens to generate (128; 0: to the end of the context)\n"
"      --temp T           temperature; 0, the default, takes the likeliest token\n"
"      --top-p P          of the likeliest tokens that make up P (1)\n"
"      --min-p P          of the tokens with P of the likeliest one's chance (0)\n"
"      --seed N           of the random numbers (0)\n"
"      --ignore-end       go on after a token that ends the text\n"
"      --samples N        N texts of each conversation, with seeds from --seed on\n"
"      --beams N          the likeliest text that a search with N beams finds\n"
"  -q, --quiet            do not stream the text\n"
"      --json[=FILE]      results as JSON, to FILE or instead of everything else\n"
"      --jsonl[=FILE]     the result of each conversation, as it ends, on a line\n"
"      --timing FILE      milliseconds of every generated token, as CSV\n"
"      --save FILE        the conversation, when it has ended, with its keys and\n"
"                         values; the file is whole or as it was\n"
"\n"
"Memory\n"
"      --kv TYPE          of keys and values, or K,V of each: f32, f16 (default),\n"
"                         bf16, int8, e4m3, e4m3t, int4, int4h\n"
"      --kv-k TYPE, --kv-v TYPE  of one of them\n"
"      --kv-scales FILE   scales of e4m3t, which --calibrate wrote\n"
"      --pool SIZE        bytes in the pool of this process, such as 512M (1G)\n"
"      --page-size SIZE   bytes in its pages, a power of two (2M)\n"
"      --max-pages N      pages that may be held\n"
"      --tenant NAME      the tenant that holds them (a device: the user's own)\n"
"      --commons TENANT   the tenant that the system message's pages go to and are\n"
"                         found in, by name or number\n"
"      --salt FILE        a secret of the tenant's members; what only they find\n"
"      --commons-salt FILE  the same of all that the commons let in\n"
"      --epoch N          another number finds nothing of the weights before (0)\n"
"      --tier WHERE       keep what the pool forgets: file:FOLDER, redis:HOST:PORT\n"
"                         or unix:SOCKET, then ,KEY=VALUE...; up to 4 times, the\n"
"                         upper one first\n"
"      --ctx N            tokens in a conversation (the model's context)\n"
"      --on-full ACTION   when no page is left for one more token: preempt lets\n"
"                         the youngest conversation wait and continue (default),\n"
"                         stop ends it\n"
"      --wait SECONDS     how long to wait for pages that other processes hold\n"
"                         (as long as it takes; 0: not at all)\n"
"      --keep N           when the context is full, forget half of it, but not\n"
"                         the first N tokens, and go on\n"
"      --static           a conversation's pages all at once, and no other later\n"
"      --no-reuse         share nothing and find nothing\n"
"      --no-share         samples and beams each in pages of their own, to\n"
"                         compare with\n"
"      --keep-window      keep pages that have left a window, to compare with\n"
"      --no-cache         compute everything anew for each token; holds no page\n"
"\n"
"Work\n"
"      --weights TYPE     auto (default), f32 (exact), bf16\n"
"      --chunk N          prompt tokens in one step (512)\n"
"      --parallel N       conversations that run at once (16)\n"
"      --speculate[=N]    guess up to N tokens (8) that follow what the text has\n"
"                         had before, and look at all of them in one step\n"
"      --threads N        threads (one a CPU)\n"
"      --isa NAME         kernels: scalar, avx2, avx512 (the best)\n"
"\n"
"Checks\n"
"      --verify           compare with passes that use no cache, and check that\n"
"                         no stored row changed; weights are f32 then\n"
"      --score            one pass over the text: its log-probability and\n"
"                         perplexity; generates nothing and holds no page\n"
"      --kld[=N]          what --kv, which may be repeated, does to the answers,\n"
"                         against f32, on the first N (all) windows of the text\n"
"      --calibrate FILE   write scales of keys and values that the text has\n"
"\n"
"  -h, --help    -V, --version\n"
"\n"
"Exit status: 0; 1 bad input, a refusal or a failed check; 2 usage; 130 when\n"
"interrupted.\n";

#define COUNT_MAX	(UINT32_MAX / 2)

enum {
	OPT_TOKENS = 256, OPT_REQUESTS, OPT_SYSTEM, OPT_SYSTEM_FILE, OPT_RAW,
	OPT_CHAT, OPT_TEMP, OPT_TOP_P, OPT_MIN_P, OPT_SEED, OPT_IGNORE_END,
	OPT_JSON, OPT_TIMING, OPT_KV, OPT_KV_K, OPT_KV_V, OPT_POOL,
	OPT_PAGE_SIZE, OPT_MAX_PAGES, OPT_TENANT, OPT_CTX, OPT_ON_FULL,
	OPT_NO_REUSE, OPT_NO_CACHE, OPT_WEIGHTS, OPT_CHUNK, OPT_PARALLEL,
	OPT_THREADS, OPT_ISA, OPT_VERIFY, OPT_SCORE, OPT_JSONL, OPT_WAIT,
	OPT_COMMONS, OPT_COMMONS_SALT, OPT_SALT, OPT_EPOCH, OPT_KEEP_WINDOW,
	OPT_SAMPLES, OPT_BEAMS, OPT_NO_SHARE, OPT_SPECULATE, OPT_KEEP,
	OPT_STATIC, OPT_SAVE, OPT_LOAD, OPT_TIER,
	OPT_KV_SCALES, OPT_KLD, OPT_CALIBRATE,
};

static const struct option longopts[] = {
	{ "model", required_argument, NULL, 'm' },
	{ "prompt", required_argument, NULL, 'p' },
	{ "file", required_argument, NULL, 'f' },
	{ "tokens", required_argument, NULL, OPT_TOKENS },
	{ "requests", required_argument, NULL, OPT_REQUESTS },
	{ "system", required_argument, NULL, OPT_SYSTEM },
	{ "system-file", required_argument, NULL, OPT_SYSTEM_FILE },
	{ "raw", no_argument, NULL, OPT_RAW },
	{ "chat", no_argument, NULL, OPT_CHAT },
	{ "predict", required_argument, NULL, 'n' },
	{ "temp", required_argument, NULL, OPT_TEMP },
	{ "top-p", required_argument, NULL, OPT_TOP_P },
	{ "min-p", required_argument, NULL, OPT_MIN_P },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "ignore-end", no_argument, NULL, OPT_IGNORE_END },
	{ "quiet", no_argument, NULL, 'q' },
	{ "json", optional_argument, NULL, OPT_JSON },
	{ "jsonl", optional_argument, NULL, OPT_JSONL },
	{ "timing", required_argument, NULL, OPT_TIMING },
	{ "save", required_argument, NULL, OPT_SAVE },
	{ "load", required_argument, NULL, OPT_LOAD },
	{ "kv", required_argument, NULL, OPT_KV },
	{ "kv-k", required_argument, NULL, OPT_KV_K },
	{ "kv-v", required_argument, NULL, OPT_KV_V },
	{ "kv-scales", required_argument, NULL, OPT_KV_SCALES },
	{ "pool", required_argument, NULL, OPT_POOL },
	{ "page-size", required_argument, NULL, OPT_PAGE_SIZE },
	{ "max-pages", required_argument, NULL, OPT_MAX_PAGES },
	{ "tenant", required_argument, NULL, OPT_TENANT },
	{ "commons", required_argument, NULL, OPT_COMMONS },
	{ "commons-salt", required_argument, NULL, OPT_COMMONS_SALT },
	{ "salt", required_argument, NULL, OPT_SALT },
	{ "epoch", required_argument, NULL, OPT_EPOCH },
	{ "tier", required_argument, NULL, OPT_TIER },
	{ "ctx", required_argument, NULL, OPT_CTX },
	{ "on-full", required_argument, NULL, OPT_ON_FULL },
	{ "wait", required_argument, NULL, OPT_WAIT },
	{ "no-reuse", no_argument, NULL, OPT_NO_REUSE },
	{ "keep-window", no_argument, NULL, OPT_KEEP_WINDOW },
	{ "no-cache", no_argument, NULL, OPT_NO_CACHE },
	{ "samples", required_argument, NULL, OPT_SAMPLES },
	{ "beams", required_argument, NULL, OPT_BEAMS },
	{ "no-share", no_argument, NULL, OPT_NO_SHARE },
	{ "speculate", optional_argument, NULL, OPT_SPECULATE },
	{ "keep", required_argument, NULL, OPT_KEEP },
	{ "static", no_argument, NULL, OPT_STATIC },
	{ "weights", required_argument, NULL, OPT_WEIGHTS },
	{ "chunk", required_argument, NULL, OPT_CHUNK },
	{ "parallel", required_argument, NULL, OPT_PARALLEL },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "isa", required_argument, NULL, OPT_ISA },
	{ "verify", no_argument, NULL, OPT_VERIFY },
	{ "score", no_argument, NULL, OPT_SCORE },
	{ "kld", optional_argument, NULL, OPT_KLD },
	{ "calibrate", required_argument, NULL, OPT_CALIBRATE },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 }
};

static const char *const weights_names[] = {
	[MODEL_WEIGHTS_AUTO] = "auto",
	[MODEL_WEIGHTS_F32] = "f32",
	[MODEL_WEIGHTS_BF16] = "bf16",
};

const char *weights_name(enum model_weights w)
{
	return weights_names[w];
}

static int number(const char *opt, const char *s, uint64_t min, uint64_t max,
		  uint64_t *out)
{
	if (parse_u64(s, min, max, out))
		return 0;
	return complain("%s %s: give a whole number from %llu to %llu", opt, s,
			(unsigned long long)min, (unsigned long long)max);
}

static int number32(const char *opt, const char *s, uint32_t min, uint32_t max,
		    uint32_t *out)
{
	uint64_t v;

	if (number(opt, s, min, max, &v))
		return -1;
	*out = v;
	return 0;
}

static int real(const char *opt, const char *s, double min, double max,
		double *out)
{
	if (parse_double(s, min, max, out))
		return 0;
	return complain("%s %s: give a number from %g to %g", opt, s, min, max);
}

static int size(const char *opt, const char *s, uint64_t *out)
{
	if (parse_size(s, out) && *out)
		return 0;
	return complain("%s %s: give a size such as 65536, 64K or 2M", opt, s);
}

static int kv_type(const char *opt, const char *s, int *out)
{
	int type = kva_type_parse(s);

	if (type < 0)
		return complain("%s %s: give " KV_TYPE_NAMES, opt, s);
	*out = type;
	return 0;
}

/* --kv: the last counts, and --kld takes all. */
static int kv_pair(struct options *o, const char *s)
{
	if (!kv_type_pair(s, &o->k_type, &o->v_type))
		return complain("--kv %s: give " KV_TYPE_NAMES ", or two of them as K,V",
				s);
	if (o->nkv == MAX_KV)
		return complain("--kv %s: %u are given already: take more runs",
				s, MAX_KV);
	o->kv[o->nkv++] = (struct kv_pair){ o->k_type, o->v_type };
	return 0;
}

static int weights(const char *s, enum model_weights *out)
{
	unsigned int i;

	for (i = 0; i < sizeof(weights_names) / sizeof(*weights_names); i++) {
		if (!strcmp(s, weights_names[i])) {
			*out = i;
			return 0;
		}
	}
	return complain("--weights %s: give auto, f32 or bf16", s);
}

static int on_full(const char *s, enum on_full *out)
{
	if (!strcmp(s, "preempt"))
		*out = ON_FULL_PREEMPT;
	else if (!strcmp(s, "stop"))
		*out = ON_FULL_STOP;
	else
		return complain("--on-full %s: give preempt or stop", s);
	return 0;
}

static void input(struct options *o, enum input_kind kind, const char *value)
{
	o->inputs = xrealloc(o->inputs, o->ninputs + 1, sizeof(*o->inputs));
	o->inputs[o->ninputs++] = (struct input){ kind, value };
}

static int add_tier(struct options *o, const char *spec)
{
	if (o->ntiers == MAX_TIERS)
		return complain("--tier %s: there are %u already, the most that can be",
				spec, MAX_TIERS);
	o->tiers[o->ntiers++] = spec;
	return tiers_check(spec);
}

static int set_number(struct options *o, int opt, const char *arg)
{
	switch (opt) {
	case 'n':
		return number32("-n", arg, 0, COUNT_MAX, &o->sampling.max_new);
	case OPT_TEMP:
		o->given |= GIVEN_TEMP;
		return real("--temp", arg, 0, 100, &o->sampling.temp);
	case OPT_TOP_P:
		o->given |= GIVEN_TOP_P;
		return real("--top-p", arg, MIN_TOP_P, 1, &o->sampling.top_p);
	case OPT_MIN_P:
		o->given |= GIVEN_MIN_P;
		return real("--min-p", arg, 0, 1, &o->sampling.min_p);
	case OPT_SEED:
		o->given |= GIVEN_SEED;
		return number("--seed", arg, 0, UINT64_MAX, &o->sampling.seed);
	case OPT_KV:
		return kv_pair(o, arg);
	case OPT_KV_K:
		return kv_type("--kv-k", arg, &o->k_type);
	case OPT_KV_V:
		return kv_type("--kv-v", arg, &o->v_type);
	case OPT_POOL:
		return size("--pool", arg, &o->pool);
	case OPT_PAGE_SIZE:
		return size("--page-size", arg, &o->page_size);
	case OPT_MAX_PAGES:
		return number("--max-pages", arg, 1, UINT32_MAX, &o->max_pages);
	case OPT_CTX:
		return number32("--ctx", arg, 2, COUNT_MAX, &o->ctx);
	case OPT_CHUNK:
		return number32("--chunk", arg, 1, COUNT_MAX, &o->chunk);
	case OPT_PARALLEL:
		o->parallel_given = true;
		return number32("--parallel", arg, 1, COUNT_MAX, &o->parallel);
	case OPT_THREADS:
		return number32("--threads", arg, 1, MAX_THREADS,
				&o->threads);
	case OPT_SAMPLES:
		return number32("--samples", arg, 1, MAX_SAMPLES, &o->samples);
	case OPT_BEAMS:
		return number32("--beams", arg, 2, MAX_BEAMS, &o->beams);
	case OPT_SPECULATE:
		o->speculate = 8;
		return arg ? number32("--speculate", arg, 1, MAX_GUESSES,
				      &o->speculate) : 0;
	case OPT_KEEP:
		o->shift = true;
		return number32("--keep", arg, 0, COUNT_MAX, &o->keep);
	case OPT_KLD:
		o->kld = true;
		return arg ? number32("--kld", arg, 1, COUNT_MAX, &o->windows) :
			     0;
	case OPT_EPOCH:
		return number("--epoch", arg, 0, UINT64_MAX, &o->epoch);
	case OPT_WAIT:
		return real("--wait", arg, 0, 1e9, &o->wait_s);
	case OPT_WEIGHTS:
		return weights(arg, &o->weights);
	case OPT_ON_FULL:
		return on_full(arg, &o->on_full);
	default:
		return -1;	/* getopt_long() has said why */
	}
}

static int set(struct options *o, int opt, const char *arg)
{
	switch (opt) {
	case 'm':
		o->model = arg;
		break;
	case 'p':
		input(o, INPUT_TEXT, arg);
		break;
	case 'f':
		input(o, INPUT_FILE, arg);
		break;
	case OPT_TOKENS:
		input(o, INPUT_TOKENS, arg);
		break;
	case OPT_REQUESTS:
		input(o, INPUT_REQUESTS, arg);
		break;
	case OPT_SYSTEM:
		o->system = arg;
		break;
	case OPT_SYSTEM_FILE:
		o->system_file = arg;
		break;
	case OPT_RAW:
		o->raw = true;
		break;
	case OPT_CHAT:
		o->chat = true;
		break;
	case OPT_IGNORE_END:
		o->ignore_end = true;
		break;
	case 'q':
		o->quiet = true;
		break;
	case OPT_JSON:
		o->json = true;
		o->json_path = arg;
		break;
	case OPT_JSONL:
		o->jsonl = true;
		o->jsonl_path = arg;
		break;
	case OPT_TIMING:
		o->timing = arg;
		break;
	case OPT_SAVE:
		o->save = arg;
		break;
	case OPT_LOAD:
		o->load = arg;
		break;
	case OPT_NO_REUSE:
		o->no_reuse = true;
		break;
	case OPT_KEEP_WINDOW:
		o->keep_window = true;
		break;
	case OPT_NO_SHARE:
		o->no_share = true;
		break;
	case OPT_STATIC:
		o->fixed = true;
		break;
	case OPT_NO_CACHE:
		o->no_cache = true;
		break;
	case OPT_COMMONS:
		o->commons = arg;
		break;
	case OPT_COMMONS_SALT:
		o->commons_salt = arg;
		break;
	case OPT_SALT:
		o->salt = arg;
		break;
	case OPT_TIER:
		return add_tier(o, arg);
	case OPT_TENANT:
		o->tenant = arg;
		break;
	case OPT_ISA:
		o->isa = arg;
		break;
	case OPT_VERIFY:
		o->verify = true;
		break;
	case OPT_SCORE:
		o->score = true;
		break;
	case OPT_KV_SCALES:
		o->kv_scales = arg;
		break;
	case OPT_CALIBRATE:
		o->calibrate = arg;
		break;
	default:
		return set_number(o, opt, arg);
	}
	return 0;
}

int options_parse(int argc, char **argv, struct options *o)
{
	bool weights_given = false;
	int opt;

	*o = (struct options){
		.sampling = { .max_new = 128, .top_p = 1 },
		.k_type = KVA_F16,
		.v_type = KVA_F16,
		.chunk = 512,
		.parallel = 16,
		.samples = 1,
		.wait_s = -1,
	};
	while ((opt = getopt_long(argc, argv, "m:p:f:n:qhV", longopts,
				  NULL)) != -1) {
		if (opt == 'h') {
			fputs(help, stdout);
			return 1;
		}
		if (opt == 'V') {
			puts("kvcache-run " KVC_VERSION);
			return 1;
		}
		weights_given |= opt == OPT_WEIGHTS;
		if (set(o, opt, optarg))
			return -1;
	}
	if (optind < argc)
		return complain("%s: not an option; prompts are given as -p TEXT",
				argv[optind]);
	if ((o->verify || options_windows(o)) && !weights_given)
		o->weights = MODEL_WEIGHTS_F32;
	o->raw |= options_windows(o);
	if ((o->json && !o->json_path) || (o->jsonl && !o->jsonl_path))
		o->quiet = true;
	return options_check(o);
}

void options_free(struct options *o)
{
	free(o->inputs);
}
