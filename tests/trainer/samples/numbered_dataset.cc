#include "tests/trainer/samples/numbered_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

#include "base/digest.h"
#include "trainer/data/prepare.h"

namespace regatta::tests {
namespace {

// "w" and the number of the token, which is the number of its piece.
std::string word(std::int32_t token) { return "w" + std::to_string(token); }

// A file of a dataset: 16 bytes, then numbers.
template <typename T>
std::vector<T> numbers_in(const base::Path& path) {
  constexpr std::size_t kHeader = 16;
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.size() < kHeader) throw std::runtime_error(path.string() + " is too short");
  std::vector<T> numbers((bytes.size() - kHeader) / sizeof(T));
  std::memcpy(numbers.data(), bytes.data() + kHeader, numbers.size() * sizeof(T));
  return numbers;
}

StoredSplit read_split(const base::Path& dataset, const std::string& name, std::int32_t pieces) {
  StoredSplit split;
  split.tokens = numbers_in<std::int32_t>(dataset / (name + ".tokens-00000"));
  split.sentences = numbers_in<std::int64_t>(dataset / (name + ".sentences"));
  split.documents = numbers_in<std::int64_t>(dataset / (name + ".documents"));
  split.document_of.resize(split.tokens.size());
  split.is_boundary.assign(split.tokens.size() + 1, false);
  for (const std::int64_t begin : split.sentences) {
    split.is_boundary.at(static_cast<std::size_t>(begin)) = true;
  }
  for (std::size_t d = 0; d + 1 < split.documents.size(); ++d) {
    const auto begin = split.sentences.at(static_cast<std::size_t>(split.documents[d]));
    const auto end = split.sentences.at(static_cast<std::size_t>(split.documents[d + 1]));
    for (auto i = begin; i < end; ++i) {
      split.document_of.at(static_cast<std::size_t>(i)) = static_cast<int>(d);
    }
  }
  split.places.assign(static_cast<std::size_t>(pieces), -1);
  for (std::size_t i = 0; i < split.tokens.size(); ++i) {
    split.places.at(static_cast<std::size_t>(split.tokens[i])) = static_cast<std::int64_t>(i);
  }
  return split;
}

// XXH3-128 of a text: as a number below 1, its lower half, which the digest writes last.
double hash_of(const std::string& text) {
  const std::string lower = base::digest_of(text).substr(16);
  return std::ldexp(static_cast<double>(std::stoull(lower, nullptr, 16)), -64);
}

}  // namespace

std::int64_t StoredSplit::place_of(std::int32_t token) const {
  if (token < 0 || token >= static_cast<std::int32_t>(places.size())) return -1;
  return places[static_cast<std::size_t>(token)];
}

NumberedDataset::NumberedDataset(const base::Path& directory, int documents) {
  std::mt19937 random(3);
  std::ofstream text(directory / "numbered.txt");
  std::ofstream vocabulary(directory / "vocab.txt");
  vocabulary << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  pieces_ = kFirstToken;
  for (int document = 0; document < documents; ++document) {
    std::string lines;
    std::vector<std::int32_t>& tokens = documents_.emplace_back();
    const auto sentences = static_cast<int>(1 + random() % 9U);
    for (int sentence = 0; sentence < sentences; ++sentence) {
      // One in eight is longer than small samples.
      const bool is_long = random() % 8U == 0;
      const auto length = static_cast<int>(is_long ? 20 + random() % 21U : 1 + random() % 12U);
      if (sentence > 0) lines += "\n";
      for (int i = 0; i < length; ++i) {
        lines += (i > 0 ? " " : "") + word(pieces_);
        vocabulary << word(pieces_) << "\n";
        tokens.push_back(pieces_++);
      }
    }
    text << lines << "\n\n";
    hashed_out_.push_back(hash_of(lines) < kHeldOutShare);
  }
  text.close();
  vocabulary.close();
  trainer::data::PrepareOptions options;
  options.inputs = {directory / "numbered.txt"};
  options.output = path_ = directory / "numbered";
  options.vocabulary = directory / "vocab.txt";
  options.threads = 1;
  options.held_out = kHeldOutShare;
  (void)trainer::data::prepare(options, base::posix_file_system(), {});
  training_ = read_split(path_, "training", pieces_);
  held_out_ = read_split(path_, "held_out", pieces_);
}

std::size_t NumberedDataset::document_of(std::int32_t token) const {
  const auto after = std::upper_bound(
      documents_.begin(), documents_.end(), token,
      [](std::int32_t wanted, const auto& document) { return wanted < document.front(); });
  if (token < kFirstToken || after == documents_.begin()) {
    throw std::runtime_error("no token of the text: " + std::to_string(token));
  }
  return static_cast<std::size_t>(after - documents_.begin()) - 1;
}

}  // namespace regatta::tests
