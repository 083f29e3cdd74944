#include "trainer/data/delimited_text.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "trainer/data/unicode.h"

namespace regatta::trainer::data {
namespace {

constexpr std::size_t kMostListed = 24;
constexpr std::size_t kLongestListed = 40;  // bytes of a name

[[nodiscard]] std::size_t byte_of(char c) { return static_cast<unsigned char>(c); }

[[nodiscard]] bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// For a message: short, and cut between characters.
[[nodiscard]] std::string quoted_name(std::string_view name) {
  std::size_t end = std::min(name.size(), kLongestListed);
  if (end == name.size()) return "'" + base::printable(name) + "'";
  while (end > 0 && continues_character(name[end])) --end;
  return "'" + base::printable(name.substr(0, end)) + "…'";
}

}  // namespace

DelimitedReader::DelimitedReader(std::string name, const DelimitedForm& form)
    : name_(std::move(name)), form_(form) {
  base::check(form.separator != '"' && form.separator != '\n' && form.separator != '\r',
              "a separator of fields is no quote and no line end");
  for (const char c : {form.separator, '\n', '\r'}) stops_[byte_of(c)] = true;
  stops_[byte_of('"')] = form.quotes;
}

void DelimitedReader::push(std::string_view text) {
  base::check(!finished_, "no text follows the end of a text");
  ahead_.erase(0, taken_);
  taken_ = 0;
  ahead_ += text;
}

void DelimitedReader::finish() { finished_ = true; }

bool DelimitedReader::next(DelimitedRecord& record) {
  while (scan()) {
    columns_ = fields_.size();
    if (form_.header && !has_header_) {
      has_header_ = true;
      header_ = std::exchange(fields_, {});
      continue;
    }
    record.fields = std::exchange(fields_, {});
    record.line = whole_line_;
    return true;
  }
  return false;
}

bool DelimitedReader::scan() {
  while (taken_ < ahead_.size()) {
    const std::string_view rest = std::string_view(ahead_).substr(taken_);
    if (carriage_return_) {
      if (take_behind_carriage_return(rest[0])) return true;
      continue;
    }
    std::size_t run = 0;
    if (state_ == State::Quoted) {
      run = std::min(rest.find('"'), rest.size());
    } else {
      while (run < rest.size() && !stops_[byte_of(rest[run])]) ++run;
    }
    take_run(rest.substr(0, run));
    taken_ += run;
    if (run == rest.size()) continue;
    ++taken_;
    if (take(rest[run])) return true;
  }
  if (!finished_) return false;
  if (carriage_return_) take_lone_carriage_return();
  if (state_ == State::Quoted) {
    fail(field_at_, "the quoted field that begins here is never closed; add its closing quote");
  }
  return end_record();
}

bool DelimitedReader::take(char c) {
  const Place at = at_;
  if (c != '\n') ++at_.column;
  if (state_ == State::Quoted) {  // stops at quotes only
    state_ = State::BehindQuote;
  } else if (c == '\r') {
    carriage_return_ = true;
  } else if (c == '\n') {
    return end_record();
  } else if (c == form_.separator) {
    end_field();
    field_at_ = at_;
  } else if (state_ == State::FieldBegins) {
    field_at_ = at;
    state_ = State::Quoted;
  } else if (state_ == State::BehindQuote) {
    take_run("\"");
    --at_.column;  // counted above
    state_ = State::Quoted;
  } else {
    fail(at,
         "a quote within an unquoted field; double it and put the field"
         " in quotes");
  }
  return false;
}

bool DelimitedReader::take_behind_carriage_return(char c) {
  if (c == '\n') {
    carriage_return_ = false;
    --at_.column;  // the record ends before it
    ++taken_;
    return end_record();
  }
  take_lone_carriage_return();
  return false;
}

void DelimitedReader::take_lone_carriage_return() {
  carriage_return_ = false;
  --at_.column;  // take() has counted it
  take_run("\r");
}

// Ordinary characters of the field.
void DelimitedReader::take_run(std::string_view run) {
  if (run.empty()) return;
  const bool doubled = state_ == State::BehindQuote && run == "\"";
  if (state_ == State::BehindQuote && !doubled) {
    fail(at_, "text after a closing quote; a quote within a quoted field is doubled");
  }
  if (state_ == State::FieldBegins) state_ = State::Plain;
  check_size(run.size());
  field_ += run;
  advance(run);
}

void DelimitedReader::check_size(std::size_t more) const {
  if (field_.size() + more > kLongestField) {
    fail(field_at_, state_ == State::Quoted || state_ == State::BehindQuote
                        ? "a quoted field of over 16 MiB begins here; is its quote closed?"
                        : "a field of over 16 MiB begins here; cut it");
  }
  if (record_bytes_ + field_.size() + more > kLongestRecord) {
    fail({record_line_, 1}, "a record of over 64 MiB begins here; cut it");
  }
}

void DelimitedReader::advance(std::string_view run) {
  const std::size_t line = run.rfind('\n');
  if (line != std::string_view::npos) {
    at_.line += std::count(run.begin(), run.end(), '\n');
    at_.column = 1;
    run.remove_prefix(line + 1);
  }
  at_.column +=
      std::count_if(run.begin(), run.end(), [](char c) { return !continues_character(c); });
}

void DelimitedReader::end_field() {
  if (columns_ != 0 && fields_.size() == columns_) {
    fail(field_at_, "one field too many: there are " + base::plural(columns_, "column") +
                        "; fix the line" +
                        (form_.quotes ? ", or put a field with a separator in quotes" : ""));
  }
  if (fields_.size() == kMostColumns) {
    fail(field_at_, "more than " + std::to_string(kMostColumns) + " fields; is this a table?");
  }
  record_bytes_ += field_.size();
  std::string& field = fields_.emplace_back();
  invalid_sequences_ += unicode::append_valid_utf8(field_, field);
  field_.clear();
  state_ = State::FieldBegins;
}

// At a line end, or the end of the text. False if the line had nothing.
bool DelimitedReader::end_record() {
  const bool blank = fields_.empty() && state_ == State::FieldBegins;
  const Place end = at_;
  if (!blank) {
    end_field();
    if (fields_.size() < columns_) {
      fail(end, "the record ends after " + base::plural(fields_.size(), "field") + "; " +
                    (has_header_ ? "column " + quoted_name(header_[fields_.size()])
                                 : "field " + std::to_string(fields_.size() + 1)) +
                    " is missing; fix the line");
    }
  }
  at_ = {at_.line + 1, 1};
  field_at_ = at_;
  record_bytes_ = 0;
  whole_line_ = std::exchange(record_line_, at_.line);
  return !blank;
}

void DelimitedReader::fail(const Place& at, const std::string& what) const {
  throw base::Error(base::Code::User, name_ + ":" + std::to_string(at.line) + ":" +
                                          std::to_string(at.column) + ": " + what);
}

std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    if (parts.size() == kMostListed) break;
    parts.push_back(quoted_name(name));
  }
  const std::size_t left = names.size() - parts.size();
  return base::join(parts, ", ") + (left == 0 ? "" : " and " + std::to_string(left) + " more");
}

std::size_t column_index(const std::vector<std::string>& columns, const ColumnChoice& choice,
                         const std::string& file) {
  const auto fail = [&](const std::string& what) {
    throw base::Error(base::Code::User, file + ": " + std::string(choice.option) + " is " +
                                            quoted_name(choice.wanted) + ", " + what +
                                            " (columns: " + listed(columns) + ")");
  };
  if (choice.header) {
    const auto found = std::find(columns.begin(), columns.end(), choice.wanted);
    if (found != columns.end()) {
      if (std::find(found + 1, columns.end(), choice.wanted) != columns.end()) {
        fail("which two columns are called; give the number of one");
      }
      return static_cast<std::size_t>(found - columns.begin());
    }
  }
  const auto number = base::is_digits(choice.wanted) ? base::parse_integer(choice.wanted) : 0;
  if (number && *number >= 1 && static_cast<std::size_t>(*number) <= columns.size()) {
    return static_cast<std::size_t>(*number) - 1;
  }
  if (!choice.header)
    fail("which is no number of a column; without a header columns are numbered from 1");
  const std::optional<std::string> close = base::closest(choice.wanted, columns);
  fail("which is no column" + (close ? "; did you mean " + quoted_name(*close) + "?" : ""));
  return 0;
}

}  // namespace regatta::trainer::data
