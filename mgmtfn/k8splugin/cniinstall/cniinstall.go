// Package cniinstall puts on a node what container runtimes need to find us.
//
//	first   /opt/cni/bin/contivk8s, loopback     before the agent starts
//	last    /etc/cni/net.d/05-contiv.conflist    when the agent can attach pods
//
// Kubelet calls a node ready when its runtime has a network configuration, and then
// pods are sent there. So that file comes last, and nobody sees a part of it: runtimes
// read files of certain extensions only, and a written one gets its name by a rename.
// Programs are replaced in the same way, as one that runs cannot be written to.
//
// A file that is as it should be is not touched: containerd stops all CNI calls of the
// node while it reads its configuration again, and a slow call makes that long.
package cniinstall

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/utils/durable"
)

// Folders of container runtimes, as containerd and CRI-O have them by default.
const (
	DefaultBinDir  = "/opt/cni/bin"
	DefaultConfDir = "/etc/cni/net.d"
)

// DefaultSource is where our image has the CNI plugins.
const DefaultSource = "/usr/lib/contiv/cni"

// loopback is the plugin of the CNI project that containerd runs for every pod beside
// ours; many machines have it already.
const loopback = "loopback"

// Plugins are the programs that a node needs.
func Plugins() []string { return []string{netconf.PluginType, loopback} }

// Programs copies the plugins from one folder to the other. A loopback that is there
// is left alone: other networks of the node use it, too.
func Programs(source, target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("folder of CNI plugins: %w", err)
	}
	for _, name := range Plugins() {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return fmt.Errorf("CNI plugin: %w", err)
		}
		path := filepath.Join(target, name)
		have, err := os.ReadFile(path)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("CNI plugin: %w", err)
		case err == nil && (name == loopback || bytes.Equal(have, data)):
			continue
		}
		if err := durable.WriteProgram(path, data); err != nil {
			return fmt.Errorf("CNI plugin: %w", err)
		}
	}
	return nil
}
