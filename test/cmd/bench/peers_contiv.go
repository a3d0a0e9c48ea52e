package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// contiv is this project as a controller.
type contiv struct{ bed *testbed.Bed }

func (c contiv) pods(ctx context.Context, place func(group string, number int) *testbed.Pod) error {
	err := netctlAll(ctx, c.bed,
		[]string{"tenant", "create", "peers"},
		[]string{"network", "create", "-t", "peers", "-s", "10.39.0.0/24", "-g", "10.39.0.254", "net"},
		[]string{"policy", "create", "-t", "peers", "guard"},
		[]string{"group", "create", "-t", "peers", "net", "front"},
		[]string{"group", "create", "-t", "peers", "-p", "guard", "net", "db"})
	if err != nil {
		return err
	}
	for _, group := range peerGroups {
		for i := range peerMembers {
			pod := place(group, i)
			if err := pod.MakeSandbox(ctx); err != nil {
				return err
			}
			if err := pod.Attach(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c contiv) fill(ctx context.Context, rules int) error {
	return denyPorts(ctx, c.bed, "peers", rules, `,"fromEndpointGroup":"front"`)
}

// denyPorts adds many rules at once to the policy guard of a tenant, each of which denies a TCP port. more is
// appended to each rule.
func denyPorts(ctx context.Context, bed *testbed.Bed, tenant string, rules int, more string) error {
	var documents strings.Builder
	for i := range rules {
		fmt.Fprintf(&documents, `{"kind":"rule","metadata":{"tenant":%q,"policy":"guard","name":"r%d"},"spec":{"direction":"in","action":"deny","protocol":"tcp","port":%d,"priority":1%s}}`+"\n", tenant, i, firstPort+i, more)
	}
	dir, err := os.MkdirTemp("", "contiv-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "rules.json")
	if err := os.WriteFile(file, []byte(documents.String()), 0o644); err != nil {
		return err
	}
	_, err = bed.Netctl(ctx, "apply", "-q", "-f", file)
	return err
}

// empty removes the policy with its rules, and creates it again.
func (c contiv) empty(ctx context.Context) error {
	return netctlAll(ctx, c.bed,
		[]string{"group", "update", "-t", "peers", "-p", "", "db"},
		[]string{"policy", "rm", "-t", "peers", "guard"},
		[]string{"policy", "create", "-t", "peers", "guard"},
		[]string{"group", "update", "-t", "peers", "-p", "guard", "db"})
}

func (c contiv) add(ctx context.Context) error {
	_, err := c.bed.Netctl(ctx, "policy", "rule-add", "-t", "peers", "-d", "in", "-l", "udp", "-g", "front", "-p", "2", "-j", "deny", "guard", "no-udp")
	return err
}

func (c contiv) remove(ctx context.Context) error {
	_, err := c.bed.Netctl(ctx, "policy", "rule-rm", "-t", "peers", "guard", "no-udp")
	return err
}

func (c contiv) bridge() string { return "contivVxlanBridge" }

func (c contiv) processes() []string { return []string{"netmaster", "netplugin", "ovs-vswitchd"} }
