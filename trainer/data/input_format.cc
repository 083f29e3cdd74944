#include "trainer/data/input_format.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"

namespace regatta::trainer::data {
namespace {

// What is refused, and what to do instead.
struct Refusal {
  std::string_view what;
  std::string_view instead;
};
constexpr Refusal kHtml = {"HTML",
                           "extract its text (pandoc -t plain), or read the markup as it is with "
                           "--format text"};
constexpr Refusal kPdf = {"a PDF", "extract its text (pdftotext)"};
constexpr Refusal kArchive = {"an archive", "unpack it and name the directory"};
constexpr Refusal kOffice = {"an Office file", "save it as plain text"};
constexpr Refusal kParquet = {"Parquet, and this program is built without Arrow",
                              "convert it to JSON Lines (pandas: read_parquet, then to_json with "
                              "orient='records', lines=True)"};
constexpr Refusal kPacked = {"compressed in a way that is not read",
                             "decompress it, or compress it with gzip or zstd"};
constexpr Refusal kList = {"JSON, but not JSON Lines",
                           "write one object a line (jq -c '.[]' for a list), or give --format"};

struct Ending {
  std::string_view ending;
  const Refusal& refusal;
};
constexpr Ending kEndings[] = {
    {".html", kHtml},     {".htm", kHtml},        {".xhtml", kHtml},  {".pdf", kPdf},
    {".zip", kArchive},   {".tar", kArchive},     {".tgz", kArchive}, {".7z", kArchive},
    {".rar", kArchive},   {".doc", kOffice},      {".docx", kOffice}, {".xls", kOffice},
    {".xlsx", kOffice},   {".ppt", kOffice},      {".pptx", kOffice}, {".odt", kOffice},
    {".ods", kOffice},    {".odp", kOffice},      {".rtf", kOffice},  {".parquet", kParquet},
    {".arrow", kParquet}, {".feather", kParquet}, {".bz2", kPacked},  {".xz", kPacked},
};

struct Mark {
  std::size_t at;
  std::string_view bytes;
  const Refusal& refusal;
};
constexpr Mark kMarks[] = {
    {0, "%PDF-", kPdf},
    {0, "PK\x03\x04", kArchive},
    {0, "PK\x05\x06", kArchive},
    {0, "7z\xBC\xAF\x27\x1C", kArchive},
    {0, "Rar!\x1A\x07", kArchive},
    {257, "ustar", kArchive},
    {0, "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", kOffice},
    {0, "{\\rtf", kOffice},
    {0, "BZh91AY&SY", kPacked},
    {0,
     "\xFD"
     "7zXZ",
     kPacked},
};
// Words that a text may begin with, too: they count before bytes that no text has.
constexpr std::string_view kColumnMarks[] = {"PAR1", "ARROW1"};

[[noreturn]] void refuse(const std::string& name, const Refusal& refusal) {
  throw base::Error(base::Code::User, base::printable(name) + " is " + std::string(refusal.what) +
                                          "; " + std::string(refusal.instead));
}

// In lower case, behind .gz, .gzip, .zst and .zstd: ".jsonl".
[[nodiscard]] std::string ending_of(const base::Path& path) {
  base::Path name = path.filename();
  for (const char* packed : {".gz", ".gzip", ".zst", ".zstd"}) {
    if (base::lower_case(name.extension().string()) == packed) {
      name = name.stem();
      break;
    }
  }
  return base::lower_case(name.extension().string());
}

[[nodiscard]] const Ending* refused_ending(const std::string& ending) {
  const auto* const found = std::find_if(std::begin(kEndings), std::end(kEndings),
                                         [&](const Ending& each) { return each.ending == ending; });
  return found == std::end(kEndings) ? nullptr : found;
}

[[nodiscard]] bool has_bytes_of_no_text(std::string_view head) {
  return std::any_of(head.begin(), head.end(), [](char c) { return c >= 0 && c < '\t'; });
}

[[nodiscard]] bool begins_as_html(std::string_view head) {
  const std::string text = base::lower_case(head.substr(0, 16));
  return text.starts_with("<!doctype html") || text.starts_with("<html>") ||
         text.starts_with("<html ");
}

}  // namespace

std::optional<InputFormat> input_format_named(std::string_view name) {
  const auto* const found = std::find(kInputFormats.begin(), kInputFormats.end(), name);
  if (found == kInputFormats.end()) return std::nullopt;
  return static_cast<InputFormat>(found - kInputFormats.begin());
}

InputFormat format_of(const base::Path& path) {
  const std::string ending = ending_of(path);
  if (const Ending* const refused = refused_ending(ending)) refuse(path.string(), refused->refusal);
  if (ending == ".jsonl" || ending == ".ndjson" || ending == ".json") return InputFormat::JsonLines;
  if (ending == ".csv") return InputFormat::Csv;
  if (ending == ".tsv") return InputFormat::Tsv;
  return InputFormat::Text;
}

void check_content(const std::string& name, const base::Path& path, std::string_view head,
                   bool is_asked) {
  const std::string ending = ending_of(path);
  for (const Mark& mark : kMarks) {
    if (head.size() < mark.at || !head.substr(mark.at).starts_with(mark.bytes)) continue;
    const Ending* const named = refused_ending(ending);  // .docx is a ZIP archive, too
    refuse(name, named != nullptr ? named->refusal : mark.refusal);
  }
  for (const std::string_view mark : kColumnMarks) {
    if (head.starts_with(mark) && has_bytes_of_no_text(head)) refuse(name, kParquet);
  }
  if (is_asked) return;
  const std::string_view text = base::trimmed(head, " \t\r\n\f\v");
  if (begins_as_html(text)) refuse(name, kHtml);
  if (text.empty() || text.front() == '{') return;
  // What has lines in its name may begin with a broken one, but not with a list of all.
  const bool has_lines = ending == ".jsonl" || ending == ".ndjson";
  if (ending == ".json" || (has_lines && text.front() == '[')) refuse(name, kList);
}

}  // namespace regatta::trainer::data
