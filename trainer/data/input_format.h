// What an input is: by the ending of its name and by its first bytes.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_system.h"

namespace regatta::trainer::data {

enum class InputFormat { Text, JsonLines, Csv, Tsv };
inline constexpr std::array<const char*, 4> kInputFormats = {"text", "jsonl", "csv", "tsv"};
// By these names; nothing for any other.
[[nodiscard]] std::optional<InputFormat> input_format_named(std::string_view name);

// The format that the ending of `path` stands for, behind .gz or .zst: .jsonl, .ndjson and .json
// (of which check_content() says whether it is), .csv, .tsv; any other and none is text.
// Code::User, naming the file and what to do, for endings of what is no text: HTML, PDF, archives,
// Office files, Parquet.
[[nodiscard]] InputFormat format_of(const base::Path& path);

// Whether the text that begins with `head` (decompressed, at most TextSource::kHeadBytes) can be
// read as `format`. Code::User, naming `name`, where it begins as an archive, PDF, Office file or
// Parquet does; and, unless `is_asked` (the user gave the format), as HTML does, or where a file
// .json begins with anything but '{', or one .jsonl or .ndjson with '['.
void check_content(const std::string& name, const base::Path& path, std::string_view head,
                   bool is_asked);

}  // namespace regatta::trainer::data
