#include "base/host.h"

#include <gtest/gtest.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file_system.h"
#include "base/process.h"

namespace regatta::base {
namespace {

TEST(Host, NameIsTheKernels) {
  utsname names{};
  ASSERT_EQ(::uname(&names), 0);
  EXPECT_EQ(host_name(), names.nodename);
}

TEST(Host, BootIdIsOneLineAndStaysTheSame) {
  const std::string id = boot_id();
  EXPECT_EQ(id.size(), 36U);  // 8-4-4-4-12 digits
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef-"), std::string::npos);
  EXPECT_EQ(boot_id(), id);
}

// `id -un` fails where the user has no name; the number is shown then.
TEST(Host, UserNameIsThatOfTheEffectiveUser) {
  Command command;
  command.arguments = {"id", "-un"};
  const Output output = run(command, 10);
  EXPECT_EQ(user_name() + "\n",
            output.exit.code == 0 ? output.text : std::to_string(::geteuid()) + "\n");
}

}  // namespace
}  // namespace regatta::base
