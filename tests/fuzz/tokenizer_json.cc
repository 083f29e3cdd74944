// Any bytes are a tokenizer.json: one clear error, or a comparison whose verdict holds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file_system.h"
#include "trainer/data/vocabulary.h"
#include "trainer/interchange/tokenizer_comparison.h"

using regatta::base::check;
using namespace regatta::trainer;

namespace {

// One file, written again for each input and removed at the end.
class OneFile {
 public:
  OneFile() : path_(std::filesystem::temp_directory_path() / "tokenizer-XXXXXX") {
    std::string name = path_.string();
    check(mkdtemp(name.data()) != nullptr, "there is room for a file");
    directory_ = name;
    path_ = directory_ / "tokenizer.json";
  }
  ~OneFile() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  OneFile(const OneFile&) = delete;
  OneFile& operator=(const OneFile&) = delete;
  const std::filesystem::path& with(std::string_view text) {
    std::ofstream(path_, std::ios::binary).write(text.data(), std::ssize(text));
    return path_;
  }

 private:
  std::filesystem::path directory_, path_;
};

bool is_one_line(std::string_view text) { return text.find('\n') == std::string_view::npos; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static OneFile file;
  static const data::Vocabulary vocabulary =
      data::Vocabulary::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\nb\n##b\n", "fuzzed");
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const interchange::DeclaredTokenizer declared =
        interchange::read_tokenizer(regatta::base::posix_file_system(), file.with(text));
    const interchange::TokenizerComparison found =
        interchange::compare_tokenizers({vocabulary, {true, 200}}, declared);
    for (const std::string& each : found.not_followed) check(is_one_line(each), "one line");
    check(is_one_line(interchange::differences_line(found)), "one line");
    if (found.verdict() != interchange::TokenizerVerdict::Same) {
      check(!found.differences.empty() || found.first || !found.not_followed.empty(),
            "what is not the same has a reason");
    } else {
      check(declared.pieces == vocabulary.pieces(), "the same tokens have the same ids");
      check(found.probes > 0 && found.advice.empty(), "it was tried, and nothing is to be done");
    }
  } catch (const regatta::base::Error& error) {
    check(error.code() == regatta::base::Code::User, "a bad file is the user's to change");
    check(is_one_line(error.what()), "one line");
  }
  return 0;
}
