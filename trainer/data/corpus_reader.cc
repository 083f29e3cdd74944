#include "trainer/data/corpus_reader.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "trainer/data/json_lines.h"

namespace regatta::trainer::data {
namespace {

using base::Code;
using base::Error;
using base::Path;

[[nodiscard]] std::string place_of(const std::string& name, const BrokenRecord& broken,
                                   std::int64_t lines_before) {
  return name + ":" + std::to_string(lines_before + broken.line) + ":" +
         std::to_string(broken.column) + ": " + broken.what;
}

// Texts that are documents, of which no separator is looked for.
void add_documents(const std::vector<std::string>& texts, BlockDocuments& made) {
  for (const std::string& text : texts) {
    std::string document;
    made.invalid_sequences += append_document(text, document);
    if (document.empty()) {
      ++made.empty;
    } else {
      made.documents.push_back(std::move(document));
    }
  }
}

}  // namespace

void CorpusReader::read(const std::vector<Path>& inputs, const Progress& progress) {
  std::vector<InputFormat> formats;  // refused before hours of others are read
  for (const Path& input : inputs) {
    formats.push_back(options_.format ? *options_.format : format_of(input));
  }
  const bool unknown = std::find(inputs.begin(), inputs.end(), "-") != inputs.end();
  const std::uint64_t total = unknown ? 0 : stored_bytes(inputs);
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TextSource source(inputs[i], options_.standard_input);
    check_content(source.name(), inputs[i], source.head(), options_.format.has_value());
    File file{source, formats[i], [&] { progress(done + source.consumed(), total, false); }};
    read_file(source, file);
    done += source.consumed();
  }
  progress(done, total, true);
}

void CorpusReader::read_file(TextSource& source, File& file) {
  if (file.format == InputFormat::Csv || file.format == InputFormat::Tsv) {
    read_rows(source, file);
  } else {
    read_blocks(source, file);
  }
  end(file);
}

// Reads as many blocks as there are threads, cuts each behind a record, and spills them together.
void CorpusReader::read_blocks(TextSource& source, File& file) {
  const bool is_text = file.format == InputFormat::Text;
  std::string text;  // begins at the start of a record
  std::size_t wanted = options_.read_block_bytes;
  std::vector<Block> blocks;
  for (bool over = false; !over;) {
    const std::size_t before = text.size();
    source.read(wanted, text);
    over = text.size() == before;
    const std::size_t cut = over ? text.size() : cut_of(text, file);
    if (cut == 0) {
      wanted = std::max(wanted, text.size());  // doubling: the search stays linear
      if (!is_text) wanted = std::min<std::size_t>(wanted, options_.longest_line + 1 - text.size());
      if (!over) continue;
    }
    wanted = options_.read_block_bytes;
    blocks.emplace_back().text = text.substr(0, cut);
    text.erase(0, cut);
    if (over || static_cast<int>(blocks.size()) == pool_.threads()) {
      spill_blocks(blocks, file);
      file.progress();
    }
  }
}

std::size_t CorpusReader::cut_of(const std::string& text, const File& file) const {
  const bool is_text = file.format == InputFormat::Text;
  const std::size_t cut = is_text ? last_document_break(text) : text.rfind('\n') + 1;
  const std::uint64_t most = is_text ? DocumentSpill::kLongestDocument : options_.longest_line;
  if (cut == 0 && text.size() > most) {
    throw Error(
        Code::User,
        file.source.name() + (is_text ? " has a document above " : " has a line above ") +
            base::human_bytes(most) +
            (is_text ? "; put blank lines between documents" : "; write one object a line"));
  }
  return cut;
}

void CorpusReader::read_rows(TextSource& source, File& file) {
  DelimitedReader reader(source.name(), file.format == InputFormat::Csv ? kCsv : kTsv);
  std::optional<std::size_t> column;
  const auto choose = [&] {
    if (column || reader.header().empty()) return;
    column = column_index(reader.header(), {"--column", options_.column, true}, source.name());
  };
  std::vector<Block> blocks(1);
  std::size_t held = 0;  // bytes of the last block
  std::string piece;
  for (bool over = false; !over;) {
    piece.clear();
    source.read(options_.read_block_bytes, piece);
    over = piece.empty();
    counts_.bytes += piece.size();
    over ? reader.finish() : reader.push(piece);
    for (DelimitedRecord record; reader.next(record);) {
      choose();
      held += record.fields[*column].size() + sizeof(std::string);  // empty ones, too
      blocks.back().texts.push_back(std::move(record.fields[*column]));
      if (held < options_.read_block_bytes) continue;
      held = 0;
      if (static_cast<int>(blocks.size()) == pool_.threads()) spill_blocks(blocks, file);
      blocks.emplace_back();
    }
    choose();
    file.progress();
  }
  spill_blocks(blocks, file);
  counts_.invalid_sequences += reader.invalid_sequences();
}

BlockDocuments CorpusReader::split(const Block& block, InputFormat format) const {
  if (format == InputFormat::JsonLines) return split_json_lines(block.text, options_.field);
  BlockDocuments made;
  if (format == InputFormat::Text) {
    made.invalid_sequences = split_documents(block.text, made.documents, &made.text);
  } else {
    add_documents(block.texts, made);
  }
  return made;
}

void CorpusReader::spill_blocks(std::vector<Block>& blocks, File& file) {
  std::vector<std::int64_t> documents(blocks.size());
  pool_.parallel_for(static_cast<std::int64_t>(blocks.size()), 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t i = begin; i < end; ++i) {
                         Block& block = blocks[static_cast<std::size_t>(i)];
                         block.made = split(block, file.format);
                         for (const std::string& each : block.made.documents) spill_.add(each);
                         documents[static_cast<std::size_t>(i)] =
                             static_cast<std::int64_t>(block.made.documents.size());
                         block.made.documents = {};
                       }
                     });
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    counts_.bytes += blocks[i].text.size();
    file.bytes += blocks[i].text.size();
    file.documents += documents[i];
    add(blocks[i].made, file);
  }
  blocks.clear();
}

// In the order of the file, so that the first broken record is the first of all.
void CorpusReader::add(const BlockDocuments& made, File& file) {
  counts_.invalid_sequences += made.invalid_sequences;
  counts_.empty += made.empty;
  if (made.first_broken && counts_.broken == 0) {
    counts_.first_broken = place_of(file.source.name(), *made.first_broken, file.lines);
    if (options_.strict) throw Error(Code::User, counts_.first_broken);
  }
  counts_.broken += made.broken;
  file.lines += made.lines;
  file.text.lines += made.text.lines;
  file.text.blank += made.text.blank;
  file.text.braced += made.text.braced;
}

void CorpusReader::end(const File& file) {
  ReadShape& shape = counts_.shape;
  if (file.documents > 0) ++shape.files;
  if (file.format != InputFormat::Text || file.documents == 0) return;
  ++shape.text_files;
  shape.text_documents += file.documents;
  shape.text_bytes += file.bytes;
  shape.text.lines += file.text.lines;
  shape.text.blank += file.text.blank;
  shape.text.braced += file.text.braced;
  if (2 * file.text.braced > file.text.lines && shape.json_like_files++ == 0) {
    shape.json_like = file.source.name();
  }
}

}  // namespace regatta::trainer::data
