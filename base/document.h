// Reading YAML or JSON (one schema, either spelling) into plain structs, with errors that name
// file, line and path. yaml-cpp stays behind this header.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::base {

// What other programs call one of our keys.
struct OtherName {
  std::string_view name;  // in lower case, without "_" and "-"
  std::string_view key;   // ours, with the mappings that it is in: "batch.size"
};

// What a reader asks a mapping for: a key, and what its value may be. A schema of what it takes can
// be made of these.
struct AskedKey {
  enum class Form { Flag, Whole, Number, Text, Texts, Choice, Mapping, Mappings };
  std::string name{};
  Form form = Form::Text;
  std::vector<std::string> choices{};
  std::string absent{};  // its value where it is absent, as JSON; empty: it has none
  std::optional<double> low{}, high{};
  bool low_is_out = false, high_is_out = false;
  std::list<AskedKey> below{};  // of a mapping, or of each in a list of mappings
};

// One mapping of a document. Every key must be read before finish(); a key that nobody read is an
// error with "did you mean". All errors are Code::User: "run.yaml:12: model.hiden: unknown key; …",
// with Error::key() "model.hiden".
class Table {
 public:
  // Parses `text`; `source` is the name in messages. The root must be a mapping; depth, size (1
  // MiB) and duplicate keys are checked. `other_names` are suggested for unknown keys, here and in
  // the mappings below; they live as long as the table. asked: gets what this table and those below
  // are asked for, in the order of the first time.
  [[nodiscard]] static Table parse(std::string_view text, const std::string& source);
  [[nodiscard]] static Table parse(std::string_view text, const std::string& source,
                                   std::span<const OtherName> other_names,
                                   std::list<AskedKey>* asked = nullptr);
  // The same for a text that is a list of mappings at the top; paths in messages start with [0].
  [[nodiscard]] static std::vector<Table> parse_list(std::string_view text,
                                                     const std::string& source);

  Table(Table&&) noexcept;
  Table& operator=(Table&&) noexcept;
  ~Table();

  [[nodiscard]] bool has(const std::string& key) const;
  [[nodiscard]] std::vector<std::string> keys() const;

  // Each leaves *value as it is when the key is absent.
  void read(const std::string& key, bool* value);
  void read(const std::string& key, int* value);
  void read(const std::string& key, std::int64_t* value);
  void read(const std::string& key, std::uint64_t* value);
  void read(const std::string& key, double* value);
  void read(const std::string& key, std::string* value);
  void read(const std::string& key, std::optional<double>* value);
  void read(const std::string& key, std::vector<std::string>* value);
  // One of `names`; *value becomes its index.
  void read_choice(const std::string& key, const std::vector<std::string>& names, int* value);
  template <typename Enum>
  void read_enum(const std::string& key, const std::vector<std::string>& names, Enum* value) {
    int index = static_cast<int>(*value);
    read_choice(key, names, &index);
    *value = static_cast<Enum>(index);
  }
  // For whoever is told what was asked: the value of `key`, which was read, lies between these.
  void note_range(const std::string& key, double low, double high, bool low_is_out,
                  bool high_is_out);
  // The mapping under `key`; an empty one when absent.
  [[nodiscard]] Table table(const std::string& key);
  [[nodiscard]] bool is_table(const std::string& key) const;
  // The mappings of the list under `key`; none when absent.
  [[nodiscard]] std::vector<Table> tables(const std::string& key);
  [[nodiscard]] bool is_list(const std::string& key) const;
  // The line of `key`, or of this mapping if the key is absent; 0 if the mapping is absent, too.
  [[nodiscard]] int line(const std::string& key) const;

  // Throws if some key was never asked for.
  void finish() const;
  // Throws Code::User, pointing at `key` (or at this mapping when the key is absent).
  [[noreturn]] void fail(const std::string& key, const std::string& message) const;

 private:
  struct State;
  explicit Table(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace regatta::base
