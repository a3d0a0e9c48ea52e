package checkup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// pluginType is the CNI plugin that the probe uses.
const pluginType = "contivk8s"

// removalTime limits the rest of the probe's removal after an interrupt.
const removalTime = 30 * time.Second

// Probe has the locations of a container runtime's networks, and the network to attach to.
type Probe struct {
	ConfDir string // /etc/cni/net.d
	BinDir  string // /opt/cni/bin

	Tenant, Network, Group string // empty: by the configuration
}

// Run attaches two namespaces to the network of the runtime's configuration, as a runtime would attach two
// containers, pings from one to the other and removes both.
func (p Probe) Run(ctx context.Context, report Report) {
	conf, err := p.network()
	if !report.check("probe configuration", "put a network configuration of type "+pluginType+" into "+p.ConfDir, nameOf(conf), err) {
		return
	}
	cache, err := os.MkdirTemp("", "netctl-probe")
	if err != nil {
		report.check("probe folder", "make room in the temporary folder", "", err)
		return
	}
	cni := libcni.NewCNIConfigWithCacheDir([]string{p.BinDir}, cache, nil)
	pods := []*pod{p.pod("a"), p.pod("b")}
	if p.attach(ctx, cni, conf, pods, report) {
		out, err := command(ctx, "ip", "netns", "exec", pods[0].name, "ping", "-c", "3", "-i", "0.2", "-W", "2", pods[1].address)
		report.check("probe traffic", "see the flows of the bridge and the policies of the group", lastLine(out), err)
	}
	removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTime)
	defer cancel()
	err = nil
	for _, pod := range pods {
		err = errors.Join(err, pod.remove(removing, cni, conf))
	}
	err = errors.Join(err, os.RemoveAll(cache))
	report.check("probe removed", "see the log of netplugin", "both namespaces and their endpoints", err)
}

func (p Probe) attach(ctx context.Context, cni libcni.CNI, conf *libcni.NetworkConfigList, pods []*pod, report Report) bool {
	for _, pod := range pods {
		err := pod.add(ctx, cni, conf)
		if !report.check("probe "+pod.name, "see the log of netplugin, and of the plugin if it has one; --tenant, --network and --group choose where to attach", pod.address, err) {
			return false
		}
	}
	return true
}

// network returns the configuration that a runtime would use: the first by name.
func (p Probe) network() (*libcni.NetworkConfigList, error) {
	files, err := libcni.ConfFiles(p.ConfDir, []string{".conflist", ".conf", ".json"})
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	for _, file := range files {
		list, err := readNetwork(file)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list.Plugins, func(c *libcni.PluginConfig) bool { return c.Network.Type == pluginType }) {
			return list, nil
		}
	}
	return nil, fmt.Errorf("%s: none of %d files is for %s", p.ConfDir, len(files), pluginType)
}

// readNetwork reads a list of plugins or, in the older form of such files, the configuration of a single plugin.
func readNetwork(file string) (*libcni.NetworkConfigList, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if filepath.Ext(file) != ".conflist" {
		var single struct{ CNIVersion, Name string }
		if err := json.Unmarshal(text, &single); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		list := map[string]any{"cniVersion": single.CNIVersion, "name": single.Name, "plugins": []json.RawMessage{text}}
		if text, err = json.Marshal(list); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	conf, err := libcni.NetworkConfFromBytes(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return conf, nil
}

func nameOf(conf *libcni.NetworkConfigList) string {
	if conf == nil {
		return ""
	}
	return conf.Name
}

// pod is one namespace of the probe.
type pod struct {
	name    string // of the namespace; also the id of the container
	labels  [][2]string
	address string
	made    bool
}

func (p Probe) pod(suffix string) *pod {
	pod := &pod{name: fmt.Sprintf("netctl-probe-%d-%s", os.Getpid(), suffix)}
	pod.labels = append(pod.labels, [2]string{"IgnoreUnknown", "1"}) // for other plugins of the list
	for _, label := range [][2]string{{"IO_CONTIV_TENANT", p.Tenant}, {"IO_CONTIV_NETWORK", p.Network}, {"IO_CONTIV_NET_GROUP", p.Group}} {
		if label[1] != "" {
			pod.labels = append(pod.labels, label)
		}
	}
	return pod
}

func (p *pod) runtime() *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: p.name, NetNS: "/var/run/netns/" + p.name, IfName: "eth0", Args: p.labels}
}

// add creates the namespace and attaches it.
func (p *pod) add(ctx context.Context, cni libcni.CNI, conf *libcni.NetworkConfigList) error {
	if _, err := command(ctx, "ip", "netns", "add", p.name); err != nil {
		return err
	}
	p.made = true
	answer, err := cni.AddNetworkList(ctx, conf, p.runtime())
	if err != nil {
		return err
	}
	p.address, err = addressOf(answer)
	return err
}

// remove detaches and removes the namespace, as far as it was created.
func (p *pod) remove(ctx context.Context, cni libcni.CNI, conf *libcni.NetworkConfigList) error {
	if !p.made {
		return nil
	}
	err := cni.DelNetworkList(ctx, conf, p.runtime())
	_, removed := command(ctx, "ip", "netns", "delete", p.name)
	return errors.Join(err, removed)
}

// addressOf returns the first IPv4 address of a result, else the first address.
func addressOf(answer types.Result) (string, error) {
	result, err := types100.NewResultFromResult(answer)
	if err != nil {
		return "", err
	}
	var first net.IP
	for _, ip := range result.IPs {
		if ip.Address.IP.To4() != nil {
			return ip.Address.IP.String(), nil
		}
		if first == nil {
			first = ip.Address.IP
		}
	}
	if first == nil {
		return "", errors.New("the plugin gave no address")
	}
	return first.String(), nil
}

// command runs a program; its error has the last line that the program printed.
func command(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lastLine(string(out)))
	}
	return string(out), nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
