package testkit

// Python is the interpreter that Open vSwitch depends on, for scripts of tests: with -ISc they start in a sixth of
// the time, as it does not look for installed packages. The python3 in PATH may be a script that looks for an
// interpreter, which takes longer than most of the scripts.
const Python = "/usr/bin/python3"
