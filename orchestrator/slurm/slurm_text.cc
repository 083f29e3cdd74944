#include "orchestrator/slurm/slurm_text.h"

#include <algorithm>
#include <iterator>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "orchestrator/slurm/slurm_rows.h"

namespace regatta::orchestrator::slurm {
namespace {

using View = std::string_view;
using topology::slurm_text::whole_number;

std::optional<std::string> said(View text) {
  if (says_nothing(text)) return std::nullopt;
  return std::string(text);
}

// What squeue and sacct call a column, and where it goes; the order of a table is the order of the
// columns in the request and in the answer. Texts that users choose come last.
struct Column {
  const char* name;
  void (*read)(JobRow&, View);
  int major = 0;  // first release that has it
  int minor = 0;
};

const Column kSqueueColumns[] = {
    {"%A", [](JobRow& job, View text) { job.id = text; }},
    {"%T", [](JobRow& job, View text) { job.state = parse_job_state(text); }},
    {"%V", [](JobRow& job, View text) { job.submit = parse_slurm_time(text); }},
    {"%S", [](JobRow& job, View text) { job.start = parse_slurm_time(text); }},
    {"%e", [](JobRow& job, View text) { job.end = parse_slurm_time(text); }},
    {"%l", [](JobRow& job, View text) { job.limit = parse_slurm_duration(text); }},
    {"%L", [](JobRow& job, View text) { job.left = parse_slurm_duration(text); }},
    {"%M", [](JobRow& job, View text) { job.elapsed = parse_slurm_duration(text); }},
    {"%D", [](JobRow& job, View text) { job.node_count = whole_number(text); }},
    {"%C", [](JobRow& job, View text) { job.cpu_count = whole_number(text); }},
    {"%Q", [](JobRow& job, View text) { job.priority = whole_number(text); }},
    {"%b", [](JobRow& job, View text) { job.gpus_per_node = parse_gres(text); }},
    {"%P", [](JobRow& job, View text) { job.partition = said(text); }},
    {"%a", [](JobRow& job, View text) { job.account = said(text); }},
    {"%q", [](JobRow& job, View text) { job.qos = said(text); }},
    {"%u", [](JobRow& job, View text) { job.user = said(text); }},
    {"%N", [](JobRow& job, View text) { job.nodes = said(text); }},
    {"%r", [](JobRow& job, View text) { job.reason = said(text); }},
    {"%Z", [](JobRow& job, View text) { job.work_directory = said(text); }},
    {"%o", [](JobRow& job, View text) { job.command = said(text); }},
    {"%k", [](JobRow& job, View text) { job.comment = said(text); }},
    {"%j", [](JobRow& job, View text) { job.name = std::string(text); }},
};

const Column kSacctColumns[] = {
    {"JobIDRaw", [](JobRow& job, View text) { job.id = text; }},
    {"State", [](JobRow& job, View text) { job.state = parse_job_state(text); }},
    {"ExitCode", [](JobRow& job, View text) { job.exit = parse_exit_status(text); }},
    {"DerivedExitCode", [](JobRow& job, View text) { job.derived_exit = parse_exit_status(text); }},
    {"Submit", [](JobRow& job, View text) { job.submit = parse_slurm_time(text); }},
    {"Eligible", [](JobRow& job, View text) { job.eligible = parse_slurm_time(text); }},
    {"Start", [](JobRow& job, View text) { job.start = parse_slurm_time(text); }},
    {"End", [](JobRow& job, View text) { job.end = parse_slurm_time(text); }},
    {"ElapsedRaw",
     [](JobRow& job, View text) {
       if (const auto seconds = whole_number(text)) job.elapsed = static_cast<double>(*seconds);
     }},
    {"Timelimit", [](JobRow& job, View text) { job.limit = parse_slurm_duration(text); }},
    {"NNodes", [](JobRow& job, View text) { job.node_count = whole_number(text); }},
    {"AllocCPUS", [](JobRow& job, View text) { job.cpu_count = whole_number(text); }},
    {"Priority", [](JobRow& job, View text) { job.priority = whole_number(text); }},
    {"AllocTRES", [](JobRow& job, View text) { job.allocated = parse_tres(text); }},
    {"ReqTRES", [](JobRow& job, View text) { job.requested = parse_tres(text); }},
    {"Partition", [](JobRow& job, View text) { job.partition = said(text); }},
    {"Account", [](JobRow& job, View text) { job.account = said(text); }},
    {"QOS", [](JobRow& job, View text) { job.qos = said(text); }},
    {"User", [](JobRow& job, View text) { job.user = said(text); }},
    {"NodeList", [](JobRow& job, View text) { job.nodes = said(text); }},
    {"FailedNode", [](JobRow& job, View text) { job.failed_node = said(text); }, 24, 11},
    {"Restarts", [](JobRow& job, View text) { job.restarts = whole_number(text); }, 24, 11},
    {"Reason", [](JobRow& job, View text) { job.reason = said(text); }},
    {"WorkDir", [](JobRow& job, View text) { job.work_directory = said(text); }},
    {"SubmitLine", [](JobRow& job, View text) { job.submit_line = said(text); }, 21, 8},
    {"Comment", [](JobRow& job, View text) { job.comment = said(text); }},
    {"JobName", [](JobRow& job, View text) { job.name = std::string(text); }},
};

std::vector<const Column*> sacct_columns(const SlurmVersion& version) {
  std::vector<const Column*> columns;
  for (const Column& column : kSacctColumns) {
    if (version.at_least(column.major, column.minor)) columns.push_back(&column);
  }
  return columns;
}

std::vector<const Column*> squeue_columns() {
  std::vector<const Column*> columns;
  for (const Column& column : kSqueueColumns) columns.push_back(&column);
  return columns;
}

Jobs parse_jobs(View text, View separator, const std::vector<const Column*>& columns) {
  const CutRows cut = cut_rows(text, separator, columns.size());
  Jobs jobs;
  jobs.damaged = cut.damaged;
  for (const auto& fields : cut.rows) {
    if (!is_job_id(fields[0])) {
      ++jobs.damaged;
      continue;
    }
    JobRow job;
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i]->read(job, fields[i]);
    jobs.rows.push_back(std::move(job));
  }
  jobs.whole = jobs.damaged == 0 && (text.empty() || text.back() == '\n');
  return jobs;
}

void append_query(const JobQuery& query, std::vector<std::string>& arguments) {
  base::check(!query.user.empty() || !query.ids.empty(), "a job query restricts something");
  for (const std::string& id : query.ids) {
    if (is_job_id(id)) continue;
    throw base::Error(base::Code::User,
                      "\"" + base::printable(id) + "\" is not a job id; it is a number");
  }
  if (!query.user.empty()) arguments.push_back("--user=" + query.user);
  if (!query.ids.empty()) arguments.push_back("--jobs=" + base::join(query.ids, ","));
}

constexpr double kMegabyte = 1024.0 * 1024.0;

std::optional<double> megabytes(View text) {
  const auto number = whole_number(text);
  if (!number) return std::nullopt;
  return static_cast<double>(*number) * kMegabyte;
}

// "4/28/0/32": allocated, idle, other, total.
void read_cpu_states(View text, NodeRow& node) {
  const auto parts = base::split(text, '/');
  if (parts.size() != 4) return;
  node.cpus_allocated = whole_number(parts[0]);
  node.cpus = whole_number(parts[3]);
}

}  // namespace

std::string random_separator() { return std::string(kUnitSeparator) + base::random_hex(4); }

bool is_job_id(View text) {
  return !text.empty() && text.size() <= 10 && text.front() != '0' &&
         text.find_first_not_of("0123456789") == View::npos;
}

std::optional<std::int64_t> gpu_count(const JobRow& job) {
  if (job.allocated.gpus) return job.allocated.gpus->count;
  if (job.requested.gpus) return job.requested.gpus->count;
  constexpr std::int64_t kMost = 1'000'000;
  if (job.gpus_per_node && job.node_count && job.gpus_per_node->count <= kMost &&
      *job.node_count <= kMost) {
    return job.gpus_per_node->count * *job.node_count;
  }
  return std::nullopt;
}

std::vector<std::string> squeue_arguments(const JobQuery& query, View separator) {
  std::string format;
  for (const Column& column : kSqueueColumns) format.append(column.name).append(separator);
  std::vector<std::string> arguments = {"--noheader", "--all", "--states=all",
                                        "--format=" + format + kSqueueColumns[0].name};
  append_query(query, arguments);
  return arguments;
}

Jobs parse_squeue(View text, View separator) {
  return parse_jobs(text, separator, squeue_columns());
}

std::vector<std::string> sacct_arguments(const JobQuery& query, double since, View separator,
                                         const SlurmVersion& version) {
  std::string format;
  for (const Column* const column : sacct_columns(version)) {
    format.append(column->name).append(",");
  }
  format += kSacctColumns[0].name;
  // "2026-11-21T11:48:02.125Z" without fraction and zone, as sacct reads it; TZ is UTC.
  const std::string start = base::iso8601(since).substr(0, 19);
  std::vector<std::string> arguments = {
      "--noheader",           "--parsable2",       "--delimiter=" + std::string(separator),
      "--noconvert",          "--allocations",     "--duplicates",
      "--starttime=" + start, "--format=" + format};
  append_query(query, arguments);
  return arguments;
}

Jobs parse_sacct(View text, View separator, const SlurmVersion& version) {
  return parse_jobs(text, separator, sacct_columns(version));
}

std::optional<std::string> parse_submitted_id(View text) {
  std::string last;
  for (const std::string& line : base::split(text, '\n')) {
    if (!line.empty()) last = line;
  }
  const View id = View(last).substr(0, last.find(';'));
  if (!is_job_id(id)) return std::nullopt;
  return std::string(id);
}

std::vector<std::string> sinfo_arguments(View separator) {
  std::string format;
  for (const char* const column : {"%N", "%T", "%C", "%m", "%e", "%O", "%G", "%f", "%R", "%E"}) {
    format.append(column).append(separator);
  }
  return {"--noheader", "--all", "--Node", "--format=" + format + "%N"};
}

Nodes parse_sinfo(View text, View separator) {
  constexpr std::size_t kFields = 10;
  const CutRows cut = cut_rows(text, separator, kFields);
  Nodes nodes;
  nodes.damaged = cut.damaged;
  std::map<std::string, std::size_t> places;
  for (const auto& fields : cut.rows) {
    const auto [place, is_new] = places.emplace(fields[0], nodes.rows.size());
    if (is_new) {
      NodeRow node;
      node.name = fields[0];
      node.state = parse_node_state(fields[1]);
      read_cpu_states(fields[2], node);
      node.memory_bytes = megabytes(fields[3]);
      node.memory_free_bytes = megabytes(fields[4]);
      node.load = base::parse_number(fields[5]);
      node.gpus = parse_gres(fields[6]);
      node.features = topology::slurm_text::parse_names(fields[7]);
      node.reason = said(fields[9]);
      nodes.rows.push_back(std::move(node));
    }
    if (const auto partition = said(fields[8])) {
      nodes.rows[place->second].partitions.push_back(*partition);
    }
  }
  return nodes;
}

}  // namespace regatta::orchestrator::slurm
