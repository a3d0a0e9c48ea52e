package cleanup

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/netplugin/hostaccess"
)

// firewall returns our nftables tables.
func firewall(ctx context.Context, _ Config) (things []thing, err error) {
	tables, err := hostaccess.RuleTables(ctx)
	for _, t := range tables {
		things = append(things, thing{what: "nftables table " + t.String(), remove: t.Remove})
	}
	return things, err
}

// settings returns the host's changed settings.
func settings(_ context.Context, c Config) ([]thing, error) {
	changed, err := hostaccess.ChangedSettings(c.Memory)
	if len(changed) == 0 {
		return nil, err
	}
	return []thing{{
		what:   "changed settings of the host, such as net." + strings.ReplaceAll(changed[0], "/", "."),
		remove: func(context.Context) error { return hostaccess.PutSettingsBack(c.Memory) },
	}}, err
}

// files returns our files and directories. A directory that others use, too, is removed if it is empty, also if it
// has been since it was created.
func files(_ context.Context, c Config) (things []thing, err error) {
	for _, dir := range c.StateDirs {
		if dir == c.Memory && !c.DryRun && settingsAreLeft(dir) {
			continue // the next cleanup needs it
		}
		if _, err := os.Lstat(dir); err == nil {
			things = append(things, thing{what: "directory " + dir, remove: func(context.Context) error { return os.RemoveAll(dir) }})
		}
	}
	var hollow []string
	for _, dir := range c.Hollow {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) == 0 {
			hollow = append(hollow, dir)
		}
	}
	for _, dir := range hollow {
		things = append(things, emptyDir(dir))
	}
	return slices.Concat(things, existingFiles(c.Files), emptyParents(slices.Concat(c.StateDirs, c.Files, hollow))), nil
}

// runtime returns our files in the directories of container runtimes, which remain.
func runtime(_ context.Context, c Config) ([]thing, error) { return existingFiles(c.Runtime), nil }

// existingFiles returns the files that exist.
func existingFiles(paths []string) (things []thing) {
	for _, file := range paths {
		if _, err := os.Lstat(file); err == nil {
			things = append(things, thing{what: "file " + file, remove: func(context.Context) error { return os.Remove(file) }})
		}
	}
	return things
}

// settingsAreLeft reports whether a setting could not be restored, which has been reported.
func settingsAreLeft(dir string) bool {
	changes, err := hostaccess.ChangedSettings(dir)
	return len(changes) > 0 || err != nil
}

// isMount reports whether a directory is on another file system than its parent.
func isMount(dir string) bool {
	var inside, outside unix.Stat_t
	return unix.Stat(dir, &inside) == nil && unix.Stat(filepath.Dir(dir), &outside) == nil && inside.Dev != outside.Dev
}

// emptyParents returns the directories that will be empty once ours are removed from them.
func emptyParents(ours []string) (things []thing) {
	var parents []string
	for _, path := range ours {
		parents = append(parents, filepath.Dir(path))
	}
	slices.Sort(parents)
	for _, dir := range slices.Compact(parents) {
		entries, err := os.ReadDir(dir)
		if err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !slices.Contains(ours, filepath.Join(dir, e.Name())) }) {
			continue // it does not exist, or others use it
		}
		if isMount(dir) {
			continue // not created by us
		}
		things = append(things, emptyDir(dir))
	}
	return things
}

// emptyDir returns an empty directory to remove.
func emptyDir(dir string) thing {
	return thing{what: "directory " + dir, remove: func(context.Context) error {
		if err := os.Remove(dir); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}}
}

// discardLog returns a logger without output: errors are reported.
func discardLog() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}
