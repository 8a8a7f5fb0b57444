# The tests of the project's own scripts. Those of scripts/check-* prove on a small tree that a violation is found.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(check layers format hygiene readme)
  add_test(NAME check_${check}_tests
    COMMAND "${Python3_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/tests/checks/check_${check}_test.py")
  set_tests_properties(check_${check}_tests PROPERTIES TIMEOUT 120 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()

foreach(script benchmark gpu_report)
  add_test(NAME ${script}_script_tests
    COMMAND "${Python3_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/tests/checks/${script}_test.py")
  set_tests_properties(${script}_script_tests PROPERTIES TIMEOUT 120 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()
