package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// state is what a later process needs to find a detached bed again.
type state struct {
	Bin    string `json:"bin"`
	Fabric int    `json:"fabric"` // process ids
	Nodes  []int  `json:"nodes"`
}

func (b *Bed) stateFile() string { return filepath.Join(b.Dir, "bed.json") }

func (b *Bed) save() error {
	s := state{Bin: b.Bin, Fabric: b.fabric.pid}
	for _, n := range b.Nodes {
		s.Nodes = append(s.Nodes, n.pid)
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(b.stateFile(), append(data, '\n'), 0o644)
}

// Open finds a bed that another process started detached in dir.
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
	b.Bin = s.Bin
	b.fabric = &machine{name: "fabric", dir: filepath.Join(dir, "fabric"), pid: s.Fabric}
	for i, pid := range s.Nodes {
		n := b.newNode(i + 1)
		n.machine = &machine{name: n.Name, dir: filepath.Join(dir, n.Name), pid: pid}
		b.Nodes = append(b.Nodes, n)
	}
	return b, nil
}

// Alive tells whether the node still runs.
func (n *Node) Alive() bool { return syscall.Kill(n.pid, 0) == nil }
