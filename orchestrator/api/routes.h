// The addresses below /api/v1, in one table (Api::routes()) which serves requests, checks their
// queries, and is the API's document (openapi.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "orchestrator/api/http.h"

namespace regatta::orchestrator::api {

class Api;
struct Call;

// What a request needs. Read and Change: that Access let it in, which tells the two apart nowhere
// as long as there is one user. Owner: the controller's own socket, whose kernel says who asks; a
// token may be read over a shoulder or out of a browser.
enum class Scope { Read, Change, Owner };
[[nodiscard]] std::string_view name_of(Scope scope);  // "read", "change", "owner"

// A parameter of a query.
struct Parameter {
  // Words: one or more of the choices, with commas between them. Moment: RFC 3339, or a date.
  // List: one or more texts, none of them empty, with commas between them.
  enum class Kind { Integer, Flag, Word, Words, Text, List, Moment };
  std::string_view name;
  Kind kind = Kind::Text;
  std::string_view what;           // one line, for the document
  std::string_view absent = {};    // what stands for it where it is not given; empty: nothing
  std::string_view choices = {};   // of words, separated by spaces
  std::int64_t low = 0, high = 0;  // of an integer
  Scope scope = Scope::Read;       // of a request that has it; of a flag, that has it set
  std::string_view example = {};   // of a text whose name has another form elsewhere (openapi.cc)
};
using Parameters = std::span<const Parameter>;

enum class RequestBody { None, Optional, Needed };

// What a route answers when nothing is wrong. All else is a Problem (answers.h).
struct RouteAnswer {
  int status = 0;
  std::string_view schema = {};  // its name among the schemas (schemas.h)
  std::string_view when = {};    // one line
  std::string_view type = "application/json";
};

struct Route {
  std::string_view method;
  std::string_view path;  // below /api/v1/; {…} is any one part
  std::string_view summary;
  Response (Api::*handle)(const Call&);
  std::span<const RouteAnswer> answers;
  Parameters query = {};
  RequestBody body = RequestBody::None;
  std::string_view body_schema = {};
  std::string_view example = {};  // of a body, as JSON
  bool may_have_key = false;      // the header Idempotency-Key

  // Without its parameters. A GET changes nothing, all else may.
  [[nodiscard]] constexpr Scope scope() const {
    return method == "GET" ? Scope::Read : Scope::Change;
  }
};

// A request that fits a route, with a query that has been checked.
struct Call {
  const Request& request;
  const Route& route;
  std::vector<std::string> names;  // the parts of its path that stand for {id} and {name}

  // Of the query, or what stands for them where they are not given. A parameter that the route does
  // not have is a bug.
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> words(std::string_view name) const;
  [[nodiscard]] std::optional<double> moment(std::string_view name) const;  // UTC seconds

 private:
  [[nodiscard]] const std::string* given(std::string_view name) const;
  [[nodiscard]] const Parameter& parameter(std::string_view name) const;
};

// parts: of the path after "/api/v1/". Of two paths that fit, the first in the table counts. Else
// the answer: 400 for a path that cannot be read, 404 for no address, 405 with Allow for another
// method; as refuse_query() and refuse_body(); 411 where a body may be and its length is not said;
// 403 for a parameter whose scope the request does not have.
[[nodiscard]] std::variant<Call, Response> find_route(std::span<const Route> routes,
                                                      const Request& request,
                                                      const std::vector<std::string>& parts);

// 400 for a query that cannot be read, and for a parameter of it that is not among these, that came
// twice, or whose value is none.
[[nodiscard]] std::optional<Response> refuse_query(const Request& request, Parameters known);

// 422 for a body where none is taken (but {}), for one that is not UTF-8, and for JSON in which a
// key stands twice: two readers would take two different values. known: of the query.
[[nodiscard]] std::optional<Response> refuse_body(const Request& request, RequestBody taken,
                                                  Parameters known);

// 403 unless the request has the scope.
[[nodiscard]] std::optional<Response> refuse_scope(const Request& request, Scope scope,
                                                   const std::string& message);

// RFC 3339, as "2026-11-27T10:30:15.25Z" or "2026-11-27T12:30:15+02:00" (seconds may be left out),
// or "2026-11-27", which begins in UTC, as seconds since 1970.
[[nodiscard]] std::optional<double> parse_moment(const std::string& text);

}  // namespace regatta::orchestrator::api
