#include "orchestrator/runs/reference.h"
#include "orchestrator/store/rows.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::store {
namespace {

const std::string kReferences = "SELECT " +
                                selection(columns_of<runs::Reference>(), "reference_curves") +
                                " FROM reference_curves WHERE name > ?1 ORDER BY name LIMIT ?2";
const std::string kReference = "SELECT " +
                               selection(columns_of<runs::ReferenceCurve>(), "reference_curves") +
                               " FROM reference_curves WHERE name = ?1";

}  // namespace

std::vector<runs::Reference> StoreReads::references(const std::string& after, int limit) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(kReferences);
  ask.bind(after, limit);
  return read_rows<runs::Reference>(ask);
}

std::optional<runs::ReferenceCurve> StoreReads::reference(const std::string& name) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(kReference);
  ask.bind(name);
  if (!ask.step()) return std::nullopt;
  return read_row<runs::ReferenceCurve>(ask);
}

}  // namespace regatta::orchestrator::store
