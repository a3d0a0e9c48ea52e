package hostaccess

import (
	"context"
	"errors"
	"io/fs"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/utils/fault"
)

// This file removes netplugin from a node. A running manager would restore everything.

// RuleTable is one of netplugin's nftables tables.
type RuleTable struct {
	Family knftables.Family
	Name   string
}

func (t RuleTable) String() string { return string(t.Family) + " " + t.Name }

// RuleTables returns netplugin's tables in the kernel. Without nft(8) there are none.
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

// Remove removes the table.
func (t RuleTable) Remove(ctx context.Context) error { return t.rules().remove(ctx) }

func (t RuleTable) rules() *rules { return &rules{family: t.Family, table: t.Name} }

// ChangedSettings lists the sysctls below /proc/sys/net that do not have their previous values, those that change
// others first.
func ChangedSettings(dir string) (names []string, err error) {
	known, err := recall(dir)
	for _, name := range inOrder(known) {
		if is := read(name); is != "" && is != known[name] { // those of a removed link are empty
			names = append(names, name)
		}
	}
	return names, err
}

// PutSettingsBack restores the previous values.
func PutSettingsBack(dir string) error {
	known, err := recall(dir)
	if err != nil {
		return err
	}
	var problems []error
	for _, name := range inOrder(known) {
		// Read now: restoring an earlier one may have changed it.
		if is := read(name); is == "" || is == known[name] {
			continue
		}
		if err := write(name, known[name]); !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
