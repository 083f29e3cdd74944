// HTTP as two structs; the library stays behind server.cc.
#pragma once

#include <map>
#include <string>

namespace regatta::orchestrator {

struct Request {
  std::string method;                          // "GET", "POST", …; a HEAD arrives as GET
  std::string path;                            // decoded, without the query
  std::map<std::string, std::string> query;    // decoded; of repeated names one
  std::map<std::string, std::string> headers;  // names in lower case; values without control bytes
  std::string body;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::map<std::string, std::string> headers;
};

}  // namespace regatta::orchestrator
