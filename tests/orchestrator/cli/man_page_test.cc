// Text as troff must get it, whatever is in it.
#include "orchestrator/cli/man_page.h"

#include <gmock/gmock.h>

#include "base/text.h"
#include "orchestrator/cli/roff.h"

namespace regatta::orchestrator::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Roff, EscapesWhatTroffReadsAsItsOwn) {
  struct Case {
    const char* text;
    const char* prose;
    const char* code;
  };
  const Case cases[] = {
      {"", "", ""},
      {"two words", "two words", "two words"},
      {R"(a\nb)", R"(a\(rsnb)", R"(a\(rsnb)"},
      {"'de x", R"(\(aqde x)", R"(\(aqde x)"},
      {"run's \"x\"", R"(run\(aqs \(dqx\(dq)", R"(run\(aqs \(dqx\(dq)"},
      {"~/x^2", R"(\(ti/x\(ha2)", R"(\(ti/x\(ha2)"},
      {"lost-reply", "lost-reply", R"(lost\-reply)"},
      {"see --dry-run now", R"(see \-\-dry\-run now)", R"(see \-\-dry\-run now)"},
      {"(--dry-run)", R"((\-\-dry\-run))", R"((\-\-dry\-run))"},
      {"run `ls -o x` now", R"(run \fBls \-o x\fR now)", R"(run \(gals \-o x\(ga now)"},
      {"one ` alone", R"(one \(ga alone)", R"(one \(ga alone)"},
      {"http://\xE2\x80\xA6 \xC3\xA9 \xF0\x9F\x9A\xA3", R"(http://... \[u00E9] \[u1F6A3])",
       R"(http://... \[u00E9] \[u1F6A3])"},
      {"a\nb", R"(a\(rsnb)", R"(a\(rsnb)"},  // as base::printable shows it
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.text);
    EXPECT_EQ(roff_text(each.text), each.prose);
    EXPECT_EQ(roff_code(each.text), each.code);
  }
}

TEST(Roff, NoLineIsARequest) {
  EXPECT_EQ(roff_line(roff_text(".so /etc/passwd")), "\\&.so /etc/passwd\n");
  EXPECT_EQ(roff_line(roff_text("'so x")), "\\(aqso x\n");
  EXPECT_EQ(roff_line("text."), "text.\n");
}

TEST(ManPage, HoldsHostileTextsWithoutARequestOfTheirs) {
  OutlineOption option;
  option.names = {"-x", "--x-y"};
  option.help = ".so /etc/passwd\n.sy id";
  option.value = "'A|B";
  option.default_text = "\\X";
  option.range = "1 to 2";
  option.is_required = true;
  Outline command;
  command.path = {"go"};
  command.text = {"go", Group::Runs, ".ab", {".so x", "go --x-y \\(aq"}};
  command.options = {option};
  Outline program;
  program.parts = {command};
  const auto pages = man_pages(program, "regatta 1.2.3");
  ASSERT_EQ(pages.size(), 2U);
  const std::string& page = pages.at("regatta-go.1");
  EXPECT_THAT(page, StartsWith(".TH regatta\\-go 1 \"\" \"regatta 1.2.3\" \"Regatta\"\n.SH NAME\n"
                               "regatta\\-go \\- .ab\n.SH SYNOPSIS\n"
                               "\\fBregatta go\\fR [\\fIOPTION\\fR...] \\fB\\-\\-x\\-y\\fR "
                               "\\fI\\(aqA|B\\fR\n"));
  EXPECT_THAT(page,
              HasSubstr("\n.TP\n\\fB\\-x\\fR, \\fB\\-\\-x\\-y\\fR \\fI\\(aqA|B\\fR\n"
                        "\\&.so /etc/passwd\\(rsn.sy id; 1 to 2; default: \\(rsX; required\n"));
  EXPECT_THAT(page, HasSubstr("\nregatta go \\-\\-x\\-y \\(rs(aq\n"));
  for (const std::string& line : base::split(pages.at("regatta.1") + page, '\n')) {
    for (const char* request : {".so", ".sy", ".ab", "'"}) {
      EXPECT_THAT(line, Not(StartsWith(request)));
    }
  }
}

}  // namespace
}  // namespace regatta::orchestrator::cli
