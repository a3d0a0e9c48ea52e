// Command worker is cyclonus' worker, with all probes of a pod at once: a probe that is dropped takes two seconds.
package main

import (
	"os"

	"github.com/mattfenwick/cyclonus/pkg/worker"
)

func main() {
	command := worker.SetupRootCommand()
	command.SetArgs(append(os.Args[1:], "--concurrency=36"))
	if command.Execute() != nil {
		os.Exit(1)
	}
}
