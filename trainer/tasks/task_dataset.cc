#include "trainer/tasks/task_dataset.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/ascii.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/statistics.h"
#include "base/text.h"
#include "base/wording.h"
#include "trainer/data/dataset_format.h"
#include "trainer/data/dataset_writer.h"
#include "trainer/data/delimited_text.h"
#include "trainer/data/tokenizer.h"
#include "trainer/tasks/question_file.h"

namespace regatta::trainer::tasks {
namespace {

using base::Code;
using base::Error;
using base::Path;
using contract::Task;

constexpr std::uint64_t kLargestTaskManifest = std::uint64_t{16} << 20U;
constexpr std::size_t kCopiedBytes = std::size_t{1} << 20U;  // at once
// Above, text and vocabulary hardly belong together: a vocabulary of the text's own language has
// fewer than 1 %.
constexpr double kMostUnknown = 0.05;
constexpr double kLongShare = 0.95;

// Calls use(bytes) for the whole file, piece by piece.
template <typename Use>
void for_each_piece(base::FileSystem& files, const Path& path, Use use) {
  std::string buffer(kCopiedBytes, '\0');
  std::uint64_t offset = 0;
  for (;;) {
    const auto room = std::as_writable_bytes(std::span(buffer));
    const std::size_t size = files.read_into(path, offset, room);
    if (size == 0) return;
    use(std::span<const std::byte>(room.first(size)));
    offset += size;
  }
}

[[nodiscard]] std::string digest_of_file(base::FileSystem& files, const Path& path) {
  base::Digest digest;
  for_each_piece(files, path, [&](std::span<const std::byte> bytes) { digest.update(bytes); });
  return digest.hex();
}

[[nodiscard]] std::string shown_path(const Path& path) { return base::printable(path.string()); }

// What a name ends with: { "tsv", ".gz" } of "train.TSV.gz".
struct NameEnding {
  std::string format, compression;
};
[[nodiscard]] NameEnding ending_of(const Path& path) {
  std::string name = base::lower_case(path.filename().string());
  NameEnding ending;
  for (const std::string_view compression : {".gz", ".zst", ".zstd"}) {
    if (!name.ends_with(compression)) continue;
    ending.compression = compression;
    name.resize(name.size() - compression.size());
    break;
  }
  const std::size_t dot = name.rfind('.');
  if (dot != std::string::npos) ending.format = name.substr(dot + 1);
  if (ending.format == "ndjson") ending.format = "jsonl";
  return ending;
}

[[nodiscard]] std::string format_name(const TaskPrepareOptions& options, const Path& path) {
  if (options.task == Task::QuestionAnswering) return "json";
  switch (options.examples.format) {
    case ExampleFormat::Tsv:
      return "tsv";
    case ExampleFormat::Csv:
      return "csv";
    case ExampleFormat::JsonLines:
      return "jsonl";
    case ExampleFormat::Automatic:
      break;
  }
  return ending_of(path).format;  // its reader has taken it
}

void check_part_path(const Path& path, Part part) {
  const auto fail = [](const std::string& message) { throw Error(Code::User, message); };
  const std::string name(name_of(part));
  if (path.empty()) fail("no " + name + " file; name a training and an evaluation file");
  if (path == "-") {
    fail("the " + name + " file is '-', and is read more than once; save it, and name the file");
  }
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    fail(shown_path(path) + " is a directory; name one " + name + " file");
  }
}

void check_task_options(const TaskPrepareOptions& options) {
  const auto fail = [](const std::string& message) { throw Error(Code::User, message); };
  if (options.task == Task::Pretraining) {
    fail("pretraining has no dataset of a task; prepare text, or choose another task");
  }
  for (const Part part : kParts) {
    check_part_path(part == Part::Training ? options.training : options.evaluation, part);
  }
  if (options.vocabulary.empty()) fail("no vocabulary; name the vocab.txt of the model");
  if (options.output.empty()) fail("no output; name the dataset directory to make");
  const ExampleOptions& examples = options.examples;
  const bool has_columns = !examples.text_column.empty() || !examples.second_text_column.empty() ||
                           !examples.label_column.empty() || !examples.header ||
                           examples.format != ExampleFormat::Automatic || !examples.labels.empty();
  if (options.task == Task::QuestionAnswering && has_columns) {
    fail(
        "question-answering reads SQuAD files, which have no columns, header, format or labels to"
        " choose; leave them out");
  }
}

// Counts the tokens of texts.
class TextMeasure {
 public:
  explicit TextMeasure(const data::WordPiece& pieces, TaskPartReport& report)
      : tokenizer_(pieces), unknown_(pieces.unknown()), report_(report) {}

  [[nodiscard]] std::int64_t tokens_of(const std::string& text) {
    ids_.clear();
    tokenizer_.tokenize(text, ids_);
    report_.unknown += std::count(ids_.begin(), ids_.end(), unknown_);
    const auto size = static_cast<std::int64_t>(ids_.size());
    report_.tokens += size;
    return size;
  }
  void add_lengths(const char* noun, const std::vector<double>& tokens) {
    report_.lengths.push_back({noun, base::mean(tokens),
                               static_cast<std::int64_t>(base::percentile(tokens, kLongShare)),
                               static_cast<std::int64_t>(base::percentile(tokens, 1))});
  }

 private:
  data::Tokenizer tokenizer_;
  data::TokenId unknown_;
  TaskPartReport& report_;
  std::vector<data::TokenId> ids_;
};

class TaskPreparation {
 public:
  TaskPreparation(const TaskPrepareOptions& options, base::FileSystem& files)
      : options_(options), files_(files) {}
  [[nodiscard]] TaskPrepareReport run();

 private:
  [[nodiscard]] const Path& path_of(Part part) const {
    return part == Part::Training ? options_.training : options_.evaluation;
  }
  [[nodiscard]] TaskPartReport& report_of(Part part) {
    return part == Part::Training ? report_.training : report_.evaluation;
  }
  void warn(const std::string& message) { report_.warnings.push_back(message); }

  void add_part(Part part, const data::WordPiece& pieces, const Path& directory);
  void read_questions(Part part, const data::WordPiece& pieces);
  void read_task_examples(Part part, const data::WordPiece& pieces);
  void count_labels(const ExampleSet& set, TaskPartReport& report) const;
  void copy(Part part, const Path& directory, const std::string& digest);
  void write_manifest(const data::Vocabulary& vocabulary, const Path& directory);
  void find_warnings();
  void warn_of_part(Part part);

  const TaskPrepareOptions& options_;
  base::FileSystem& files_;
  data::PartialDataset unwatched_;
  TaskManifest manifest_;
  TaskPrepareReport report_;
  std::unordered_set<std::string> training_ids_;
  std::int64_t shared_ids_ = 0;  // questions of both parts
  std::string shared_id_;        // the first of them
};

TaskPrepareReport TaskPreparation::run() {
  const auto start = std::chrono::steady_clock::now();
  const data::Vocabulary vocabulary = data::Vocabulary::load(options_.vocabulary, files_);
  manifest_.task = options_.task;
  manifest_.tokenizer.lower_case = options_.lower_case;
  manifest_.header = options_.examples.header;
  manifest_.text_column = options_.examples.text_column;
  manifest_.second_text_column = options_.examples.second_text_column;
  manifest_.label_column = options_.examples.label_column;
  manifest_.labels = options_.examples.labels;
  const data::WordPiece pieces(vocabulary, manifest_.tokenizer);
  const Path normal = options_.output.lexically_normal();
  const Path output = normal.has_filename() ? normal : normal.parent_path();
  data::Staging staging(files_, output, options_.force,
                        options_.partial != nullptr ? *options_.partial : unwatched_,
                        data::DatasetKind::Task);
  for (const Part part : kParts) add_part(part, pieces, staging.path());
  if (report_.training.pairs != report_.evaluation.pairs) {
    const bool has = report_.evaluation.pairs;
    throw Error(Code::User, shown_path(path_of(Part::Evaluation)) + " has " +
                                (has ? "pairs of texts" : "single texts") +
                                ", and the training file " + (has ? "single texts" : "pairs") +
                                "; name the columns of both, or choose another file");
  }
  write_manifest(vocabulary, staging.path());
  staging.publish();

  report_.task = options_.task;
  report_.lower_case = options_.lower_case;
  report_.vocabulary_pieces = vocabulary.size();
  report_.labels = manifest_.labels;
  report_.fingerprint = manifest_.fingerprint;
  find_warnings();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  report_.seconds = taken.count();
  return std::move(report_);
}

// The digest of what was copied is the digest of what was read, or there is no dataset.
void TaskPreparation::add_part(Part part, const data::WordPiece& pieces, const Path& directory) {
  const std::string digest = digest_of_file(files_, path_of(part));
  if (options_.task == Task::QuestionAnswering) {
    read_questions(part, pieces);
  } else {
    read_task_examples(part, pieces);
  }
  copy(part, directory, digest);
}

void TaskPreparation::read_questions(Part part, const data::WordPiece& pieces) {
  const QuestionSet set = read_question_file(path_of(part), QuestionUse::Training, files_);
  TaskPartReport& report = report_of(part);
  report.samples = static_cast<std::int64_t>(set.questions.size());
  report.contexts = static_cast<std::int64_t>(set.contexts.size());
  TextMeasure measure(pieces, report);
  std::vector<double> questions, contexts;
  for (const Question& question : set.questions) {
    if (question.impossible) ++report.impossible;
    questions.push_back(static_cast<double>(measure.tokens_of(question.text)));
    if (part == Part::Training) {
      training_ids_.insert(question.id);
    } else if (training_ids_.contains(question.id)) {
      if (shared_ids_++ == 0) shared_id_ = question.id;
    }
  }
  for (const std::string& context : set.contexts) {
    contexts.push_back(static_cast<double>(measure.tokens_of(context)));
  }
  measure.add_lengths("question", questions);
  measure.add_lengths("context", contexts);
}

void TaskPreparation::read_task_examples(Part part, const data::WordPiece& pieces) {
  ExampleOptions options = manifest_.examples(part);  // its labels are training's, by evaluation
  options.format = options_.examples.format;
  const ExampleSet set = read_examples(path_of(part), -1, options);
  if (options_.task == Task::Classification) manifest_.labels = set.labels;
  TaskPartReport& report = report_of(part);
  report.samples = static_cast<std::int64_t>(set.texts.size());
  report.pairs = !set.second_texts.empty();
  report.invalid_sequences = set.invalid_sequences;
  TextMeasure measure(pieces, report);
  std::vector<double> examples;
  for (std::size_t i = 0; i < set.texts.size(); ++i) {
    std::int64_t tokens = measure.tokens_of(set.texts[i]) + 2;  // [CLS] and [SEP]
    if (report.pairs) tokens += measure.tokens_of(set.second_texts[i]) + 1;
    examples.push_back(static_cast<double>(tokens));
  }
  measure.add_lengths("example", examples);
  count_labels(set, report);
}

void TaskPreparation::count_labels(const ExampleSet& set, TaskPartReport& report) const {
  if (options_.task == Task::Regression) {
    const auto [least, most] = std::minmax_element(set.values.begin(), set.values.end());
    report.least = *least;
    report.most = *most;
    report.mean = base::mean(set.values);
    return;
  }
  report.examples_by_label.assign(set.labels.size(), 0);
  for (const std::int32_t label : set.classes) {
    ++report.examples_by_label[static_cast<std::size_t>(label)];
  }
}

void TaskPreparation::copy(Part part, const Path& directory, const std::string& digest) {
  const Path& from = path_of(part);
  TaskManifest::File& file = manifest_.parts[index_of(part)];
  file.format = format_name(options_, from);
  file.name = std::string(name_of(part)) + "." + file.format;
  if (options_.task != Task::QuestionAnswering) file.name += ending_of(from).compression;
  data::DigestedFile copied(files_, directory, file.name);
  for_each_piece(files_, from, [&](std::span<const std::byte> bytes) { copied.append(bytes); });
  const data::FileManifest made = copied.finish();
  if (made.digest != digest) {
    throw Error(Code::Conflict, shown_path(from) +
                                    " changed while it was read; prepare again when"
                                    " nobody writes to it");
  }
  file.bytes = made.bytes;
  file.digest = made.digest;
  file.samples = report_of(part).samples;
}

void TaskPreparation::write_manifest(const data::Vocabulary& vocabulary, const Path& directory) {
  const std::string text = vocabulary.text();
  data::DigestedFile file(files_, directory, data::kVocabularyName);
  file.append(std::as_bytes(std::span(text)));
  manifest_.vocabulary_digest = file.finish().digest;
  manifest_.vocabulary_size = vocabulary.size();
  manifest_.fingerprint = fingerprint_of(manifest_);
  base::replace_file(files_, directory / data::kTaskManifestName, to_json(manifest_));
}

void TaskPreparation::find_warnings() {
  const TaskManifest::File& training = manifest_.file(Part::Training);
  const TaskManifest::File& evaluation = manifest_.file(Part::Evaluation);
  if (training.digest == evaluation.digest) {
    warn(
        "training and evaluation are the same file: scores will not tell how the model does on "
        "new text; evaluate on another file");
  } else if (shared_ids_ > 0) {
    warn(base::plural(shared_ids_, "question") + " of " + std::to_string(evaluation.samples) +
         " in evaluation " + (shared_ids_ == 1 ? "has an id" : "have ids") +
         " of training, the first '" + base::printable(shared_id_) +
         "': if they are the same, scores will be too good; remove them from one of the files");
  }
  if (report_.training.impossible == 0 && report_.evaluation.impossible > 0) {
    warn("evaluation has " + base::plural(report_.evaluation.impossible, "question") +
         " without an answer, and training none: the model will answer them all; train on a file "
         "of SQuAD 2.0");
  }
  for (const Part part : kParts) warn_of_part(part);
}

void TaskPreparation::warn_of_part(Part part) {
  const TaskPartReport& report = report_of(part);
  const std::string name(name_of(part));
  std::vector<std::string> absent;
  for (std::size_t i = 0; i < report.examples_by_label.size(); ++i) {
    if (report.examples_by_label[i] == 0) absent.push_back(manifest_.labels[i]);
  }
  if (!absent.empty()) {
    warn(name + " has no example of " + (absent.size() == 1 ? "label " : "labels ") +
         data::listed(absent) + "; it should have some of every label");
  }
  if (report.unknown_share() > kMostUnknown) {
    warn(base::percent(report.unknown_share()) + " of the pieces of " + name +
         " are unknown ([UNK]): the vocabulary does not fit the text; use the vocabulary of the "
         "model, and a model of the text's language" +
         (options_.lower_case ? "" : " and case"));
  }
}

[[noreturn]] void throw_damaged_task(const Path& directory, const std::string& what) {
  throw Error(Code::User,
              "dataset " + shown_path(directory) + " is damaged: " + what + "; prepare it again");
}

[[nodiscard]] TaskManifest load_task_manifest(const Path& directory, base::FileSystem& files) {
  std::error_code unknown;
  if (std::filesystem::exists(directory, unknown) &&
      !std::filesystem::is_directory(directory, unknown)) {
    throw Error(Code::User, shown_path(directory) +
                                " is a file, and a dataset is a folder; make one with "
                                "regatta-train prepare --task, and name that");
  }
  std::string text;
  try {
    text = files.read(directory / data::kTaskManifestName, kLargestTaskManifest);
  } catch (const Error& error) {
    if (error.code() != Code::NotFound) throw;
    throw Error(Code::NotFound, shown_path(directory) + " is not a dataset of a task (no " +
                                    data::kTaskManifestName +
                                    "); make one with regatta-train prepare --task");
  }
  try {
    return parse_task_manifest(text);
  } catch (const Error& error) {
    throw_damaged_task(directory, std::string(data::kTaskManifestName) + ": " + error.what());
  }
}

void check_task_file(const Path& directory, const TaskManifest::File& file,
                     base::FileSystem& files) {
  try {
    const std::uint64_t bytes = files.size(directory / file.name);
    if (bytes != static_cast<std::uint64_t>(file.bytes)) {
      throw_damaged_task(directory, file.name + " has " + std::to_string(bytes) +
                                        " bytes instead of " + std::to_string(file.bytes));
    }
    if (digest_of_file(files, directory / file.name) != file.digest) {
      throw_damaged_task(directory, file.name + " has changed");
    }
  } catch (const Error& error) {
    if (error.code() != Code::NotFound) throw;
    throw_damaged_task(directory, file.name + " is missing");
  }
}

// Its digest is of the bytes; a text that differs but reads the same has changed, too.
[[nodiscard]] data::Vocabulary load_task_vocabulary(const Path& directory,
                                                    const TaskManifest& manifest,
                                                    base::FileSystem& files) {
  const Path path = directory / data::kVocabularyName;
  try {
    if (digest_of_file(files, path) == manifest.vocabulary_digest) {
      return data::Vocabulary::load(path, files);
    }
  } catch (const Error& error) {
    if (error.code() != Code::NotFound) throw;
    throw_damaged_task(directory, std::string(data::kVocabularyName) + " is missing");
  }
  throw_damaged_task(directory, std::string(data::kVocabularyName) + " has changed");
}

}  // namespace

TaskPrepareReport prepare_task(const TaskPrepareOptions& options, base::FileSystem& files) {
  check_task_options(options);
  return TaskPreparation(options, files).run();
}

TaskDataset::TaskDataset(Path directory, TaskManifest manifest, data::Vocabulary vocabulary,
                         base::FileSystem& files)
    : directory_(std::move(directory)),
      manifest_(std::move(manifest)),
      vocabulary_(std::move(vocabulary)),
      files_(&files) {}

bool TaskDataset::is_there(const Path& directory, base::FileSystem& files) {
  return files.exists(directory / data::kTaskManifestName);
}

TaskDataset TaskDataset::open(const Path& directory, base::FileSystem& files) {
  TaskManifest manifest = load_task_manifest(directory, files);
  data::Vocabulary vocabulary = load_task_vocabulary(directory, manifest, files);
  for (const TaskManifest::File& file : manifest.parts) check_task_file(directory, file, files);
  return {directory, std::move(manifest), std::move(vocabulary), files};
}

Path TaskDataset::path_of(Part part) const { return directory_ / manifest_.file(part).name; }

QuestionSet TaskDataset::questions(Part part) const {
  base::check(task() == Task::QuestionAnswering, "the dataset has questions");
  return read_question_file(path_of(part), QuestionUse::Training, *files_);
}

ExampleSet TaskDataset::examples(Part part) const {
  base::check(task() != Task::QuestionAnswering, "the dataset has examples");
  return read_examples(path_of(part), -1, manifest_.examples(part));
}

}  // namespace regatta::trainer::tasks
