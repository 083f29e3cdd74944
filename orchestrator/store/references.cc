#include "base/error.h"
#include "orchestrator/runs/reference.h"
#include "orchestrator/store/on_disk.h"
#include "orchestrator/store/rows.h"
#include "orchestrator/store/store.h"

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

bool Store::add_reference(const runs::ReferenceCurve& curve, const std::string& by) {
  const auto lock = lock_writes();
  const OnDisk on_disk(*writer_);
  Transaction transaction(*writer_);
  {
    Statement ask = writer_->prepare(
        "SELECT " + selection(columns_of<runs::ReferenceCurve>(), "reference_curves") +
        " FROM reference_curves WHERE name = ?1");
    ask.bind(curve.about.name);
    if (ask.step()) {
      runs::ReferenceCurve there = read_row<runs::ReferenceCurve>(ask);
      there.about.imported_utc = curve.about.imported_utc;
      if (there == curve) return false;
      throw base::Error(base::Code::Conflict, "another reference has the name " + curve.about.name +
                                                  "; use another name, or remove that one first");
    }
  }
  static const std::string sql =
      insertion("INSERT INTO reference_curves", {}, columns_of<runs::ReferenceCurve>());
  write_row(*writer_, sql, RowBinder::Which::All, curve);
  events_->note_asked("reference.added", by, curve.about.name);
  transaction.commit();
  return true;
}

bool Store::remove_reference(const std::string& name, const std::string& by) {
  const auto lock = lock_writes();
  const OnDisk on_disk(*writer_);
  std::int64_t removed = 0;
  write_anyhow([&] {
    Transaction transaction(*writer_);
    writer_->prepare("DELETE FROM reference_curves WHERE name = ?1").bind(name).run();
    removed = writer_->changes();
    if (removed > 0) events_->note_asked("reference.removed", by, name);
    transaction.commit();
  });
  return removed > 0;
}

}  // namespace regatta::orchestrator::store
