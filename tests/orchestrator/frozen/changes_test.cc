#include "orchestrator/frozen/changes.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "orchestrator/frozen/freeze.h"
#include "tests/orchestrator/frozen/work_tree.h"

namespace regatta::orchestrator::frozen {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

// "~path" changed, "-path" gone, "+path" new.
std::vector<std::string> told(const Changes& found) {
  std::vector<std::string> lines;
  for (const Change& change : found.changes) {
    lines.push_back("~-+"[static_cast<int>(change.kind)] + change.path);
  }
  return lines;
}

Frozen freeze_now(const TestTree& tree, std::optional<std::string> commit = std::nullopt) {
  FreezeRequest request;
  request.store = tree.store();
  request.directory = tree.root();
  request.commit = std::move(commit);
  return freeze(request);
}

TEST(Changes, AreToldByKind) {
  const TestTree tree;
  for (const char* const name : {"edited", "removed", "same", "touched", "made-program"}) {
    tree.write(name, "1");
  }
  tree.write(".gitignore", "ignored\n");
  tree.link("link", "same");
  tree.commit_all();
  const Frozen frozen = freeze_now(tree);
  EXPECT_THAT(told(changes_since(frozen.job, frozen.folder)), IsEmpty());
  tree.write("edited", "2");
  tree.remove("removed");
  tree.write("touched", "1");
  tree.write("made-program", "1", 0755);
  tree.remove("link");
  tree.link("link", "edited");
  tree.write("sub/new", "1");
  tree.write("ignored", "1");
  const Changes found = changes_since(frozen.job, frozen.folder);
  EXPECT_THAT(told(found),
              ElementsAre("~edited", "~link", "~made-program", "-removed", "+sub/new"));
  EXPECT_EQ(text_of(found.changes[0].frozen), "1");
  EXPECT_EQ(text_of(found.changes[0].now), "2");
  EXPECT_THAT(found.touched, IsEmpty());
  tree.commit_all();
  EXPECT_EQ(told(changes_since(frozen.job, frozen.folder)), told(found))
      << "a commit is not an edit";
}

TEST(Changes, OfACommitAreAgainstTheTreeAsItIs) {
  const TestTree tree;
  tree.write("a", "1");
  tree.commit_all();
  tree.write("a", "2");
  const Frozen frozen = freeze_now(tree, "HEAD");
  EXPECT_THAT(told(changes_since(frozen.job, frozen.folder)), ElementsAre("~a"));
  tree.write("a", "1");
  EXPECT_THAT(told(changes_since(frozen.job, frozen.folder)), IsEmpty());
}

TEST(Changes, WhatTheJobDidToItsOwnTreeIsTold) {
  const TestTree tree;
  tree.write("a", "1");
  tree.write("b", "1");
  tree.write("c", "1");
  const Frozen frozen = freeze_now(tree);
  fs::remove(frozen.directory / "a");
  fs::permissions(frozen.directory / "b", fs::perms::owner_all);
  { std::ofstream(frozen.directory / "result") << "its own files are nobody's business"; }
  const Changes found = changes_since(frozen.job, frozen.folder);
  EXPECT_THAT(found.touched, ElementsAre("a", "b", "c")) << "one object, so c became a program too";
  EXPECT_THAT(told(found), IsEmpty());
}

TEST(Changes, OfAScriptFromElsewhereAreTold) {
  const TestTree tree;
  tree.write("a", "1");
  const TestTree other;
  other.write("job.sh", "1");
  FreezeRequest request;
  request.store = tree.store();
  request.directory = tree.root();
  request.script = other.root() / "job.sh";
  const Frozen frozen = freeze(request);
  EXPECT_THAT(told(changes_since(frozen.job, frozen.folder)), IsEmpty());
  other.write("job.sh", "2");
  EXPECT_THAT(told(changes_since(frozen.job, frozen.folder)),
              ElementsAre("~" + (other.root() / "job.sh").string()));
  other.remove("job.sh");
  EXPECT_THAT(told(changes_since(frozen.job, frozen.folder)),
              ElementsAre("-" + (other.root() / "job.sh").string()));
}

TEST(Changes, OfATreeThatIsGoneAreAllOfIt) {
  const TestTree tree;
  tree.write("a", "1");
  const Frozen frozen = freeze_now(tree);
  fs::rename(tree.root(), tree.beside() / "moved");
  const Changes found = changes_since(frozen.job, frozen.folder);
  EXPECT_TRUE(found.root_is_gone);
  EXPECT_THAT(told(found), ElementsAre("-a"));
}

TEST(Changes, AStoreWithinTheTreeIsNone) {
  const TestTree tree;
  tree.write("a", "1");
  FreezeRequest request;
  request.store = tree.root() / "store";
  request.directory = tree.root();
  const Frozen frozen = freeze(request);
  EXPECT_THAT(told(changes_since(frozen.job, frozen.folder)), IsEmpty());
}

}  // namespace
}  // namespace regatta::orchestrator::frozen
