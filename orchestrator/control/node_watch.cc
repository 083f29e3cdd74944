#include "orchestrator/control/node_watch.h"

namespace regatta::orchestrator::control {

void NodeWatch::look() {
  if (table_ == nullptr) return;
  const slurm::NodeSnapshot nodes = table_->snapshot();
  if (nodes.answer == looked_at_) return;
  if (!known_) known_ = store_.node_standings();
  const double utc = nodes.taken_utc.value_or(0);
  const slurm::NodeNews news = slurm::news_of_nodes(*known_, nodes.rows, nodes.whole, utc);
  if (!news.changed.empty() || !news.forgotten.empty()) {
    store_.put_node_news(news, utc);
    for (const slurm::NodeStanding& each : news.changed) (*known_)[each.node] = each;
    for (const std::string& node : news.forgotten) known_->erase(node);
  }
  looked_at_ = nodes.answer;
}

}  // namespace regatta::orchestrator::control
