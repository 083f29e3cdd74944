// Tokenizers of Hugging Face as files, and a vocabulary in which every rule shows.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tests/trainer/data/prepared.h"
#include "trainer/data/vocabulary.h"

namespace regatta::tests {

// A piece for each character of the probe texts, beginning and going on with a word, in every form
// that a rule may give it: so that no text is unknown, and each rule changes tokens.
[[nodiscard]] trainer::data::Vocabulary probe_vocabulary();

// As `tokenizers` writes one of BERT, of Google's rules with the vocabulary's pieces.
[[nodiscard]] nlohmann::json tokenizer_json(const trainer::data::Vocabulary& vocabulary,
                                            bool lower_case = true, int word_limit = 200);

}  // namespace regatta::tests
