// Any request, with its body, at a controller whose one run trains and has checkpoints and a log:
// an answer, or a problem in one plain line that nobody has to mend in the program. "METHOD
// target", lines of headers, an empty line, the body; '@' in the path is the run.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"
#include "orchestrator/api/api.h"
#include "orchestrator/api/delivery.h"
#include "orchestrator/api/request_head.h"
#include "tests/checkpoint/samples.h"
#include "tests/orchestrator/support.h"

using regatta::base::check;
using namespace regatta;
using namespace regatta::orchestrator;

namespace {

class World {
 public:
  World() {
    api::Request request;
    request.method = "POST";
    request.path = "/api/v1/runs";
    request.body = tests::run_file();
    const auto run = nlohmann::json::parse(api_.handle(request).body);
    id_ = run.at("id");
    tick();
    auto directory = trainer::contract::RunDirectory::open(base::posix_file_system(),
                                                           run.at("directory").get<std::string>());
    tests::JournalAuthor author(directory, clock_.utc_seconds());
    author.start_four_ranks(1);
    for (int step = 1; step <= 40; ++step) {
      author.add(step, tests::JournalAuthor::step_of_four_ranks(step));
      if (step % 10 == 0) author.evaluation(step + 0.5, step, step / 100.0);
    }
    const base::Path place = run.at("directory").get<std::string>();
    checkpoint::CheckpointStore store(base::posix_file_system(), place / "checkpoints");
    for (const int step : {20, 40}) {
      tests::SampleCheckpoint sample(step, "aaaa");
      (void)store.write(sample.contents, tests::always);
    }
    std::filesystem::create_directories(place / "launches");
    tests::write_file(place / "launches" / "1.log", "one line\nand another \xff\n");
    for (int i = 0; i < 5; ++i) tick();
  }

  api::Response handle(const api::Request& request) { return api_.handle(request); }
  [[nodiscard]] const std::string& id() const { return id_; }

 private:
  void tick() {
    clock_.now += 1;
    controller_.tick();
  }
  [[nodiscard]] control::ControllerOptions options() const {
    control::ControllerOptions settings;
    settings.runs_directory = folder_.path() / "runs";
    return settings;
  }

  tests::TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  tests::ScriptedScheduler scheduler_;
  store::Store store_{folder_.path() / "state"};
  control::Controller controller_{base::posix_file_system(), clock_, store_, scheduler_, options()};
  api::Api api_{controller_, base::posix_file_system(), clock_, {folder_.path() / "page"}};
  std::string id_;
};

std::string take_line(std::string_view* text) {
  const std::size_t end = text->find('\n');
  const std::string line(text->substr(0, end));
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return line;
}

api::Request request_of(std::string_view text, const std::string& run) {
  const std::string first = take_line(&text);
  api::RequestHead head;
  head.method = first.substr(0, first.find(' '));
  head.target = first.substr(std::min(first.find(' ') + 1, first.size()));
  for (std::string line = take_line(&text); !line.empty(); line = take_line(&text)) {
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos && !base::has_control(line)) {
      head.fields.push_back({base::lower_case(line.substr(0, colon)), line.substr(colon + 2)});
    }
  }
  api::Request request = api::without_path(head);
  request.method = head.method;
  request.path = "/api/v1/" + head.target.substr(0, head.target.find('?'));
  for (std::size_t at = request.path.find('@'); at != std::string::npos;
       at = request.path.find('@', at + run.size())) {
    request.path.replace(at, 1, run);
  }
  request.body = text;
  // The world stays as it is.
  const bool makes_run = request.method == "POST" && request.path == "/api/v1/runs";
  const bool collects = request.path.ends_with("/checkpoints/gc");
  if (makes_run || collects) request.query["dry_run"] = "true";
  if (request.path.ends_with("/fork")) request.headers["idempotency-key"] = "one fork at most";
  return request;
}

void check_answer(const api::Response& response) {
  check(response.status >= 200 && response.status < 600, "a status");
  if (response.stream) {
    if (!response.stream->size()) return;  // of events: it ends with the connection
    std::uint64_t bytes = 0;
    for (bool last = false; !last;) {
      const api::BodyStream::Piece piece = response.stream->next();
      bytes += piece.bytes.size();
      last = piece.is_last;
    }
    check(bytes == response.stream->size(), "as many bytes as were promised");
    return;
  }
  if (response.content_type.find("json") == std::string::npos || response.body.empty()) return;
  const auto json = nlohmann::json::parse(response.body, nullptr, false);
  check(!json.is_discarded(), "an answer is JSON");
  if (response.status < 400) return;
  const std::string detail = json.value("detail", "");
  check(!detail.empty() && base::printable(detail) == detail, "a problem is one plain line");
  check(json.value("code", "developer") != "developer", "no request shows a bug");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  api::Request request = request_of(text, world.id());
  const api::Response response =
      api::with_request_id(api::with_tag(world.handle(request), request), "0123456789abcdef");
  check_answer(response);
  if (response.status == 201 && request.path == "/api/v1/references") {
    request.method = "DELETE";
    request.path += "/" + nlohmann::json::parse(response.body).value("name", "");
    request.query.clear();
    request.body.clear();
    check(world.handle(request).status == 200, "what was added can be removed");
  }
  if (response.status == 201 && request.path.ends_with("/benches")) {
    request.method = "DELETE";
    request.path += "/" + nlohmann::json::parse(response.body).value("id", "");
    request.query.clear();
    request.body.clear();
    check(world.handle(request).status == 200, "a bench that was added can be removed");
  }
  return 0;
}
