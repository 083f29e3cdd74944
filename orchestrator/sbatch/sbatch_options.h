// sbatch's command line, read as sbatch reads it: pure. For what Regatta adds it must know what the
// user has said already; what the options mean it leaves to sbatch.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::orchestrator::sbatch {

inline constexpr int kMinute = 60;  // seconds

enum class Argument { None, Required, Optional };  // Optional: only as --name=value

struct SbatchOption {
  std::string_view name;  // without dashes
  char letter = 0;        // 0: none
  Argument argument = Argument::Required;
};
// Those of releases 22.05 to 25.11 (sbatch(1)). Sites add more by plug-ins (SPANK).
[[nodiscard]] std::span<const SbatchOption> sbatch_options();

struct GivenOption {
  std::string name;  // the long one; of an unknown option, what was written
  std::string value;
  int line = 0;  // of the script; 0: on the command line
};

struct SbatchCommand {
  std::vector<GivenOption> options;
  // The first word that is no option: the script. Absent: it is --wrap's, or comes from stdin.
  std::optional<std::string> script;
  std::size_t script_at = 0;  // its place among the words; their number where there is none
  // Words of options that are not sbatch's but `regatta sbatch`'s (--freeze), which it does not
  // get.
  std::vector<std::size_t> own_words;
  bool heterogeneous = false;  // several jobs with ':' between them; only the first one's options
};

// arguments: those after "sbatch". The options freeze and freeze-limit are Regatta's own. An
// unknown option --name takes the next word as its value unless that word is an option or
// `is_script`.
[[nodiscard]] SbatchCommand parse_sbatch_command(
    const std::vector<std::string>& arguments,
    const std::function<bool(const std::string&)>& is_script);

// What counts: the command line before sbatch's variables before the script. One of each name, but
// for names that no variable has.
[[nodiscard]] std::vector<GivenOption> options_that_count(
    std::vector<GivenOption> script, const std::map<std::string, std::string>& environment,
    const std::vector<GivenOption>& command_line);

// The last one of that name, since that is the one that counts; nullptr when there is none.
[[nodiscard]] const GivenOption* find_option(const std::vector<GivenOption>& options,
                                             std::string_view name);

}  // namespace regatta::orchestrator::sbatch
