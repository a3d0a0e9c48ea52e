package netctl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMisuseIsExplained(t *testing.T) {
	_, url := startFake(t)
	for line, want := range map[string]string{
		"netwrk ls":                            `unknown command "netwrk" of netctl; did you mean "network"?`,
		"network lst":                          `unknown command "lst" of netctl network; did you mean "ls"?`,
		"zzzzzz":                               `unknown command "zzzzzz" of netctl`,
		"help netwrk":                          "No help topic for 'netwrk'",
		"netwrk --help":                        "No help topic for 'netwrk'",
		"network lst --help":                   "No help topic for 'lst'",
		"network create":                       "network name required",
		"group create":                         "network name required, group name required",
		"group create web":                     "group name required",
		"policy rule-add p1":                   "rule name required",
		"tenant create a b c":                  "more arguments than required: b c",
		"tenant ls x":                          "more arguments than required: x",
		"version x":                            "more arguments than required: x",
		"network create web":                   "--subnet required",
		"network create web --subnt x":         `unknown flag --subnt of netctl network create; did you mean "--subnet"?`,
		"network create web -s x -g y":         `--gateway "y": not an IP address`,
		"network create web -s x -g6 y":        `--gatewayv6 "y": not an IP address`,
		"network create web -p many":           `-p "many": not a number`,
		"network create web -s x -t a -t b":    `-t "b": given more than once`,
		"network ls -t a --tenant b":           `--tenant "b": given more than once`,
		"-o json trace a b":                    "unknown flag -o of netctl; it is a flag of commands below: type -o behind the command",
		"network -t blue ls":                   "unknown flag -t of netctl network; it is a flag of commands below: type -t behind the command",
		"network ls -aj":                       "unknown flag --aj of netctl network ls; short flags are not bundled, did you mean -a -j?",
		"network ls -j=maybe":                  `-j "maybe": true or false wanted`,
		"network ls --request-timeout soon":    `--request-timeout "soon": a time such as 10s wanted`,
		"network create web --subnet":          "flag needs an argument: --subnet",
		"network create a/b -s x":              `network name "a/b": may not contain '/'`,
		"network create a:b -s x":              `network name "a:b": may not contain ':'`,
		"network create web -s x -t a:b":       `tenant name "a:b": may not contain ':'`,
		"network create web -s x -t ''":        "tenant name required",
		"network ls -o xml":                    `-o "xml": must be one of table, wide, json, yaml, name, csv`,
		"network inspect web -o table":         `-o "table": must be one of json, yaml`,
		"policy rule-add p 1 -d both":          `--direction "both": must be in or out`,
		"policy rule-add p 1 -e g":             "--to-group cannot be given for a rule of direction in",
		"policy rule-add p 1 -o n":             "--to-network cannot be given for a rule of direction in",
		"policy rule-add p 1 -g g -n n":        "--from-group and --from-network cannot be given together",
		"policy rule-add p 1 -d out -g g":      "--from-group cannot be given for a rule of direction out",
		"policy rule-add p 1 -d out -n n":      "--from-network cannot be given for a rule of direction out",
		"policy rule-add p 1 -d out -i a":      "--from-ip-address cannot be given for a rule of direction out",
		"policy rule-add p 1 -d out -e g -o n": "--to-group and --to-network cannot be given together",
		"bgp create n1 --as 1":                 "--router-ip required",
		"bgp create n1 --as 1 --neighbor-as 2 --neighbor x --router-ip 1":      `--router-ip "1": not an address with a length`,
		"bgp create n1 --as 1 --neighbor-as 2 --neighbor x --router-ip ::1/64": `--neighbor "x": not an IP address`,
		"external-contracts create c -c -p -a x":                               "either --consumed or --provided required",
		"external-contracts create c -a x":                                     "either --consumed or --provided required",
		"external-contracts create c -c":                                       "--contract required",
	} {
		got := run(t, url, line)
		first, _, _ := strings.Cut(got.stderr, "\n")
		if got.code != 1 || got.stdout != "" {
			t.Errorf("netctl %s: exit %d, stdout %q", line, got.code, got.stdout)
		}
		if diff := cmp.Diff("error: "+want, first); diff != "" {
			t.Errorf("netctl %s:\n%s", line, diff)
		}
	}
}
