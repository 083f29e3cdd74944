// `regatta init`: a commented run file to begin with.
#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/file_system.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/output.h"
#include "orchestrator/cli/run_file_templates.h"
#include "orchestrator/cli/usage_error.h"

namespace regatta::orchestrator::cli {
namespace {

constexpr const char* kStandardRunFile = "run.yaml";

class Init : public Command {
 public:
  Init()
      : Command({"init",
                 Group::Runs,
                 "write a commented run file to begin with",
                 {"init", "init classify", "init squad --output squad.yaml",
                  "init continue --output -"}}) {}

  void add_options(OptionList& options) override {
    Option& kind = options.add(
        "kind",
        std::function<void(const std::string&)>([this](const std::string& word) { kind_ = word; }),
        "what to train: pretrain on text (if none is named), continue with a model on text, squad "
        "(answers to questions) or classify");
    for (const RunFileTemplate& each : run_file_templates()) {
      kind.choices.emplace_back(each.name);
    }
    options.add("-o,--output", ValueKind::RunFile, &output_, "the file; - for stdout");
    options.add("--force", &force_, "replace the file if it is there");
  }

  int run() override {
    if (output_.empty()) throw UsageError("--output is ''; name a file, or - for stdout");
    const bool to_stdout = output_ == "-";
    if (to_stdout && force_) throw UsageError("--force is for a file, and --output is -");
    const RunFileTemplate& chosen = template_named(kind_);
    const std::string text(chosen.text);
    if (to_stdout) {
      print(text);
    } else if (force_) {
      base::replace_file(base::posix_file_system(), output_, text);
    } else {
      create(text);
    }
    std::cerr << next_step(chosen, to_stdout) << "\n";
    return 0;
  }

 private:
  static const RunFileTemplate& template_named(const std::string& name) {
    for (const RunFileTemplate& each : run_file_templates()) {
      if (each.name == name) return each;
    }
    return run_file_templates().front();
  }

  // Never over a file, also one that appears meanwhile.
  void create(const std::string& text) const {
    base::FileSystem& files = base::posix_file_system();
    const base::Path path(output_);
    std::unique_ptr<base::WritableFile> file;
    try {
      file = files.open(path, base::FileSystem::Open::CreateNew);
    } catch (const base::Error& error) {
      if (error.code() != base::Code::Conflict) throw;
      throw base::Error(base::Code::Conflict,
                        base::printable(output_) +
                            " is there already; --force replaces it, --output writes another");
    }
    try {
      file->append(text);
      file->sync();
    } catch (const base::Error&) {
      files.remove_file(path);
      throw;
    }
  }

  // One line. Paths of the file are relative to it, so the commands are for where it lies.
  [[nodiscard]] std::string next_step(const RunFileTemplate& chosen, bool to_stdout) const {
    std::string text = "regatta: ";
    if (!to_stdout) text += "wrote " + base::shown_word(output_);
    if (kind_.empty()) {
      std::string others;
      for (const RunFileTemplate& each : run_file_templates()) {
        if (&each != &chosen) others += (others.empty() ? "" : ", ") + std::string(each.name);
      }
      text += (to_stdout ? "this is " : " for ") + std::string(chosen.name) +
              " (there are also: " + others + ")";
    }
    if (text.back() != ' ') text += "; ";
    const base::Path path = to_stdout ? kStandardRunFile : output_;
    text += "next";
    if (path.has_parent_path()) text += ", in " + base::shown_word(path.parent_path().string());
    return text + ": " + std::string(chosen.prepare) + ", then " +
           base::shown_command("regatta submit", path.filename().string());
  }

  std::string kind_;  // empty: none is named
  std::string output_ = kStandardRunFile;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> init_command(const Program& /*program*/) {
  return std::make_unique<Init>();
}

}  // namespace regatta::orchestrator::cli
