#pragma once

#include <memory>

#include "orchestrator/cli/command.h"

namespace regatta::orchestrator::cli {

// `regatta ckpt download`.
[[nodiscard]] std::unique_ptr<Command> ckpt_download_command(const Program& program);

}  // namespace regatta::orchestrator::cli
