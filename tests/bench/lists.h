// The lists of runs that the benchmarks ask for.
#pragma once

#include <string>
#include <vector>

namespace regatta::bench {

// Each filter and each order that the list offers.
inline const std::vector<std::string> kLists = {
    "/runs",
    "/runs?state=failed",
    "/runs?state=failed,running,queued",
    "/runs?state=succeeded",
    "/runs?name=run07",
    "/runs?since=2023-11-14T22:20:00Z&until=2023-11-14T23:20:00Z",
    "/runs?archived=all",
    "/runs?archived=true",
    "/runs?sort=name&order=ascending",
    "/runs?sort=ended",
    "/runs?sort=ended&state=failed",
    "/runs?sort=time_to_accuracy&order=ascending",
    "/runs?order=ascending",
    "/runs?total=true",
    "/runs?limit=20&state=cancelled&total=true",
    "/runs?state=stopped,queued&archived=all&total=true",
    "/runs?tag=first",
    "/runs?tag=nightly&total=true",
    "/runs?tag=first,nightly&sort=name",
    "/runs?owner=token&total=true",
    "/runs?owner=uid%201999&sort=ended",
    "/runs?owner=token&state=stopped",
    "/runs?node=node99",
    "/runs?node=node01&sort=time_to_accuracy",
    "/runs?name=nobody&sort=ended&total=true",
    "/runs?since=2023-11-14T22:20:00Z&sort=ended",
    "/runs?full=true"};
// The largest that there are, ten pages in one.
inline const std::vector<std::string> kLargestLists = {"/runs?limit=1000",
                                                       "/runs?limit=1000&full=true"};

}  // namespace regatta::bench
