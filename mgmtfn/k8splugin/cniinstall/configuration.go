package cniinstall

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/durable"
)

// ConfName is early in the alphabet: runtimes take the first file.
const ConfName = "05-contiv.conflist"

// Conf is the configuration. It has both keys of versions: containerd before 2.0 reads only the first and does
// not know 1.1.0, others ask for the state of the node with that version only. What is
// declared as a capability is passed on to us with each call. An ADD that takes longer than
// the timeout, in seconds, is tried again by kubelet.
const Conf = `{
  "cniVersion": "1.0.0",
  "cniVersions": ["1.0.0", "1.1.0"],
  "name": "contiv",
  "plugins": [
    {
      "type": "contivk8s",
      "timeout": 30,
      "capabilities": {
        "portMappings": true,
        "bandwidth": true,
        "io.kubernetes.cri.pod-annotations": true
      }
    }
  ]
}
`

// lookEvery is how often the folder is looked at: a configuration that is gone makes
// pods undeletable, as runtimes refuse DEL without one.
const lookEvery = 5 * time.Second

// Keeper keeps the network configuration in a folder.
type Keeper struct {
	Dir string
	Log *logrus.Entry

	problem atomic.Pointer[string]
}

// Problem is what keeps runtimes from taking the configuration; empty: nothing, or it is not
// written yet.
func (k *Keeper) Problem() string {
	if problem := k.problem.Load(); problem != nil {
		return *problem
	}
	return ""
}

// Run writes the configuration, and again when it is gone or somebody has changed it, until ctx
// ends. What is wrong is logged, once as long as it stays the same.
func (k *Keeper) Run(ctx context.Context) error {
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for {
		problem := look(k.Dir, k.Log)
		if problem != k.Problem() && problem != "" {
			k.Log.WithField("folder", k.Dir).Warn("network configuration of pods: " + problem)
		}
		k.problem.Store(&problem)
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Folder makes a folder of network configurations, if it is not there.
func Folder(dir string) error { return os.MkdirAll(dir, 0o755) }

// look writes the file unless it is as it should be, and says what else is wrong.
func look(dir string, log *logrus.Entry) (problem string) {
	path := filepath.Join(dir, ConfName)
	have, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err.Error()
	}
	if !bytes.Equal(have, []byte(Conf)) {
		if err := errors.Join(Folder(dir), durable.Write(path, []byte(Conf))); err != nil {
			return err.Error()
		}
		log.WithField("file", path).Info("network configuration of pods written")
	}
	earlier, err := before(dir)
	if err != nil {
		return err.Error()
	}
	if len(earlier) > 0 {
		return "runtimes take " + earlier[0] + ", which sorts before " + ConfName + ": remove it if pods shall be in our networks"
	}
	return ""
}

// before lists the configurations that runtimes prefer to ours.
func before(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries { // in the order of their names
		if e.Name() < ConfName && slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(e.Name())) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Placed lists what is ours on a node, for whoever takes it away: the configuration and
// our own plugin. An empty folder is not looked at.
func Placed(confDir, binDir string) (paths []string) {
	if confDir != "" {
		paths = append(paths, filepath.Join(confDir, ConfName))
	}
	if binDir != "" {
		paths = append(paths, filepath.Join(binDir, Plugins()[0]))
	}
	return paths
}
