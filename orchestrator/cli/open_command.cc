// `regatta open`: a link with a one-time ticket. The ticket stands in the link's fragment, which no
// browser sends to a server, and the page takes it out at once.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "orchestrator/cli/client.h"
#include "orchestrator/cli/commands.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

// How long a browser that has just been started may take to read the file.
constexpr auto kBrowserTime = std::chrono::seconds(10);

// The link in a file of this user alone: an argument would stand in the process list for everybody.
// What is in it works once, so a file that an interrupted call left is of no use to anybody.
class Redirect {
 public:
  Redirect(base::FileSystem& files, const base::Path& folder, const std::string& link)
      : files_(files), path_(folder / "open.html") {
    base::replace_file(files_, path_,
                       "<!doctype html>\n<meta charset=\"utf-8\">\n"
                       "<meta name=\"referrer\" content=\"no-referrer\">\n"
                       "<meta http-equiv=\"refresh\" content=\"0; url=" +
                           link + "\">\n<title>Regatta</title>\n<a href=\"" + link +
                           "\">Regatta</a>\n");
  }
  ~Redirect() {
    try {
      files_.remove_file(path_);
    } catch (const base::Error&) {  // the next call replaces it
    }
  }
  Redirect(const Redirect&) = delete;
  Redirect& operator=(const Redirect&) = delete;
  [[nodiscard]] const base::Path& path() const { return path_; }

 private:
  base::FileSystem& files_;
  base::Path path_;
};

void show_in_browser(const base::Path& folder, const std::string& link) {
  const Redirect redirect(base::posix_file_system(), folder, link);
  base::Command command;
  command.arguments = {"xdg-open", redirect.path().string()};
  command.new_session = true;
  const pid_t opener = base::spawn(command);
  const auto end = std::chrono::steady_clock::now() + kBrowserTime;
  while (std::chrono::steady_clock::now() < end) {
    const auto exit = base::poll_exit(opener);
    if (exit && exit->code != 0) {
      throw base::Error(base::Code::Operator,
                        "xdg-open found no browser; open the link above yourself");
    }
    if (exit) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::this_thread::sleep_until(end);
}

// An address that the user gave: of a page, with nothing in it that would end an attribute.
std::string checked_url(std::string url) {
  while (!url.empty() && url.back() == '/') url.pop_back();
  const bool http = url.rfind("http://", 0) == 0 || url.rfind("https://", 0) == 0;
  const bool plain = url.find_first_not_of(
                         "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                         "0123456789-._~:/[]%") == std::string::npos;
  if (!http || !plain) {
    throw base::Error(base::Code::User, "--url is '" + base::printable(url) +
                                            "'; use an address such as http://localhost:8420");
  }
  return url;
}

}  // namespace

int open_page(const ClientOptions& options, const OpenOptions& open) {
  const Client client(options.server, options.timeout_seconds);
  if (client.socket().empty()) {
    throw base::Error(base::Code::User,
                      "links are made over the controller's socket; run 'regatta open' on the "
                      "controller's machine, with --server unix:PATH or none");
  }
  const std::string own_url = open.url.empty() ? "" : checked_url(open.url);
  std::string place;
  if (!open.run.empty()) {
    const std::string id = client.get("/runs/" + path_part(open.run)).at("id");
    place = "/runs/" + path_part(id);
  }
  const Json ticket = client.post("/tickets", "", {});
  const std::string link =
      checked_url(own_url.empty() ? ticket.at("url").get<std::string>() : own_url) +
      "/#ticket=" + path_part(ticket.at("ticket")) + place;
  if (options.format == Format::Json) {
    std::cout << Json{{"url", link}, {"seconds", ticket.at("seconds")}}.dump(2) << "\n"
              << std::flush;
  } else {
    std::cout << link << "\n" << std::flush;
    std::cerr << "The link works once, within a minute; 'regatta open' makes another.\n";
  }
  if (open.browser) {
    show_in_browser(client.socket().has_parent_path() ? client.socket().parent_path() : ".", link);
  }
  return 0;
}

}  // namespace regatta::orchestrator::cli
