package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// networkName is the CNI network's name, as in the configuration on each node.
const networkName = "contiv-net"

// Pod is a network namespace on a node, attached through the CNI.
type Pod struct {
	Name    string
	Node    *Node
	Tenant  string
	Network string
	Group   string            // endpoint group; empty: none
	Labels  map[string]string // of its container
	Wanted  []netip.Addr      // requested by its ADD; empty: any
	IP      netip.Addr
	Gateway netip.Addr
	Took    time.Duration // duration of the ADD for the CNI runtime

	servers []*Process
}

// AddPod creates the namespace and attaches it with a CNI runtime. On failure the namespace is removed.
func (n *Node) AddPod(ctx context.Context, name, tenant, network, group string) (*Pod, error) {
	p := &Pod{Name: name, Node: n, Tenant: tenant, Network: network, Group: group}
	if err := p.MakeSandbox(ctx); err != nil {
		return nil, err
	}
	if err := p.Attach(ctx); err != nil {
		if _, delErr := n.Run(context.WithoutCancel(ctx), "ip", "netns", "delete", name); delErr != nil {
			err = fmt.Errorf("%w; and %w", err, delErr)
		}
		return nil, err
	}
	return p, nil
}

// MakeSandbox creates the namespace as container runtimes do, with its loopback up: servers detect the supported
// IP families by the loopback's addresses.
func (p *Pod) MakeSandbox(ctx context.Context) error {
	if _, err := p.Node.Run(ctx, "ip", "netns", "add", p.Name); err != nil {
		return err
	}
	_, err := p.Run(ctx, "ip", "link", "set", "lo", "up")
	return err
}

// Attach runs the CNI's ADD; for an attached pod it changes nothing.
func (p *Pod) Attach(ctx context.Context) error {
	started := time.Now()
	out, err := p.CNI(ctx, "add")
	if err != nil {
		return err
	}
	p.Took = time.Since(started)
	return p.told(out)
}

// told records the result of an ADD.
func (p *Pod) told(out string) error {
	var result struct {
		IPs []struct {
			Address netip.Prefix `json:"address"`
			Gateway netip.Addr   `json:"gateway"`
		} `json:"ips"`
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		return fmt.Errorf("pod %s: result of ADD %q: %w", p.Name, out, err)
	}
	if len(result.IPs) == 0 {
		return fmt.Errorf("pod %s: ADD gave no address: %s", p.Name, out)
	}
	p.IP, p.Gateway = result.IPs[0].Address.Addr(), result.IPs[0].Gateway
	return nil
}

// CNI runs a verb of the CNI runtime (add, del, check, gc, status) for the pod.
func (p *Pod) CNI(ctx context.Context, verb string) (string, error) {
	dir, err := p.configuration(ctx)
	if err != nil {
		return "", err
	}
	return p.Node.Run(ctx, "env", "NETCONFPATH="+dir, "CNI_PATH="+p.Node.bed.Bin, "CNI_ARGS="+p.cniArgs(),
		filepath.Join(p.Node.bed.Bin, "cnitool"), verb, networkName, p.netns())
}

// cniArgs returns the CNI_ARGS with the pod's tenant, network and group.
func (p *Pod) cniArgs() string {
	args := "IO_CONTIV_TENANT=" + p.Tenant + ";IO_CONTIV_NETWORK=" + p.Network
	if p.Group != "" {
		args += ";IO_CONTIV_NET_GROUP=" + p.Group
	}
	if len(p.Wanted) > 0 {
		args += ";IP=" + strings.Trim(strings.ReplaceAll(fmt.Sprint(p.Wanted), " ", ","), "[]")
	}
	return args
}

func (p *Pod) netns() string { return "/run/netns/" + p.Name }

// configuration returns the directory with the pod's network configuration. With labels it is one of its own, as a
// runtime would write it: cnitool accepts no argument with "=" in it.
func (p *Pod) configuration(ctx context.Context) (dir string, err error) {
	if len(p.Labels) == 0 {
		return cniDir, nil
	}
	type label struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	var labels []label
	for key, value := range p.Labels {
		labels = append(labels, label{key, value})
	}
	data, err := json.Marshal(labels)
	if err != nil {
		return "", err
	}
	dir = filepath.Join("/run/contiv-pods", p.Name)
	return dir, p.Node.writeCNI(ctx, dir, `,"args":{"cni":{"labels":`+string(data)+`}}`)
}

// Delete detaches the pod and removes its namespace.
func (p *Pod) Delete(ctx context.Context) error {
	for _, s := range p.servers {
		if err := s.Kill(); err != nil {
			return err
		}
	}
	if _, err := p.CNI(ctx, "del"); err != nil {
		return err
	}
	_, err := p.Node.Run(ctx, "ip", "netns", "delete", p.Name)
	return err
}

// Command returns a command to run in the pod.
func (p *Pod) Command(ctx context.Context, args ...string) *exec.Cmd {
	return p.Node.Command(ctx, p.inside(args)...)
}

// Run runs a command in the pod and returns its standard output.
func (p *Pod) Run(ctx context.Context, args ...string) (string, error) {
	return p.Node.Run(ctx, p.inside(args)...)
}

func (p *Pod) inside(args []string) []string {
	return append([]string{"ip", "netns", "exec", p.Name}, args...)
}

// Start starts a program in the pod that runs until it ends or is killed. Its output is written to the log with
// that name.
func (p *Pod) Start(name string, args ...string) (*Process, error) {
	return p.Node.Start(name, p.inside(args)...)
}

// Serve starts probe serve in the pod, and returns when it serves; it ends with the pod. The arguments are those
// of probe serve.
func (p *Pod) Serve(ctx context.Context, args ...string) error {
	log := p.Node.LogFile(p.Name)
	before, err := os.ReadFile(log) // of an earlier pod of that name
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s, err := p.Start(p.Name, p.Node.Prompt(append([]string{p.Probe(), "serve"}, args...)...)...)
	if err != nil {
		return err
	}
	p.servers = append(p.servers, s)
	return within(ctx, startLimit, func() error {
		now, err := os.ReadFile(log)
		if err == nil && !bytes.Contains(now[len(before):], []byte("serving")) {
			err = fmt.Errorf("%s does not serve yet, see %s", p.Name, log)
		}
		return err
	})
}

// LogFile returns the file with the output of a program in the pod.
func (p *Pod) LogFile(program string) string { return p.Node.LogFile(program) }

// Probe returns the path of the probe program, for Run and Serve.
func (p *Pod) Probe() string { return filepath.Join(p.Node.bed.Bin, "probe") }
