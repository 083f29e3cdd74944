#include "orchestrator/cli/run_file_templates.h"

#include "orchestrator/cli/run_file_texts.h"

namespace regatta::orchestrator::cli {

const std::array<RunFileTemplate, 4>& run_file_templates() {
  static constexpr std::array<RunFileTemplate, 4> kTemplates{
      {{"pretrain", "regatta-train prepare TEXT --output data --train-vocab 8000", kPretrainText},
       {"continue", "regatta-train prepare TEXT --output data --vocab model/vocab.txt",
        kContinueText},
       {"squad",
        "regatta-train prepare --task question-answering TRAIN DEV --vocab model --output squad",
        kSquadText},
       {"classify",
        "regatta-train prepare --task classification TRAIN DEV --vocab model --output classes",
        kClassifyText}}};
  return kTemplates;
}

}  // namespace regatta::orchestrator::cli
