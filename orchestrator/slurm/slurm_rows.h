// Lines of Slurm's answers, cut into fields without trusting what stands in them.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace regatta::orchestrator::slurm {

struct CutRows {
  std::vector<std::vector<std::string_view>> rows;  // without the closing key
  std::size_t damaged = 0;
};

// Rows of `fields` fields and then the first field once more, with `separator` between them and a
// line's end behind. The first two fields have no control characters; the others may have line
// breaks. Lines that belong to no whole row are passed over; a run of them counts as one damaged
// row.
[[nodiscard]] CutRows cut_rows(std::string_view text, std::string_view separator,
                               std::size_t fields);

}  // namespace regatta::orchestrator::slurm
