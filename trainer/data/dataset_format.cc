#include "trainer/data/dataset_format.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "trainer/data/document_encoder.h"
#include "trainer/data/unicode.h"

namespace regatta::trainer::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "regatta-dataset";
// Changes whenever the same text would give other tokens or sentences.
constexpr int kRulesVersion = 1;

[[nodiscard]] Json to_json_value(const SplitManifest& split) {
  return {{"documents", split.documents},
          {"sentences", split.sentences},
          {"tokens", split.tokens},
          {"unknown_tokens", split.unknown_tokens},
          {"shard_tokens", split.shard_tokens}};
}

// Whole, and so far from the largest number that sums of a few overflow nothing.
[[nodiscard]] std::int64_t count_of(const Json& count, const std::string& name) {
  constexpr double kMost = 0x1p53;
  const double value = count.is_number_integer() ? count.get<double>() : -1;
  if (value >= 0 && value <= kMost) return count.get<std::int64_t>();
  throw base::Error(base::Code::User, name + " is " + base::printable(base::json_text(count)) +
                                          "; a count is a whole number from 0 to 2^53");
}
[[nodiscard]] std::int64_t count_in(const Json& json, const std::string& name) {
  return count_of(json.at(name), name);
}

[[nodiscard]] SplitManifest parse_split(const Json& json) {
  SplitManifest split;
  split.documents = count_in(json, "documents");
  split.sentences = count_in(json, "sentences");
  split.tokens = count_in(json, "tokens");
  split.unknown_tokens = count_in(json, "unknown_tokens");
  for (const Json& shard : json.at("shard_tokens")) {
    split.shard_tokens.push_back(count_of(shard, "shard_tokens"));
  }
  return split;
}

[[nodiscard]] Manifest parse_fields(const Json& json) {
  Manifest manifest;
  json.at("fingerprint").get_to(manifest.fingerprint);
  json.at("tokenizer").at("lower_case").get_to(manifest.tokenizer.lower_case);
  json.at("tokenizer").at("word_limit").get_to(manifest.tokenizer.word_limit);
  const auto tables = json.at("tokenizer").at("unicode").get<std::string>();
  if (tables != unicode::kVersion) {
    throw base::Error(base::Code::User, "tokenizer.unicode is '" + base::printable(tables) +
                                            "', and this program has the tables of Unicode " +
                                            unicode::kVersion);
  }
  json.at("vocabulary").at("pieces").get_to(manifest.vocabulary_size);
  json.at("vocabulary").at("digest").get_to(manifest.vocabulary_digest);
  json.at("held_out").get_to(manifest.held_out);
  const Json& corpus = json.at("corpus");
  corpus.at("digest").get_to(manifest.corpus_digest);
  manifest.text_bytes = count_in(corpus, "text_bytes");
  manifest.duplicate_documents = count_in(corpus, "duplicate_documents");
  manifest.invalid_sequences = count_in(corpus, "invalid_sequences");
  for (const Split split : kSplits) {
    manifest.splits[index_of(split)] =
        parse_split(json.at("splits").at(std::string(name_of(split))));
  }
  for (const Json& file : json.at("files")) {
    manifest.files.push_back({file.at("name").get<std::string>(), count_in(file, "bytes"),
                              file.at("digest").get<std::string>()});
  }
  return manifest;
}

// Those of Google's and Hugging Face's code, and what one wrong digit may have been.
[[nodiscard]] std::vector<int> likely_limits(int now) {
  std::vector<int> limits{200, 100};
  if (now < 0 || now > 10 * kLargestWordLimit) return limits;
  for (int place = 1; place <= kLargestWordLimit; place *= 10) {
    const int without = now - now / place % 10 * place;
    for (int digit = 0; digit < 10; ++digit) {
      const int limit = without + digit * place;
      if (limit >= 1 && limit <= kLargestWordLimit && limit != now) limits.push_back(limit);
    }
  }
  return limits;
}

}  // namespace

std::string_view name_of(Split split) { return split == Split::Training ? "training" : "held_out"; }

std::string tokens_name(Split split, std::size_t shard) {
  std::array<char, 24> number{};
  std::snprintf(number.data(), number.size(), ".tokens-%05zu", shard);
  return std::string(name_of(split)) + number.data();
}
std::string sentences_name(Split split) { return std::string(name_of(split)) + ".sentences"; }
std::string documents_name(Split split) { return std::string(name_of(split)) + ".documents"; }

std::string to_json(const Manifest& manifest) {
  Json splits;
  for (const Split split : kSplits) {
    splits[std::string(name_of(split))] = to_json_value(manifest.splits[index_of(split)]);
  }
  Json files = Json::array();
  for (const FileManifest& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"digest", file.digest}});
  }
  const Json json = {
      {"format", kFormat},
      {"version", kDatasetVersion},
      {"fingerprint", manifest.fingerprint},
      {"tokenizer",
       {{"lower_case", manifest.tokenizer.lower_case},
        {"word_limit", manifest.tokenizer.word_limit},
        {"unicode", unicode::kVersion}}},
      {"vocabulary",
       {{"pieces", manifest.vocabulary_size}, {"digest", manifest.vocabulary_digest}}},
      {"held_out", manifest.held_out},
      {"corpus",
       {{"digest", manifest.corpus_digest},
        {"text_bytes", manifest.text_bytes},
        {"duplicate_documents", manifest.duplicate_documents},
        {"invalid_sequences", manifest.invalid_sequences}}},
      {"splits", splits},
      {"files", files}};
  return json.dump(2) + "\n";
}

Manifest parse_manifest(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    if (json.value("format", std::string()) != kFormat) {
      throw base::Error(base::Code::User, "it is not the manifest of a dataset");
    }
    const int version = json.at("version").get<int>();
    if (version != kDatasetVersion) {
      throw base::Error(base::Code::User, "it has format version " + std::to_string(version) +
                                              ", and this program " + "reads version " +
                                              std::to_string(kDatasetVersion));
    }
    return parse_fields(json);
  } catch (const nlohmann::json::parse_error&) {
    throw base::Error(base::Code::User, "dataset.json is cut off, or not JSON");
  } catch (const nlohmann::json::exception&) {
    throw base::Error(base::Code::User, "dataset.json has a field too few, or of another kind");
  }
}

std::string fingerprint_of(const Manifest& manifest) {
  const Json rules = {{"format", kDatasetVersion},
                      {"rules", kRulesVersion},
                      {"unicode", unicode::kVersion},
                      {"lower_case", manifest.tokenizer.lower_case},
                      {"word_limit", manifest.tokenizer.word_limit},
                      {"longest_line", kLongestLine},
                      {"longest_sentence", kLongestSentence},
                      {"vocabulary", manifest.vocabulary_digest},
                      {"held_out", manifest.held_out},
                      {"corpus", manifest.corpus_digest}};
  return base::digest_of(rules.dump());
}

std::optional<std::string> changed_rule(const TokenizerOptions& now,
                                        const std::function<bool(const TokenizerOptions&)>& fits) {
  TokenizerOptions other = now;
  other.lower_case = !now.lower_case;
  if (fits(other)) {
    const auto text = [](bool value) { return std::string(value ? "true" : "false"); };
    return "tokenizer.lower_case is " + text(now.lower_case) + ", and was " +
           text(other.lower_case);
  }
  other = now;
  for (const int limit : likely_limits(now.word_limit)) {
    other.word_limit = limit;
    if (!fits(other)) continue;
    return "tokenizer.word_limit is " + std::to_string(now.word_limit) + ", and was " +
           std::to_string(limit);
  }
  return std::nullopt;
}

}  // namespace regatta::trainer::data
