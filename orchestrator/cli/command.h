// A command of `regatta`: its name, texts, options and what it does, in one class.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/cli/command_options.h"
#include "orchestrator/site/environment.h"

namespace regatta::orchestrator::cli {

// What main() knows.
struct Program {
  site::ProgramEnvironment environment;
  std::string version;  // "regatta 0.1.0 (commit 0123456789ab)"
  std::string commit;   // empty: not known
};

// The headings of `regatta --help`, in this order.
enum class Group { Runs, Machines, Plans, Controller };
[[nodiscard]] const char* heading_of(Group group);

struct CommandText {
  std::string name;
  Group group;
  std::string summary;                // one line
  std::vector<std::string> examples;  // without "regatta"
};

class Command;
using Commands = std::vector<std::unique_ptr<Command>>;

class Command {
 public:
  explicit Command(CommandText text, Commands parts = {})
      : text_(std::move(text)), parts_(std::move(parts)) {}
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  [[nodiscard]] const CommandText& text() const { return text_; }
  // Those that are named after it, as in `ckpt verify`. A command with parts is not run itself.
  [[nodiscard]] const Commands& parts() const { return parts_; }

  // Called once. The values are members, which the parser sets between this and run().
  virtual void add_options(OptionList& /*options*/) {}
  // Where a command gets the words after its name as they are, because another program reads them;
  // it then has no options, and a link with its name runs it. Null: it has options.
  [[nodiscard]] virtual std::vector<std::string>* words() { return nullptr; }
  // The exit code. Throws base::Error.
  [[nodiscard]] virtual int run() = 0;

 private:
  CommandText text_;
  Commands parts_;
};

// A name before the names of its parts.
class CommandFamily final : public Command {
 public:
  using Command::Command;
  [[nodiscard]] int run() override;  // a broken invariant
};

}  // namespace regatta::orchestrator::cli
