#include "tests/orchestrator/store/old_store.h"

#include "base/text.h"
#include "orchestrator/store/integrity.h"
#include "orchestrator/store/schema.h"

namespace regatta::tests {
namespace {

using orchestrator::store::Database;
using orchestrator::store::Statement;

struct OldColumn {
  std::string name, type, default_value;
};

std::vector<OldColumn> columns_of_table(Database& database, const std::string& table) {
  Statement ask = database.prepare("SELECT name, type, dflt_value FROM pragma_table_info(?1)");
  ask.bind(table);
  return orchestrator::store::all<OldColumn>(ask, [](const Statement& row) {
    return OldColumn{row.text(0), row.text(1), row.text(2)};
  });
}

// What counts in a column, of the first row and of the second; empty: any value does.
std::vector<std::string> meant(const std::string& table, const std::string& column) {
  const std::map<std::string, std::vector<std::string>> values = {
      {"runs.number", {"1", "2"}},
      {"runs.id", {"'run-1'", "'run-2'"}},
      {"runs.directory", {"'/old/runs/run-1'", "'/old/runs/run-2'"}},
      {"runs.config",
       {"'{\"target\": {\"metric\": \"mlm_accuracy\", \"value\": 0.25, \"times_baseline\": 2}}'",
        "'{}'"}},
      {"runs.target", {"NULL", "NULL"}},
      {"runs.target_times_baseline", {"2.0", "NULL"}},
      {"runs.metric", {"'mlm_accuracy'", "'mlm_accuracy'"}},
      {"runs.created_utc", {"1700000001.0", "1700000002.0"}},
      {"runs.wanted", {"0", "0"}},
      {"runs.scheduler", {"'slurm'", "'local'"}},
      {"runs.after_runs", {"''", "'run-1/'"}},
      {"runs.archived", {"1", "0"}},
      {"runs.state", {"'failed'", "'running'"}},
      {"runs.drained", {"1", "0"}},
      {"runs.settled", {"1", "0"}},
      {"launches.run", {"1", "2"}},
      {"launches.number", {"1", "1"}},
      {"launches.handle", {"'slurm:12:0123456789abcdef'", "'4711:815:b4a3ee3c'"}},
      {"launches.over", {"1", "0"}},
      {"launches.replaced", {"0", "0"}},
      {"launches.nodes", {"'gpu[1-2]'", "''"}},
      {"attempts.row", {"7", "8"}},
      {"attempts.run", {"1", "2"}},
      {"attempts.number", {"1", "1"}},
      {"attempts.started", {"1", "1"}},
      {"attempts.host", {"'gpu1'", "'login1'"}},
      {"attempts.hosts", {"''", "'login1,login2'"}},
      {"attempts.judged", {"1", "0"}},
      {"steps.place", {"1", "1"}},
      {"checkpoints.status", {"'failed'", "'written'"}},
      {"evaluations.mlm_accuracy", {"0.125", "0.375"}},
      {"evaluations.target_met", {"0", "1"}},
      {"evaluations.metrics", {"'{\"f1\":0.5}'", "'{}'"}},
      {"timelines.attempt", {"7", "8"}},
      {"timelines.bucket_bytes", {"'[4096.0,1024.0]'", "'[2048.0]'"}},
      {"timelines.launched", {"'[0.5,0.75]'", "'[0.5]'"}},
      {"timelines.finished", {"'[0.625,0.875]'", "'[0.625]'"}},
      {"rank_shares.tokens", {"'[4096.0,3980.0]'", "'[]'"}},
      {"rank_shares.compute_seconds", {"'[0.5,0.25]'", "'[]'"}},
      {"node_events.blame", {"'shared'", "'node'"}},
  };
  const auto found = values.find(table + "." + column);
  if (found != values.end()) return found->second;
  if (table != "runs" && column == "run" && table != "node_events") return {"1", "2"};
  if (column == "attempt") return {"7", "8"};
  return {};
}

// After the migration, where that is not what was there before; empty: it is.
std::string made_of(const std::string& table, const std::string& column, std::size_t row,
                    bool was_there, int version) {
  const std::string name = table + "." + column;
  if (name == "runs.target" && row == 0 && version < 8) return "0.25";
  if (was_there) return "";
  // Columns that earlier versions did not have, and what they mean of rows that are older.
  if (name == "runs.target_times_baseline") return row == 0 ? "2" : "NULL";
  if (name == "runs.scheduler") return row == 0 ? "'slurm'" : "'local'";
  if (name == "steps.place") return "1";
  if (name == "evaluations.value") return row == 0 ? "0.125" : "0.375";  // of mlm_accuracy
  return "default";
}

// "2" of "2.0".
std::string plain(const std::string& number) {
  const bool whole = number.size() > 2 && number.substr(number.size() - 2) == ".0";
  return whole ? number.substr(0, number.size() - 2) : number;
}

// Where a column's values are today.
std::string name_today(const std::string& table, const std::string& column, int version) {
  const bool renamed = version < 3 && table == "checkpoints" && column == "write_seconds";
  return renamed ? "whole_seconds" : column;
}

}  // namespace

void make_old_store(Database& database, int version) {
  for (int i = 0; i < version; ++i) database.execute(orchestrator::store::kVersions[i]);
  int value = 100;  // no other has it
  for (const std::string& table : orchestrator::store::tables_of(database)) {
    for (std::size_t row = 0; row < 2; ++row) {
      std::vector<std::string> names, values;
      for (const OldColumn& column : columns_of_table(database, table)) {
        const std::vector<std::string> known = meant(table, column.name);
        const std::string number = std::to_string(++value);
        names.push_back(column.name);
        if (!known.empty()) {
          values.push_back(known[row]);
        } else if (column.type == "INTEGER") {
          values.push_back(number);
        } else if (column.type == "REAL") {
          values.push_back(number + ".5");
        } else {
          values.push_back("'value " + number + "'");
        }
      }
      database.execute("INSERT INTO " + table + "(" + base::join(names, ", ") + ") VALUES(" +
                       base::join(values, ", ") + ")");
    }
  }
  database.execute("PRAGMA user_version = " + std::to_string(version));
}

std::map<std::string, std::vector<ColumnValues>> all_rows(Database& database) {
  std::map<std::string, std::vector<ColumnValues>> rows;
  for (const std::string& table : orchestrator::store::tables_of(database)) {
    std::vector<std::string> names, quoted;
    for (const OldColumn& column : columns_of_table(database, table)) {
      names.push_back(column.name);
      quoted.push_back("quote(" + column.name + ")");
    }
    Statement ask = database.prepare("SELECT " + base::join(quoted, ", ") + " FROM " + table +
                                     " ORDER BY " + names[0] + ", " + names[1]);
    std::vector<ColumnValues>& list = rows[table];
    while (ask.step()) {
      ColumnValues values;
      for (std::size_t i = 0; i < names.size(); ++i) {
        values[names[i]] = ask.text(static_cast<int>(i));
      }
      list.push_back(values);
    }
  }
  return rows;
}

std::string lost_by_migration(const std::map<std::string, std::vector<ColumnValues>>& before,
                              const std::map<std::string, std::vector<ColumnValues>>& after,
                              int version) {
  Database today(":memory:", Database::Access::ReadWrite);
  for (const char* const sql : orchestrator::store::kVersions) today.execute(sql);
  std::string lost;
  const auto check = [&](const std::string& what, const std::string& is, const std::string& must) {
    if (plain(is) != plain(must)) lost += what + " is " + is + " and has to be " + must + "\n";
  };
  for (const auto& [table, rows] : before) {
    const auto found = after.find(table);
    if (found == after.end() || found->second.size() != rows.size()) {
      lost += table + " has not as many rows as before\n";
      continue;
    }
    std::map<std::string, std::string> defaults;
    for (const OldColumn& column : columns_of_table(today, table)) {
      defaults[column.name] = column.default_value.empty() ? "NULL" : column.default_value;
    }
    for (std::size_t row = 0; row < rows.size(); ++row) {
      ColumnValues left = found->second[row];
      const std::string where = table + " " + std::to_string(row + 1) + ": ";
      for (const auto& [column, value] : rows[row]) {
        const std::string name = name_today(table, column, version);
        const std::string must = made_of(table, name, row, true, version);
        check(where + name, left[name], must.empty() ? value : must);
        left.erase(name);
      }
      for (const auto& [column, value] : left) {
        const std::string must = made_of(table, column, row, false, version);
        check(where + column, value, must == "default" ? defaults[column] : must);
      }
    }
  }
  return lost;
}

}  // namespace regatta::tests
