#include "orchestrator/api/log_api.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "orchestrator/api/answer_fields.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/download.h"
#include "orchestrator/control/log_search.h"
#include "orchestrator/control/run_logs.h"
#include "orchestrator/runs/run_records.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<std::int64_t>& number) {
  return number ? Json(*number) : Json(nullptr);
}

std::optional<std::int64_t> given(const Call& call, std::string_view name) {
  return call.text(name) ? std::optional(call.integer(name)) : std::nullopt;
}

control::LogChoice choice_of(const Call& call) {
  return {call.text("file"), given(call, "attempt"), given(call, "rank")};
}

// Two parameters that exclude each other.
std::optional<Response> refuse(const Call& call) {
  if (call.text("file") && (call.text("attempt") || call.text("rank"))) {
    return parameter_problem("file", "file names one log; leave out attempt and rank");
  }
  return std::nullopt;
}

struct FoundLog {
  std::optional<control::RunLog> log;
  std::size_t launches = 0;
  control::LogPart part;
};

FoundLog read_part(base::FileSystem& files, const LogPlace& place, const control::LogChoice& choice,
                   const control::LogRange& range) {
  FoundLog found;
  found.launches = runs::launch_logs(files, place.directory, place.launches).size();
  found.log = control::find_log(files, place.directory, place.launches, choice);
  found.part.offset = range.offset;
  if (!found.log) return found;
  try {
    found.part = control::read_log(files, place.directory / found.log->name, range);
  } catch (const base::Error& error) {
    if (error.code() != base::Code::NotFound || !choice.is_newest()) throw;
  }
  return found;
}

}  // namespace

Response log_files(const Call&, const LogPlace& place) {
  const control::RunLogs found = files::call_if(
      place.shared, place.directory, kRunFileSeconds,
      [place] { return control::list_logs(*place.files, place.directory, place.launches); });
  Json list = Json::array();
  for (const control::RunLog& log : found.logs) {
    list.push_back({{"name", log.name},
                    {"kind", name_of(log.kind)},
                    {"launch", or_null(log.launch)},
                    {"attempt", or_null(log.attempt)},
                    {"job", log.job ? Json(std::to_string(*log.job)) : Json(nullptr)},
                    {"restart", or_null(log.restart)},
                    {"rank", or_null(log.rank)},
                    {"bytes", log.bytes},
                    {"modified_at", moment(log.modified_utc)}});
  }
  return json_response(200, {{"files", std::move(list)}, {"more", found.more}});
}

Response log_part(const Call& call, const LogPlace& place) {
  if (auto refused = refuse(call)) return *refused;
  control::LogRange range{static_cast<std::uint64_t>(call.integer("offset")),
                          static_cast<std::uint64_t>(call.integer("limit")), given(call, "tail")};
  if (range.tail && range.offset > 0) {
    return parameter_problem("tail", "tail reads from the end; leave out offset");
  }
  const FoundLog found = files::call_if(place.shared, place.directory, kRunFileSeconds,
                                        [place, choice = choice_of(call), range] {
                                          return read_part(*place.files, place, choice, range);
                                        });
  const control::LogPart& part = found.part;
  return json_response(200, {{"text", part.text},
                             {"next", part.offset + part.text.size()},
                             {"launch", found.launches},
                             {"file", found.log ? Json(found.log->name) : Json(nullptr)},
                             {"offset", part.offset},
                             {"size", part.size},
                             {"begins_in_line", part.begins_in_line},
                             {"ends_in_line", part.ends_in_line}});
}

Response log_download(const Call& call, const LogPlace& place) {
  if (auto refused = refuse(call)) return *refused;
  auto log = files::call_if(place.shared, place.directory, kRunFileSeconds,
                            [place, choice = choice_of(call)]() -> std::optional<control::RunLog> {
                              auto found = control::find_log(*place.files, place.directory,
                                                             place.launches, choice);
                              if (found)
                                found->bytes = place.files->size(place.directory / found->name);
                              return found;
                            });
  if (!log) throw base::Error(base::Code::NotFound, "the run has no log yet");
  const base::Path path = place.directory / log->name;
  Download download{place.directory,
                    {{"", path, log->bytes}},
                    path.filename().string(),
                    "text/plain; charset=utf-8"};
  download.version = base::digest_of(log->name);
  download.grows = true;
  Response response = send(call.request, *place.files, place.shared, std::move(download));
  response.headers["Cache-Control"] = "no-store";
  return response;
}

Response log_search(const Call& call, const LogPlace& place) {
  if (auto refused = refuse(call)) return *refused;
  const auto text = call.text("grep");
  if (!text || text->empty()) {
    return parameter_problem("grep", "grep is missing; give a regular expression, such as error");
  }
  std::unique_ptr<control::LogPattern> pattern;
  try {
    pattern = std::make_unique<control::LogPattern>(
        *text, call.flag("ignore_case") ? control::LetterCase::Any : control::LetterCase::Same);
  } catch (const base::Error& error) {
    return parameter_problem("grep", std::string("grep is ") + error.what());
  }
  const auto from_text = call.text("from");
  const auto from = from_text ? control::parse_place(*from_text) : control::SearchPlace{};
  if (!from) {
    return parameter_problem("from", "from is no `next` of an answer; leave it out to begin");
  }
  const auto log = files::call_if(
      place.shared, place.directory, kRunFileSeconds, [place, choice = choice_of(call)] {
        return control::find_log(*place.files, place.directory, place.launches, choice);
      });
  control::SearchPart part;
  if (log) {
    // Read where waiting is allowed, searched here.
    const control::ReadLog read = [&](std::uint64_t offset, std::uint64_t limit) {
      const base::Path path = place.directory / log->name;
      return files::call_if(place.shared, place.directory, kRunFileSeconds,
                            [files = place.files, path, offset, limit] {
                              return files->read_at(path, offset, limit);
                            });
    };
    control::SearchLimits limits;
    limits.context = call.integer("context");
    limits.most_matches = call.integer("limit");
    part = control::search_log(*pattern, read, *from, limits, *place.clock);
  }
  Json lines = Json::array();
  for (const control::SearchedLine& line : part.lines) {
    lines.push_back({{"line", line.number},
                     {"offset", line.offset},
                     {"match", line.is_match},
                     {"text", line.text}});
  }
  return json_response(200, {{"file", log ? Json(log->name) : Json(nullptr)},
                             {"lines", std::move(lines)},
                             {"scanned_bytes", part.scanned_bytes},
                             {"next", part.next ? Json(part.next->text()) : Json(nullptr)}});
}

}  // namespace regatta::orchestrator::api
