// The table of commands as texts: what completion scripts and man pages are made of.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/cli/command.h"

namespace regatta::orchestrator::cli {

struct OutlineOption {
  std::vector<std::string> names;  // "-o", "--output"; of an operand only its own
  std::string help;
  std::string value;         // what help calls it: "RUN", "text|json"; empty: a flag, without one
  std::string default_text;  // empty: none
  std::string range;         // "1 to 100"; empty: any
  std::vector<std::string> choices;  // words to offer
  ValueKind kind = ValueKind::Any;
  bool is_required = false;
  bool is_repeatable = false;
};

struct Outline {
  std::vector<std::string> path;  // "ckpt", "verify"
  CommandText text;
  bool passes_words_on = false;         // another program reads what follows
  std::vector<OutlineOption> options;   // --help is the last; none if words are passed on
  std::vector<OutlineOption> operands;  // in their order
  std::vector<Outline> parts;           // commands below it, which then has no operands
};

// Of the program itself: its commands are the parts. Leaves out what is hidden. Calls add_options()
// of every command.
[[nodiscard]] Outline program_outline(const Commands& commands);

}  // namespace regatta::orchestrator::cli
