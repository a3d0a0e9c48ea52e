// Command worker is that of cyclonus, with as many probes of a pod at once as there are: one that is
// dropped takes two seconds.
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
