// What went wrong, said once and not every quarter of a second, however many runs it befalls.
#pragma once

#include <map>
#include <string>

namespace regatta::orchestrator::files {

// Called by one thread.
class Troubles {
 public:
  // Logs the message unless it is the subject's newest one already. When many subjects have
  // something to say (a full disk), only the first few of a minute do, then their number. now:
  // monotonic seconds.
  void tell(const std::string& subject, const std::string& message, double now);
  // It went well: the same message is news again.
  void settle(const std::string& subject) { newest_.erase(subject); }

 private:
  void begin_minute(double now);

  std::map<std::string, std::string> newest_;  // by subject; at most one for each open run
  double minute_ = -1e9;                       // when the current one began
  int said_ = 0;                               // in it
  int unsaid_ = 0;
};

}  // namespace regatta::orchestrator::files
