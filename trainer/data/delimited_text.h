// Records of CSV and TSV text, piece by piece: nothing larger than a record is held.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::trainer::data {

// CSV as RFC 4180 says. TSV has no quotes unless it is told to: GLUE's files have bare ones.
struct DelimitedForm {
  char separator = ',';  // neither a quote nor a line end
  bool quotes = true;    // a field may stand in quotes
  bool header = true;    // the first record names the columns
};
inline constexpr DelimitedForm kCsv{};
inline constexpr DelimitedForm kTsv{'\t', false, true};

struct DelimitedRecord {
  std::vector<std::string> fields;  // valid UTF-8
  std::int64_t line = 0;            // that it begins in, from 1
};

// Takes text in pieces of any size (of TextSource, which drops a byte order mark) and gives its
// records:
//   DelimitedReader reader(name, kCsv);
//   for (bool more = true; more;) {
//     more = …;                         // read a piece
//     if (more) reader.push(piece); else reader.finish();
//     while (reader.next(record)) …
//   }
// A record ends with LF or CRLF, also mixed, or with the text; a CR elsewhere is a character.
// Within quotes line ends belong to the field and "" is one quote. A line with nothing in it is no
// record. Ill-formed UTF-8 becomes U+FFFD. Every record has as many fields as the first.
//
// What it does not like is Code::User: "NAME:LINE:COLUMN: what, and what to do", both from 1,
// columns in characters: another number of fields, a quote that stays open (where it began), a
// quote within or text behind a quoted field, a field or record over its bound, too many columns.
class DelimitedReader {
 public:
  static constexpr std::size_t kLongestField = std::size_t{16} << 20U;   // bytes
  static constexpr std::size_t kLongestRecord = std::size_t{64} << 20U;  // bytes
  static constexpr std::size_t kMostColumns = 4096;

  // `name`: of the file, for messages.
  DelimitedReader(std::string name, const DelimitedForm& form);

  // The next piece. Call it when next() has returned false.
  void push(std::string_view text);
  // There are no more pieces.
  void finish();
  // Whether `record` is the next one. False: push more, or, behind finish(), they are over.
  [[nodiscard]] bool next(DelimitedRecord& record);

  // The fields of the first record, if the form has a header; empty until it has been read, which
  // it is when next() returns true for the first time, and behind finish() when it returns false.
  [[nodiscard]] const std::vector<std::string>& header() const { return header_; }
  // Ill-formed sequences so far.
  [[nodiscard]] std::int64_t invalid_sequences() const { return invalid_sequences_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  enum class State { FieldBegins, Plain, Quoted, BehindQuote };
  struct Place {
    std::int64_t line = 1;
    std::int64_t column = 1;
  };

  // Takes the text ahead until a record is whole; false if it is not when the text is over.
  bool scan();
  // Takes one character that stopped a run; true if it ended the record.
  bool take(char c);
  bool take_behind_carriage_return(char c);
  void take_lone_carriage_return();
  void take_run(std::string_view run);
  void end_field();
  bool end_record();
  void advance(std::string_view run);
  void check_size(std::size_t more) const;
  [[noreturn]] void fail(const Place& at, const std::string& what) const;

  std::string name_;
  DelimitedForm form_;
  std::array<bool, 256> stops_{};  // by byte: it may end a run of ordinary characters
  std::string ahead_;              // pushed and not taken: from taken_
  std::size_t taken_ = 0;
  bool finished_ = false;

  State state_ = State::FieldBegins;
  bool carriage_return_ = false;  // the last character was one, outside of quotes
  Place at_;                      // of the next character
  Place field_at_;                // where the field, or its quote, began
  std::string field_;
  std::vector<std::string> fields_;
  std::size_t record_bytes_ = 0;
  std::int64_t record_line_ = 1;  // of the record that is being read
  std::int64_t whole_line_ = 1;   // of the one that was read last

  std::size_t columns_ = 0;  // 0: not known yet
  bool has_header_ = false;
  std::vector<std::string> header_;
  std::int64_t invalid_sequences_ = 0;
};

// The column that `wanted` means: the one with this name, or else, if it is a number, the one of
// this number, from 1. `columns`: a header, or the first record of a file without one, whose
// columns have numbers only. `option`: whose value `wanted` is, for messages.
// Code::User, with the columns there are, if there is no such column or the name is there twice.
struct ColumnChoice {
  std::string_view option;
  std::string_view wanted;
  bool header = true;
};
[[nodiscard]] std::size_t column_index(const std::vector<std::string>& columns,
                                       const ColumnChoice& choice, const std::string& file);

// "'a', 'b' and 3 more", for messages; long names are cut.
[[nodiscard]] std::string listed(const std::vector<std::string>& names);

}  // namespace regatta::trainer::data
