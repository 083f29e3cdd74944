#include "topology/slurm_text/nodes.h"

#include <algorithm>

#include "base/text.h"
#include "topology/slurm_text/key_values.h"

namespace regatta::topology::slurm_text {
namespace {

using View = std::string_view;

// Keys of releases 22.05 to 25.11, sorted: each ends the value before it.
const Keys& node_keys() {
  static const Keys keys = {"ActiveFeatures",
                            "AllocMem",
                            "AllocTRES",
                            "Arch",
                            "AvailableFeatures",
                            "AveWatts",
                            "Boards",
                            "BootTime",
                            "CPUAlloc",
                            "CPUEfctv",
                            "CPULoad",
                            "CPUSpecList",
                            "CPUTot",
                            "CapWatts",
                            "CfgTRES",
                            "Comment",
                            "CoreSpecCount",
                            "CoresPerSocket",
                            "CurrentWatts",
                            "ExtSensorsJoules",
                            "ExtSensorsTemp",
                            "ExtSensorsWatts",
                            "Extra",
                            "FreeMem",
                            "Gres",
                            "GresDrain",
                            "GresUsed",
                            "InstanceId",
                            "InstanceType",
                            "LastBusyTime",
                            "MCS_label",
                            "MemSpecLimit",
                            "NodeAddr",
                            "NodeHostName",
                            "NodeName",
                            "OS",
                            "Owner",
                            "Partitions",
                            "Port",
                            "RealMemory",
                            "Reason",
                            "ResumeAfterTime",
                            "SlurmdStartTime",
                            "Sockets",
                            "State",
                            "ThreadsPerCore",
                            "TmpDisk",
                            "Topology",
                            "Version",
                            "Weight"};
  return keys;
}

constexpr View kNodeBegin = "NodeName=";
// What people write.
constexpr View kExtra = " Extra=";
constexpr View kComment = " Comment=";
constexpr View kReason = " Reason=";

// Where it begins; the text's end where there is none.
std::size_t begin_of_peoples_text(View text) {
  std::size_t begin = text.size();
  for (const View key : {kExtra, kComment, kReason}) begin = std::min(begin, text.find(key));
  return begin;
}

std::optional<std::string> reason_of(View text) {
  const std::size_t at = text.find(kReason);
  if (at == View::npos) return std::nullopt;
  // 22.05 has the other texts behind it. A reason that imitates their keys loses its own end.
  const View rest = text.substr(at + kReason.size());
  const View reason = rest.substr(0, std::min(rest.find(kComment), rest.find(kExtra)));
  return says_nothing(reason) ? std::nullopt : std::optional(std::string(reason));
}

// A node's lines as one, with a space between them, or one line of no node.
struct Lines {
  std::size_t line = 0;
  View begin;
  bool is_node = false;
  bool has_peoples_text = false;
  std::string text;
};

std::vector<Lines> join_lines(View text) {
  std::vector<Lines> joined;
  std::size_t number = 0;
  for (View line : pieces(text, '\n')) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const std::size_t indent = line.find_first_not_of(" \t");
    if (indent == View::npos) continue;
    const bool begins = line.substr(0, kNodeBegin.size()) == kNodeBegin;
    Lines* const node = joined.empty() || !joined.back().is_node ? nullptr : &joined.back();
    const bool goes_on = !begins && node != nullptr && (indent > 0 || node->has_peoples_text);
    const std::string more = (goes_on ? " " : "") + std::string(line.substr(goes_on ? indent : 0));
    if (!goes_on) joined.push_back({number, line, begins, false, {}});
    Lines& last = joined.back();
    last.has_peoples_text = last.has_peoples_text || begin_of_peoples_text(more) < more.size();
    last.text += more;
  }
  return joined;
}

NodeText read_node(const Lines& lines) {
  NodeText read{lines.line, lines.begin, lines.is_node, {}, std::nullopt};
  if (!lines.is_node) return read;
  const View text = lines.text;
  const Record record(text.substr(0, begin_of_peoples_text(text)), node_keys());
  NodeRecord node;
  node.name = record.word("NodeName");
  node.state = parse_node_state(record.word("State"));
  read.name = node.name;
  if (node.name.empty() || node.state.raw.empty()) return read;
  node.reason = reason_of(text);
  node.cpus = record.number("CPUTot");
  node.cpus_allocated = record.number("CPUAlloc");
  node.memory_bytes = record.megabytes("RealMemory");
  node.memory_free_bytes = record.megabytes("FreeMem");
  node.load = base::parse_number(record.word("CPULoad"));
  node.gpus = parse_gres(record.word("Gres"));
  const Tres allocated = parse_tres(record.word("AllocTRES"));
  if (allocated.gpus) {
    node.gpus_allocated = allocated.gpus->count;
  } else if (node.gpus && parse_tres(record.word("CfgTRES")).gpus) {
    node.gpus_allocated = 0;  // GPUs are counted here, and none is in use
  }
  node.features = parse_names(record.word("ActiveFeatures"));
  node.partitions = parse_names(record.word("Partitions"));
  read.record = std::move(node);
  return read;
}

}  // namespace

std::vector<NodeText> read_nodes(View text) {
  std::vector<NodeText> nodes;
  for (const Lines& lines : join_lines(text)) nodes.push_back(read_node(lines));
  return nodes;
}

}  // namespace regatta::topology::slurm_text
