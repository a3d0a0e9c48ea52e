// Package cniinstall installs on a node the files that container runtimes need to call the CNI server.
//
//	first   /opt/cni/bin/contivk8s, loopback     before the agent starts
//	last    /etc/cni/net.d/05-contiv.conflist    when the agent can attach pods
//
// Kubelet reports a node as ready when its runtime has a network configuration, and then pods are scheduled to it.
// So that file is written last, and atomically: runtimes read only certain extensions, and a new file is renamed
// when it is complete. Programs are replaced in the same way, as a running one cannot be written to.
//
// A file that is up to date is not touched: containerd blocks all CNI calls of the node while it reloads its
// configuration, and a slow call prolongs that.
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

// Default directories of containerd and CRI-O.
const (
	DefaultBinDir  = "/opt/cni/bin"
	DefaultConfDir = "/etc/cni/net.d"
)

// DefaultSource is the directory of the CNI plugins in the image.
const DefaultSource = "/usr/lib/contiv/cni"

// loopback is the plugin of the CNI project that containerd runs for every pod in addition; many machines have it
// already.
const loopback = "loopback"

// Plugins returns the names of the programs that a node needs.
func Plugins() []string { return []string{netconf.PluginType, loopback} }

// Programs copies the plugins from source to target. An existing loopback is not replaced: other networks of the
// node use it, too.
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
