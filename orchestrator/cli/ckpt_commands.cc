// `regatta ckpt …`: a run's checkpoints, through the controller or straight on the files.
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/process.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/checkpoints/checkpoint_exports.h"
#include "orchestrator/checkpoints/checkpoint_tools.h"
#include "orchestrator/cli/ckpt_download.h"
#include "orchestrator/cli/ckpt_text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/interrupt.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/runs/trainer_program.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;
using base::Code;
using base::Error;
using text::text_of;
using Words = std::vector<std::string>;

// Where a run's checkpoints are reached: the same answers from both.
class CheckpointSource {
 public:
  // Takes the run out of `words` unless there is a directory.
  CheckpointSource(const ClientOptions& options, const std::string& directory,
                   std::vector<std::string>* words) {
    if (!directory.empty()) {
      tools_.emplace(base::posix_file_system(), base::system_clock(),
                     std::filesystem::absolute(directory).lexically_normal());
      return;
    }
    if (words->empty()) {
      throw UsageError("no run is named; give its id, or its directory with --directory");
    }
    client_ = options.connect();
    run_ = "/runs/" + path_part(words->front());
    words->erase(words->begin());
  }

  [[nodiscard]] Json list() const {
    return tools_ ? tools_->list() : client_->get(run_ + "/checkpoints");
  }
  [[nodiscard]] Json show(const std::string& name) const {
    return tools_ ? tools_->show(name) : client_->get(path(name));
  }
  [[nodiscard]] Json verify(const std::string& name) const {
    return tools_ ? tools_->verify(name) : client_->post(path(name) + "/verify", "", {});
  }
  Json pin(const std::string& name, const std::string& reason) {
    if (tools_) return tools_->pin(name, reason);
    const Json body{{"reason", reason}};
    return client_->post(path(name) + "/pin", base::json_text(body), {});
  }
  Json unpin(const std::string& name) {
    return tools_ ? tools_->unpin(name) : client_->post(path(name) + "/unpin", "", {});
  }
  Json gc(bool dry_run) {
    using Gc = checkpoints::CheckpointTools::Gc;
    if (tools_) return tools_->gc(dry_run ? Gc::DryRun : Gc::Remove);
    return client_->post(run_ + "/checkpoints/gc" + (dry_run ? "?dry_run=true" : ""), "", {});
  }
  // Where a checkpoint lies on this machine; the controller's is this one.
  [[nodiscard]] base::Path place(const std::string& name) const {
    if (tools_) return tools_->path_of(name);
    return show(name).value("path", "");
  }

 private:
  [[nodiscard]] std::string path(const std::string& name) const {
    return run_ + "/checkpoints/" + path_part(name);
  }

  std::optional<checkpoints::CheckpointTools> tools_;
  std::optional<Client> client_;
  std::string run_;
};

// The one checkpoint named.
std::string only(const Words& words, const std::string& what) {
  if (words.size() == 1) return words.front();
  throw UsageError(words.empty() ? "no checkpoint to " + what +
                                       " is named; give its name, its step, or 'latest'"
                                 : "more than one checkpoint to " + what + " is named: '" +
                                       base::printable(words[1]) + "'; give one");
}

void expect_none(const Words& words) {
  if (words.empty()) return;
  throw UsageError("'" + base::printable(words.front()) +
                   "' is one word too many; give only a run");
}

// A command on the checkpoints of a run, or of the directory that is named instead.
class CkptCommand : public Command {
 public:
  // shape: what the words are, such as "[RUN] CHECKPOINT".
  // answer: of what it answers.
  CkptCommand(CommandText text, const char* shape, const Shape& answer, const Program& program)
      : Command(std::move(text)),
        client_(ClientOptions::of(program)),
        shape_(shape),
        answer_(answer) {}

  void add_options(OptionList& options) override {
    add_words(options);
    add_client_options(options, &client_, answer_);
  }

 protected:
  void add_words(OptionList& options) {
    options
        .add("words", ValueKind::RunFirst, &words_,
             std::string(shape_) + "; a checkpoint is named as listed, by its step, or 'latest'")
        .type = "WORD";
    options.add("--directory", ValueKind::Directory, &directory_,
                "the run's directory, instead of RUN; needs no controller");
  }
  [[nodiscard]] ClientOptions& client() { return client_; }
  [[nodiscard]] const Words& words() const { return words_; }
  [[nodiscard]] const std::string& directory() const { return directory_; }
  // Takes the run out of *words unless there is a directory.
  [[nodiscard]] CheckpointSource source(Words* words) const { return {client_, directory_, words}; }
  // As anything but text, where that is asked for.
  [[nodiscard]] bool printed(const Json& answer) const { return client_.output.print(answer); }

 private:
  ClientOptions client_;
  const char* shape_;
  Shape answer_;
  Words words_;
  std::string directory_;
};

class CkptList : public CkptCommand {
 public:
  explicit CkptList(const Program& program)
      : CkptCommand({"ls",
                     Group::Runs,
                     "list checkpoints, and why each is kept",
                     {"ckpt ls demo", "ckpt ls --directory runs/demo"}},
                    "[RUN]", {"checkpoints", "name", "CheckpointList"}, program) {}

  int run() override {
    Words words = this->words();
    const CheckpointSource from = source(&words);
    expect_none(words);
    const Json answer = from.list();
    if (!printed(answer)) print_checkpoints(answer);
    return 0;
  }
};

class CkptShow : public CkptCommand {
 public:
  explicit CkptShow(const Program& program)
      : CkptCommand({"show",
                     Group::Runs,
                     "show a checkpoint's manifest and tensors",
                     {"ckpt show demo latest", "ckpt show demo 400 -o json"}},
                    "[RUN] CHECKPOINT", {nullptr, "name"}, program) {}

  int run() override {
    Words words = this->words();
    const CheckpointSource from = source(&words);
    const Json answer = from.show(only(words, "show"));
    if (!printed(answer)) print_checkpoint(answer);
    return 0;
  }
};

class CkptVerify : public CkptCommand {
 public:
  explicit CkptVerify(const Program& program)
      : CkptCommand({"verify",
                     Group::Runs,
                     "read every byte of checkpoints, of all without a name; exit code 1 if one is "
                     "damaged",
                     {"ckpt verify demo", "ckpt verify demo latest"}},
                    "[RUN] [CHECKPOINT...]", {"checkpoints", "name"}, program) {}

  int run() override {
    Words names = words();
    const CheckpointSource from = source(&names);
    if (names.empty()) names = complete_ones(from);
    bool good = true;
    Json results = Json::array();
    for (const std::string& name : names) {
      const Json result = from.verify(name);
      good = good && result.value("good", false);
      results.push_back(result);
      if (!client().output.is_text()) continue;
      std::cout << base::printable(text_of(result, "name") +
                                   (result.value("good", false) ? ": good, " : ": DAMAGED: ") +
                                   text_of(result, "message"))
                << std::endl;
    }
    (void)printed({{"good", good}, {"checkpoints", results}});
    return good ? 0 : 1;
  }

 private:
  // All that are not known to be unfinished or removed.
  static Words complete_ones(const CheckpointSource& source) {
    Words names;
    const Json listed = source.list();
    if (const std::string trouble = text_of(listed, "trouble"); !trouble.empty()) {
      throw Error(Code::Operator, trouble);
    }
    for (const Json& row : listed.value("checkpoints", Json::array())) {
      const std::string condition = text_of(row, "condition");
      if (condition != "valid" && condition != "damaged" && condition != "unreadable") continue;
      names.push_back(text_of(row, "name"));
    }
    if (names.empty()) std::cerr << "no checkpoints\n";
    return names;
  }
};

class CkptPin : public CkptCommand {
 public:
  explicit CkptPin(const Program& program)
      : CkptCommand({"pin",
                     Group::Runs,
                     "keep a checkpoint until it is unpinned",
                     {"ckpt pin demo 400 --reason baseline"}},
                    "[RUN] CHECKPOINT", {nullptr, "name"}, program) {}

  void add_options(OptionList& options) override {
    CkptCommand::add_options(options);
    options.add("--reason", &reason_, "why it is kept, for people");
  }

  int run() override {
    Words words = this->words();
    CheckpointSource to = source(&words);
    const Json answer = to.pin(only(words, "pin"), reason_);
    if (!printed(answer)) print_retention(answer);
    return 0;
  }

 private:
  std::string reason_;
};

class CkptUnpin : public CkptCommand {
 public:
  explicit CkptUnpin(const Program& program)
      : CkptCommand({"unpin",
                     Group::Runs,
                     "unpin a checkpoint; retention may delete it",
                     {"ckpt unpin demo 400"}},
                    "[RUN] CHECKPOINT", {nullptr, "name"}, program) {}

  int run() override {
    Words words = this->words();
    CheckpointSource to = source(&words);
    const Json answer = to.unpin(only(words, "unpin"));
    if (!printed(answer)) print_retention(answer);
    return 0;
  }
};

class CkptGc : public CkptCommand {
 public:
  explicit CkptGc(const Program& program)
      : CkptCommand({"gc",
                     Group::Runs,
                     "remove the checkpoints that the run's retention does not keep",
                     {"ckpt gc demo --dry-run"}},
                    "[RUN]", {}, program) {}

  void add_options(OptionList& options) override {
    CkptCommand::add_options(options);
    options.add("--dry-run", &dry_run_, "only say what would be removed");
  }

  int run() override {
    Words words = this->words();
    CheckpointSource from = source(&words);
    expect_none(words);
    const Json answer = from.gc(dry_run_);
    if (!printed(answer)) print_removals(answer);
    return 0;
  }

 private:
  bool dry_run_ = false;
};

class CkptDiff : public CkptCommand {
 public:
  explicit CkptDiff(const Program& program)
      : CkptCommand(
            {"diff",
             Group::Runs,
             "compare two checkpoints, tensor by tensor; exit code 1 if one is damaged",
             {"ckpt diff demo 200 400", "ckpt diff a/checkpoints/step-8 b/checkpoints/step-8"}},
            "A B | RUN A B", {}, program) {}

  void add_options(OptionList& options) override {
    CkptCommand::add_options(options);
    options.add("--optimizer", &optimizer_, "the optimizer's tensors as well");
  }

  int run() override {
    const auto [a, b] = places();
    const Json answer = checkpoints::diff_checkpoints(
        base::posix_file_system(), a, b,
        optimizer_ ? checkpoints::WithOptimizer::Yes : checkpoints::WithOptimizer::No);
    if (!printed(answer)) print_differences(answer);
    const Json damaged = answer.value("damaged", Json::array());
    for (const Json& one : damaged) {
      std::cerr << "regatta: "
                << base::printable(text_of(one, "path") + " is DAMAGED: " + text_of(one, "reason"))
                << "\n";
    }
    return damaged.empty() ? 0 : 1;
  }

 private:
  [[nodiscard]] std::pair<base::Path, base::Path> places() const {
    Words words = this->words();
    if (directory().empty() && words.size() == 2) return {words[0], words[1]};
    const CheckpointSource from = source(&words);
    if (words.size() == 2) return {from.place(words[0]), from.place(words[1])};
    throw UsageError("diff takes two checkpoint directories, or a run and two of its checkpoints");
  }

  bool optimizer_ = false;
};

// With --output here and by regatta-train, which knows models: its output is this program's, and
// its exit code, or 128 + the signal that ended it. Without, the controller has it made.
class CkptExport : public CkptCommand {
 public:
  explicit CkptExport(const Program& program)
      : CkptCommand(
            {"export",
             Group::Runs,
             "make a directory that Hugging Face's transformers load, here or beside the run",
             {"ckpt export demo latest -o model",
              "ckpt export runs/demo -o model --for encoder --force",
              "ckpt export demo latest --for encoder"}},
            "CHECKPOINT_OR_RUN_DIRECTORY | RUN CHECKPOINT", {}, program),
        environment_(program.environment) {}

  // regatta-train checks what it is passed, and the controller what it is sent.
  void add_options(OptionList& options) override {
    add_words(options);
    add_server_options(options, &client());
    options.add(
        "-o,--output", ValueKind::Directory, &output_,
        "directory to make, by regatta-train on this machine; without: the controller makes "
        "RUN/exports/CHECKPOINT, which `regatta ckpt download --export` fetches");
    options.add("--trainer", ValueKind::File, &trainer_,
                "with -o: regatta-train (default: beside this program, or in PATH)");
    const auto& models = checkpoints::kExportModels;
    options
        .add("--for", &model_,
             "pretraining (both heads), encoder, question-answering, or "
             "sequence-classification (default: the one of the run's task)")
        .offered = {models.begin(), models.end()};
    pass_on(options, "--vocab", "with -o: the model's vocab.txt, if the dataset is gone");
    pass_on(options, "--qa-head",
            "with -o, for question-answering: a .safetensors file with qa_outputs.{weight,bias}");
    options.add("--with-optimizer", &with_optimizer_, "the optimizer's moments as well");
    pass_on_flag(options, "--cased", "with -o: --vocab is of a model that keeps case and accents");
    pass_on_flag(options, "--force", "with -o: replace an earlier export");
  }

  int run() override { return output_.empty() ? export_there() : export_here(); }

 private:
  int export_here() {
    const base::Path checkpoint = place();
    base::Command command;
    command.arguments = {
        runs::find_trainer(trainer_, environment_.program, environment_.path).string(), "export",
        "--checkpoint=" + checkpoint.string(), "--output=" + output_};
    if (!model_.empty()) command.arguments.push_back("--for=" + model_);
    if (with_optimizer_) command.arguments.emplace_back("--with-optimizer");
    command.arguments.insert(command.arguments.end(), passed_on_.begin(), passed_on_.end());
    command.inherit_output = true;
    const base::Exit exit = base::wait_exit(base::spawn(command));
    return exit.code ? *exit.code : 128 + exit.signal.value_or(0);
  }

  // Waits until it is made; Ctrl-C only ends the waiting.
  int export_there() {
    const Words words = this->words();
    if (!directory().empty() || words.size() != 2) {
      throw UsageError(
          "the controller exports a checkpoint of a run: give RUN and CHECKPOINT, or name a "
          "directory to make on this machine with --output");
    }
    if (!passed_on_.empty() || !trainer_.empty()) {
      const std::string option = trainer_.empty() ? passed_on_.front() : "--trainer";
      throw UsageError(option.substr(0, option.find('=')) +
                       " is for exports that are made here; leave it out, or add --output");
    }
    Json body{{"with_optimizer", with_optimizer_}};
    if (!model_.empty()) body["for"] = model_;
    const Client client = this->client().connect();
    const std::string before = "/runs/" + path_part(words[0]) + "/checkpoints/";
    const Interrupt interrupt;
    Json status = client.post(before + path_part(words[1]) + "/export", base::json_text(body), {});
    const std::string name = status.value("name", "");  // `latest` may be another one in a moment
    while (status.value("state", "") == "running") {
      if (interrupt.wait(kExportPause)) {
        std::cerr << "the controller goes on with the export\n";
        return kInterrupted;
      }
      status = client.get(before + path_part(name) + "/export");
    }
    if (status.value("state", "") != "done") {
      throw Error(Code::Operator, "the export failed: " + status.value("message", ""));
    }
    std::cout << base::printable(status.value("path", "")) << "\n" << std::flush;
    std::cerr << "`" << base::shown_command("regatta ckpt download --export", words[0]) << " "
              << base::shown_word(name) << "` fetches it\n";
    return 0;
  }

  void pass_on(OptionList& options, const std::string& name, const char* help) {
    const auto pass = [this, name](const std::string& value) {
      passed_on_.push_back(name + "=" + value);
    };
    options.add(name, ValueKind::File, std::function<void(const std::string&)>(pass), help);
  }
  void pass_on_flag(OptionList& options, const std::string& name, const char* help) {
    const auto pass = [this, name] { passed_on_.push_back(name); };
    options.add(name, std::function<void()>(pass), help);
  }
  [[nodiscard]] base::Path place() const {
    Words words = this->words();
    if (directory().empty() && words.size() == 1) return words.front();
    const CheckpointSource from = source(&words);
    if (words.size() == 1) return from.place(words.front());
    throw UsageError("export takes a checkpoint's directory, or a run and one of its checkpoints");
  }

  static constexpr double kExportPause = 0.5;  // seconds
  site::ProgramEnvironment environment_;
  std::string output_;   // empty: the controller makes it
  std::string trainer_;  // empty: looked for
  std::string model_;
  bool with_optimizer_ = false;
  Words passed_on_;
};

}  // namespace

std::unique_ptr<Command> ckpt_command(const Program& program) {
  Commands parts;
  parts.push_back(std::make_unique<CkptDiff>(program));
  parts.push_back(ckpt_download_command(program));
  parts.push_back(std::make_unique<CkptExport>(program));
  parts.push_back(std::make_unique<CkptGc>(program));
  parts.push_back(std::make_unique<CkptList>(program));
  parts.push_back(std::make_unique<CkptPin>(program));
  parts.push_back(std::make_unique<CkptShow>(program));
  parts.push_back(std::make_unique<CkptUnpin>(program));
  parts.push_back(std::make_unique<CkptVerify>(program));
  return std::make_unique<CommandFamily>(
      CommandText{
          "ckpt", Group::Runs, "list, check, keep, export and compare a run's checkpoints", {}},
      std::move(parts));
}

}  // namespace regatta::orchestrator::cli
