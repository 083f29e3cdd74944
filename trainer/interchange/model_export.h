// A checkpoint as a directory that Hugging Face's `transformers` loads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/interchange/hugging_face.h"

namespace regatta::trainer::interchange {

// Of optimizer.safetensors in an exported directory: the optimizer steps behind its moments.
inline constexpr char kStepMetadata[] = "step";

struct ExportOptions {
  base::Path checkpoint;  // of a run (RUN/checkpoints/step-…), or a run directory: its newest whole
  base::Path output;
  std::optional<HuggingFaceClass> model;  // nothing: the one with the head of the run's task
  bool with_optimizer = false;            // optimizer.safetensors too; of the run's own class only
  base::Path vocabulary;                  // vocab.txt; empty: the dataset's, named by the run file
  bool cased = false;                     // of `vocabulary`; the dataset says it itself
  // Of a pre-training run as ForQuestionAnswering: a .safetensors file with
  // qa_outputs.{weight,bias}; empty: they are drawn anew, as at the start of a fine-tuning, from
  // the run's seed.
  base::Path question_head;
  bool force = false;  // replace an earlier export
};

struct ExportReport {
  std::string checkpoint;  // its name
  HuggingFaceClass model = HuggingFaceClass::ForPreTraining;
  std::int64_t step = 0;
  std::int64_t tensors = 0;        // of the model
  std::uint64_t bytes = 0;         // of all tensor files
  std::vector<std::string> notes;  // one line each: what the checkpoint did not have
};

// Every byte of the checkpoint is verified, and marked as being read meanwhile. The output appears
// whole or not at all; Code::Conflict when it exists, unless `force` and it is an exported
// directory. Code::User or NotFound, saying what to name instead, when the checkpoint, its run file
// or the vocabulary is missing or does not fit, and for a class whose head the run does not train.
ExportReport export_model(base::FileSystem& files, const ExportOptions& options,
                          const base::Clock& clock = base::system_clock());

}  // namespace regatta::trainer::interchange
