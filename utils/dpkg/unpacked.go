package dpkg

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// Unpacked returns when the files of an installed package were last unpacked, by the machine's clock: the time of
// dpkg's list of them. Zero: there is no such package, or no dpkg.
func Unpacked(database, name string) (time.Time, error) {
	list, err := os.Stat(filepath.Join(filepath.Dir(database), "info", name+".list"))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fault.New(fault.Internal, "packages: %w", err)
	}
	return list.ModTime(), nil
}
