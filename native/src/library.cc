// Loading by name; see library.h.
#include "library.h"

#include <dlfcn.h>
#include <link.h>

#include "args.h"

namespace weightroom {
namespace {

std::string PathOf(void* handle, const std::string& name) {
  struct link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name[0] == '\0') return name;
  return map->l_name;
}

std::string LastError() {
  const char* error = ::dlerror();
  return error != nullptr ? error : "unknown error";
}

}  // namespace

std::vector<std::string> LibraryNamesArg(const Napi::Value& value) {
  if (!value.IsArray()) BadType(value.Env(), "libraries must be an array");
  const auto array = value.As<Napi::Array>();
  std::vector<std::string> names;
  for (uint32_t i = 0; i < array.Length(); i++) names.push_back(PathArg(array.Get(i)));
  return names;
}

Library FindLibrary(const std::vector<std::string>& names, const char* wanted) {
  Library found;
  for (const std::string& name : names) {
    void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      found.attempts.push_back({name, LastError()});
    } else if (::dlsym(handle, wanted) == nullptr) {
      found.attempts.push_back({name, std::string("it has no ") + wanted});
      ::dlclose(handle);
    } else {
      found.handle = handle;
      found.path = PathOf(handle, name);
      break;
    }
  }
  return found;
}

void* SymbolOf(const Library& library, const char* name) {
  return library.handle == nullptr ? nullptr : ::dlsym(library.handle, name);
}

napi_value AttemptsValue(napi_env env, const std::vector<LibraryAttempt>& attempts) {
  auto array = Napi::Array::New(env, attempts.size());
  for (uint32_t i = 0; i < attempts.size(); i++) {
    auto entry = Napi::Object::New(env);
    entry.Set("name", attempts[i].name);
    entry.Set("reason", attempts[i].reason);
    array[i] = entry;
  }
  return array;
}

}  // namespace weightroom
