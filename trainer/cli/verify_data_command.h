// The command line of `regatta-train verify-data`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace regatta::trainer::cli {

// Options are members, filled by the parser between add() and run().
class VerifyDataCommand {
 public:
  CLI::App* add(CLI::App& program);
  // 0, with the figures on stdout, of a dataset that is whole; 1 of one that is, where the
  // tokenizer would give other tokens, or nobody knows. Throws base::Error for the first damage,
  // and for a tokenizer that cannot be read; with --json that is on stdout, too.
  [[nodiscard]] int run() const;

 private:
  std::string directory_, tokenizer_;
  bool json_ = false;
};

}  // namespace regatta::trainer::cli
