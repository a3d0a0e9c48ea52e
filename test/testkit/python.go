package testkit

// Python is the interpreter that Open vSwitch brings along, for scripts of tests: with -ISc they begin in a sixth of
// the time, as it looks for nothing that is installed beside it. What PATH calls python3 may be a script that looks
// for an interpreter, which takes longer than most of ours.
const Python = "/usr/bin/python3"
