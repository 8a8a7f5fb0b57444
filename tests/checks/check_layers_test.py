#!/usr/bin/env python3
"""scripts/check-layers finds each kind of violation, and nothing in a tree without one."""
import unittest

from tree import TreeTest

# A tree in which everything is as it should be; each test spoils one thing.
GOOD = {
    "include/dif/status.h": "#include <string>\n#include <tl/expected.hpp>\n",
    "include/dif/backend_abi.h": "#include <stdint.h>\n",
    "src/base/error.h": '#include "dif/status.h"\n#include <fmt/format.h>\n',
    "src/base/error.cpp": '#include "base/error.h"\n#include <unistd.h>\n',
    "src/base/CMakeLists.txt": "dif_room(base SOURCES error.cpp)\n",
    "src/io/file.h": '#include "base/error.h"\n',
    "src/io/file.cpp": '#include "io/file.h"\n#include <openssl/evp.h>\n#include <sys/mman.h>\n',
    "src/io/CMakeLists.txt": "dif_room(io SOURCES file.cpp)\n",
    "src/ir/program.h": '#include "io/file.h"\n',
    "src/ir/encode.cpp": '#include "ir/program.h"\n#include "difir_generated.h"\n',
    "src/ir/program_test.cpp": '#include "ir/program.h"\n#include "ops/add/add.op.h"\n#include <gtest/gtest.h>\n',
    "src/ir/CMakeLists.txt": "dif_room(ir SOURCES encode.cpp)\ndif_test(dif_ir_tests SOURCES program_test.cpp)\n",
    "src/ops/add/add.op.h": '#include "ir/program.h"\n',
    "src/ops/add/add.op.cpp": '#include "ops/add/add.op.h"\n',
    "src/ops/add/add.ref.cpp": '#include "ops/add/add.op.h"\n#include "backends/reference/kernel.h"\n',
    "src/ops/add/add.cpu.cpp": '#include "backends/cpu/kernel.h"\n#include <hwy/highway.h>\n',
    "src/ops/add/add_test.cpp": '#include "ops/add/add.op.h"\n',
    "src/ops/ops.def": "DIF_OP(Add, add)\n",
    "src/ops/CMakeLists.txt": "file(STRINGS ops.def lines REGEX DIF_OP)\nforeach(op ${ops})\n"
                              "  dif_room(ops SOURCES ${op}/${op}.op.cpp)\nendforeach()\n"
                              "dif_test(dif_ops_tests SOURCES add/add_test.cpp)\n",
    "src/backends/reference/kernel.h": '#include "ir/program.h"\n',
    "src/backends/reference/CMakeLists.txt": "dif_plugin(reference SOURCES ${CMAKE_SOURCE_DIR}/src/ops/add/add.ref.cpp)\n",
    "src/backends/cpu/kernel.h": '#include "ir/program.h"\n',
    "src/backends/cpu/CMakeLists.txt": "dif_plugin(cpu SOURCES ../../ops/add/add.cpu.cpp)\n",
    "src/cli/command.cpp": "#include <CLI/CLI.hpp>\n",
    "src/cli/CMakeLists.txt": "dif_room(cli SOURCES command.cpp)\n",
    "tools/dif.cpp": '#include "io/file.h"\n#include <fmt/format.h>\n',
    "tools/CMakeLists.txt": "add_executable(dif_main dif.cpp)\n",
}


class CheckLayers(TreeTest):
    check = "check-layers"

    def setUp(self):
        super().setUp()
        for path, content in GOOD.items():
            self.write(path, content)

    def add_line(self, path, line):
        self.write(path, GOOD.get(path, "") + line + "\n")

    def test_good_tree_is_clean(self):
        self.assert_clean()

    def test_arrow_down_is_found(self):
        self.add_line("src/io/file.cpp", '#include "ir/program.h"')
        self.assert_found("src/io/file.cpp:4", "io may not include ir")

    def test_public_header_sees_no_room(self):
        self.add_line("include/dif/status.h", '#include "base/error.h"')
        self.assert_found("include/dif/status.h:3", "dif may not include base")

    def test_public_header_sees_no_library_but_expected(self):
        self.add_line("include/dif/status.h", "#include <fmt/format.h>")
        self.assert_found("include/dif/status.h:3", "dif may not include <fmt/format.h>")

    def test_public_header_does_not_talk_to_the_system(self):
        self.add_line("include/dif/status.h", "#include <unistd.h>")
        self.assert_found("include/dif/status.h:3", "<unistd.h>")

    def test_library_in_wrong_room_is_found(self):
        self.add_line("src/ir/encode.cpp", "#include <openssl/evp.h>")
        self.assert_found("src/ir/encode.cpp:3", "ir may not include <openssl/evp.h>")

    def test_library_of_one_file_is_found_in_another(self):
        self.add_line("tools/dif.cpp", "#include <CLI/CLI.hpp>")
        self.assert_found("tools/dif.cpp:3", "tools may not include <CLI/CLI.hpp>")

    def test_heavy_library_in_header_is_found(self):
        self.add_line("src/io/file.h", "#include <openssl/evp.h>")
        self.assert_found("src/io/file.h:2", "heavy")

    def test_generated_header_outside_its_rooms_is_found(self):
        self.add_line("src/base/error.cpp", '#include "difir_generated.h"')
        self.assert_found("src/base/error.cpp:3", "difir_generated.h")

    def test_unknown_library_is_found(self):
        self.add_line("src/base/error.cpp", "#include <boost/any.hpp>")
        self.assert_found("src/base/error.cpp:3", "boost/any.hpp", "no table")

    def test_plugins_are_blind_to_each_other(self):
        self.add_line("src/backends/cpu/kernel.h", '#include "backends/reference/kernel.h"')
        self.assert_found("src/backends/cpu/kernel.h:2", "backends/cpu may not include backends/reference")

    def test_plain_kernels_may_end_the_list_of_a_plugin(self):
        self.write("src/backends/reference/kernels.h", "")
        self.add_line("src/backends/cpu/kernel.h", '#include "backends/reference/kernels.h"')
        self.assert_clean()
        self.add_line("tools/dif.cpp", '#include "backends/reference/kernels.h"')
        self.assert_found("tools/dif.cpp:3", "tools may not include backends/reference")

    def test_tools_do_not_see_a_plugin(self):
        self.add_line("tools/dif.cpp", '#include "backends/cpu/kernel.h"')
        self.assert_found("tools/dif.cpp:3", "tools may not include backends/cpu")

    def test_meaning_of_an_op_does_not_see_kernels(self):
        self.add_line("src/ops/add/add.op.cpp", '#include "backends/reference/kernel.h"')
        self.assert_found("src/ops/add/add.op.cpp:2", "op may not include backends/reference")

    def test_kernel_of_an_op_does_not_see_another_plugin(self):
        self.add_line("src/ops/add/add.ref.cpp", '#include "backends/cpu/kernel.h"')
        self.assert_found("src/ops/add/add.ref.cpp:3", "op.ref may not include backends/cpu")

    def test_kernel_compiled_by_the_wrong_plugin_is_found(self):
        self.write("src/backends/cpu/CMakeLists.txt",
                   "dif_plugin(cpu SOURCES ../../ops/add/add.cpu.cpp ../../ops/add/add.ref.cpp)\n")
        self.assert_found("src/ops/add/add.ref.cpp", "belongs to src/backends/reference")

    def test_file_in_op_folder_with_other_name_is_found(self):
        self.write("src/ops/add/helpers.h", "")
        self.assert_found("src/ops/add/helpers.h", "add.LAYER.h")

    def test_source_that_nothing_compiles_is_found(self):
        self.write("src/io/forgotten.cpp", "")
        self.assert_found("src/io/forgotten.cpp", "no CMakeLists.txt names it")

    def test_op_missing_from_the_list_is_found(self):
        self.write("src/ops/mul/mul.op.cpp", "")
        self.assert_found("src/ops/mul/mul.op.cpp", "no CMakeLists.txt names it")

    def test_name_in_a_comment_of_cmake_does_not_count(self):
        self.write("src/io/forgotten.cpp", "")
        self.write("src/io/CMakeLists.txt", "dif_room(io SOURCES file.cpp)  # forgotten.cpp\n")
        self.assert_found("src/io/forgotten.cpp", "no CMakeLists.txt names it")

    def test_include_relative_to_the_file_is_found(self):
        self.add_line("src/io/file.cpp", '#include "file.h"')
        self.assert_found("src/io/file.cpp:4", '"file.h" names no file')

    def test_test_helper_in_the_product_is_found(self):
        self.write("src/io/test_files.h", "#include <gtest/gtest.h>\n")
        self.add_line("src/io/file.cpp", '#include "io/test_files.h"')
        self.assert_found("src/io/file.cpp:4", "for tests only")

    def test_formatting_library_stands_in_headers_of_base_only(self):
        self.add_line("src/io/file.cpp", "#include <fmt/format.h>")
        self.assert_clean()
        self.add_line("src/io/file.h", "#include <fmt/format.h>")
        self.assert_found("src/io/file.h:2", "heavy")

    def test_quoted_library_is_seen_too(self):
        self.add_line("src/ir/encode.cpp", '#include "hwy/highway.h"')
        self.assert_found("src/ir/encode.cpp:3", "ir may not include <hwy/highway.h>")

    def test_include_from_the_top_is_found(self):
        self.add_line("src/io/file.cpp", '#include "src/base/error.h"')
        self.assert_found("src/io/file.cpp:4", "include root")

    def test_room_unknown_to_the_table_is_found(self):
        self.write("src/misc/thing.h", "")
        self.assert_found("src/misc/thing.h", "no room")


if __name__ == "__main__":
    unittest.main()
