package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// Pages have commands for machines whose daemons are services. Nodes have no systemd: there, a script replaces the
// pages' systemctl, with the settings of the units.

// standIn is the script. A daemon may remain a zombie when it has ended, as its parent does not reap it.
const standIn = `#!/bin/sh
set -e
daemon=$2 pid=/run/stand-in/$2.pid
ended() { state=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) || return 0; [ "${state%%%% *}" = Z ]; }
case $1 in stop | restart)
  was=$(cat "$pid")
  kill "$was"
  until ended "$was"; do sleep 0.02; done
esac
case $1 in start | restart)
  set -a
  . "/etc/default/$daemon"
  setsid "$daemon" >>"%s/$daemon.log" 2>&1 </dev/null &
  echo $! >"$pid"
esac
`

// hasServices installs the script on a node, with the settings that it lacks.
func (s story) hasServices(n *testbed.Node, settings map[string]string) {
	s.Helper()
	logs := filepath.Dir(n.LogFile("netmaster"))
	_, err := n.Run(s.ctx, "sh", "-ec", `mkdir -p /run/stand-in /run/contiv /etc/default; echo "$1" >/run/stand-in/systemctl; chmod +x /run/stand-in/systemctl`, "sh", fmt.Sprintf(standIn, logs))
	s.must(err)
	for daemon, text := range settings {
		_, err := n.Run(s.ctx, "sh", "-ec", `printf %s "$1" >"/etc/default/$2"`, "sh", text, daemon)
		s.must(err)
	}
}

// byHand runs commands of a page on a node, with input on stdin, and returns their output.
func (s story) byHand(n *testbed.Node, commands, input string) string {
	s.Helper()
	path := strings.Join([]string{"/run/stand-in", filepath.Dir(n.Tool("netctl")), os.Getenv("PATH")}, ":")
	out, err := n.Run(s.ctx, "env", "PATH="+path, "sh", "-ec", `printf '%s\n' "$1" | sh -ec "$2"`, "sh", input, commands)
	s.must(err)
	return out
}
