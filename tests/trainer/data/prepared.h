// Small corpora and datasets for the tests of this folder.
#pragma once

#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "trainer/data/prepare.h"

namespace regatta::tests {

inline constexpr char kSmallVocabulary[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nboat\nwind\nrow\n##s\n##ing\na\nb\nc\n##a\n##b\n##c\n"
    ".\n!\n0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n##0\n##1\n##2\n##3\n##4\n##5\n##6\n##7\n##8\n##9\n";

inline void write_file(const base::Path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
}

[[nodiscard]] inline std::string read_file(const base::Path& path) {
  return base::posix_file_system().read(path, std::uint64_t{1} << 30U);
}

// `count` different documents of one to three lines, numbered from `first`.
[[nodiscard]] inline std::string documents_text(int first, int count) {
  std::string text;
  for (int i = first; i < first + count; ++i) {
    for (int line = 0; line <= i % 3; ++line) {
      text += "the boat rows " + std::to_string(i) + " wind" + std::string(i % 5U, 's') + ".\n";
    }
    text += "\n";
  }
  return text;
}

// Reads `corpus.txt` of `directory` into `dataset` there, with the small vocabulary.
[[nodiscard]] inline trainer::data::PrepareOptions small_options(const base::Path& directory) {
  write_file(directory / "vocab.txt", kSmallVocabulary);
  trainer::data::PrepareOptions options;
  options.inputs = {directory / "corpus.txt"};
  options.output = directory / "dataset";
  options.vocabulary = directory / "vocab.txt";
  options.threads = 1;
  return options;
}

// The content of every file below `directory`, by relative name.
[[nodiscard]] inline std::map<std::string, std::string> files_of(const base::Path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    files[entry.path().lexically_relative(directory).string()] = read_file(entry.path());
  }
  return files;
}

[[nodiscard]] inline std::vector<std::string> names_in(const base::Path& directory) {
  return base::posix_file_system().list(directory);
}

}  // namespace regatta::tests
