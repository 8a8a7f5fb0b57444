# The tests of the project's own checks (scripts/check-*): each proves on a small tree that a violation is found.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(check layers format hygiene readme)
  add_test(NAME check_${check}_tests
    COMMAND "${Python3_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/tests/checks/check_${check}_test.py")
  set_tests_properties(check_${check}_tests PROPERTIES TIMEOUT 120 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()
