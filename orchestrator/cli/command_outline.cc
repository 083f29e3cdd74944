#include "orchestrator/cli/command_outline.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/text.h"
#include "base/wording.h"

namespace regatta::orchestrator::cli {
namespace {

// What help calls a value that has no name of its own, and its default.
struct ValueText {
  std::string name{};  // empty: a flag
  std::string default_text{};
  bool is_repeatable = false;
};

class ValueReader {
 public:
  explicit ValueReader(ValueKind kind) : kind_(kind) {}

  ValueText operator()(const bool* /*value*/) const { return {}; }
  ValueText operator()(const std::function<void()>& /*call*/) const { return {}; }
  ValueText operator()(const std::function<void(const std::string&)>& /*call*/) const {
    return {word()};
  }
  ValueText operator()(const int* value) const {
    return {"N", *value == 0 ? "" : std::to_string(*value)};
  }
  ValueText operator()(const double* value) const {
    return {"NUMBER", *value == 0 ? "" : base::short_number(*value, 15)};
  }
  ValueText operator()(const std::optional<double>* value) const {
    return {"NUMBER", *value ? base::short_number(**value, 15) : ""};
  }
  ValueText operator()(const std::optional<std::uint64_t>* value) const {
    return {"N", *value ? std::to_string(**value) : ""};
  }
  ValueText operator()(const std::string* value) const { return {word(), *value}; }
  ValueText operator()(const std::vector<int>* values) const {
    std::vector<std::string> texts;
    for (const int value : *values) texts.push_back(std::to_string(value));
    return {"N,N,...", base::join(texts, ",")};
  }
  ValueText operator()(const std::vector<std::string>* values) const {
    return {word(), base::join(*values, " "), true};
  }

 private:
  [[nodiscard]] std::string word() const {
    switch (kind_) {
      case ValueKind::Run:
        return "RUN";
      case ValueKind::Sweep:
        return "SWEEP";
      case ValueKind::Experiment:
        return "EXPERIMENT";
      case ValueKind::RunFile:
      case ValueKind::File:
        return "FILE";
      case ValueKind::Directory:
        return "DIRECTORY";
      case ValueKind::RunFirst:
      case ValueKind::Any:
        break;
    }
    return "TEXT";
  }

  ValueKind kind_;
};

OutlineOption outline_of_option(const Option& option) {
  const ValueText value = std::visit(ValueReader(option.kind), option.target);
  OutlineOption made{base::split(option.names, ','),
                     option.help,
                     value.name,
                     option.default_text.empty() ? value.default_text : option.default_text,
                     "",
                     option.choices.empty() ? option.offered : option.choices,
                     option.kind,
                     option.is_required,
                     value.is_repeatable};
  const bool is_operand = option.names.front() != '-';
  if (is_operand) made.value = base::upper_case(option.names);
  if (!option.choices.empty() && !is_operand) made.value = base::join(option.choices, "|");
  if (!option.type.empty()) made.value = option.type;
  if (option.range) {
    made.range = base::short_number(option.range->low, 15) + " to " +
                 base::short_number(option.range->high, 15);
  }
  return made;
}

OutlineOption flag(std::vector<std::string> names, std::string help) {
  OutlineOption made;
  made.names = std::move(names);
  made.help = std::move(help);
  return made;
}

Outline outline_of_command(Command& command, std::vector<std::string> path) {
  path.push_back(command.text().name);
  Outline made{path, command.text(), command.words() != nullptr, {}, {}, {}};
  if (made.passes_words_on) return made;
  OptionList options;
  command.add_options(options);
  for (const Option& option : options.all()) {
    if (option.is_hidden) continue;
    (option.names.front() == '-' ? made.options : made.operands)
        .push_back(outline_of_option(option));
  }
  made.options.push_back(flag({"-h", "--help"}, "print help and exit"));
  for (const auto& part : command.parts()) made.parts.push_back(outline_of_command(*part, path));
  return made;
}

}  // namespace

Outline program_outline(const Commands& commands) {
  Outline made;
  made.text.name = "regatta";
  made.options = {flag({"-h", "--help"}, "print help and exit"),
                  flag({"--version"}, "print the version and exit")};
  for (const auto& command : commands) made.parts.push_back(outline_of_command(*command, {}));
  return made;
}

}  // namespace regatta::orchestrator::cli
