// `regatta open`: a link with a one-time ticket. The ticket is in the link's fragment, which no
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
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/usage_error.h"

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
    throw UsageError("--url is '" + base::printable(url) +
                     "'; use an address such as http://localhost:8420");
  }
  return url;
}

class Open : public Command {
 public:
  explicit Open(const Program& program)
      : Command({"open",
                 Group::Controller,
                 "print a link that opens the page; it works once, within a minute",
                 {"open", "open demo --browser"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options.add("run", ValueKind::Run, &run_, "the run's id or name; without it: all runs");
    options.add("--url", &url_,
                "the page's address as the browser reaches it, such as the local end of ssh -L");
    options.add("--browser", &browser_, "open it in the desktop's browser");
    add_client_options(options, &client_);
  }

  int run() override {
    const Client client = client_.connect();
    // Over the controller's socket only.
    if (client.socket().empty()) {
      throw UsageError(
          "links are made over the controller's socket; run 'regatta open' on the "
          "controller's machine, with --server unix:PATH or none");
    }
    const std::string own_url = url_.empty() ? "" : checked_url(url_);
    std::string place;
    if (!run_.empty()) {
      const std::string id = client.get("/runs/" + path_part(run_)).at("id");
      place = "/runs/" + path_part(id);
    }
    const Json ticket = client.post("/tickets", "", {});
    const std::string link =
        checked_url(own_url.empty() ? ticket.at("url").get<std::string>() : own_url) +
        "/#ticket=" + path_part(ticket.at("ticket")) + place;
    if (!client_.output.print({{"url", link}, {"seconds", ticket.at("seconds")}})) {
      std::cout << link << "\n" << std::flush;
      std::cerr << "The link works once, within a minute; 'regatta open' makes another.\n";
    }
    if (browser_) {
      const base::Path& socket = client.socket();
      show_in_browser(socket.has_parent_path() ? socket.parent_path() : ".", link);
    }
    return 0;
  }

 private:
  ClientOptions client_;
  std::string run_;  // empty: all runs
  std::string url_;  // empty: the controller's own
  bool browser_ = false;
};

}  // namespace

std::unique_ptr<Command> open_command(const Program& program) {
  return std::make_unique<Open>(program);
}

}  // namespace regatta::orchestrator::cli
