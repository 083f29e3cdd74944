#include "trainer/data/prepare.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>

#include "base/digest.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "base/wording.h"
#include "trainer/data/dataset_writer.h"
#include "trainer/data/document_encoder.h"
#include "trainer/data/document_spill.h"
#include "trainer/data/text_source.h"
#include "trainer/data/vocabulary_trainer.h"

namespace regatta::trainer::data {
namespace {

using base::Code;
using base::Error;
using base::Path;

// In this order; each goes over the whole corpus once.
enum class Phase { Reading, CountingWords, Tokenizing };

// What they take beside each other, so that the bar of the whole goes at one speed: 120 MB of
// English prose took 0.4, 1.5 and 1.8 s per 100 MB on one thread. Making a vocabulary of the
// counted words is not in it: it grows with the words, not with the text, and takes seconds.
[[nodiscard]] constexpr double weight_of(Phase phase) {
  constexpr double kWeights[] = {1, 4, 4};
  return kWeights[static_cast<int>(phase)];
}

constexpr int kMostThreads = 1024;
constexpr std::uint64_t kTaskBytes = std::uint64_t{256} << 10U;  // of text, for one thread

[[nodiscard]] Path without_trailing_slash(const Path& path) {
  const Path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

void check_options(const PrepareOptions& options) {
  const auto fail = [](const std::string& message) { throw Error(Code::User, message); };
  if (options.inputs.empty()) fail("no input; name text files or directories, or - ");
  if (options.output.empty()) fail("no output; name the dataset directory to make");
  if (options.vocabulary.empty() && options.train_vocabulary == 0) {
    fail("no vocabulary; name a vocab.txt or train one (--train-vocab 8192)");
  }
  if (!options.vocabulary.empty() && options.train_vocabulary != 0) {
    fail("both a vocabulary and --train-vocab are given; choose one");
  }
  if (!(options.held_out > 0) || !(options.held_out < 1)) {
    fail("held-out share " + std::to_string(options.held_out) +
         " is not between 0 and 1; 0.05 is usual");
  }
  if (options.threads < 0 || options.threads > kMostThreads) {
    fail("cannot use " + std::to_string(options.threads) + " threads; choose 1 to " +
         std::to_string(kMostThreads) + ", or 0 for all cores");
  }
  if (options.train_vocabulary != 0 && (options.train_vocabulary < kSmallestVocabulary ||
                                        options.train_vocabulary > kLargestVocabulary)) {
    fail("cannot train a vocabulary of " + std::to_string(options.train_vocabulary) +
         " pieces; choose " + std::to_string(kSmallestVocabulary) + " to " +
         std::to_string(kLargestVocabulary));
  }
}

// Objects that each serve one thread at a time, made as needed.
template <typename T>
class Workers {
 public:
  template <typename Make, typename Use>
  void with(Make make, Use use) {
    std::unique_ptr<T> worker = take();
    if (!worker) worker = make();
    use(*worker);
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(worker));
  }
  // All of them, once no thread uses one.
  [[nodiscard]] const std::vector<std::unique_ptr<T>>& all() const { return free_; }

 private:
  [[nodiscard]] std::unique_ptr<T> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return nullptr;
    std::unique_ptr<T> worker = std::move(free_.back());
    free_.pop_back();
    return worker;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
};

class Preparation {
 public:
  Preparation(const PrepareOptions& options, base::FileSystem& files,
              const PrepareProgressCallback& progress);
  [[nodiscard]] PrepareReport run();

 private:
  // Some documents of one batch, for one thread.
  struct Task {
    std::size_t begin;
    std::size_t end;
    EncodedDocuments encoded;
  };

  void read_inputs(const std::vector<Path>& inputs);
  void choose_held_out();
  [[nodiscard]] bool is_held_out(const Document& document) const {
    return document.key.low < held_out_below_;
  }
  // Calls use(documents, tasks) for all documents in order, a batch at a time.
  template <typename Use>
  void for_each_batch(Phase phase, bool last_use, Use use);
  [[nodiscard]] static std::vector<Task> tasks_of(const std::vector<Document>& documents);
  [[nodiscard]] Vocabulary make_vocabulary();
  void tokenize(const Vocabulary& vocabulary, const WordPiece& pieces);
  void write(const std::vector<Document>& documents, const Task& task);
  void finish(const Vocabulary& vocabulary);
  // `done` of `total` bytes of this phase.
  void report_progress(Phase phase, std::uint64_t done, std::uint64_t total, bool is_end) const;

  const PrepareOptions& options_;
  base::FileSystem& files_;
  const PrepareProgressCallback& progress_;
  TokenizerOptions tokenizer_;
  base::ThreadPool pool_;
  PartialDataset unwatched_;
  std::optional<Staging> staging_;
  std::optional<DocumentSpill> spill_;
  std::uint64_t held_out_below_ = 0;  // documents whose key.low is smaller are held out
  std::array<std::optional<SplitWriter>, 2> writers_;
  base::Digest corpus_;
  ReadShape read_shape_;
  DocumentLengths lengths_;
  PrepareReport report_;
};

Preparation::Preparation(const PrepareOptions& options, base::FileSystem& files,
                         const PrepareProgressCallback& progress)
    : options_(options),
      files_(files),
      progress_(progress),
      tokenizer_{options.lower_case, options.word_limit},
      pool_(options.threads > 0 ? options.threads : base::usable_cores()) {}

PrepareReport Preparation::run() {
  const auto start = std::chrono::steady_clock::now();
  std::optional<Vocabulary> vocabulary;
  if (!options_.vocabulary.empty()) vocabulary = Vocabulary::load(options_.vocabulary, files_);
  std::optional<WordPiece> pieces;
  if (vocabulary) pieces.emplace(*vocabulary, tokenizer_);
  const std::vector<Path> inputs = list_inputs(options_.inputs);

  staging_.emplace(files_, without_trailing_slash(options_.output), options_.force,
                   options_.partial != nullptr ? *options_.partial : unwatched_);
  const Path spill_directory = staging_->path() / "spill";
  files_.create_directory(spill_directory);
  spill_.emplace(files_, spill_directory, options_.spill_bytes);
  read_inputs(inputs);
  choose_held_out();
  if (!vocabulary) {
    vocabulary = make_vocabulary();
    pieces.emplace(*vocabulary, tokenizer_);
  }
  tokenize(*vocabulary, *pieces);
  files_.remove_tree(spill_directory);
  finish(*vocabulary);
  staging_->publish();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  report_.seconds = taken.count();
  return report_;
}

// The share of what is over and of this phase, by their weights.
void Preparation::report_progress(Phase phase, std::uint64_t done, std::uint64_t total,
                                  bool is_end) const {
  if (!progress_) return;
  constexpr const char* kNames[] = {"reading", "counting words", "tokenizing"};
  const bool trains = options_.train_vocabulary != 0;
  double before = 0, whole = 0;
  for (const Phase each : {Phase::Reading, Phase::CountingWords, Phase::Tokenizing}) {
    if (each == Phase::CountingWords && !trains) continue;
    whole += weight_of(each);
    if (each < phase) before += weight_of(each);
  }
  if (total != 0) done = std::min(done, total);
  std::optional<double> share;
  if (is_end) {
    share = (before + weight_of(phase)) / whole;
  } else if (total != 0) {
    share = (before + weight_of(phase) * static_cast<double>(done) / static_cast<double>(total)) /
            whole;
  }
  progress_({kNames[static_cast<int>(phase)], done, total, is_end, share});
}

void Preparation::read_inputs(const std::vector<Path>& inputs) {
  CorpusReader reader(options_, pool_, *spill_);
  reader.read(inputs, [this](std::uint64_t done, std::uint64_t total, bool is_end) {
    report_progress(Phase::Reading, done, total, is_end);
  });
  const ReadCounts& counts = reader.counts();
  report_.bytes = counts.bytes;
  report_.invalid_sequences = counts.invalid_sequences;
  report_.empty_documents = counts.empty;
  report_.broken_records = counts.broken;
  report_.first_broken = counts.first_broken;
  read_shape_ = counts.shape;
}

// The share is moved so far that the document with the smallest value is held out and the one with
// the largest is not: both splits have a document.
void Preparation::choose_held_out() {
  if (spill_->text_bytes() == 0 && report_.broken_records > 0) {
    throw Error(Code::User, "no document could be read: " +
                                base::plural(report_.broken_records, "broken line") +
                                ", the first: " + report_.first_broken +
                                "; mend the file, or name another field with --field");
  }
  if (spill_->text_bytes() == 0) {
    throw Error(Code::User, "the corpus is empty: no text in the inputs; name files with text");
  }
  const std::uint64_t smallest = spill_->smallest_low();
  const std::uint64_t largest = spill_->largest_low();
  if (smallest == largest) {
    const std::string why = why_one_document(read_shape_);
    const bool has_text = read_shape_.text_files > 0;
    throw Error(Code::User, "found 1 document; at least 2 are needed, one of them held out: " +
                                (!has_text     ? "name inputs with more lines or rows"
                                 : why.empty() ? "separate documents with blank lines"
                                               : why));
  }
  constexpr double kTwoTo64 = 18446744073709551616.0;
  const auto below = static_cast<std::uint64_t>(options_.held_out * kTwoTo64);
  held_out_below_ = std::clamp(below, smallest + 1, largest);
}

template <typename Use>
void Preparation::for_each_batch(Phase phase, bool last_use, Use use) {
  std::uint64_t total = 0;
  for (int i = 0; i < DocumentSpill::kPartitions; ++i) total += spill_->bytes(i);
  // What is spilled has more than the text.
  const double text = static_cast<double>(spill_->text_bytes());
  const auto of_text = [&](std::uint64_t bytes) {
    return static_cast<std::uint64_t>(text * static_cast<double>(bytes) /
                                      static_cast<double>(std::max<std::uint64_t>(1, total)));
  };
  std::uint64_t done = 0;
  for (int first = 0; first < DocumentSpill::kPartitions;) {
    std::vector<Document> documents;
    std::vector<std::string> storage;
    storage.reserve(DocumentSpill::kPartitions);  // documents point into the strings
    std::uint64_t bytes = 0;
    std::int64_t duplicates = 0;
    int next = first;
    while (next < DocumentSpill::kPartitions && (next == first || bytes < options_.batch_bytes)) {
      bytes += spill_->bytes(next);
      duplicates += spill_->load(next, storage.emplace_back(), documents);
      if (last_use) spill_->drop(next);
      ++next;
    }
    if (last_use) report_.duplicate_documents += duplicates;
    std::vector<Task> tasks = tasks_of(documents);
    use(documents, tasks);
    done += bytes;
    first = next;
    report_progress(phase, of_text(done), of_text(total), first == DocumentSpill::kPartitions);
  }
}

std::vector<Preparation::Task> Preparation::tasks_of(const std::vector<Document>& documents) {
  std::vector<Task> tasks;
  std::uint64_t bytes = kTaskBytes;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (bytes >= kTaskBytes) {
      tasks.push_back({i, i, {}});
      bytes = 0;
    }
    tasks.back().end = i + 1;
    bytes += documents[i].text.size();
  }
  return tasks;
}

// From the training documents alone, so that held-out text stays unseen.
Vocabulary Preparation::make_vocabulary() {
  Workers<WordCounter> counters;
  for_each_batch(Phase::CountingWords, false, [&](const auto& documents, auto& tasks) {
    const auto count = [&](std::int64_t begin, std::int64_t end) {
      counters.with([this] { return std::make_unique<WordCounter>(tokenizer_); },
                    [&](WordCounter& counter) {
                      for (std::int64_t t = begin; t < end; ++t) {
                        const Task& task = tasks[static_cast<std::size_t>(t)];
                        for (std::size_t i = task.begin; i < task.end; ++i) {
                          if (!is_held_out(documents[i])) counter.add(documents[i].text);
                        }
                      }
                    });
    };
    pool_.parallel_for(static_cast<std::int64_t>(tasks.size()), 1, count);
  });
  WordCounts words;
  for (const auto& counter : counters.all()) {
    for (const auto& [word, count] : counter->counts()) words[word] += count;
  }
  return Vocabulary::parse(train_vocabulary(words, options_.train_vocabulary), "trained");
}

void Preparation::tokenize(const Vocabulary& vocabulary, const WordPiece& pieces) {
  for (const Split split : kSplits) {
    writers_[index_of(split)].emplace(files_, staging_->path(), split, options_.shard_tokens,
                                      pieces.unknown());
  }
  Workers<DocumentEncoder> encoders;
  for_each_batch(Phase::Tokenizing, true, [&](const auto& documents, auto& tasks) {
    const auto encode = [&](std::int64_t begin, std::int64_t end) {
      encoders.with([&] { return std::make_unique<DocumentEncoder>(pieces, vocabulary); },
                    [&](DocumentEncoder& encoder) {
                      for (std::int64_t t = begin; t < end; ++t) {
                        Task& task = tasks[static_cast<std::size_t>(t)];
                        for (std::size_t i = task.begin; i < task.end; ++i) {
                          encoder.encode(documents[i].text, task.encoded);
                        }
                      }
                    });
    };
    pool_.parallel_for(static_cast<std::int64_t>(tasks.size()), 1, encode);
    for (const Task& task : tasks) write(documents, task);
  });
}

void Preparation::write(const std::vector<Document>& documents, const Task& task) {
  std::span<const TokenId> ids = task.encoded.ids;
  std::span<const std::uint32_t> sentences = task.encoded.sentence_tokens;
  for (std::size_t i = task.begin; i < task.end; ++i) {
    const std::uint32_t count = task.encoded.document_sentences[i - task.begin];
    if (count == 0) {
      ++report_.empty_documents;
      continue;
    }
    const Document& document = documents[i];
    std::size_t tokens = 0;
    for (const std::uint32_t length : sentences.first(count)) tokens += length;
    const Split split = is_held_out(document) ? Split::HeldOut : Split::Training;
    lengths_.add(static_cast<std::int64_t>(tokens), count);
    writers_[index_of(split)]->add(ids.first(tokens), sentences.first(count));
    corpus_.update(std::as_bytes(std::span(&document.key, 1)));
    ids = ids.subspan(tokens);
    sentences = sentences.subspan(count);
  }
}

void Preparation::finish(const Vocabulary& vocabulary) {
  Manifest manifest;
  for (const Split split : kSplits) {
    if (writers_[index_of(split)]->documents() == 0) {
      throw Error(Code::User, "no " + std::string(name_of(split)) +
                                  " document has a token; name inputs with more text");
    }
    SplitManifest& made = manifest.splits[index_of(split)];
    made = writers_[index_of(split)]->finish(manifest.files);
    report_.documents += made.documents;
    report_.sentences += made.sentences;
    report_.tokens += made.tokens;
    report_.unknown_tokens += made.unknown_tokens;
  }
  const auto add_text = [&](const char* name, const std::string& text) {
    DigestedFile file(files_, staging_->path(), name);
    file.append(std::as_bytes(std::span(text)));
    manifest.files.push_back(file.finish());
  };
  add_text(kVocabularyName, vocabulary.text());
  add_text(kLengthsName, to_json({&writers_[0]->lengths(), &writers_[1]->lengths()}));
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const FileManifest& a, const FileManifest& b) { return a.name < b.name; });
  manifest.tokenizer = tokenizer_;
  manifest.vocabulary_size = vocabulary.size();
  manifest.vocabulary_digest = vocabulary.digest();
  manifest.held_out = options_.held_out;
  manifest.duplicate_documents = report_.duplicate_documents;
  manifest.text_bytes = static_cast<std::int64_t>(report_.bytes);
  manifest.invalid_sequences = report_.invalid_sequences;
  manifest.corpus_digest = corpus_.hex();
  manifest.fingerprint = fingerprint_of(manifest);

  report_.held_out_tokens = manifest.splits[index_of(Split::HeldOut)].tokens;
  report_.shape = lengths_.shape();
  report_.warnings = shape_warnings(report_.shape, read_shape_, report_.documents, report_.tokens,
                                    report_.unknown_tokens);
  report_.held_out_documents = manifest.splits[index_of(Split::HeldOut)].documents;
  report_.vocabulary_pieces = vocabulary.size();
  report_.fingerprint = manifest.fingerprint;
  base::replace_file(files_, staging_->path() / kManifestName, to_json(manifest));
}

}  // namespace

PrepareReport prepare(const PrepareOptions& options, base::FileSystem& files,
                      const PrepareProgressCallback& progress) {
  check_options(options);
  return Preparation(options, files, progress).run();
}

}  // namespace regatta::trainer::data
