#include "topology/graph/hostlist.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace regatta::topology {
namespace {

using testing::HasSubstr;

struct Expansion {
  const char* text;
  const char* names;  // joined by spaces
};

TEST(Hostlist, Expands) {
  const Expansion rows[] = {
      {"", ""},
      {"(null)", ""},
      {"None assigned", ""},
      {"node01", "node01"},
      {"a,b,a", "a b a"},
      {"n[1-3]", "n1 n2 n3"},
      {"n[1-3,07-09]", "n1 n2 n3 n07 n08 n09"},
      {"n[9-11]", "n9 n10 n11"},
      {"n[09-11]", "n09 n10 n11"},
      {"n[099-101]", "n099 n100 n101"},
      {"n[007-10]", "n007 n008 n009 n010"},
      {"n[0]", "n0"},
      {"n[5-5]", "n5"},
      {"gpu-a[0-1]b[00-01]", "gpu-a0b00 gpu-a0b01 gpu-a1b00 gpu-a1b01"},
      {"r[1-2][1-2]", "r11 r12 r21 r22"},
      {"n[1-2]-ib", "n1-ib n2-ib"},
      {"n[1,3],m[2],x", "n1 n3 m2 x"},
      {"host.example.org,h_2", "host.example.org h_2"},
      {"[1-2]", "1 2"},
      {"n[999999999999999998-999999999999999999]", "n999999999999999998 n999999999999999999"},
  };
  for (const Expansion& row : rows) {
    EXPECT_EQ(base::join(graph::expand_hostlist(row.text), " "), row.names) << row.text;
  }
}

TEST(Hostlist, RefusesWhatIsNone) {
  using std::string_literals::operator""s;
  const std::string rows[] = {",",           "a,",        ",a",
                              "a,,b",        "n[",        "n[]",
                              "n]",          "n[1",       "n[1-",
                              "n[1-]",       "n[-1]",     "n[1,]",
                              "n[,1]",       "n[3-1]",    "n[1-2-3]",
                              "n[a]",        "n[1-b]",    "n[[1]]",
                              "n[1[2]]",     "n[1] ",     "n 1",
                              "n\t",         "a\nb",      "a\0b"s,
                              "n[1;2]",      "$(reboot)", "-x",
                              "--exclude=a", "a,-b",      "name{1-2}",
                              "block{b1}",   "n}",        "n[1234567890123456789]",
                              "a/b",         "é",         "n[1-99999999999999999999]",
                              "'a'"};
  for (const std::string& row : rows) {
    try {
      const auto names = graph::expand_hostlist(row);
      ADD_FAILURE() << base::printable(row) << " gave " << base::join(names, " ");
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_EQ(base::printable(error.what()), error.what()) << "one printable line";
    }
  }
}

TEST(Hostlist, SaysThatFunctionsAreNotUnderstood) {
  try {
    (void)graph::expand_hostlist("feature{gpu}");
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("hostlist functions"));
  }
}

TEST(Hostlist, IsBounded) {
  EXPECT_EQ(graph::expand_hostlist("n[0-65535]").size(), graph::kMostHosts);
  EXPECT_EQ(graph::expand_hostlist("n[0-255]m[0-255]").size(), graph::kMostHosts);
  EXPECT_EQ(graph::expand_hostlist("a,b,c", 3).size(), 3u);
  for (const char* const text :
       {"n[0-65536]", "n[0-65535],m", "n[0-999999999999999999]", "n[0-255]m[0-256]",
        "n[0-99999][0-99999][0-99999][0-99999][0-99999][0-99999]"}) {
    EXPECT_THROW((void)graph::expand_hostlist(text), base::Error) << text;
  }
  EXPECT_THROW((void)graph::expand_hostlist("a,b,c", 2), base::Error);
  std::string many = "n[1";
  for (std::size_t i = 0; i < graph::kMostHosts; ++i) many += ",1";
  EXPECT_THROW((void)graph::expand_hostlist(many + "]"), base::Error);
}

TEST(Hostlist, Compresses) {
  const Expansion rows[] = {
      {"", ""},
      {"a", "a"},
      {"a,b", "b a b"},
      {"node[01-03]", "node03 node01 node02"},
      {"node[1-2,4]", "node1 node2 node4"},
      {"n[9-11]", "n9 n10 n11"},
      {"n[09-10]", "n09 n10"},
      {"n[9,09,010]", "n9 n09 n010"},
      {"n[09-10,010]", "n010 n10 n09"},
      {"n[099-101]", "n099 n100 n101"},
      {"n,n1", "n1 n"},
      {"rack1-[1-2],rack2-1", "rack1-1 rack2-1 rack1-2"},
      {"n1-ib,n2-ib", "n1-ib n2-ib"},
  };
  for (const Expansion& row : rows) {
    const std::string names = row.names;
    const auto list = names.empty() ? std::vector<std::string>{} : base::split(names, ' ');
    EXPECT_EQ(graph::compress_hosts(list), row.text) << row.names;
  }
  for (const char* const name : {"", "-a", "a b", "a[1]", "a,b", "a\n", "$x"}) {
    EXPECT_THROW((void)graph::compress_hosts({"ok", name}), base::Error) << name;
  }
}

TEST(Hostlist, EverySetComesBack) {
  std::mt19937_64 random(20261121);
  const std::vector<std::string> prefixes = {"n", "node", "gpu-a", "r1b", "x.", "n0", "rack7-"};
  for (int round = 0; round < 2000; ++round) {
    std::set<std::string> names;
    const std::size_t count = random() % 40;
    while (names.size() < count) {
      std::string digits = std::to_string(random() % (random() % 2 == 0 ? 20 : 1200));
      if (random() % 2 == 0) digits.insert(0, random() % 4, '0');
      if (random() % 8 == 0) digits.clear();
      if (random() % 16 == 0) digits = "12345678901234567" + digits;  // longer than a number may be
      names.insert(prefixes[random() % prefixes.size()] + digits +
                   (random() % 16 == 0 ? "-ib" : ""));
    }
    std::vector<std::string> shuffled(names.begin(), names.end());
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    const std::string text = graph::compress_hosts(shuffled);
    const auto back = graph::expand_hostlist(text);
    EXPECT_EQ(std::set<std::string>(back.begin(), back.end()), names) << text;
    EXPECT_EQ(back.size(), names.size()) << "no name twice: " << text;
  }
}

}  // namespace
}  // namespace regatta::topology
