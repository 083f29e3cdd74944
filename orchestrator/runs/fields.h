// How a field of a record is called and shown. A record has one list of its fields, a function
//   template <typename Archive, RecordOf<Launch> R> void fields(Archive& archive, R& r)
// beside it (record_fields.h), which calls archive(field, member) for each member, and
// archive.part(member) for one that is a record itself, or an optional one. The store's columns and
// statements, the files of a run directory and the API's JSON come from these lists.
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

namespace regatta::orchestrator::runs {

struct RecordField {
  // The column in the store, and the key in files of the run directory.
  std::string_view name;
  // The key in the API's answers; empty: it is in none.
  std::string_view key{};
  // In answers.
  bool is_moment = false;  // seconds since 1970; shown as ISO 8601, what is not positive as null
  bool empty_is_null = false;  // of a text
  // In files.
  bool may_be_absent = false;  // where it is empty or false
  // In the store.
  bool is_fixed = false;  // written with the row, and not when the record changes
  // Between the texts of a list, which is one column; after the last one, too, where it ends so.
  char separator = ',';
  bool is_terminated = false;

  [[nodiscard]] constexpr RecordField moment() const { return with(&RecordField::is_moment); }
  [[nodiscard]] constexpr RecordField or_null() const { return with(&RecordField::empty_is_null); }
  [[nodiscard]] constexpr RecordField if_any() const { return with(&RecordField::may_be_absent); }
  [[nodiscard]] constexpr RecordField fixed() const { return with(&RecordField::is_fixed); }
  [[nodiscard]] constexpr RecordField terminated(char by) const {
    RecordField changed = with(&RecordField::is_terminated);
    changed.separator = by;
    return changed;
  }

 private:
  [[nodiscard]] constexpr RecordField with(bool RecordField::*flag) const {
    RecordField changed = *this;
    changed.*flag = true;
    return changed;
  }
};

// In the store or in files only.
[[nodiscard]] constexpr RecordField kept(std::string_view name) { return {name}; }
// In answers, too, under the same name or under another one.
[[nodiscard]] constexpr RecordField served(std::string_view name) { return {name, name}; }
[[nodiscard]] constexpr RecordField served(std::string_view name, std::string_view key) {
  return {name, key};
}

// The record, to be read or to be changed.
template <typename R, typename Record>
concept RecordOf = std::same_as<std::remove_const_t<R>, Record>;

}  // namespace regatta::orchestrator::runs
