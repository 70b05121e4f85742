# SPDX-License-Identifier: MIT
# Texts for tokenizer.jsonl. Written for this project.
PLAIN = [
    "a", " ", "  ", "   a", "\n", "\n\n\n", "\t\ta\tb", "a ", " a", "  a  b   c    d",
    "Hello world", "Hello  world", "Hello, world!", "HELLO wOrLd", "hello\nworld\n", "hello\r\nworld\r\n", "trailing   ", "trailing\n   \n",
    "I'm you're we've they'll he'd it's don't", "I'M YOU'RE WE'VE", "rock'n'roll 'tis 'twas ''quoted''", "l'été d'aujourd'hui",
    "0", "1234567890", "3.14159", "1,000,000", "2026-11-30T02:53:45Z", "x1y22z333", "v0.1.2-rc3+build5", "0xDEADBEEF 1e-9 +7 -7", "½ ¾ ⅷ ² ₃ ① 〇 ٣ ৪ 五",
    "int main(void) { return 0; }", "for (i = 0; i < n; i++)\n\tsum += a[i];", "#include <linux/miscdevice.h>\n", "def f(x):\n    return x**2  # square\n", "if (!p)\n\t\treturn -ENOMEM;\n",
    "SELECT * FROM t WHERE a = 'b' AND c <> 1;", "{\"key\": [1, 2.5, null, true], \"nested\": {\"a\": \"b\"}}", "<div class=\"x\">&nbsp;</div>", "$ make -j2 && ./run --help | less", "C:\\dir\\file.txt /usr/lib/libc.so.6", "https://example.org/a/b?c=d&e=f#g", "user@example.org",
    "ÅÄÖ åäö ß ñ ç ø æ œ", "Größe naïve café résumé", "e\u0301 n\u0303 a\u030a", "\u00e9 vs e\u0301", "İstanbul ıspanak", "ﬁ ﬂ ﬃ", "ǅ ǆ Ǆ",
    "Привет, мир!", "Καλημέρα κόσμε", "Zażółć gęślą jaźń", "Türkçe İngilizce", "Tiếng Việt có dấu",
    "日本語のテキスト", "これはペンです。", "中文字符测试", "繁體中文測試", "한국어 텍스트", "カタカナ ｶﾀｶﾅ", "「引用」、『二重』。",
    "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया", "ওহে বিশ্ব", "สวัสดีชาวโลก", "வணக்கம் உலகம்", "გამარჯობა", "Բարեւ", "ሰላም",
    "😀", "😀😀 😀", "👨‍👩‍👧‍👦 family", "🏳️‍🌈 flag 🇩🇪", "☃ ☂ ★ ♫", "👍🏽", "🤷‍♀️ shrug",
    "∀x ∈ ℝ: x² ≥ 0", "∑_{i=1}^n i = n(n+1)/2", "α + β = γ", "→ ← ↑ ↓ ⇒", "€ £ ¥ ₹ ₿", "… — – ‘ ’ “ ” «»",
    "\u00a0nbsp\u00a0", "\u2003em\u2003space", "\u3000ideographic\u3000", "a\u2028b\u2029c", "zero\u200bwidth", "\ufeffbom", "soft\u00adhyphen", "\u202ertl\u202c", "a\u0000b", "\u0001\u0002\u001f\u007f", "a\u0085b", "x\u000by\u000cz", "\u1680ogham", "\u180emongolian",
    "\U00010348 \U0001F9EC \U0010FFFD", "\U00020000\U0002A6D6", "\ue000 private", "\ufffd replacement", "𝒜𝓁𝓅𝒽𝒶 𝟘𝟙𝟚",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ababababababababababab", "!!!!!!!!????????", "--------", "==========", "........", "___init___", "CamelCaseIdentifier snake_case_identifier kebab-case-word",
    "antidisestablishmentarianism floccinaucinihilipilification", "the the the The THE tHe", "A.B.C. e.g. i.e. etc.", "(a)[b]{c}<d>", "a\\nb \\t \\u0041", "%d %s %08x %.3f", "50% off, 100 % sure", "#1 @home &amp; *bold* _it_ ~x~ `code`",
    " leading space then  two   three", "tab\there", "mixed \t \n \r whitespace", "word\n  indented\n    more\n", "ends with newline\n", "\n starts with newline",
    "Once upon a time, in a machine with two cores, a page table dreamed of being a book.",
    "The cache holds keys and values for every token; a new token appends one row per layer and head.",
    "Quota exceeded: tenant 7 holds 4096 of 4096 pages; free 12 or raise the limit.",
    "<|im_start", "im_end|>", "<|unknown|>", "< |im_end| >", "<|IM_END|>",
]
# Text in which special tokens are recognised.
SPECIAL = [
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n", "<|endoftext|>", "a<|endoftext|>b", "a <|endoftext|> b", "<|im_end|><|im_end|>", "<repo_name>x<file_sep>y", "<|im_start|>system\n<|im_end|>\n", "1<filename>2", "<|im_start|><|im_start", " <|im_end|> ",
    "<|im_start|>user\n日本語 😀 123<|im_end|>\n", "<jupyter_code>print(1)<jupyter_output>1", "<issue_start><issue_comment><issue_closed>", "<reponame><repo_name>",
]
