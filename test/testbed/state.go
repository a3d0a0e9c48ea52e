package testbed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// state has the data by which a later process opens a detached bed.
type state struct {
	Bin      string   `json:"bin"`
	Mode     string   `json:"mode"` // of the daemons
	Fabric   holder   `json:"fabric"`
	Outside  *holder  `json:"outside,omitempty"`
	Uplinks  int      `json:"uplinks,omitempty"` // of each node
	Secure   bool     `json:"secure,omitempty"`
	OnlyIPv6 bool     `json:"onlyIPv6,omitempty"`
	Nodes    []holder `json:"nodes"`
}

// holder identifies a machine's first process. A process id alone may be reused by another process; together with
// the start time it is unique.
type holder struct {
	PID     int    `json:"pid"`
	Started string `json:"started"` // clock ticks since boot
}

func (m *machine) holderOf() (holder, error) {
	started, err := startTime(m.pid)
	return holder{m.pid, started}, err
}

// machine returns the machine, without a process if that has ended.
func (h holder) machine(name, dir string) *machine {
	m := &machine{name: name, dir: dir}
	if started, err := startTime(h.PID); err == nil && started == h.Started {
		m.pid = h.PID
	}
	return m
}

// startTime reads field 22 of a process's stat, see proc(5).
func startTime(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is a name in parentheses and may contain blanks.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat: %d fields after the name", pid, len(fields))
	}
	return fields[19], nil
}

func (b *Bed) stateFile() string { return filepath.Join(b.Dir, "bed.json") }

func (b *Bed) save() error {
	s := state{Bin: b.Bin, Mode: b.mode, Secure: b.secure, OnlyIPv6: b.underlay == underlayOf(true)}
	var err error
	if s.Fabric, err = b.fabric.holderOf(); err != nil {
		return err
	}
	if b.Outside != nil {
		h, err := b.Outside.holderOf()
		if err != nil {
			return err
		}
		s.Outside, s.Uplinks = &h, b.Nodes[0].uplinks
	}
	for _, n := range b.Nodes {
		h, err := n.holderOf()
		if err != nil {
			return err
		}
		s.Nodes = append(s.Nodes, h)
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(b.stateFile(), append(data, '\n'), 0o644)
}

// Open opens a bed that another process started detached in dir.
func Open(dir string) (*Bed, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	b := &Bed{Dir: dir, log: io.Discard}
	data, err := os.ReadFile(b.stateFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no bed in %s", dir)
	}
	if err != nil {
		return nil, err
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", b.stateFile(), err)
	}
	b.Bin, b.mode, b.secure = s.Bin, s.Mode, s.Secure
	b.underlay = underlayOf(s.OnlyIPv6)
	b.fabric = s.Fabric.machine("fabric", filepath.Join(dir, "fabric"))
	if s.Outside != nil {
		b.Outside = &Outside{s.Outside.machine("outside", filepath.Join(dir, "outside"))}
	}
	for i, h := range s.Nodes {
		n := b.newNode(i + 1)
		n.uplinks = s.Uplinks
		n.machine = h.machine(n.Name, filepath.Join(dir, n.Name))
		b.Nodes = append(b.Nodes, n)
	}
	return b, nil
}

// Alive reports whether the node still runs.
func (n *Node) Alive() bool { return n.pid != 0 && syscall.Kill(n.pid, 0) == nil }
