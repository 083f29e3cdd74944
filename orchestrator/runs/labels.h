// What people write on a run: tags, by which runs are found again, and a note.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/runs/run.h"

namespace regatta::orchestrator::runs {

inline constexpr std::size_t kMostTags = 32;
inline constexpr std::size_t kLongestTag = 64;     // bytes
inline constexpr std::size_t kLongestNote = 4096;  // bytes

struct LabelChange {
  std::optional<std::vector<std::string>>
      tags;  // all of them, in the place of those that were there
  std::vector<std::string> add_tags, remove_tags;
  std::optional<std::string> note;  // empty: none
};

struct Labels {
  std::vector<std::string> tags;
  std::string note;

  bool operator==(const Labels&) const = default;
};

// Of a run that has these, after the change: tags sorted, each once. Code::User for a tag that is
// none (1 to 64 letters, digits and "._:=+-"), too many of them, and a note that is too long.
[[nodiscard]] Labels changed(const Labels& labels, const LabelChange& change);

// For an event: "tags: a, b; note".
[[nodiscard]] std::string words_of(const Labels& labels);

}  // namespace regatta::orchestrator::runs
