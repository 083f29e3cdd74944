#include "trainer/tasks/example_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "trainer/data/delimited_text.h"
#include "trainer/data/text_source.h"
#include "trainer/data/unicode.h"

namespace regatta::trainer::tasks {
namespace {

using ExampleJson = nlohmann::ordered_json;

constexpr std::size_t kExamplePiece = std::size_t{1} << 20U;         // bytes read at once
constexpr std::size_t kLongestExampleLine = std::size_t{16} << 20U;  // of JSON, bytes
constexpr std::uint64_t kMostExampleText = std::uint64_t{8} << 30U;  // bytes of all texts
constexpr int kExampleDepth = 16;
constexpr std::string_view kWhiteSpace = " \t\r\n\f\v";

// In lower case.
constexpr std::array<std::array<std::string_view, 2>, 6> kKnownPairs = {
    {{"sentence1", "sentence2"},
     {"premise", "hypothesis"},
     {"question1", "question2"},
     {"question", "sentence"},
     {"question", "passage"},
     {"#1 string", "#2 string"}}};
constexpr std::array<std::string_view, 3> kKnownTexts = {"sentence", "text", "question"};
constexpr std::array<std::string_view, 5> kKnownLabels = {"label", "gold_label", "score",
                                                          "is_duplicate", "quality"};

[[noreturn]] void fail_example(const std::string& place, const std::string& what) {
  throw base::Error(base::Code::User, place + ": " + what);
}

// Short enough for a message.
[[nodiscard]] std::string in_quotes(const std::string& text) { return data::listed({text}); }

[[nodiscard]] ExampleFormat format_of(const base::Path& path, const ExampleOptions& options) {
  if (options.format != ExampleFormat::Automatic) return options.format;
  std::string name = base::lower_case(path.filename().string());
  for (const std::string_view end : {".gz", ".zst", ".zstd"}) {
    if (name.ends_with(end)) {
      name.resize(name.size() - end.size());
      break;
    }
  }
  if (name.ends_with(".tsv")) return ExampleFormat::Tsv;
  if (name.ends_with(".csv")) return ExampleFormat::Csv;
  if (name.ends_with(".jsonl") || name.ends_with(".ndjson")) return ExampleFormat::JsonLines;
  fail_example(path == "-" ? "standard input" : path.string(),
               "its name does not say what it is; set format to tsv, csv or jsonl, or let the name"
               " end so");
}

// Indices into the columns.
struct ExampleColumns {
  std::size_t text = 0;
  std::optional<std::size_t> second;
  std::optional<std::size_t> label;
};

// Finds those of a header by their known names.
class KnownColumns {
 public:
  KnownColumns(const std::vector<std::string>& columns, const std::string& file)
      : columns_(columns), file_(file) {}

  void find_texts(ExampleColumns& found) const {
    std::vector<std::pair<std::size_t, std::optional<std::size_t>>> ways;
    for (const auto& [first, second] : kKnownPairs) {
      const auto a = find(first);
      const auto b = find(second);
      if (a && b) ways.emplace_back(*a, b);
    }
    const std::size_t pairs = ways.size();
    for (const std::string_view name : kKnownTexts) {
      const auto text = find(name);
      const bool in_pair = std::any_of(
          ways.begin(), ways.begin() + static_cast<long>(pairs), [text](const auto& pair) {
            return text && (pair.first == *text || pair.second == text);
          });
      if (text && !in_pair) ways.emplace_back(*text, std::nullopt);
    }
    if (ways.size() != 1) {
      fail("which columns are the texts? Set text_column, and second_text_column for pairs");
    }
    std::tie(found.text, found.second) = ways[0];
  }

  void find_label(ExampleColumns& found) const {
    for (const std::string_view name : kKnownLabels) {
      const auto label = find(name);
      if (!label) continue;
      if (found.label) fail("which column is the label? Set label_column");
      found.label = label;
    }
  }
  void need_label(const ExampleColumns& found) const {
    if (!found.label) fail("which column is the label? Set label_column");
  }

 private:
  // Nothing as well if two columns are called so.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view known) const {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (base::lower_case(base::trimmed(columns_[i])) != known) continue;
      if (found) return std::nullopt;
      found = i;
    }
    return found;
  }
  [[noreturn]] void fail(const std::string& what) const {
    fail_example(file_, what + " (columns: " + data::listed(columns_) + ")");
  }

  const std::vector<std::string>& columns_;
  const std::string& file_;
};

// `index`: from the value of an option to the column.
template <typename Index>
ExampleColumns columns_of(const std::vector<std::string>& columns, const std::string& file,
                          const ExampleOptions& options, const Index& index) {
  const bool optional = options.labels_if_there && options.label_column.empty();
  const bool labelled = options.kind != ExampleLabels::Absent && (options.header || !optional);
  if (!options.header &&
      (options.text_column.empty() || (labelled && options.label_column.empty()))) {
    fail_example(
        file, std::string("without a header, set text_column") +
                  (labelled ? " and label_column" : "") +
                  " to numbers of columns, from 1 (first record: " + data::listed(columns) + ")");
  }
  const KnownColumns known(columns, file);
  ExampleColumns found;
  if (options.text_column.empty()) {
    known.find_texts(found);
  } else {
    found.text = index("text_column", options.text_column);
    if (!options.second_text_column.empty()) {
      found.second = index("second_text_column", options.second_text_column);
    }
  }
  if (labelled && options.label_column.empty()) {
    known.find_label(found);
    if (!optional) known.need_label(found);
  } else if (labelled) {
    found.label = index("label_column", options.label_column);
  }
  if (found.second == found.text || found.label == found.text ||
      (found.label && found.label == found.second)) {
    fail_example(file, "text_column, second_text_column and label_column are not all different");
  }
  return found;
}

// Checks examples one by one, and numbers their classes.
class ExampleCollector {
 public:
  ExampleCollector(std::string file, const ExampleOptions& options)
      : file_(std::move(file)), options_(options) {
    for (const std::string& label : options.labels) {
      const std::string name(base::trimmed(label, kWhiteSpace));
      if (name.empty()) fail_example("labels", "one is empty; give each class a name");
      if (!indices_.emplace(name, indices_.size()).second) {
        fail_example("labels", in_quotes(name) + " is there twice");
      }
      set_.labels.push_back(name);
    }
    if (options.labels.empty()) return;
    if (options.kind == ExampleLabels::Numbers) {
      fail_example("labels", "numbers have no list of labels; remove it or unset regression");
    }
    if (options.labels.size() < 2 || options.labels.size() > kMostClasses) {
      fail_example("labels", "there are " + std::to_string(options.labels.size()) +
                                 "; classification has 2 to 1,024");
    }
  }

  [[nodiscard]] std::string place(std::int64_t line) const {
    return file_ + ":" + std::to_string(line);
  }

  // `column`: its name, for messages.
  void add_text(std::int64_t line, const std::string& column, std::string text, bool second) {
    if (base::trimmed(text, kWhiteSpace).empty()) {
      fail_example(place(line), "the text in " + column + " is empty; fix or remove the example");
    }
    text_bytes_ += text.size();
    if (text_bytes_ > kMostExampleText) {
      fail_example(place(line), "more than 8 GiB of text; fine-tune on a part");
    }
    (second ? set_.second_texts : set_.texts).push_back(std::move(text));
  }

  void add_label(std::int64_t line, const std::string& column, std::string_view label) {
    const std::string name(base::trimmed(label, kWhiteSpace));
    if (name.empty()) {
      fail_example(place(line), "the label in " + column + " is empty; fix or remove the example");
    }
    if (options_.kind == ExampleLabels::Numbers) {
      const std::optional<double> value = base::parse_number(name);
      if (!value || !std::isfinite(static_cast<float>(*value))) {
        fail_example(place(line), "the label in " + column + " is " + in_quotes(name) +
                                      ", which is no finite number; fix it, or unset regression");
      }
      set_.values.push_back(*value);
      return;
    }
    auto found = indices_.find(name);
    if (found == indices_.end()) {
      if (!options_.labels.empty()) {
        fail_example(place(line), "the label in " + column + " is " + in_quotes(name) +
                                      ", which is none of the known " + data::listed(set_.labels) +
                                      "; fix it, or train with it");
      }
      if (indices_.size() == kMostClasses) {
        fail_example(place(line), "more than 1,024 different labels in " + column + ", which " +
                                      (all_numbers() ? "looks like numbers; set regression"
                                                     : "looks like text; set label_column"));
      }
      found = indices_.emplace(name, indices_.size()).first;
      set_.labels.push_back(name);
    }
    set_.classes.push_back(static_cast<std::int32_t>(found->second));
  }

  [[nodiscard]] ExampleSet finish(std::int64_t invalid_sequences) {
    if (set_.texts.empty()) fail_example(file_, "it has no examples");
    set_.invalid_sequences = invalid_sequences;
    if (options_.kind == ExampleLabels::Classes && options_.labels.empty()) sort_labels();
    return std::move(set_);
  }

 private:
  [[nodiscard]] bool all_numbers() const {
    return std::all_of(set_.labels.begin(), set_.labels.end(), [](const std::string& label) {
      const std::optional<double> value = base::parse_number(label);
      return value && std::isfinite(*value);
    });
  }

  // Until now in the order of their first examples.
  void sort_labels() {
    std::vector<std::string>& labels = set_.labels;
    if (labels.size() < 2) {
      fail_example(file_,
                   "every label is " + in_quotes(labels[0]) + "; classification needs two classes");
    }
    std::vector<std::size_t> order(labels.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return labels[a] < labels[b]; });
    if (all_numbers()) {
      const auto value = [&](std::size_t i) { return base::parse_number(labels[i]).value_or(0); };
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return value(a) < value(b); });
      for (std::size_t i = 1; i < order.size(); ++i) {
        if (value(order[i - 1]) != value(order[i])) continue;
        fail_example(file_, "the labels " + data::listed({labels[order[i - 1]], labels[order[i]]}) +
                                " are the same number; write it the same way everywhere");
      }
    }
    std::vector<std::int32_t> now(labels.size());
    std::vector<std::string> sorted;
    for (const std::size_t before : order) {
      now[before] = static_cast<std::int32_t>(sorted.size());
      sorted.push_back(std::move(labels[before]));
    }
    labels = std::move(sorted);
    for (std::int32_t& each : set_.classes) each = now[static_cast<std::size_t>(each)];
  }

  std::string file_;
  const ExampleOptions& options_;
  ExampleSet set_;
  std::map<std::string, std::size_t, std::less<>> indices_;
  std::uint64_t text_bytes_ = 0;
};

class TableReading {
 public:
  TableReading(data::TextSource& source, const ExampleOptions& options, char separator, bool quotes)
      : source_(source),
        options_(options),
        reader_(source.name(), {separator, quotes, options.header}),
        examples_(source.name(), options) {}

  [[nodiscard]] ExampleSet read() {
    data::DelimitedRecord record;
    std::string piece;
    do {
      piece.clear();
      source_.read(kExamplePiece, piece);
      if (piece.empty()) {
        reader_.finish();
      } else {
        reader_.push(piece);
      }
      while (reader_.next(record)) {
        if (!columns_) find_columns(options_.header ? reader_.header() : record.fields);
        add(record);
      }
    } while (!piece.empty());
    if (!columns_ && !reader_.header().empty()) find_columns(reader_.header());
    return examples_.finish(reader_.invalid_sequences());
  }

 private:
  void find_columns(const std::vector<std::string>& columns) {
    const auto index = [&](std::string_view option, const std::string& wanted) {
      return data::column_index(columns, {option, wanted, options_.header}, source_.name());
    };
    columns_ = columns_of(columns, source_.name(), options_, index);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      names_.push_back("column " +
                       (options_.header ? in_quotes(columns[i]) : std::to_string(i + 1)));
    }
  }

  void add(data::DelimitedRecord& record) {
    const auto text = [&](std::size_t column, bool second) {
      examples_.add_text(record.line, names_[column], std::move(record.fields[column]), second);
    };
    text(columns_->text, false);
    if (columns_->second) text(*columns_->second, true);
    if (columns_->label) {
      examples_.add_label(record.line, names_[*columns_->label], record.fields[*columns_->label]);
    }
  }

  data::TextSource& source_;
  const ExampleOptions& options_;
  data::DelimitedReader reader_;
  ExampleCollector examples_;
  std::optional<ExampleColumns> columns_;
  std::vector<std::string> names_;  // of the columns, for messages
};

class JsonLinesReading {
 public:
  JsonLinesReading(data::TextSource& source, const ExampleOptions& options)
      : source_(source), options_(options), examples_(source.name(), options) {}

  [[nodiscard]] ExampleSet read() {
    std::string text;
    for (bool over = false; !over;) {
      const std::size_t searched = text.size();
      source_.read(kExamplePiece, text);
      over = text.size() == searched;
      std::size_t begin = 0;
      for (std::size_t end = text.find('\n', searched); end != std::string::npos;
           end = text.find('\n', begin)) {
        add(std::string_view(text).substr(begin, end - begin));
        begin = end + 1;
      }
      text.erase(0, begin);
      if (over || text.size() > kLongestExampleLine) add(text);
    }
    return examples_.finish(invalid_sequences_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    fail_example(examples_.place(line_), what);
  }

  void add(std::string_view text) {
    ++line_;
    if (text.size() > kLongestExampleLine) fail("a line of over 16 MiB; cut it");
    std::string line;
    invalid_sequences_ += data::unicode::append_valid_utf8(text, line);
    const std::size_t begin = line.find_first_not_of(kWhiteSpace);
    if (begin == std::string::npos) return;
    if (line[begin] != '{') fail("not a JSON object; each line is one");
    if (!base::json_depth_at_most(line, kExampleDepth)) {
      fail("its JSON nests deeper than " + std::to_string(kExampleDepth) + " levels");
    }
    const ExampleJson object = parse(line);
    if (text_.empty()) find_fields(object);
    examples_.add_text(line_, named(text_), text_of(object, text_), false);
    if (!second_.empty()) {
      examples_.add_text(line_, named(second_), text_of(object, second_), true);
    }
    if (!label_.empty()) examples_.add_label(line_, named(label_), label_of(object));
  }

  [[nodiscard]] ExampleJson parse(const std::string& line) const {
    try {
      return ExampleJson::parse(line);
    } catch (const nlohmann::json::parse_error& error) {
      // `byte`: from 1, the last one that was read; behind the text, where that is incomplete.
      const std::size_t before = std::clamp<std::size_t>(error.byte, 1, line.size() + 1) - 1;
      const auto column = 1 + std::count_if(line.begin(), line.begin() + static_cast<long>(before),
                                            [](char c) { return (c & 0xC0) != 0x80; });
      fail_example(examples_.place(line_) + ":" + std::to_string(column),
                   before == line.size() ? "its JSON ends too early; fix the line"
                                         : "broken JSON; fix the line");
    } catch (const nlohmann::json::exception&) {
      fail("a number in its JSON is out of range; fix the line");
    }
  }

  void find_fields(const ExampleJson& object) {
    std::vector<std::string> keys;
    for (const auto& item : object.items()) keys.push_back(item.key());
    ExampleOptions options = options_;
    options.header = true;
    // What is named is looked for in every object.
    const auto index = [&](std::string_view, const std::string& wanted) {
      const auto found = std::find(keys.begin(), keys.end(), wanted);
      if (found == keys.end()) (void)field(object, wanted);
      return static_cast<std::size_t>(found - keys.begin());
    };
    const ExampleColumns columns = columns_of(keys, examples_.place(line_), options, index);
    text_ = keys[columns.text];
    if (columns.second) second_ = keys[*columns.second];
    if (columns.label) label_ = keys[*columns.label];
  }

  [[nodiscard]] static std::string named(const std::string& key) {
    return "field " + in_quotes(key);
  }

  [[nodiscard]] const ExampleJson& field(const ExampleJson& object, const std::string& key) const {
    const auto found = object.find(key);
    if (found != object.end()) return *found;
    std::vector<std::string> keys;
    for (const auto& item : object.items()) keys.push_back(item.key());
    fail("there is no " + named(key) + "; fields: " + (keys.empty() ? "none" : data::listed(keys)));
  }

  [[nodiscard]] std::string text_of(const ExampleJson& object, const std::string& key) const {
    const ExampleJson& value = field(object, key);
    if (!value.is_string()) {
      fail(named(key) + " is not text but " + std::string(value.type_name()) +
           "; put it in quotes");
    }
    const auto& text = value.get_ref<const std::string&>();
    if (text.find('\0') != std::string::npos) {
      fail(named(key) + " has a NUL character, which no text has; remove it");
    }
    return text;
  }

  [[nodiscard]] std::string label_of(const ExampleJson& object) const {
    const ExampleJson& value = field(object, label_);
    if (value.is_number() || value.is_boolean()) return base::json_text(value);
    if (value.is_string()) return text_of(object, label_);
    fail(named(label_) + " is neither text nor a number but " + std::string(value.type_name()));
  }

  data::TextSource& source_;
  const ExampleOptions& options_;
  ExampleCollector examples_;
  std::string text_;  // keys; empty: not found yet
  std::string second_;
  std::string label_;
  std::int64_t line_ = 0;
  std::int64_t invalid_sequences_ = 0;
};

}  // namespace

ExampleSet read_examples(const base::Path& path, int standard_input,
                         const ExampleOptions& options) {
  if (options.text_column.empty() && !options.second_text_column.empty()) {
    fail_example("second_text_column", "set text_column too");
  }
  const ExampleFormat format = format_of(path, options);
  data::TextSource source(path, standard_input);
  if (format == ExampleFormat::JsonLines) return JsonLinesReading(source, options).read();
  const data::DelimitedForm& form = format == ExampleFormat::Csv ? data::kCsv : data::kTsv;
  return TableReading(source, options, form.separator, form.quotes).read();
}

}  // namespace regatta::trainer::tasks
