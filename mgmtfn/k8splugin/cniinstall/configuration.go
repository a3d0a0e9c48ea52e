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

// ConfName sorts early: runtimes use the first file.
const ConfName = "05-contiv.conflist"

// Conf is the configuration. It has both version keys: containerd before 2.0 reads only the first and does not
// know 1.1.0; other runtimes call STATUS only with 1.1.0. Runtimes pass the declared capabilities with each call.
// Kubelet retries an ADD that takes longer than the timeout, in seconds.
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

// lookEvery is how often the directory is checked: without a configuration runtimes refuse DEL, and pods cannot be
// deleted.
const lookEvery = 5 * time.Second

// Keeper maintains the network configuration in a directory.
type Keeper struct {
	Dir string
	Log *logrus.Entry

	problem atomic.Pointer[string]
}

// Problem returns why runtimes do not use the configuration; empty: they use it, or it is not written yet.
func (k *Keeper) Problem() string {
	if problem := k.problem.Load(); problem != nil {
		return *problem
	}
	return ""
}

// Run writes the configuration, and rewrites it when it was removed or changed, until ctx ends. A problem is
// logged once for as long as it stays the same.
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

// Folder creates a directory of network configurations if it does not exist.
func Folder(dir string) error { return os.MkdirAll(dir, 0o755) }

// look writes the file unless it is up to date, and returns any other problem.
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

// before lists the configurations that runtimes prefer to this one.
func before(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries { // sorted by name
		if e.Name() < ConfName && slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(e.Name())) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Placed lists the installed files of a node, for their removal: the configuration and the contivk8s plugin. An
// empty directory argument is skipped.
func Placed(confDir, binDir string) (paths []string) {
	if confDir != "" {
		paths = append(paths, filepath.Join(confDir, ConfName))
	}
	if binDir != "" {
		paths = append(paths, filepath.Join(binDir, Plugins()[0]))
	}
	return paths
}
