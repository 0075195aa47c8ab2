// Libraries of a GPU driver, found at run time by name: nothing here needs them to build, link or load.
#pragma once

#include <napi.h>

#include <string>
#include <vector>

namespace weightroom {

// Names or paths as dlopen(3) takes them.
std::vector<std::string> LibraryNamesArg(const Napi::Value& value);

struct LibraryAttempt {
  std::string name;
  std::string reason;
};

// A library stays loaded until the process ends: a driver's threads may be running in it.
struct Library {
  void* handle = nullptr;
  // Of the file that was loaded; the name it was asked for by where that can't be told.
  std::string path;
  std::vector<LibraryAttempt> attempts;
};

// The first of `names` that loads and has the symbol `wanted`. A null handle where none does.
Library FindLibrary(const std::vector<std::string>& names, const char* wanted);

// [{name, reason}] of what was tried in vain.
napi_value AttemptsValue(napi_env env, const std::vector<LibraryAttempt>& attempts);

template <typename Function>
void Bind(const Library& library, Function& function, const char* name);

void* SymbolOf(const Library& library, const char* name);

template <typename Function>
void Bind(const Library& library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(SymbolOf(library, name));
}

}  // namespace weightroom
