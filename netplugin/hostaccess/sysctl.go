package hostaccess

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/fault"
)

// sysctlRoot is the directory of the network sysctls of the reader's namespace.
const sysctlRoot = "/proc/sys/net/"

// memoryFile has the previous values of changed sysctls.
const memoryFile = "sysctls.json"

// memory is the content of memoryFile.
type memory struct {
	Boot     string            `json:"boot"` // boot id: after a reboot the sysctls have the host's values again
	Settings map[string]string `json:"settings"`
}

// forwarding is the sysctl that enables forwarding in an IP family, with those that the kernel changes along with
// it, which have to be restored as well.
type forwarding struct {
	setting string
	along   []string // patterns
}

var forwardingOf = map[bool]forwarding{
	false: {"ipv4/ip_forward", []string{"ipv4/conf/*/forwarding", "ipv4/conf/all/accept_redirects"}},
	true:  {"ipv6/conf/all/forwarding", []string{"ipv6/conf/*/forwarding"}},
}

// forward enables forwarding, for IPv6 if asked for.
func (m *Manager) forward(ipv6 bool) error {
	if err := m.forwardOne(forwardingOf[false]); err != nil || !ipv6 {
		return err
	}
	if read(forwardingOf[true].setting) == "0" {
		if err := m.keepRouters(); err != nil {
			return err
		}
	}
	return m.forwardOne(forwardingOf[true])
}

// forwardOne enables forwarding in one IP family.
func (m *Manager) forwardOne(f forwarding) error {
	if read(f.setting) != "0" {
		return nil
	}
	settings := []string{f.setting}
	for _, pattern := range f.along {
		settings = append(settings, matching(pattern)...)
	}
	if err := m.remember(settings...); err != nil {
		return err
	}
	m.Log.WithField("setting", f.setting).Info("the host forwards packets from now on")
	return write(f.setting, "1")
}

// keepRouters lets interfaces that accept router advertisements continue to accept them when the host forwards.
func (m *Manager) keepRouters() error {
	for _, setting := range matching("ipv6/conf/*/accept_ra") {
		if read(setting) != "1" {
			continue
		}
		if err := m.remember(setting); err != nil {
			return err
		}
		if err := write(setting, "2"); err != nil {
			return err
		}
	}
	return nil
}

// conntrack does not translate TCP segments that it considers invalid, such as those outside of the window. If
// such a segment is a reply of a service, it reaches the client from the pod's own address, and the client resets
// the connection.
const (
	liberalWindow = "netfilter/nf_conntrack_tcp_be_liberal"         // only RST segments outside of the window are invalid
	liberalReset  = "netfilter/nf_conntrack_tcp_ignore_invalid_rst" // nor these; since Linux 5.14
)

// trackLiberally enables sysctls of conntrack. Every kernel with conntrack has the first one; the others depend on
// the version.
func (m *Manager) trackLiberally(settings ...string) error {
	if read(settings[0]) == "" {
		return fault.New(fault.Unavailable, "%s: there is no such setting: the kernel has no connection tracker yet", settings[0])
	}
	for _, setting := range settings {
		if read(setting) != "0" {
			continue
		}
		if err := m.remember(setting); err != nil {
			return err
		}
		m.Log.WithField("setting", setting).Info("the host's connection tracker takes no TCP segment for invalid because of its window from now on")
		if err := write(setting, "1"); err != nil {
			return err
		}
	}
	return nil
}

// remember writes the values of settings to memoryFile, unless it has an earlier value. It is called before they
// are changed, so that no value is lost in a crash.
func (m *Manager) remember(settings ...string) error {
	known, err := recall(m.StateDir)
	if err != nil {
		return err
	}
	for _, setting := range settings {
		if _, already := known[setting]; !already {
			known[setting] = read(setting)
		}
	}
	if err := durable.MakeDir(m.StateDir); err != nil {
		return err
	}
	boot, err := durable.Boot()
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(memory{boot, known}, "", "  ")
	if err != nil {
		return fmt.Errorf("settings of the host: %w", err)
	}
	return durable.Write(filepath.Join(m.StateDir, memoryFile), data)
}

// recall returns the values that were recorded since this boot; none without a file.
func recall(dir string) (map[string]string, error) {
	boot, err := durable.Boot()
	if err != nil {
		return nil, err
	}
	var m memory
	data, err := os.ReadFile(filepath.Join(dir, memoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		return nil, fmt.Errorf("settings of the host before netplugin, %s: %w; no cleanup can put them back, and no other is changed: remove the file, and set by hand what the host is to have without netplugin, such as net.ipv4.ip_forward",
			filepath.Join(dir, memoryFile), err)
	}
	if m.Boot != boot || m.Settings == nil {
		return map[string]string{}, nil
	}
	return m.Settings, nil
}

// inOrder sorts settings so that those that change others come first.
func inOrder(known map[string]string) []string {
	masters := func(setting string) int {
		for _, f := range forwardingOf {
			if setting == f.setting {
				return 0
			}
		}
		return 1
	}
	return slices.SortedFunc(maps.Keys(known), func(a, b string) int {
		if d := masters(a) - masters(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

// read returns a setting; "" if the kernel does not have it.
func read(setting string) string {
	value, _ := os.ReadFile(sysctlRoot + setting) // a kernel without IPv6 has none of its settings
	return strings.TrimSpace(string(value))
}

func write(setting, value string) error {
	if err := os.WriteFile(sysctlRoot+setting, []byte(value), 0); err != nil {
		return fmt.Errorf("set %s to %s: %w", setting, value, err)
	}
	return nil
}

func matching(pattern string) []string {
	paths, _ := filepath.Glob(sysctlRoot + pattern) // the patterns are valid
	for i := range paths {
		paths[i] = strings.TrimPrefix(paths[i], sysctlRoot)
	}
	return paths
}
