package main

import (
	"context"
	"time"

	"github.com/contiv/netplugin/utils/dpkg"
)

// switchPackage is the package of ovs-vswitchd, as recorded in a database of dpkg.
type switchPackage struct{ database string }

const switchPackageName = "openvswitch-switch"

// version returns the installed version; empty if it is not installed.
func (p switchPackage) version() (string, error) {
	return dpkg.Installed(p.database, switchPackageName)
}

// replaced reports whether it was installed after the running ovs-vswitchd started; false if either time is
// unknown.
func (p switchPackage) replaced(began func(context.Context) (time.Time, error)) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		since, err := began(ctx)
		if err != nil || since.IsZero() {
			return false, err
		}
		unpacked, err := dpkg.Unpacked(p.database, switchPackageName)
		return unpacked.After(since), err
	}
}
