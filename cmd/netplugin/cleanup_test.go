package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/daemonflags"
)

// In folders and a network namespace that end with the program: who means a dry run, or another folder, loses no checkpoint.
func TestAMistypedDryRunRemovesNothing(t *testing.T) {
	testkit.NeedsMachine(t)
	for arguments, status := range map[string]int{
		"cleanup dry-run": daemonflags.ExitInvalid, "cleanup --version": 0,
		"--pki-dir /x cleanup": daemonflags.ExitInvalid, "--cni-conf-dir=/x cleanup": daemonflags.ExitInvalid,
	} {
		cmd := exec.Command("unshare", append([]string{"--mount", "--net", "sh", "-c", `mount -t tmpfs none /run && mount -t tmpfs none /var/lib &&
			mkdir -p /var/lib/contiv/cni && touch /var/lib/contiv/cni/checkpoint && "$@"; status=$?; ls /var/lib/contiv/cni; exit $status`, "sh", os.Args[0]},
			strings.Fields(arguments)...)...)
		cmd.Env = append(os.Environ(), "BE_NETPLUGIN=1", "CONTIV_NETPLUGIN_PKI_DIR=/y") // the daemon's, which is no mistake
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), "\ncheckpoint\n") || cmd.ProcessState.ExitCode() != status {
			t.Errorf("%s: %v, want exit status %d and the checkpoint: %s", arguments, err, status, out)
		}
	}
}
