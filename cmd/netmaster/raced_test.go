//go:build race

package main

// raced reports whether the race detector multiplies the memory of the process.
const raced = true
