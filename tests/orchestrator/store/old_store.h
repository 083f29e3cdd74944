// Stores as earlier versions wrote them, with rows in every table.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "orchestrator/store/database.h"

namespace regatta::tests {

// Makes the tables of this version in an empty database, and two rows in each. Runs are "run-1",
// which has ended and whose run file asks for 0.25 of mlm_accuracy, and "run-2", which runs and
// asks for none; each in /old/runs under its id. In every column that has no meaning of its own a
// row has a value that no other has.
void make_old_store(orchestrator::store::Database& database, int version);

// Value by column, as SQL writes it.
using ColumnValues = std::map<std::string, std::string>;
// The rows of all tables in the order of their first two columns.
std::map<std::string, std::vector<ColumnValues>> all_rows(orchestrator::store::Database& database);

// What is not as it has to be in the tables that were made of `before`, of a store of `version`;
// empty: nothing.
std::string lost_by_migration(const std::map<std::string, std::vector<ColumnValues>>& before,
                              const std::map<std::string, std::vector<ColumnValues>>& after,
                              int version);

}  // namespace regatta::tests
