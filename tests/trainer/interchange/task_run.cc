#include "tests/trainer/interchange/task_run.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/clock.h"
#include "base/error.h"
#include "checkpoint/store.h"
#include "tests/trainer/interchange/trained_run.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/contract/run_directory.h"
#include "trainer/run/checkpoint_keeper.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;
using contract::Task;

base::FileSystem& real_disk() { return base::posix_file_system(); }

std::string example_rows(Task task) {
  const char* const labels[] = {"yes", "no", "so so"};
  std::string rows = "sentence\tlabel\n";
  for (int i = 0; i < 9; ++i) {
    rows += "the boat " + std::string(1, static_cast<char>('a' + i)) + "\t" +
            (task == Task::Regression ? std::to_string(i) + ".5" : labels[i % 3]) + "\n";
  }
  return rows;
}

constexpr char kQuestions[] =
    R"({"version": "v2.0", "data": [{"paragraphs": [{"context": "the boat is at sea",
        "qas": [{"id": "1", "question": "what is at sea", "is_impossible": false,
                 "answers": [{"text": "the boat", "answer_start": 0}]}]}]}]})";

base::Path make_task_dataset(const base::Path& directory, Task task) {
  const bool questions = task == Task::QuestionAnswering;
  std::string pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nboat\nis\nat\nsea\nwhat\n";
  for (char c = 'a'; c <= 'z'; ++c) pieces += std::string(1, c) + "\n##" + c + "\n";
  write_text(directory / "vocab.txt", pieces);
  tasks::TaskPrepareOptions options;
  options.task = task;
  options.training = directory / (questions ? "training.json" : "training.tsv");
  options.evaluation = directory / (questions ? "evaluation.json" : "evaluation.tsv");
  for (const base::Path& file : {options.training, options.evaluation}) {
    write_text(file, questions ? kQuestions : example_rows(task));
  }
  options.vocabulary = directory / "vocab.txt";
  options.examples.kind =
      task == Task::Regression ? tasks::ExampleLabels::Numbers : tasks::ExampleLabels::Classes;
  options.output = directory / "dataset";
  (void)tasks::prepare_task(options, real_disk());
  return options.output;
}

}  // namespace

std::string task_run_text(Task task, const base::Path& dataset, const std::string& more_of_model) {
  std::string model = "layers: 2, hidden: 32, heads: 2, feed_forward: 64, max_positions: 48";
  if (!more_of_model.empty()) model += ", " + more_of_model;
  const std::string questions =
      task == Task::QuestionAnswering ? "questions: {max_question: 20}\n" : "";
  return "name: tuned\ntask: " + contract::name_of(task) + "\nmodel: {" + model +
         "}\ndata: {path: " + dataset.string() + ", max_length: 40}\nthreads: 1\nsteps: 9\n" +
         questions;
}

TaskRun make_task_run(const base::Path& directory, Task task) {
  real_disk().create_directory(directory);
  TaskRun made;
  const bool pretraining = task == Task::Pretraining;
  made.dataset =
      pretraining ? make_small_dataset(directory, 20) : make_task_dataset(directory, task);
  made.run = directory / "run";
  made.config = contract::parse_run_config(task_run_text(task, made.dataset), "run.yaml");
  const auto run =
      contract::RunDirectory::create(real_disk(), made.run, contract::to_json(made.config));
  std::string fingerprint;
  if (pretraining) {
    const data::Dataset data = data::Dataset::open(made.dataset);
    fingerprint = data.fingerprint();
    made.config.model.vocabulary = data.vocabulary().size();
  } else {
    const auto data = tasks::TaskDataset::open(made.dataset, real_disk());
    fingerprint = data.fingerprint();
    made.config.model.vocabulary = data.vocabulary().size();
    made.config.model.labels = task == Task::Classification ? 3 : 0;
  }
  made.table = contract::make_tensor_table(made.config.model);
  std::mt19937 random(static_cast<unsigned>(task) + 5);
  std::normal_distribution<float> normal(0, 0.1F);
  for (auto* values :
       {&made.state.parameters, &made.state.first_moment, &made.state.second_moment}) {
    values->assign(static_cast<std::size_t>(made.table.arena_size), 0.0F);
    for (const contract::TensorEntry& entry : made.table.tensors) {
      std::generate_n(values->begin() + entry.offset, entry.size, [&] { return normal(random); });
    }
  }
  run::CheckpointKeeper keeper({real_disk(), base::system_clock(), run, contract::Fence(run, 0),
                                made.config, made.table, fingerprint, "0123456789abcdef"});
  const auto record =
      keeper.write(kTaskRunStep, made.state.whole(made.table), std::nullopt).front();
  base::check(record.status == "written", record.message);
  made.checkpoint = made.run / "checkpoints" / record.name;
  return made;
}

data::Vocabulary vocabulary_of(const TaskRun& run) {
  return data::Vocabulary::load(run.dataset / "vocab.txt", real_disk());
}

bool same_tensors(const contract::TensorTable& table, const std::vector<float>& a,
                  const std::vector<float>& b) {
  return a.size() == b.size() && other_tensors(table, a, table, b).empty();
}

std::vector<std::string> other_tensors(const contract::TensorTable& a,
                                       const std::vector<float>& of_a,
                                       const contract::TensorTable& b,
                                       const std::vector<float>& of_b) {
  std::vector<std::string> names;
  for (const contract::TensorEntry& entry : a.tensors) {
    for (const contract::TensorEntry& other : b.tensors) {
      if (other.name != entry.name || other.shape != entry.shape) continue;
      if (std::memcmp(of_a.data() + entry.offset, of_b.data() + other.offset,
                      sizeof(float) * static_cast<std::size_t>(entry.size)) != 0) {
        names.push_back(entry.name);
      }
    }
  }
  return names;
}

}  // namespace regatta::tests
