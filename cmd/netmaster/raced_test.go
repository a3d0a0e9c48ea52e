//go:build race

package main

// raced tells that the process keeps several times its memory, to find races.
const raced = true
