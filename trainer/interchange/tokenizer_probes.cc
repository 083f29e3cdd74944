#include "trainer/interchange/tokenizer_probes.h"

namespace regatta::trainer::interchange {

const std::vector<Probe>& fixed_probes() {
  static const std::vector<Probe> probes{
      {"prose", "The quick brown fox jumps over the lazy dog, and nobody minds."},
      {"long and rare words", "unbelievably internationalization antidisestablishmentarianism"},
      {"casing", "Hello WORLD, iPhone and McDonald met NASA in the USA"},
      {"casing of other scripts", "Привет МИР Ёлка Straße ΑΒΓ αβγ ԱԲԳ"},
      {"a dotted capital I", "İstanbul ISPARTA ılık"},
      {"a capital sigma", "ΟΔΥΣΣΕΥΣ ΣΟΦΟΣ Σ"},
      {"accents", "Café naïve Ångström Żółć señor über façade"},
      {"combining marks", "Cafe\u0301 nai\u0308ve A\u030Angstro\u0308m sen\u0303or q\u0323\u0307"},
      {"vowel signs", "हिन्दी में العَرَبِيَّة עִבְרִית ภาษาไทย Tiếng Việt"},
      {"ideographs", "漢字仮名交じり文 and 中文abc混排 𠀀𠀁"},
      {"kana and Hangul", "ひらがな カタカナ が 한국어 텍스트"},
      {"compatibility forms", "ﬁne ＡＢＣ１２３ ㎏ ① Ⅷ 豈"},
      {"control characters", "bo\u0001at wi\u007Fnd ro\u0085w a\u200Bb\u200Dc \uFEFFd e\u202Ef"},
      {"a soft hyphen", "soft\u00ADhyphen wind\u00ADward"},
      {"a replacement character", "bro\uFFFDken \uFFFD"},
      {"white space", "a\tb\u000Bc\u000Cd\u00A0e\u2003f\u3000g\u2028h\u202Fi"},
      {"punctuation", "don't stop-it's $5.00 (50% off)! [x] {y} <z> a_b ~c^ `d` #e @f|g\\h"},
      {"punctuation of other scripts", "«¿Qué?» — “yes”… 、。「」 ؟ ۔ । ‽ §¶"},
      {"symbols", "a+b=c €10 £20 5° ±3 × ÷ ≠ ∑ → ♥ ™ © ®"},
      {"numbers", "3.14159 1,000,000 2026-11-30 0x1F ½ ² ١٢٣ १२३"},
      {"emoji", "😀 smile 👍🏽 👩\u200D👩\u200D👧 🇩🇪 ❤\uFE0F 1\uFE0F\u20E3"},
      {"addresses", "https://example.org/a?b=c&d=e#f user@example.org"},
  };
  return probes;
}

}  // namespace regatta::trainer::interchange
