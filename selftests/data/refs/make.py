#!/usr/bin/env python3
# SPDX-License-Identifier: MIT

"""Makes the reference outputs in this folder. Needs: torch transformers gguf tokenizers numpy; the SmolLM2 GGUF as argv[1].
Nothing here uses kvcache: the numbers come from Transformers in float64 on the dequantised weights."""
import json, os, sys, hashlib
import numpy as np, torch, gguf
from gguf import GGMLQuantizationType as Q
from transformers import LlamaConfig, LlamaForCausalLM, AutoModelForCausalLM
from tokenizers import Tokenizer, models, pre_tokenizers, decoders, AddedToken
from tokenizer_texts import PLAIN, SPECIAL

HERE = os.path.dirname(os.path.abspath(__file__))
out = lambda n: os.path.join(HERE, n)
torch.set_grad_enabled(False)

def tokenizer(path):
    f = gguf.GGUFReader(path).fields
    toks, types = f['tokenizer.ggml.tokens'].contents(), f['tokenizer.ggml.token_type'].contents()
    merges = [tuple(m.split(' ')) for m in f['tokenizer.ggml.merges'].contents()]
    def build(special):
        t = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(toks)}, merges=merges))
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
        t.decoder = decoders.ByteLevel()
        if special:
            t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s, k in zip(toks, types) if k == 3])
        return t
    return build(False), build(True)

def tokenizer_refs(plain, special):
    with open(out('tokenizer.jsonl'), 'w') as f:
        for texts, t, flag in ((PLAIN, plain, False), (SPECIAL, special, True), (PLAIN, special, True)):
            for s in texts:
                ids = t.encode(s, add_special_tokens=False).ids
                if flag and s in PLAIN and not any(x in s for x in ('<|', '|>')):
                    continue
                f.write(json.dumps({'text': s, 'special': flag, 'ids': ids}) + '\n')

def chat(system, turns):
    s = f'<|im_start|>system\n{system}<|im_end|>\n'
    for role, text in turns:
        s += f'<|im_start|>{role}\n{text}<|im_end|>\n'
    return s + '<|im_start|>assistant\n'

DEFAULT_SYSTEM = 'You are a helpful AI assistant named SmolLM, trained by Hugging Face'

def exact_rope(m, theta, dim, factors=1.0):
    """Transformers builds rotary tables in float32; here they are float64: angle = position * theta^(-2i/dim) / factor_i.
    theta may be a dict by layer type (Gemma 3)."""
    inv = torch.tensor(theta ** (-np.arange(0, dim, 2) / dim) / np.asarray(factors, np.float64)) if isinstance(theta, (int, float)) else None
    def forward(x, position_ids, layer_type=None):
        i = inv if inv is not None else torch.tensor(theta[layer_type] ** (-np.arange(0, dim, 2) / dim))
        a = position_ids[..., None].double() * i
        a = torch.cat((a, a), -1)
        return a.cos().to(x.dtype), a.sin().to(x.dtype)
    m.model.rotary_emb.forward = forward

def exact_norms():
    """Transformers normalises in float32 whatever the model's type; here in the type of the model."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm
    from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm
    from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm
    def norm(x, eps):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    for c in (LlamaRMSNorm, Qwen2RMSNorm, Qwen3RMSNorm):
        c.forward = lambda self, x: self.weight * norm(x, self.variance_epsilon)
    Gemma3RMSNorm.forward = lambda self, x: norm(x, self.eps) * (1 + self.weight)

def generate(model, ids, n, eos=None):
    """Greedy tokens; per step the top 8 (id, logit), the logsumexp and the margin between the first two."""
    x, past, steps = torch.tensor([ids]), None, []
    for _ in range(n):
        o = model(x, past_key_values=past, use_cache=True, logits_to_keep=1)
        past, l = o.past_key_values, o.logits[0, -1]
        v, i = l.topk(8)
        steps.append({'token': int(i[0]), 'margin': float(v[0] - v[1]), 'lse': float(l.logsumexp(0)), 'top': [[int(a), round(float(b), 6)] for a, b in zip(i, v)]})
        if eos is not None and int(i[0]) == eos:
            break
        x = i[:1].view(1, 1)
    return steps

def smollm_refs(path, plain, special):
    d, f = os.path.split(path)
    m = AutoModelForCausalLM.from_pretrained(d, gguf_file=f, dtype=torch.float32).double().eval()
    exact_rope(m, 100000.0, 64)
    long_text = open(out('prompt-long.txt')).read()
    cases = [
        ('capital', False, 'The capital of France is', 48),
        ('count', False, 'one two three four five six seven', 48),
        ('code', False, '#include <stdio.h>\n\nint main(void)\n{\n\tprintf("', 48),
        ('unicode', False, 'Привет! Como estás? 日本', 32),
        ('one-token', False, 'The', 64),
        ('chat-default', True, chat(DEFAULT_SYSTEM, [('user', 'What is a page table?')]), 96),
        ('chat-turns', True, chat('Answer briefly.', [('user', 'Name a colour.'), ('assistant', 'Blue.'), ('user', 'Name another.')]), 48),
        ('long', False, long_text, 200),
        ('long-chat', True, chat(long_text, [('user', 'Who owns a page?')]), 64),
    ]
    with open(out('smollm2.jsonl'), 'w') as g:
        for name, sp, text, n in cases:
            ids = (special if sp else plain).encode(text, add_special_tokens=False).ids
            steps = generate(m, ids, n, eos=2)
            toks = [s['token'] for s in steps]
            rec = {'name': name, 'special': sp, 'prompt_tokens': len(ids), 'prompt_ids': ids, 'tokens': toks, 'output': special.decode(toks, skip_special_tokens=True), 'steps': steps}
            if not name.startswith('long'):
                rec['prompt'] = text
            g.write(json.dumps(rec) + '\n')
            print(name, len(ids), 'min margin', min(s['margin'] for s in steps), repr(rec['output'][:90]), flush=True)

def gemma_tokenizer(path):
    """SentencePiece-style: spaces become U+2581, best-scored neighbours merge first (leftmost on ties), unknown characters fall back to byte tokens.
    User-defined tokens (type 4: runs of spaces, newlines, HTML tags) are cut out of the text first, longest first."""
    import heapq, re
    f = gguf.GGUFReader(path).fields
    toks, scores = f['tokenizer.ggml.tokens'].contents(), f['tokenizer.ggml.scores'].contents()
    vocab = {t: i for i, t in enumerate(toks)}
    user = {t.replace('\u2581', ' '): i for i, (t, k) in enumerate(zip(toks, f['tokenizer.ggml.token_type'].contents())) if k == 4}
    cut = re.compile('(' + '|'.join(re.escape(t) for t in sorted(user, key=len, reverse=True)) + ')')
    def encode(text):
        ids = []
        for part in cut.split(text):
            ids += [user[part]] if part in user else spm(part)
        return ids
    def spm(text):
        s = list(text.replace(' ', '\u2581'))
        prev, nxt, alive, heap = [i - 1 for i in range(len(s))], [i + 1 for i in range(len(s))], [True] * len(s), []
        def push(i):
            j = nxt[i] if i >= 0 else len(s)
            if i >= 0 and j < len(s) and s[i] + s[j] in vocab:
                heapq.heappush(heap, (-scores[vocab[s[i] + s[j]]], i, s[i], s[j]))
        for i in range(len(s) - 1): push(i)
        while heap:
            _, i, a, b = heapq.heappop(heap); j = nxt[i]
            if not alive[i] or j >= len(s) or s[i] != a or s[j] != b: continue
            s[i] += s[j]; alive[j] = False; nxt[i] = nxt[j]
            if nxt[j] < len(s): prev[nxt[j]] = i
            push(prev[i]); push(i)
        ids = []
        for i, t in enumerate(s):
            if alive[i]: ids += [vocab[t]] if t in vocab else [vocab['<0x%02X>' % b] for b in t.encode()]
        return ids
    return encode

def gemma_refs(path):
    """Gemma 3 270M: one kv head of dim 256, window 512 on 15 of 18 layers. Token ids are given: its tokenizer is another matter."""
    d, f = os.path.split(path)
    m = AutoModelForCausalLM.from_pretrained(d, gguf_file=f, dtype=torch.float32).double().eval()
    exact_rope(m, {'full_attention': 1e6, 'sliding_attention': 1e4}, 256)
    m.model.embed_tokens.embed_scale = torch.tensor(float(np.sqrt(640)), dtype=torch.float64)
    tok = gemma_tokenizer(path)
    with open(out('tokenizer-gemma3.jsonl'), 'w') as o:
        for t in PLAIN: o.write(json.dumps({'text': t, 'ids': tok(t)}) + '\n')
    with open(out('gemma3.jsonl'), 'w') as o:
        for name, text, n in (('capital', 'The capital of France is', 32), ('primes', 'The first prime numbers are 2, 3, 5, 7, 11,', 32), ('unicode', 'Grüße aus 東京! Привет,', 24), ('long', open(out('prompt-long.txt')).read(), 64)):
            ids = [2] + tok(text)
            steps = generate(m, ids, n, eos=1)
            o.write(json.dumps({'name': name, 'prompt': None if name == 'long' else text, 'prompt_tokens': len(ids), 'prompt_ids': ids, 'tokens': [s['token'] for s in steps], 'steps': steps}) + '\n')
            print('gemma3', name, len(ids), 'min margin', min(s['margin'] for s in steps), [s['token'] for s in steps][:8], flush=True)

def permute(w, heads):
    """Hugging Face rotates halves; GGUF's llama architecture rotates neighbours: rows of q and k are interleaved."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)

def toy_tokenizer(w):
    """15 control tokens, the 256 bytes, one merge: vocabulary 272."""
    bs = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256)); cs = bs[:]; k = 0
    for b in range(256):
        if b not in bs: bs.append(b); cs.append(256 + k); k += 1
    u = [chr(c) for _, c in sorted(zip(bs, cs))]
    w.add_tokenizer_model('gpt2'); w.add_tokenizer_pre('smollm'); w.add_token_list([f'<|c{i}|>' for i in range(15)] + u + [u[ord('t')] + u[ord('h')]])
    w.add_token_types([3] * 15 + [1] * 257); w.add_token_merges(['t h']); w.add_bos_token_id(1); w.add_eos_token_id(2); w.add_add_bos_token(False)

def write_tiny(name, cfg, qtype, seed, rope=None, untied=False, prompt=(1, 5, 9, 40, 7, 7, 200, 3), n=16):
    torch.manual_seed(seed)
    hd = cfg['head_dim']
    c = LlamaConfig(vocab_size=272, hidden_size=cfg['dim'], intermediate_size=cfg['ff'], num_hidden_layers=cfg['layers'], num_attention_heads=cfg['q'], num_key_value_heads=cfg['kv'], head_dim=hd,
                    max_position_embeddings=2048, rms_norm_eps=1e-5, tie_word_embeddings=not untied, rope_parameters={'rope_type': 'default', 'rope_theta': cfg.get('theta', 10000.0), **(rope or {})})
    m = LlamaForCausalLM(c).eval()
    # Attention and MLP outputs dominate the residual, scores are peaked, logits are wide: a wrong cache shows.
    for k, p in m.named_parameters():
        gain = 1.6 if 'q_proj' in k or 'k_proj' in k else 1.0
        p.copy_(torch.randn_like(p) * gain / np.sqrt(p.shape[-1]) if p.dim() == 2 else 1 + 0.1 * torch.randn_like(p))
    m.model.embed_tokens.weight.mul_(0.5)
    m.model.norm.weight.mul_(4.0 if not untied else 3.0)
    w = gguf.GGUFWriter(out(name + '.gguf'), 'llama')
    w.add_name(name); w.add_context_length(2048); w.add_embedding_length(cfg['dim']); w.add_block_count(cfg['layers']); w.add_feed_forward_length(cfg['ff'])
    w.add_head_count(cfg['q']); w.add_head_count_kv(cfg['kv']); w.add_layer_norm_rms_eps(1e-5); w.add_rope_freq_base(cfg.get('theta', 10000.0)); w.add_rope_dimension_count(hd); w.add_vocab_size(272)
    if hd * cfg['q'] != cfg['dim'] or cfg.get('explicit_hd'):
        w.add_key_length(hd); w.add_value_length(hd)
    toy_tokenizer(w)
    if rope and rope['rope_type'] == 'linear':
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR); w.add_rope_scaling_factor(rope['factor'])
    ref = {}
    def add(gname, t, q=None, perm=0):
        a = t.numpy().astype(np.float32)
        if perm: a = np.ascontiguousarray(permute(a, perm))
        q = q or (qtype if a.ndim == 2 else Q.F32)
        d = gguf.quants.quantize(a, q)
        w.add_tensor(gname, d, raw_dtype=q)
        back = gguf.quants.dequantize(d, q).reshape(a.shape) if q != Q.F32 else a
        if perm: back = back.reshape(perm, back.shape[0] // perm // 2, 2, *back.shape[1:]).swapaxes(1, 2).reshape(back.shape)
        t.copy_(torch.from_numpy(np.ascontiguousarray(back)))
    if rope and rope['rope_type'] == 'llama3':
        f = 1.0 / (cfg.get('theta', 10000.0) ** (np.arange(0, hd, 2) / hd)); o = rope['original_max_position_embeddings']
        lo, hi = o / rope['low_freq_factor'], o / rope['high_freq_factor']; fac = []
        for x in 2 * np.pi / f:
            if x < hi: fac.append(1.0)
            elif x > lo: fac.append(rope['factor'])
            else:
                s = (o / x - rope['low_freq_factor']) / (rope['high_freq_factor'] - rope['low_freq_factor']); fac.append(1 / ((1 - s) / rope['factor'] + s))
        w.add_tensor('rope_freqs.weight', np.array(fac, np.float32))
    mm = m.model
    add('token_embd.weight', mm.embed_tokens.weight.data)
    add('output_norm.weight', mm.norm.weight.data)
    if untied: add('output.weight', m.lm_head.weight.data)
    for i, l in enumerate(mm.layers):
        b = f'blk.{i}.'
        add(b + 'attn_norm.weight', l.input_layernorm.weight.data); add(b + 'ffn_norm.weight', l.post_attention_layernorm.weight.data)
        add(b + 'attn_q.weight', l.self_attn.q_proj.weight.data, perm=cfg['q']); add(b + 'attn_k.weight', l.self_attn.k_proj.weight.data, perm=cfg['kv'])
        add(b + 'attn_v.weight', l.self_attn.v_proj.weight.data); add(b + 'attn_output.weight', l.self_attn.o_proj.weight.data)
        add(b + 'ffn_gate.weight', l.mlp.gate_proj.weight.data); add(b + 'ffn_up.weight', l.mlp.up_proj.weight.data); add(b + 'ffn_down.weight', l.mlp.down_proj.weight.data)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
    m = m.double()
    exact_rope(m, cfg.get('theta', 10000.0), hd, np.float32(fac) if rope and rope['rope_type'] == 'llama3' else (rope or {}).get('factor', 1.0))
    return probe(name, m, prompt, n, {'arch': 'llama', 'rope': rope})

def probe(name, m, prompt, n, extra):
    steps = generate(m, list(prompt), n)
    long = [(i * 37 + 11) % 240 + 15 for i in range(300)]
    l = m(torch.tensor([long])).logits[0]
    print(name, 'min margin', min(s['margin'] for s in steps), os.path.getsize(out(name + '.gguf')))
    return {'name': name, **extra, 'prompt_ids': list(prompt), 'steps': steps, 'long_ids': long, 'long_logits_at': {str(p): [round(float(x), 6) for x in l[p]] for p in (0, 1, 15, 16, 17, 31, 32, 33, 255, 299)}}

def write_family(name, arch, qtype, seed, window=0, layers=2, dim=256, ff=256, q=4, kv=2, hd=64, n=16):
    """Qwen2 (biases), Qwen3 (q and k norms), Gemma 3 (q and k norms, window on five layers of six, two rotary bases, four norms a layer). None of them permutes q and k."""
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, Gemma3TextConfig, Gemma3ForCausalLM
    torch.manual_seed(seed)
    base = dict(vocab_size=272, hidden_size=dim, intermediate_size=ff, num_hidden_layers=layers, num_attention_heads=q, num_key_value_heads=kv, head_dim=hd, max_position_embeddings=2048, rms_norm_eps=1e-6, tie_word_embeddings=True)
    if arch == 'gemma3':
        theta = {'full_attention': 1e6, 'sliding_attention': 1e4}
        c = Gemma3TextConfig(**base, sliding_window=window, query_pre_attn_scalar=hd, rope_parameters={k: {'rope_type': 'default', 'rope_theta': v} for k, v in theta.items()})
        m = Gemma3ForCausalLM(c).eval()
    else:
        theta = 1e6
        C, M = (Qwen2Config, Qwen2ForCausalLM) if arch == 'qwen2' else (Qwen3Config, Qwen3ForCausalLM)
        m = M(C(**base, rope_parameters={'rope_type': 'default', 'rope_theta': theta})).eval()
    for k, p in m.named_parameters():
        if p.dim() == 2: p.copy_(torch.randn_like(p) * (1.6 if 'q_proj' in k or 'k_proj' in k else 1.0) / np.sqrt(p.shape[-1]))
        elif 'bias' in k: p.copy_(0.5 * torch.randn_like(p))
        else: p.copy_((0 if arch == 'gemma3' else 1) + 0.1 * torch.randn_like(p))
    m.model.embed_tokens.weight.mul_(0.5)
    m.model.norm.weight.add_(3.0)
    w = gguf.GGUFWriter(out(name + '.gguf'), arch)
    w.add_name(name); w.add_context_length(2048); w.add_embedding_length(dim); w.add_block_count(layers); w.add_feed_forward_length(ff); w.add_head_count(q); w.add_head_count_kv(kv)
    w.add_layer_norm_rms_eps(1e-6); w.add_rope_freq_base(1e6); w.add_key_length(hd); w.add_value_length(hd); w.add_vocab_size(272)
    if window: w.add_sliding_window(window)
    toy_tokenizer(w)
    def add(gname, t):
        a = t.numpy().astype(np.float32); qt = qtype if a.ndim == 2 else Q.F32
        if arch == 'gemma3' and gname.endswith('norm.weight'):
            w.add_tensor(gname, a + np.float32(1)); t.copy_(torch.from_numpy((a + np.float32(1)).astype(np.float64) - 1).to(t.dtype)); return
        d = gguf.quants.quantize(a, qt); w.add_tensor(gname, d, raw_dtype=qt)
        t.copy_(torch.from_numpy(np.ascontiguousarray(gguf.quants.dequantize(d, qt).reshape(a.shape) if qt != Q.F32 else a)))
    add('token_embd.weight', m.model.embed_tokens.weight.data); add('output_norm.weight', m.model.norm.weight.data)
    for i, l in enumerate(m.model.layers):
        b, at = f'blk.{i}.', l.self_attn
        names = {'attn_norm': l.input_layernorm, 'attn_q': at.q_proj, 'attn_k': at.k_proj, 'attn_v': at.v_proj, 'attn_output': at.o_proj, 'ffn_gate': l.mlp.gate_proj, 'ffn_up': l.mlp.up_proj, 'ffn_down': l.mlp.down_proj}
        if arch == 'gemma3': names.update({'post_attention_norm': l.post_attention_layernorm, 'ffn_norm': l.pre_feedforward_layernorm, 'post_ffw_norm': l.post_feedforward_layernorm})
        else: names['ffn_norm'] = l.post_attention_layernorm
        if arch != 'qwen2': names.update({'attn_q_norm': at.q_norm, 'attn_k_norm': at.k_norm})
        for g, mod in names.items():
            add(b + g + '.weight', mod.weight.data)
            if getattr(mod, 'bias', None) is not None: add(b + g + '.bias', mod.bias.data)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
    m = m.double()
    if arch == 'gemma3': m.model.embed_tokens.embed_scale = torch.tensor(float(np.sqrt(dim)), dtype=torch.float64)
    exact_rope(m, theta, hd)
    return probe(name, m, (1, 5, 9, 40, 7, 7, 200, 3), n, {'arch': arch, 'window': window})

def tiny_refs():
    L3 = {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0, 'original_max_position_embeddings': 64}
    recs = [
        write_tiny('tiny-mha-f16', dict(dim=128, ff=256, layers=2, q=2, kv=2, head_dim=64), Q.F16, 1),
        write_tiny('tiny-gqa-q8_0-untied', dict(dim=256, ff=256, layers=2, q=4, kv=2, head_dim=64), Q.Q8_0, 2, untied=True),
        write_tiny('tiny-mqa-bf16-d80', dict(dim=320, ff=256, layers=1, q=4, kv=1, head_dim=80), Q.BF16, 3),
        write_tiny('tiny-gqa7-q4_0-d128', dict(dim=448, ff=256, layers=1, q=7, kv=1, head_dim=128, theta=500000.0), Q.Q4_0, 4),
        write_tiny('tiny-f32-linear-rope', dict(dim=128, ff=128, layers=2, q=2, kv=1, head_dim=64), Q.F32, 5, rope={'rope_type': 'linear', 'factor': 4.0}),
        write_tiny('tiny-q5_1-llama3-rope', dict(dim=256, ff=256, layers=2, q=4, kv=2, head_dim=64, theta=500000.0), Q.Q5_1, 6, rope=L3),
    ]
    recs += [
        write_family('tiny-qwen2-q8_0', 'qwen2', Q.Q8_0, 7),
        write_family('tiny-qwen3-f16', 'qwen3', Q.F16, 8),
        write_family('tiny-gemma3-w32-f16', 'gemma3', Q.F16, 9, window=32, layers=7, dim=128, ff=128, q=2, kv=1),
    ]
    with open(out('tiny.jsonl'), 'w') as f:
        for r in recs: f.write(json.dumps(r) + '\n')

def quant_refs():
    """One row group of each tensor type, and what it dequantises to."""
    rng = np.random.default_rng(7)
    w = gguf.GGUFWriter(out('quants.gguf'), 'llama'); exp = {}
    x = (rng.standard_normal((4, 512)) * np.exp(rng.standard_normal((4, 1)))).astype(np.float32)
    for q in (Q.F32, Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1):
        d = gguf.quants.quantize(x, q); w.add_tensor(q.name, d, raw_dtype=q); exp[q.name] = gguf.quants.dequantize(d, q).reshape(4, 512)
    for q in (Q.Q4_K, Q.Q6_K, Q.Q5_K, Q.Q2_K, Q.Q3_K):
        bs, ts = gguf.GGML_QUANT_SIZES[q]
        raw = rng.integers(0, 256, (4, 512 // bs * ts), dtype=np.uint8).reshape(4, 512 // bs, ts)
        h = np.array([0.01, 0.002], np.float16).view(np.uint8)
        if q in (Q.Q4_K, Q.Q5_K): raw[..., 0:4] = h
        elif q == Q.Q2_K: raw[..., -4:] = h
        else: raw[..., -2:] = h[:2]
        raw = raw.reshape(4, -1); w.add_tensor(q.name, raw, raw_dtype=q); exp[q.name] = gguf.quants.dequantize(raw, q).reshape(4, 512)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
    with open(out('quants.f32'), 'wb') as f:
        for k in exp: f.write(exp[k].astype('<f4').tobytes())
    json.dump({'order': list(exp), 'shape': [4, 512]}, open(out('quants.json'), 'w'))

if __name__ == '__main__':
    path = sys.argv[1]
    exact_norms()
    plain, special = tokenizer(path)
    tokenizer_refs(plain, special)
    quant_refs(); tiny_refs()
    smollm_refs(path, plain, special)
    if len(sys.argv) > 2:
        gemma_refs(sys.argv[2])
