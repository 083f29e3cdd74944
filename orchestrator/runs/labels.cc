#include "orchestrator/runs/labels.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"

namespace regatta::orchestrator::runs {
namespace {

void check_tag(const std::string& tag, const char* key) {
  const bool good =
      !tag.empty() && tag.size() <= kLongestTag && std::all_of(tag.begin(), tag.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("._:=+-").find(c) != std::string_view::npos;
      });
  if (good) return;
  throw base::Error(base::Code::User,
                    "the tag '" + base::printable(tag.substr(0, 100)) +
                        "' is none; use 1 to 64 letters, digits and ._:=+-",
                    key);
}

}  // namespace

Labels changed(const Labels& labels, const LabelChange& change) {
  const std::vector<std::string>& kept = change.tags ? *change.tags : labels.tags;
  std::set<std::string> tags(kept.begin(), kept.end());
  tags.insert(change.add_tags.begin(), change.add_tags.end());
  const char* const key = change.tags ? "tags" : "add_tags";
  for (const std::string& tag : tags) {
    check_tag(tag, std::count(change.add_tags.begin(), change.add_tags.end(), tag) > 0 ? "add_tags"
                                                                                       : key);
  }
  for (const std::string& tag : change.remove_tags) tags.erase(tag);
  if (tags.size() > kMostTags) {
    throw base::Error(base::Code::User,
                      "a run has at most " + base::plural(kMostTags, "tag") +
                          ", and this would be " + std::to_string(tags.size()),
                      key);
  }
  Labels after{{tags.begin(), tags.end()}, change.note.value_or(labels.note)};
  if (after.note.size() > kLongestNote) {
    throw base::Error(base::Code::User,
                      "the note has " + std::to_string(after.note.size()) +
                          " bytes; write at most " + std::to_string(kLongestNote),
                      "note");
  }
  return after;
}

std::string words_of(const Labels& labels) {
  std::string words = labels.tags.empty() ? "" : "tags: " + base::join(labels.tags, ", ");
  if (!labels.note.empty()) words += (words.empty() ? "" : "; ") + labels.note;
  return words.empty() ? "no tags, no note" : words;
}

}  // namespace regatta::orchestrator::runs
