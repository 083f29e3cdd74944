// Request ids, tags and gzip, as clients see them.
#include "orchestrator/api/delivery.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "orchestrator/api/answers.h"

namespace regatta::orchestrator::api {
namespace {

using testing::HasSubstr, testing::MatchesRegex;
using Json = nlohmann::ordered_json;

RequestHead head_with(const std::string& name, const std::string& value) {
  RequestHead head;
  head.method = "GET";
  head.target = "/";
  if (!name.empty()) head.fields.push_back({name, value});
  return head;
}
Request get_with(const std::map<std::string, std::string>& headers) {
  Request request;
  request.method = "GET";
  request.path = "/api/v1/runs";
  request.headers = headers;
  return request;
}
Response text_of(std::size_t size) {
  Response response;
  for (std::size_t i = 0; response.body.size() < size; ++i)
    response.body += std::to_string(i) + ",";
  response.body.resize(size);
  return response;
}

// By zlib's other half.
std::string unzipped(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(::inflateInit2(&stream, 15 + 16), Z_OK);
  std::string in = bytes;
  std::string out(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::inflateEnd(&stream);
  return out;
}

TEST(Delivery, TakesTheClientsRequestIdOrMakesOne) {
  EXPECT_EQ(request_id_of(head_with("x-request-id", "job-7_A.b")), "job-7_A.b");
  const std::string longest(64, 'a');
  EXPECT_EQ(request_id_of(head_with("x-request-id", longest)), longest);
  const std::string made = request_id_of(head_with("", ""));
  EXPECT_THAT(made, MatchesRegex("[0-9a-f]{16}"));
  EXPECT_NE(request_id_of(head_with("", "")), made);
  for (const std::string& bad : {std::string(), longest + "a", std::string("a b"),
                                 std::string("a\"b"), std::string("a,b"), std::string("ä")}) {
    EXPECT_THAT(request_id_of(head_with("x-request-id", bad)), MatchesRegex("[0-9a-f]{16}")) << bad;
  }
}

TEST(Delivery, AProblemNamesItsRequest) {
  const Response answer =
      with_request_id(error_response(409, "conflict", "it says \"no\"\n"), "abc");
  EXPECT_EQ(answer.headers.at("X-Request-Id"), "abc");
  EXPECT_EQ(Json::parse(answer.body), (Json{{"type", "about:blank"},
                                            {"title", "Conflict"},
                                            {"status", 409},
                                            {"detail", "it says \"no\"\n"},
                                            {"code", "conflict"},
                                            {"request_id", "abc"}}));
  const Response plain = with_request_id(json_response(200, {{"a", 1}}), "abc");
  EXPECT_EQ(Json::parse(plain.body), (Json{{"a", 1}})) << "answers are as they were";
}

TEST(Delivery, TagsAnswersAndRecognisesThem) {
  const Response answer = with_tag(text_of(10), get_with({}));
  const std::string tag = answer.headers.at("ETag");
  EXPECT_THAT(tag, MatchesRegex("W/\"[0-9a-f]{32}\""));
  EXPECT_NE(with_tag(text_of(11), get_with({})).headers.at("ETag"), tag);
  for (const std::string& known : {tag, tag.substr(2), "\"x\", " + tag, std::string("*")}) {
    const Response same = with_tag(text_of(10), get_with({{"if-none-match", known}}));
    EXPECT_EQ(same.status, 304) << known;
    EXPECT_EQ(same.body, "");
    EXPECT_EQ(same.headers.at("ETag"), tag);
  }
  EXPECT_EQ(with_tag(text_of(11), get_with({{"if-none-match", tag}})).status, 200);
  Request post = get_with({{"if-none-match", "*"}});
  post.method = "POST";
  EXPECT_EQ(with_tag(text_of(10), post).status, 200);
  const Response refused = with_tag(error_response(404, "not_found", "no"), get_with({}));
  EXPECT_EQ(refused.headers.count("ETag"), 0U);
  Response own = text_of(10);
  own.headers["ETag"] = "\"own\"";
  EXPECT_EQ(with_tag(own, get_with({{"if-none-match", "\"own\""}})).status, 304);
}

TEST(Delivery, CompressesWhatIsLargeForThoseWhoTakeIt) {
  const std::string body = text_of(20'000).body;
  for (const char* const accepted :
       {"gzip", "GZIP", "br, gzip", "gzip;q=0.5", "*", "deflate , gzip ; q=1.0"}) {
    const Response answer = compressed(text_of(20'000), get_with({{"accept-encoding", accepted}}));
    ASSERT_EQ(answer.headers.count("Content-Encoding"), 1U) << accepted;
    EXPECT_EQ(answer.headers.at("Content-Encoding"), "gzip");
    EXPECT_LT(answer.body.size(), body.size() / 2);
    EXPECT_EQ(unzipped(answer.body), body);
    EXPECT_EQ(answer.headers.at("Vary"), "Accept-Encoding");
  }
  for (const char* const accepted :
       {"", "br", "gzip;q=0", "gzip; q=0.000", "gzipped", "identity"}) {
    const Response answer = compressed(text_of(20'000), get_with({{"accept-encoding", accepted}}));
    EXPECT_EQ(answer.headers.count("Content-Encoding"), 0U) << accepted;
    EXPECT_EQ(answer.body, body);
    EXPECT_EQ(answer.headers.at("Vary"), "Accept-Encoding") << "a cache must know";
  }
  const Request takes = get_with({{"accept-encoding", "gzip"}});
  EXPECT_EQ(compressed(text_of(1024), takes).headers.count("Content-Encoding"), 0U);
  EXPECT_EQ(compressed(text_of(1025), takes).headers.count("Content-Encoding"), 1U);
  Response image = text_of(20'000);
  image.content_type = "image/png";
  EXPECT_EQ(compressed(image, takes).body, body);
}

}  // namespace
}  // namespace regatta::orchestrator::api
