// Builds error objects in the shape that Node's own fs errors have.
#include "failure.h"

#include <cctype>
#include <cstring>
#include <stdexcept>

#include "names.h"

namespace weightroom {
namespace {

// glibc knows EOPNOTSUPP only by its other name; the manual pages of fallocate and flock use this one.
std::string CodeOf(int number) {
  if (number == EOPNOTSUPP) return "EOPNOTSUPP";
  const char* name = strerrorname_np(number);
  return name != nullptr ? name : "EUNKNOWN";
}

std::string TextOf(const Failure& failure) {
  if (failure.reason != nullptr) return failure.reason;
  const char* known = strerrordesc_np(failure.number);
  std::string text = known != nullptr ? known : "unknown error";
  text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace

void Fail(const char* syscall, const std::string& subject) { throw Failure{errno, syscall, subject}; }

napi_value ErrorValue(napi_env env, const Failure& failure) {
  const std::string code = CodeOf(failure.number);
  std::string message = code + ": " + TextOf(failure) + ", " + failure.syscall;
  if (!failure.subject.empty()) message += " '" + failure.subject + "'";
  napi_value code_value = nullptr, syscall_value = nullptr, number_value = nullptr, error = nullptr;
  napi_create_string_utf8(env, code.data(), code.size(), &code_value);
  napi_create_string_utf8(env, failure.syscall, NAPI_AUTO_LENGTH, &syscall_value);
  napi_create_int32(env, failure.number, &number_value);
  if (napi_create_error(env, code_value, NameValue(env, message), &error) != napi_ok) return nullptr;
  napi_set_named_property(env, error, "errno", number_value);
  napi_set_named_property(env, error, "syscall", syscall_value);
  if (failure.item >= 0) {
    napi_value item = nullptr;
    napi_create_int64(env, failure.item, &item);
    napi_set_named_property(env, error, "item", item);
  }
  return error;
}

}  // namespace weightroom
