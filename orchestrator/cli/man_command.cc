#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/file_system.h"
#include "base/text.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/man_page.h"

namespace regatta::orchestrator::cli {
namespace {

class Man : public Command {
 public:
  explicit Man(const Program& program)
      : Command({"man",
                 Group::Controller,
                 "print a man page, in roff, of the program or of a command",
                 {"man", "man submit", "man --directory share/man/man1"}}),
        program_(program) {}

  void add_options(OptionList& options) override {
    Option& command =
        options.add("command", &command_,
                    "the command whose page it is; none: the program's, which lists them");
    for (const auto& each : all_commands(program_)) command.offered.push_back(each->text().name);
    options.add("--directory", ValueKind::Directory, &directory_,
                "write all pages there instead; made if it is missing");
  }

  int run() override {
    const auto pages =
        man_pages(program_outline(all_commands(program_)), "regatta " REGATTA_VERSION);
    if (!directory_.empty()) return write(pages);
    const auto page = pages.find(command_.empty() ? "regatta.1" : "regatta-" + command_ + ".1");
    if (page == pages.end()) {
      throw base::Error(base::Code::NotFound, "'" + base::printable(command_) +
                                                  "' is not a command; 'regatta --help' lists "
                                                  "the commands");
    }
    std::cout << page->second;
    return 0;
  }

 private:
  int write(const std::map<std::string, std::string>& pages) const {
    std::error_code error;
    std::filesystem::create_directories(directory_, error);  // replace_file says what is wrong
    for (const auto& [name, text] : pages) {
      base::replace_file(base::posix_file_system(), base::Path(directory_) / name, text);
    }
    return 0;
  }

  Program program_;
  std::string command_;
  std::string directory_;
};

}  // namespace

std::unique_ptr<Command> man_command(const Program& program) {
  return std::make_unique<Man>(program);
}

}  // namespace regatta::orchestrator::cli
