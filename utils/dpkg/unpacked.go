package dpkg

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// Unpacked is when the files of an installed package were last put in place, by the machine's clock: dpkg writes their
// list then. Zero: there is no such package, or no dpkg.
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
