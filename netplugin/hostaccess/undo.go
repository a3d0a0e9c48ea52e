package hostaccess

import (
	"context"
	"errors"
	"io/fs"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/utils/fault"
)

// What follows is for who takes a node down; a manager that runs sets it right again.

// HasRules tells whether our table of nftables is there. Without nft(8) there is none.
func HasRules(ctx context.Context) (bool, error) {
	var r rules
	if err := r.open(); err != nil {
		return false, nil
	}
	tx := r.nft.NewTransaction()
	tx.Delete(&knftables.Table{})
	switch err := r.nft.Check(ctx, tx); {
	case knftables.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fault.New(fault.Unavailable, "nftables table inet %s: %w", tableName, err)
	}
	return true, nil
}

// RemoveRules removes it.
func RemoveRules(ctx context.Context) error { return new(rules).remove(ctx) }

// ChangedSettings lists the settings of the host that are not what they were before
// us; below /proc/sys/net, those first that the kernel changes others along with.
func ChangedSettings(dir string) (names []string, err error) {
	known, err := recall(dir)
	for _, name := range inOrder(known) {
		if is := read(name); is != "" && is != known[name] { // of a link that is gone there is none
			names = append(names, name)
		}
	}
	return names, err
}

// PutSettingsBack gives them the values that they had.
func PutSettingsBack(dir string) error {
	known, err := recall(dir)
	if err != nil {
		return err
	}
	var problems []error
	for _, name := range inOrder(known) {
		// Asked now: the ones before may have changed it.
		if is := read(name); is == "" || is == known[name] {
			continue
		}
		if err := write(name, known[name]); !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
