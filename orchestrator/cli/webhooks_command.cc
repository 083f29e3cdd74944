#include <iostream>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string cell(const Json& webhook, const char* key) {
  const Json value = webhook.value(key, Json());
  if (value.is_null()) return "-";
  return value.is_string() ? value.get<std::string>() : base::json_text(value);
}

// What comes next, or what is wrong.
std::string news_of(const Json& webhook) {
  std::string news = cell(webhook, "error");
  if (webhook.value("state", "") == "retrying") {
    news += "; next try at " + text::local_date(webhook.value("next_try_at", Json()));
  } else if (webhook.value("state", "") == "dead") {
    news += "; 'regatta webhooks --redeliver " + webhook.value("name", "") + "' tries again";
  }
  return news;
}

std::string webhooks_table(const Json& webhooks) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "URL", "STATE", "WAITING", "DELIVERED", "FAILURES", "ERROR"}};
  for (const Json& webhook : webhooks) {
    const Json at = webhook.value("delivered_at", Json());
    rows.push_back({cell(webhook, "name"), cell(webhook, "url"), cell(webhook, "state"),
                    cell(webhook, "waiting"),
                    cell(webhook, "delivered") + (at.is_null() ? "" : ", " + text::local_date(at)),
                    cell(webhook, "failures"), news_of(webhook)});
  }
  return text::table(rows);
}

class WebhooksCommand : public Command {
 public:
  explicit WebhooksCommand(const Program& program)
      : Command({"webhooks",
                 Group::Controller,
                 "who is told events, and how far",
                 {"webhooks", "webhooks --redeliver pager", "webhooks --skip pager"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options.add("--redeliver", &redeliver_, "try this one again at once").type = "NAME";
    options.add("--skip", &skip_, "have this one go on without the event that fails").type = "NAME";
    add_client_options(options, &client_, {"webhooks", "name", "WebhookList"});
  }

  int run() override {
    if (!skip_.empty() && skip_ == redeliver_) {
      throw UsageError("--skip leaves out what --redeliver would send to '" +
                       base::printable(skip_) + "'; give one of them");
    }
    const Client client = client_.connect();
    if (!skip_.empty()) post(client, skip_, "?skip=true");
    if (!redeliver_.empty()) post(client, redeliver_, "");
    const Json answer = client.get("/webhooks");
    if (client_.output.print(answer)) return 0;
    if (answer.at("webhooks").empty()) {
      std::cout << "no webhooks; 'regatta serve --webhook URL' has one\n";
    } else {
      std::cout << webhooks_table(answer.at("webhooks"));
    }
    return 0;
  }

 private:
  static void post(const Client& client, const std::string& name, const char* query) {
    client.post("/webhooks/" + path_part(name) + "/redeliver" + query, "", {});
  }

  ClientOptions client_;
  std::string redeliver_, skip_;
};

}  // namespace

std::unique_ptr<Command> webhooks_command(const Program& program) {
  return std::make_unique<WebhooksCommand>(program);
}

}  // namespace regatta::orchestrator::cli
