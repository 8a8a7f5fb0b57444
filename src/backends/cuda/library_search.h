#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dif/status.h"

namespace dif::cuda {

/// A shared library of CUDA that is opened at run time.
struct LibraryName {
  const char* what = "";                ///< "cuDNN", for people
  const char* variable = "";            ///< DIF_CUDNN_PATH: a file, or the folder that holds it
  std::vector<std::string> file_names;  ///< the newest first: libcudnn.so.9
};

/// What decides where libraries are looked for.
struct SearchPlaces {
  std::string chosen;     ///< value of LibraryName::variable, may be empty
  std::string cuda_home;  ///< value of CUDA_HOME, may be empty
  std::vector<std::filesystem::path>
      wheel_folders;  ///< lib folders of nvidia's wheels, as wheel_folders() finds
};

/// What dlopen is asked for, in order: the chosen file or folder alone when one is chosen; else the plain
/// name (the loader's path), then CUDA_HOME, then the wheels, then the toolkit's usual folder.
std::vector<std::string> library_candidates(const LibraryName& library, const SearchPlaces& places);

/// The folders nvidia/*/lib of the environment that the first python3 of `path` (a list like PATH) belongs
/// to. Nothing is executed.
std::vector<std::filesystem::path> wheel_folders(const std::string& path);

/// The places that the process's environment names.
SearchPlaces search_places(const LibraryName& library);

struct OpenLibrary {
  void* handle = nullptr;  ///< open for the life of the process: drivers do not stand being unloaded
  std::string file;        ///< where it was found
};

/// Opens the first candidate that loads. Errors: Unavailable (names the library, what the loader said, and
/// the variable that may name it).
Result<OpenLibrary> open_library(const LibraryName& library);

}  // namespace dif::cuda
