// Command connect is agnhost with only its client and server commands that the tests of cyclonus use. The worker
// starts it for each probe, and the whole agnhost takes ten times as long to start.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/kubernetes/test/images/agnhost/connect"
	servehostname "k8s.io/kubernetes/test/images/agnhost/serve-hostname"
)

func main() {
	root := &cobra.Command{Use: "agnhost"}
	root.AddCommand(connect.CmdConnect, servehostname.CmdServeHostname)
	if root.Execute() != nil {
		os.Exit(1)
	}
}
