// Package dpkg reads the installed packages of Debian and derived distributions, and compares package versions.
package dpkg

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/contiv/netplugin/utils/fault"
)

// Database is the file in which dpkg records the installed packages.
const Database = "/var/lib/dpkg/status"

// Installed returns the version of a package by the database at a path; empty: it is not installed, or there is no
// dpkg.
func Installed(database, name string) (version string, err error) {
	f, err := os.Open(database)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fault.New(fault.Internal, "packages: %w", err)
	}
	defer f.Close()
	version, err = find(f, name)
	if err != nil {
		return "", fault.New(fault.Internal, "packages: %s: %w", database, err)
	}
	return version, nil
}

// find reads the paragraphs of the database, one per package, up to that of the given name.
func find(database io.Reader, name string) (version string, err error) {
	lines := bufio.NewReader(database)
	var ours, installed bool
	for {
		line, failed := lines.ReadString('\n')
		line = strings.TrimSuffix(line, "\n")
		field, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "":
			if ours && installed {
				return version, nil
			}
			ours, installed, version = false, false, ""
		case field == "Package":
			ours = value == name
		case field == "Status":
			installed = strings.HasSuffix(value, " installed")
		case field == "Version":
			version = value
		}
		switch {
		case errors.Is(failed, io.EOF) && ours && installed:
			return version, nil
		case errors.Is(failed, io.EOF):
			return "", nil
		case failed != nil:
			return "", failed
		}
	}
}
