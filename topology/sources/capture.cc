#include "topology/sources/capture.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "topology/sources/nvml.h"
#include "topology/sources/smi_topo.h"
#include "topology/sources/sysfs.h"

namespace regatta::topology::sources {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kVersion = 1;

Json texts_json(const std::map<std::string, std::string>& texts) {
  Json json = Json::object();
  for (const auto& [name, text] : texts) json[name] = text;
  return json;
}

class CaptureReader {
 public:
  CaptureReader(const Json& root, const std::string& source) : root_(root), source_(source) {}

  Capture read() {
    Capture capture;
    capture.host = text(root_, "host");
    if (capture.host.empty()) fail("host is empty");
    const Json taken = root_.value("taken_utc", Json());
    if (!taken.is_number()) fail("taken_utc is not a number");
    capture.taken_utc = taken.get<double>();
    read_texts("files", &capture.files);
    read_texts("links", &capture.links);
    read_texts("environment", &capture.environment);
    capture.nvml = root_.contains("nvml") ? text(root_, "nvml") : "";
    for (const Json& note : list("notes")) {
      if (!note.is_string()) fail("notes has an entry that is not a string");
      capture.notes.push_back(note.get<std::string>());
    }
    const Json commands = root_.value("commands", Json::object());
    if (!commands.is_object()) fail("commands is not an object");
    for (const auto& [name, json] : commands.items()) {
      CommandOutput& output = capture.commands[name];
      output.text = text(json, "text");
      const Json code = json.value("exit_code", Json(0));
      const Json timed_out = json.value("timed_out", Json(false));
      if (!code.is_number_integer() || !timed_out.is_boolean()) {
        fail("the command '" + name + "' has no exit_code or timed_out");
      }
      output.exit_code = code.get<int>();
      output.timed_out = timed_out.get<bool>();
    }
    return capture;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw base::Error(base::Code::User, base::printable(source_) + ": " + base::printable(what));
  }
  std::string text(const Json& object, const char* name) const {
    const auto found = object.is_object() ? object.find(name) : object.end();
    if (found == object.end() || !found->is_string()) fail(std::string(name) + " is not a string");
    return found->get<std::string>();
  }
  Json list(const char* name) const {
    Json json = root_.value(name, Json::array());
    if (!json.is_array()) fail(std::string(name) + " is not a list");
    return json;
  }
  void read_texts(const char* name, std::map<std::string, std::string>* texts) const {
    const Json json = root_.value(name, Json::object());
    if (!json.is_object()) fail(std::string(name) + " is not an object");
    for (const auto& [key, value] : json.items()) {
      if (!value.is_string()) fail(std::string(name) + "." + key + " is not a string");
      (*texts)[key] = value.get<std::string>();
    }
  }

  const Json& root_;
  std::string source_;
};

graph::Finding unreadable(const Capture& capture, const std::string& what, const std::string& why) {
  graph::Finding finding;
  finding.id = "capture.unreadable";
  finding.subject = capture.host;
  finding.words = what + " of " + capture.host + " cannot be read: " + why;
  finding.evidence = {{what, why}};
  finding.remedy = "send the capture with a report: its format is new to Regatta";
  return finding;
}

// Of the first GPU that has one.
std::string gpu_model(const graph::Graph& graph) {
  for (const graph::VertexIndex gpu : graph.of_kind(graph::Kind::Gpu)) {
    const std::string model = graph::text_of(graph, graph.vertex(gpu).facts, graph::key::kModel);
    if (!model.empty()) return model;
  }
  return "";
}

graph::Finding timed_out(const Capture& capture, const std::string& what) {
  graph::Finding finding;
  finding.id = "capture.timed_out";
  finding.severity = graph::Severity::Error;
  finding.subject = capture.host;
  finding.words = what + " on " + capture.host + " does not answer";
  finding.evidence = {{what, "no answer before its deadline"}};
  finding.remedy =
      "look for Xid errors in dmesg and for processes in state D; drain the node and reset the GPU "
      "or reboot";
  return finding;
}

}  // namespace

std::string to_json(const Capture& capture) {
  Json json{{"regatta_capture", kVersion},
            {"host", capture.host},
            {"taken_utc", capture.taken_utc},
            {"notes", capture.notes},
            {"environment", texts_json(capture.environment)},
            {"files", texts_json(capture.files)},
            {"links", texts_json(capture.links)},
            {"commands", Json::object()},
            {"nvml", capture.nvml}};
  for (const auto& command : capture.commands) {
    const std::string& name = command.first;
    const auto& output = command.second;
    json["commands"][name] = {
        {"exit_code", output.exit_code}, {"timed_out", output.timed_out}, {"text", output.text}};
  }
  return base::json_text(json, 1) + "\n";
}

Capture parse_capture(const std::string& text, const std::string& source) {
  const Json json = base::parse_json<Json>(text);
  if (!json.is_object() || json.value("regatta_capture", Json()) != kVersion) {
    throw base::Error(base::Code::User, base::printable(source) +
                                            ": no capture of this version; make one with 'regatta "
                                            "probe'");
  }
  return CaptureReader(json, source).read();
}

Replayed replay(const Capture& capture) {
  Replayed replayed;
  const auto take = [&](const std::string& what, auto&& read) {
    try {
      replayed.graph.merge(read());
    } catch (const base::Error& error) {
      replayed.findings.push_back(unreadable(capture, what, error.what()));
    }
  };
  take("sysfs", [&] { return read_sysfs(capture); });
  if (!capture.nvml.empty()) {
    take("NVML", [&] { return read_nvml(capture.nvml, capture.host); });
    for (const std::string& call : nvml_timeouts(capture.nvml)) {
      replayed.findings.push_back(timed_out(capture, call));
    }
  }
  for (const auto& command : capture.commands) {
    const std::string& name = command.first;
    const auto& output = command.second;
    if (output.timed_out) replayed.findings.push_back(timed_out(capture, name));
    if (output.timed_out || output.exit_code != 0) continue;
    const SmiContext context{capture.host, capture.host + ": " + name, gpu_model(replayed.graph)};
    const std::string& text = output.text;  // clang 14 captures no structured binding
    if (name == "nvidia-smi topo -m") {
      take(name, [&] { return read_smi_topo(text, context, &replayed.findings); });
    } else if (name == "nvidia-smi nvlink -s") {
      take(name, [&] { return read_smi_nvlink(text, context); });
    }
  }
  for (graph::Finding& finding : graph::check_graph(replayed.graph)) {
    replayed.findings.push_back(std::move(finding));
  }
  return replayed;
}

}  // namespace regatta::topology::sources
