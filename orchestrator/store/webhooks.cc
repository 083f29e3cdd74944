// Places of webhooks, read and written.
#include "orchestrator/store/webhooks.h"

#include "orchestrator/store/row_fields.h"
#include "orchestrator/store/rows.h"
#include "orchestrator/store/store.h"

namespace regatta::orchestrator::store {

void Store::put_webhook(const WebhookPlace& place, const Event* told) {
  const auto lock = lock_writes();
  static const std::string sql =
      insertion("INSERT OR REPLACE INTO webhooks", {}, columns_of<WebhookPlace>());
  Transaction transaction(*writer_);
  write_row(*writer_, sql, RowBinder::Which::All, place);
  if (told != nullptr) events_->note(*told);
  transaction.commit();
}

void Store::remove_webhook(const std::string& name) {
  const auto lock = lock_writes();
  writer_->prepare("DELETE FROM webhooks WHERE name = ?1").bind(name).run();
}

std::vector<WebhookPlace> StoreReads::webhooks() {
  static const std::string sql = "SELECT " + selection(columns_of<WebhookPlace>(), "webhooks") +
                                 " FROM webhooks ORDER BY name";
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(sql);
  return read_rows<WebhookPlace>(ask);
}

}  // namespace regatta::orchestrator::store
