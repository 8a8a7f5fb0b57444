# Compiler settings, dependencies and the functions that every CMakeLists.txt of the project uses: dif_room (an object
# library of libdif), dif_plugin (a backend .so), dif_test (a test program) and dif_fuzz (a fuzz target and its replay).
# Targets beyond `all`: programs (dif, its tools and the plug-ins), sanitize_tests (tests labelled sanitize).

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
# Programs and libraries find each other beside themselves, and in the bundle third-party libraries in lib/. The old
# kind of tag (DT_RPATH) also holds for what those libraries need in turn.
set(CMAKE_BUILD_RPATH "$ORIGIN;$ORIGIN/lib")
add_link_options(-Wl,--disable-new-dtags)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

option(DIF_SANITIZE "AddressSanitizer and UndefinedBehaviorSanitizer" OFF)

# What one clone compiled serves every other clone: ccache sees paths of the tree relative to the build folder.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      "${CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
endif()

# __FILE__ is src/base/base.cpp, whether the compiler is given the path as it is or relative to the build folder.
cmake_path(RELATIVE_PATH CMAKE_SOURCE_DIR BASE_DIRECTORY "${CMAKE_BINARY_DIR}" OUTPUT_VARIABLE DIF_UP)
# -ffp-contract=off: a multiply and an add stay two roundings unless the code says std::fma. Numbers must not
# depend on what the compiler fuses.
add_compile_definitions(DIF_VERSION="${PROJECT_VERSION}")
add_compile_options(-Wall -Wextra -Werror=return-type -Wno-missing-field-initializers
                    -Wno-psabi -ffp-contract=off -fno-math-errno
                    "-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=" "-fmacro-prefix-map=${DIF_UP}/=")
if(DIF_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_compile_options(-fsanitize=fuzzer-no-link)  # coverage, so that the fuzz targets see where libdif branches
    add_link_options(-fsanitize=fuzzer-no-link)
  endif()
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(GTest REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(SPNG REQUIRED IMPORTED_TARGET spng)
find_program(FLATC flatc REQUIRED)

# Programs look for the bundled model and the fixtures beside themselves, here as in the unpacked bundle.
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
file(CREATE_LINK "${CMAKE_SOURCE_DIR}/models" "${CMAKE_BINARY_DIR}/models" SYMBOLIC)
file(CREATE_LINK "${CMAKE_SOURCE_DIR}/tests/fixtures" "${CMAKE_BINARY_DIR}/tests/fixtures" SYMBOLIC)

add_custom_target(programs)
add_custom_target(sanitize_tests)
add_custom_target(fuzz_targets)

# dif_room(NAME SOURCES a.cpp ... [LIBS target ...]): one room of libdif.
function(dif_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(dif_${name} OBJECT ${ARG_SOURCES})
  target_include_directories(dif_${name} PUBLIC "${CMAKE_SOURCE_DIR}/include" "${CMAKE_SOURCE_DIR}/src")
  target_link_libraries(dif_${name} PUBLIC fmt::fmt ${ARG_LIBS})
  set_property(GLOBAL APPEND PROPERTY DIF_ROOMS dif_${name})
endfunction()

# dif_schema(TARGET schemas/x.fbs): generates x_generated.h for the sources of TARGET.
function(dif_schema target schema)
  get_filename_component(stem "${schema}" NAME_WE)
  set(header "${CMAKE_BINARY_DIR}/generated/${stem}_generated.h")
  add_custom_command(OUTPUT "${header}"
    COMMAND "${FLATC}" --cpp --scoped-enums -o "${CMAKE_BINARY_DIR}/generated" "${CMAKE_SOURCE_DIR}/${schema}"
    DEPENDS "${CMAKE_SOURCE_DIR}/${schema}" VERBATIM)
  target_sources(${target} PRIVATE "${header}")
  target_include_directories(${target} PRIVATE "${CMAKE_BINARY_DIR}/generated")
endfunction()

# dif_plugin(NAME SOURCES ... [LIBS ...]): libdif_NAME.so, a backend that is loaded by name at run time.
function(dif_plugin name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(dif_backend_${name} MODULE ${ARG_SOURCES})
  set_target_properties(dif_backend_${name} PROPERTIES OUTPUT_NAME dif_${name} PREFIX lib)
  target_link_libraries(dif_backend_${name} PRIVATE dif ${ARG_LIBS})
  add_dependencies(programs dif_backend_${name})
endfunction()

# dif_test(NAME SOURCES ... [LIBS ...] [LABELS ...]): a GoogleTest program run by ctest. A test finds the model, the
# fixtures and the built programs through tests/support/paths.h; it must also run in the unpacked bundle.
function(dif_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE dif ${ARG_LIBS} GTest::gtest GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}")
  target_compile_options(${name} PRIVATE -O1)  # compiles in two thirds of the time
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 1800)
  if("sanitize" IN_LIST ARG_LABELS)
    add_dependencies(sanitize_tests ${name})
  endif()
endfunction()

# dif_fuzz(NAME.cpp): a file of fuzz/ with LLVMFuzzerTestOneInput. dif_fuzz_NAME_replay runs it once over every file of
# fuzz/corpus/NAME (a test, labelled sanitize); the sanitizer build also has dif_fuzz_NAME, a libFuzzer program.
function(dif_fuzz source)
  get_filename_component(name "${source}" NAME_WE)
  set(target dif_fuzz_${name})
  add_executable(${target}_replay ${source})
  target_link_libraries(${target}_replay PRIVATE dif dif_fuzz_replay)
  target_include_directories(${target}_replay PRIVATE "${CMAKE_SOURCE_DIR}")
  add_test(NAME ${target}_replay COMMAND ${target}_replay "${CMAKE_SOURCE_DIR}/fuzz/corpus/${name}")
  set_tests_properties(${target}_replay PROPERTIES LABELS sanitize TIMEOUT 300)
  add_dependencies(sanitize_tests ${target}_replay)
  if(DIF_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_executable(${target} EXCLUDE_FROM_ALL ${source})
    target_link_libraries(${target} PRIVATE dif)
    target_include_directories(${target} PRIVATE "${CMAKE_SOURCE_DIR}")
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzz_targets ${target})
  endif()
endfunction()

# Runs after the last line of the top CMakeLists.txt: what needs to see all targets.
function(dif_finish)
  if(EXISTS "${CMAKE_SOURCE_DIR}/tools/CMakeLists.txt")
    get_property(targets DIRECTORY "${CMAKE_SOURCE_DIR}/tools" PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      get_target_property(type ${target} TYPE)
      if(type MATCHES "EXECUTABLE|UTILITY")
        add_dependencies(programs ${target})
      endif()
    endforeach()
  endif()
  include(DifChecks)
endfunction()
cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL dif_finish)
