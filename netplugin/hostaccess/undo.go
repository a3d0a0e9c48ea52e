package hostaccess

import (
	"context"
	"errors"
	"io/fs"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/utils/fault"
)

// What follows is for who takes a node down; a manager that runs sets it right again.

// RuleTable is a table of ours in nftables.
type RuleTable struct {
	Family knftables.Family
	Name   string
}

func (t RuleTable) String() string { return string(t.Family) + " " + t.Name }

// RuleTables are those that are there. Without nft(8) there are none.
func RuleTables(ctx context.Context) (there []RuleTable, err error) {
	for _, t := range []RuleTable{{knftables.InetFamily, tableName}, {knftables.InetFamily, strangerTableName}, {knftables.NetDevFamily, tableName}, {knftables.ARPFamily, tableName}} {
		r := t.rules()
		if err := r.open(); err != nil {
			continue
		}
		tx := r.nft.NewTransaction()
		tx.Delete(&knftables.Table{})
		switch err := r.nft.Check(ctx, tx); {
		case knftables.IsNotFound(err):
		case err != nil:
			return there, fault.New(fault.Unavailable, "nftables table %s: %w", t, err)
		default:
			there = append(there, t)
		}
	}
	return there, nil
}

// Remove removes it.
func (t RuleTable) Remove(ctx context.Context) error { return t.rules().remove(ctx) }

func (t RuleTable) rules() *rules { return &rules{family: t.Family, table: t.Name} }

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
