#include "topology/graph/reader_error.h"

#include "base/error.h"
#include "base/text.h"

namespace regatta::topology::graph {

void fail_at(const std::string& place, std::size_t line, const std::string& what) {
  const std::string where = line == 0 ? "" : ":" + std::to_string(line);
  throw base::Error(base::Code::User,
                    base::printable(place) + where + ": " + base::printable(what));
}

}  // namespace regatta::topology::graph
